"""What is patched on host objects that exist, and that nothing is where nothing differs."""

import copy
from typing import Any

import pytest

from bulkhead.api.objects import Obj
from syncer.translate import diff
from syncer.translate.kinds.pod import GENERATION, ephemeral_containers, for_creation, to_host
from syncer.translate.registry import KINDS
from syncer.write.host import stamped
from tests.kit import translationsamples as samples
from tests.kit import yamlfiles
from tests.syncer.translate import golden


def there(desired: Obj) -> Obj:
    """The object as the host's API server keeps it: an identity and other people's additions."""
    actual = copy.deepcopy(desired)
    actual["metadata"] |= {"uid": "host-uid", "resourceVersion": "9"}
    actual["metadata"]["labels"]["topology.kubernetes.io/zone"] = "a"
    actual["metadata"]["annotations"]["webhook.example.com/seen"] = "yes"
    return actual


def patches(own: Obj, actual: Obj, view: Any = None) -> list[tuple[str | None, Obj]]:
    found = diff.pod_patches(to_host(own, samples.view(view)), actual, ephemeral_containers(own, samples.view(view)))
    assert all(patch.body["metadata"]["uid"] == "host-uid" for patch in found)
    return [(patch.subresource, patch.body) for patch in found]


@pytest.mark.parametrize("name", dict(golden.cases()))
def test_nothing_to_do(name: str) -> None:
    desired = yamlfiles.load(golden.host_file(dict(golden.cases())[name]))
    if "refused" in desired:
        return
    if desired["kind"] == "Pod":
        assert diff.pod_patches(desired, there(desired)) == ()
    else:
        assert diff.object_patch(desired, there(desired)) is None


def test_item_70_host_defaults_and_sidecars_are_left_alone() -> None:
    own = samples.pod()
    actual = there(to_host(own, samples.VIEW))
    actual["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "1"}}
    actual["spec"]["containers"].append({"name": "istio-proxy", "image": "p"})
    actual["spec"]["tolerations"].append({"key": "added.by/webhook", "operator": "Exists"})
    actual["spec"]["nodeName"] = "gpu-a"
    assert patches(own, actual) == []


def test_labels_and_annotations_follow_and_leave() -> None:
    actual = there(to_host(samples.pod(metadata={"labels": {"app": "web", "old": "x"}}), samples.VIEW))
    ((_, body),) = patches(samples.pod(metadata={"labels": {"app": "api"}}), actual)
    assert body["metadata"]["labels"] == {"app": "api", "old": None}
    assert set(body["metadata"]["annotations"]) == {"bulkhead.dev/applied"}


def test_item_09_namespace_labels_follow() -> None:
    actual = there(to_host(samples.pod(), samples.VIEW))
    ((_, body),) = patches(samples.pod(), actual, {"namespace_labels": {"team": {"stage": "live"}}})
    assert list(body["metadata"]["labels"].values()) == ["live"]


def test_item_04_a_marker_that_someone_removed_returns() -> None:
    actual = there(to_host(samples.pod(), samples.VIEW))
    del actual["metadata"]["labels"]["bulkhead.dev/tenant"]
    ((_, body),) = patches(samples.pod(), actual)
    assert body["metadata"]["labels"] == {"bulkhead.dev/tenant": "red"}


def test_item_40_77_image_deadline_and_tolerations() -> None:
    own = samples.pod({"tolerations": [{"key": "a", "operator": "Exists"}], "activeDeadlineSeconds": 60})
    actual = there(to_host(samples.pod({"tolerations": [{"key": "b", "operator": "Exists"}]}), samples.VIEW))
    own["spec"]["containers"][0]["image"] = "new"
    ((subresource, body),) = patches(own, actual)
    assert subresource is None
    assert body["spec"]["containers"] == [{"name": "main", "image": "new"}]
    assert body["spec"]["activeDeadlineSeconds"] == 60
    assert [entry["key"] for entry in body["spec"]["tolerations"]] == ["nvidia.com/gpu", "b", "a"]


def test_item_77_the_time_of_a_toleration_changes_in_its_place() -> None:
    def lasting(*seconds: int | None) -> Obj:
        tolerated = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"}
        times = ({} if value is None else {"tolerationSeconds": value} for value in seconds)
        return samples.pod({"tolerations": [tolerated | time for time in times]})

    def times(own: Obj, actual: Obj) -> list[int | None]:
        ((_, body),) = patches(own, actual)
        keyed = [entry for entry in body["spec"]["tolerations"] if entry["key"].endswith("unreachable")]
        return [entry.get("tolerationSeconds") for entry in keyed]

    actual = there(to_host(lasting(300), samples.VIEW))
    assert times(lasting(3600), actual) == [3600]
    assert times(lasting(None), actual) == [None]
    assert times(lasting(300, 60), actual) == [300, 60]  # one more does not change the other
    assert times(lasting(60), there(to_host(lasting(None), samples.VIEW))) == [60]


def test_item_77_a_deadline_is_never_lengthened() -> None:
    actual = there(to_host(samples.pod({"activeDeadlineSeconds": 10}), samples.VIEW))
    assert patches(samples.pod({"activeDeadlineSeconds": 60}), actual) == []


def test_item_44_only_the_tenants_gates_are_removed() -> None:
    gated = samples.container(resources={"limits": {"nvidia.com/gpu": 1}})
    gated["spec"]["schedulingGates"] = [{"name": "wait"}]
    actual = there(to_host(gated, samples.VIEW))
    actual["spec"]["schedulingGates"].append({"name": "bulkhead.dev/accelerators"})
    del gated["spec"]["schedulingGates"]
    ((_, body),) = patches(gated, actual)  # a gate of the platform's stays
    assert body["spec"]["schedulingGates"] == [{"name": "wait", "$patch": "delete"}]
    actual["spec"]["schedulingGates"] = [{"name": "kueue.x-k8s.io/admission"}]
    assert patches(gated, actual) == []  # nor are gates of others on the host the syncer's to lift


def test_item_77_ephemeral_containers_and_resize_have_their_own_paths() -> None:
    own = samples.container(resources={"requests": {"cpu": "1", "memory": "1Gi"}})
    actual = there(to_host(own, samples.VIEW))
    own["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "2", "memory": "1024Mi"}
    own["spec"]["ephemeralContainers"] = [{"name": "debug", "image": "d", "targetContainerName": "main"}]
    (resize, added) = patches(own, actual)
    assert resize[0] == "resize"
    assert resize[1]["spec"]["containers"] == [{"name": "main", "resources": {"requests": {"cpu": "2"}}}]
    assert added[0] == "ephemeralcontainers"
    assert [entry["name"] for entry in added[1]["spec"]["ephemeralContainers"]] == ["debug"]


def test_what_a_pod_asks_for_as_a_whole_is_resized_too() -> None:
    """An API server takes that of a pod that waits for its node, which may be for its size alone."""
    own = samples.pod({"resources": {"requests": {"cpu": "8"}, "limits": {"memory": "64Gi"}}})
    actual = there(to_host(own, samples.VIEW))
    assert patches(own, actual) == []
    own["spec"]["resources"] = {"requests": {"cpu": "4000m"}, "limits": {"memory": "65536Mi"}}
    ((path, body),) = patches(own, actual)
    assert (path, body["spec"]) == ("resize", {"resources": {"requests": {"cpu": "4000m"}}})


def test_item_64_77_a_generation_is_noted_after_the_resize_that_it_stands_for() -> None:
    """Noted before, the kubelet's word on the old size would be told as its word on the new one."""
    own = samples.container(resources={"requests": {"cpu": "1"}})
    own["metadata"]["generation"] = 1
    actual = there(to_host(own, samples.VIEW))
    own["metadata"] |= {"generation": 2, "labels": {"app": "api"}}
    own["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "2"}
    found = diff.pod_patches(to_host(own, samples.VIEW), actual)
    assert [(patch.subresource, patch.last) for patch in found] == [(None, False), ("resize", False), (None, True)]
    assert all(patch.exact for patch in found), "compared with an older copy, it may lack a resize unseen"
    assert GENERATION not in found[0].body["metadata"].get("annotations", {})
    assert found[0].body["metadata"]["labels"]["app"] == "api"
    assert found[2].body == {"metadata": {"uid": "host-uid", "annotations": {GENERATION: "2"}}}


def test_item_64_77_what_says_nothing_of_a_generation_is_for_any_version() -> None:
    own = samples.pod(metadata={"generation": 1})
    actual = there(to_host(own, samples.VIEW))
    own["metadata"]["labels"] = {"app": "api"}
    (patch,) = diff.pod_patches(to_host(own, samples.VIEW), actual)
    assert not patch.exact
    own["metadata"]["generation"] = 2
    (patch,) = diff.pod_patches(to_host(own, samples.VIEW), actual)
    assert patch.exact


def test_item_64_77_a_generation_goes_with_the_image_that_it_stands_for() -> None:
    own = samples.pod(metadata={"generation": 1})
    actual = there(to_host(own, samples.VIEW))
    own["metadata"]["generation"] = 2
    own["spec"]["containers"][0]["image"] = "new"
    ((_, body),) = patches(own, actual)
    assert body["metadata"]["annotations"] == {GENERATION: "2"}
    assert body["spec"]["containers"] == [{"name": "main", "image": "new"}]


def test_item_70_an_image_that_the_host_replaced_stays_until_another_is_asked_for() -> None:
    """A webhook for creations alone, such as one that names the host's own registry: a patch would restart the container."""
    own = samples.pod(metadata={"generation": 1})
    actual = there(to_host(own, samples.VIEW))
    actual["spec"]["containers"][0]["image"] = "registry.example.com/replaced"
    ((_, body),) = patches(own, actual)
    assert (body.keys(), body["metadata"]["annotations"].keys()) == ({"metadata"}, {diff.ASKED_IMAGES})
    actual["metadata"]["annotations"] |= body["metadata"]["annotations"]
    assert patches(own, actual) == []
    # Another field changes.
    own["metadata"]["generation"], own["spec"]["activeDeadlineSeconds"] = 2, 60
    ((_, body),) = patches(own, actual)
    assert (body["spec"], body["metadata"]["annotations"]) == ({"activeDeadlineSeconds": 60}, {GENERATION: "2"})
    # The image changes; what was noted of the earlier one ends, which may be asked for once more.
    own["metadata"]["generation"], own["spec"]["containers"][0]["image"] = 3, "new"
    ((_, body),) = patches(own, actual)
    assert body["spec"]["containers"] == [{"name": "main", "image": "new"}]
    assert body["metadata"]["annotations"] == {GENERATION: "3", diff.ASKED_IMAGES: None}


def test_item_77_a_new_request_is_a_resize_and_a_default_of_the_host_is_not() -> None:
    own = samples.container(resources={"requests": {"cpu": "20m"}})
    actual = there(to_host(own, samples.VIEW))
    actual["spec"]["containers"][0]["resources"] = {
        "requests": {"cpu": "20m", "memory": "32Mi"},
        "limits": {"memory": "4Gi"},
    }
    assert patches(own, actual) == []
    own["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "25m"}, "limits": {"cpu": "35m", "memory": "1Gi"}}
    ((path, body),) = patches(own, actual)
    wanted = {"requests": {"cpu": "25m"}, "limits": {"cpu": "35m", "memory": "1Gi"}}
    assert (path, body["spec"]["containers"]) == ("resize", [{"name": "main", "resources": wanted}])


def sized(cpu: str, memory: str) -> Obj:
    """A pod with requests and limits for all of its containers together; one of them has a limit of its own."""
    containers = [{"name": "main", "image": "m"}, {"name": "side", "image": "s", "resources": {"limits": {"memory": "64Mi"}}}]
    return samples.pod({"containers": containers, "resources": {"requests": {"cpu": cpu}, "limits": {"memory": memory}}})


def test_item_77_a_pod_is_resized_as_a_whole() -> None:
    """Kubernetes lets it since 1.36. Left out, its generation would be noted, and the resize be told as done."""
    own = sized("1", "1Gi")
    actual = there(for_creation(own, samples.VIEW))
    assert patches(own, actual) == []
    ((path, body),) = patches(sized("2", "1024Mi"), actual)
    assert (path, body["spec"]) == ("resize", {"resources": {"requests": {"cpu": "2"}}})


def test_item_77_a_limit_that_a_container_has_from_its_pod_grows_with_it() -> None:
    view = {"default_limits": {"memory": "512Mi"}}
    actual = there(for_creation(sized("1", "1Gi"), samples.view(view)))
    assert [each["resources"]["limits"] for each in actual["spec"]["containers"]] == [{"memory": "1Gi"}, {"memory": "64Mi"}]
    assert patches(sized("1", "1Gi"), actual, view) == []
    ((path, body),) = patches(sized("1", "2Gi"), actual, view)
    main = {"name": "main", "resources": {"limits": {"memory": "2Gi"}}}
    assert (path, body["spec"]) == ("resize", {"resources": {"limits": {"memory": "2Gi"}}, "containers": [main]})


def host(kind: str, **fields: Any) -> Obj:
    own = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "a", "namespace": "team", "uid": "u"}, **fields}
    return KINDS[kind].to_host(own, samples.VIEW)


def test_data_is_patched_by_key() -> None:
    actual = there(host("ConfigMap", data={"a": "1", "b": "2"}))
    found = diff.object_patch(host("ConfigMap", data={"a": "1", "c": "3"}), actual)
    assert found is not None
    assert found.body["data"] == {"b": None, "c": "3"}
    assert found.content_type == diff.MERGE


def test_item_79_services_ignore_defaulting_and_follow_selectors() -> None:
    spec: Obj = {"clusterIP": "10.112.4.50", "ports": [{"port": 80}], "selector": {"app": "a"}}
    actual = there(host("Service", spec=spec))
    actual["spec"] |= {"sessionAffinity": "None", "ipFamilies": ["IPv4"], "internalTrafficPolicy": "Cluster"}
    actual["spec"]["ports"] = [{"port": 80, "protocol": "TCP", "targetPort": 80}]
    assert diff.object_patch(host("Service", spec=spec), actual) is None
    found = diff.object_patch(host("Service", spec={**spec, "selector": {"app": "b"}}), actual)
    assert found is not None
    assert found.body["spec"] == {"selector": {"app": "b"}}
    found = diff.object_patch(host("Service", spec={**spec, "selector": {}}), actual)
    assert found is not None
    assert found.body["spec"] == {"selector": None}


@pytest.mark.parametrize(("field", "value"), [("trafficDistribution", "PreferClose"), ("ports", [{"port": 80}])])
def test_what_the_host_does_not_default_leaves_a_service_with_the_tenants_field(field: str, value: Any) -> None:
    headless: Obj = {"clusterIP": "None", "selector": {"app": "a"}}
    actual = there(host("Service", spec=headless | {field: value}))
    found = diff.object_patch(host("Service", spec=headless), actual)
    assert found is not None
    assert found.body["spec"] == {field: None}


@pytest.mark.parametrize(("kind", "field"), [("NetworkPolicy", "podSelector"), ("PodDisruptionBudget", "selector")])
def test_a_changed_selector_keeps_no_term_from_before(kind: str, field: str) -> None:
    """Merged with the terms from before it would select fewer pods, or none."""
    both: Obj = {"matchLabels": {"app": "a"}, "matchExpressions": [{"key": "tier", "operator": "Exists"}]}
    actual = there(stamped(host(kind, spec={field: both})))
    wanted = stamped(host(kind, spec={field: {"matchLabels": {"role": "b"}}}))
    found = diff.object_patch(wanted, actual)
    assert found is not None
    assert found.body["spec"][field]["matchLabels"] == {"app": None, "role": "b"}
    assert "tier" not in str(found.body["spec"][field]["matchExpressions"])
    # One that was merged all the same is made right, although it carries the hash of what is wanted.
    actual["metadata"]["annotations"] |= wanted["metadata"]["annotations"]
    actual["spec"] = host(kind, spec={field: {"matchLabels": {"app": "a", "role": "b"}}})["spec"]
    again = diff.object_patch(wanted, actual)
    assert again is not None
    assert again.body["spec"][field]["matchLabels"] == {"app": None}
    actual["spec"] = wanted["spec"]
    assert diff.object_patch(wanted, actual) is None


def test_what_cannot_change_is_recreated() -> None:
    actual = there(host("Service", spec={"clusterIP": "10.112.4.50"}))
    with pytest.raises(diff.Recreate):
        diff.object_patch(host("Service", spec={"clusterIP": "10.112.4.51"}), actual)
    with pytest.raises(diff.Recreate):
        diff.object_patch(host("Secret", type="kubernetes.io/tls"), there(host("Secret", type="Opaque")))
