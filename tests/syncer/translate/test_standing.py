"""What runs goes on being changed when its class becomes tighter: what was withdrawn stops new pods, and no label of old ones.

For every sample pod that is let in, each field of the view by itself is made as tight as it can be; then a label changes.
"""

import copy
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final

import pytest

from bulkhead.api.objects import Obj
from syncer.translate import TenantView, Toleration, Untranslatable, diff
from syncer.translate.kinds import deviceclaim, pod, podgroup
from syncer.translate.reasons import Reason
from tests.kit import translationsamples as samples
from tests.kit import yamlfiles
from tests.syncer.translate import golden

RICH: Final = replace(
    samples.VIEW,
    device_classes=frozenset({"gpu.example.com"}),
    pod_groups=True,
    seccomp_profiles=frozenset({"audit.json"}),
    apparmor_profiles=frozenset({"tools"}),
    gpu_resources=frozenset({"nvidia.com/gpu", "amd.com/gpu"}),
)
# What a field is at its tightest; one that is not here says who the tenant is, or only what else there is.
TIGHTEST: Final[dict[str, Any]] = {
    "dns_address": "",
    "api_address": "",
    "api_environment": "",
    "device_environment": "",
    "pod_security": "restricted",
    "enforced_node_selector": {"bulkhead.dev/pool": "other"},
    "enforced_tolerations": (),
    "allowed_tolerations": (),
    "device_classes": frozenset(),
    "pod_groups": False,
    "runtime_class": "sandboxed",
    "allowed_runtime_classes": frozenset(),
    "runtime_aliases": {},
    "priority_class": "batch",
    "allowed_priority_classes": frozenset(),
    "gpu_resources": frozenset({"example.com/gpu"}),
    "allowed_resources": frozenset(),
    "most_per_pod": {"cpu": "1m", "memory": "1"},
    "most_limit_request_ratio": {"cpu": "1", "memory": "1"},
    "default_requests": {"cpu": "1"},
    "default_limits": {"memory": "1Mi"},
    "user_namespaces": True,
    "seccomp_profiles": frozenset(),
    "apparmor_profiles": frozenset(),
    "max_grace_seconds": 0,
    "max_pod_bytes": 1,
    "max_token_seconds": 1,
    "services": {},
    "nodes": frozenset(),
    "cordoned": frozenset({"gpu-a", "gpu-b"}),
    "gated_resources": frozenset({"cpu", "memory", "nvidia.com/gpu", "rdma/shared"}),
    "gated_gangs": True,
    "cluster_domain": f"{'d' * 63}.example.org",
}
LOOSE: Final = frozenset({
    "tenant", "tenant_uid", "kubelet_address", "kubelet_port", "public_address", "service_slice", "ingress_classes",
    "ingress_domains", "offers_snapshots", "network_policies", "policies_beyond", "namespace_labels", "storage_classes",
    "storage_listed", "default_storage_class", "snapshot_classes", "default_snapshot_class", "node_labels", "node_taints",
    "own_node_labels", "judges", "most_per_claim", "pull_secret", "own_images",
    # They refuse nothing.
    "prefers_user_namespaces", "nodes_support_user_namespaces",
})  # fmt: skip


def local(name: str) -> Obj:
    return {"type": "Localhost", "localhostProfile": name}


OWN: Final[dict[str, Obj]] = {
    "a profile": samples.pod({"securityContext": {"seccompProfile": local("audit.json")}}),
    "an AppArmor profile": samples.container(securityContext={"appArmorProfile": local("tools")}),
    "the host's user namespace": samples.pod({"hostUsers": True}),
    "a block device": samples.container(volumeDevices=[{"name": "disk", "devicePath": "/dev/x"}]),
    "a runtime class": samples.pod({"runtimeClassName": "sandboxed"}),
    "a priority class": samples.pod({"priorityClassName": "batch"}),
    "a resource": samples.container(resources={"limits": {"rdma/shared": 1}}),
    "a GPU": samples.container(resources={"limits": {"amd.com/gpu": 1}}),
    "a claim": samples.pod({"resourceClaims": [{"name": "a", "resourceClaimName": "c"}]}),
    "a group": samples.pod({"schedulingGroup": {"podGroupName": "g"}}),
    "a node": samples.pod({"nodeName": "gpu-a"}),
    "a full name": samples.pod({"setHostnameAsFQDN": True, "subdomain": "s"}),
}


def _cases() -> dict[str, tuple[Obj, TenantView]]:
    found: dict[str, tuple[Obj, TenantView]] = {name: (own, RICH) for name, own in OWN.items()}
    for name, path in golden.cases():
        changes: Path = path.with_name(path.name.replace(".virtual.yaml", ".view.yaml"))
        virtual = yamlfiles.load(path)
        if virtual["kind"] == "Pod":
            found[name] = (virtual, samples.view(yamlfiles.load(changes) if changes.exists() else None))
    return found


CASES: Final = _cases()


def relabelled(virtual: Obj) -> Obj:
    changed = copy.deepcopy(virtual)
    changed["metadata"]["labels"] = changed["metadata"].get("labels", {}) | {"release-of": "b"}
    return changed


def test_every_field_of_the_view_is_known_here() -> None:
    assert {each.name for each in fields(TenantView)} == {*TIGHTEST, *LOOSE}


@pytest.mark.parametrize("name", CASES)
def test_no_tightened_field_stops_a_label_of_what_runs(name: str) -> None:
    own, view = CASES[name]
    own = samples.merged(own, {"metadata": {"labels": {"release-of": "a"}}})
    try:
        host = pod.for_creation(own, view)
    except Untranslatable:
        assert name not in OWN
        return
    for field, tight in TIGHTEST.items():
        patches = diff.pod_patches(pod.for_patch(relabelled(own), host, replace(view, **{field: tight})), host)
        assert [each.body["metadata"]["labels"]["release-of"] for each in patches if "metadata" in each.body] == ["b"], field


@pytest.mark.parametrize("name", OWN)
def test_a_new_object_is_judged(name: str) -> None:
    refused = []
    for field, tight in TIGHTEST.items():
        try:
            pod.for_creation(OWN[name], replace(RICH, **{field: tight}))
        except Untranslatable:
            refused.append(field)
    # A limit that every pod may meet is listed for all of them.
    everybodys = {"dns_address", "pod_security", "max_pod_bytes"}
    assert (
        set(refused) - everybodys
        == {
            "a profile": {"seccomp_profiles"},
            "an AppArmor profile": {"apparmor_profiles"},
            "the host's user namespace": {"user_namespaces"},
            "a block device": {"user_namespaces"},
            "a runtime class": {"allowed_runtime_classes"},
            "a priority class": {"allowed_priority_classes"},
            "a resource": {"allowed_resources"},
            "a GPU": {"gpu_resources"},
            "a claim": {"device_classes"},
            # The group that it names is not there, and its gate would depend on it.
            "a group": {"pod_groups", "gated_resources", "gated_gangs"},
            "a node": {"nodes"},
            "a full name": {"cluster_domain"},
        }[name]
    )


def test_a_resize_and_a_deadline_go_down_beside_what_was_withdrawn() -> None:
    own = samples.merged(OWN["a profile"], {"spec": {"activeDeadlineSeconds": 100}})
    own["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    host = pod.for_creation(own, RICH)
    changed = samples.merged(own, {"spec": {"activeDeadlineSeconds": 50}})
    changed["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "2"}}
    patches = diff.pod_patches(pod.for_patch(changed, host, samples.VIEW), host)
    assert [each.subresource for each in patches] == [None, "resize"]
    assert patches[0].body["spec"] == {"activeDeadlineSeconds": 50}


def test_only_ephemeral_containers_that_are_new_are_judged() -> None:
    def debugger(name: str, **fields_: Any) -> Obj:
        return {"name": name, "image": "debug:1", "securityContext": {"seccompProfile": local("audit.json")}} | fields_

    own = samples.merged(OWN["a profile"], {"spec": {"ephemeralContainers": [debugger("old")]}})
    assert [each["name"] for each in pod.ephemeral_containers(own, RICH)] == ["old"]
    assert pod.ephemeral_containers(own, samples.VIEW, ["old"]) == []
    own["spec"]["ephemeralContainers"].append(debugger("plain", securityContext={}))
    assert [each["name"] for each in pod.ephemeral_containers(own, samples.VIEW, ["old"])] == ["plain"]
    own["spec"]["ephemeralContainers"].append(debugger("new"))
    with pytest.raises(Untranslatable) as found:
        pod.ephemeral_containers(own, samples.VIEW, ["old", "plain"])
    assert found.value.reason is Reason.NOT_ALLOWED


def test_services_that_came_since_make_no_pod_larger() -> None:
    own = samples.pod()
    host = pod.for_creation(own, samples.VIEW)
    many = {"team": tuple(replace(samples.VIEW.services["team"][0], name=f"db-{index}") for index in range(2000))}
    crowded = replace(samples.VIEW, services=many)
    with pytest.raises(Untranslatable):
        pod.for_creation(own, crowded)
    assert diff.pod_patches(pod.for_patch(relabelled(own), host, crowded), host)


def test_what_grows_by_its_own_labels_is_held_against_how_large_a_pod_may_be() -> None:
    own = samples.pod()
    host = pod.for_creation(own, samples.VIEW)
    with pytest.raises(Untranslatable) as found:
        pod.for_patch(relabelled(own), host, replace(samples.VIEW, max_pod_bytes=1000))
    assert found.value.reason is Reason.TOO_LARGE


def test_what_grows_by_its_images_is_held_against_it_too() -> None:
    """Of a pod that runs an image is what its tenant may change, and its name may be long."""
    own = samples.pod()
    host = pod.for_creation(own, samples.VIEW)
    small = replace(samples.VIEW, max_pod_bytes=pod._bytes(pod.for_patch(own, host, samples.VIEW)) + 100)
    own["spec"]["containers"][0]["image"] += "x" * 50
    (patch,) = diff.pod_patches(pod.for_patch(own, host, small), host)
    assert patch.body["spec"]["containers"][0]["image"].endswith("x" * 50)
    own["spec"]["containers"][0]["image"] += "x" * 200
    with pytest.raises(Untranslatable) as found:
        pod.for_patch(own, host, small)
    assert (found.value.reason, found.value.field) == (Reason.TOO_LARGE, "spec")
    grown = samples.merged(host, {"spec": {"containers": own["spec"]["containers"]}})
    pod.for_patch(own, grown, small)


def tolerating(number: int) -> list[Obj]:
    """So many tolerations of one taint, each for another time."""
    return [{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": at} for at in range(number)]


def test_tolerations_that_are_added_are_held_against_how_large_a_pod_may_be_too() -> None:
    """Kubernetes lets a tenant add tolerations to a pod that is there, as many as it likes."""
    own = samples.pod()
    host = pod.for_creation(own, samples.VIEW)
    own["spec"]["tolerations"] = tolerating(100)
    small = replace(samples.VIEW, max_pod_bytes=pod._bytes(pod.for_patch(own, host, samples.VIEW)) + 10)
    assert diff.pod_patches(pod.for_patch(own, host, small), host)
    own["spec"]["tolerations"] = tolerating(101)
    with pytest.raises(Untranslatable) as found:
        pod.for_patch(own, host, small)
    assert (found.value.reason, found.value.field) == (Reason.TOO_LARGE, "spec.tolerations")
    grown = samples.merged(host, {"spec": {"tolerations": pod.for_patch(own, host, samples.VIEW)["spec"]["tolerations"]}})
    pod.for_patch(own, grown, small)
    enforced = replace(small, enforced_tolerations=(*small.enforced_tolerations, Toleration("other", "Exists")))
    assert diff.pod_patches(pod.for_patch(own, grown, enforced), grown), "what the class adds is not the tenant's doing"


def test_tolerations_that_are_added_count_with_all_that_the_pod_says_about_nodes() -> None:
    values = [f"v{number}" for number in range(999)]
    listed = {"matchExpressions": [{"key": f"k{key}", "operator": "In", "values": values} for key in range(3)]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [listed]}}
    own = samples.pod({"affinity": {"nodeAffinity": required}})
    host = pod.for_creation(own, samples.VIEW)
    own["spec"]["tolerations"] = tolerating(60)
    assert diff.pod_patches(pod.for_patch(own, host, samples.VIEW), host)
    own["spec"]["tolerations"] = tolerating(80)
    with pytest.raises(Untranslatable, match="3072 together are the most") as found:
        pod.for_patch(own, host, samples.VIEW)
    assert found.value.reason is Reason.TOO_LARGE


def test_groups_and_claims_for_devices_keep_following_their_labels() -> None:
    meta = {"name": "a", "namespace": "team", "uid": "u1", "labels": {"app": "b"}}
    group = {"metadata": meta, "spec": {"schedulingPolicy": {"basic": {}}, "priorityClassName": "batch"}}
    asked = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu.example.com"}}]}}
    tight = replace(samples.VIEW, allowed_priority_classes=frozenset())
    for made in (
        podgroup.to_host(group, tight.standing()),
        deviceclaim.to_host({"metadata": meta, "spec": asked}, tight.standing()),
    ):
        assert made["metadata"]["labels"]["app"] == "b"
    for refused in (
        lambda: podgroup.to_host(group, tight),
        lambda: deviceclaim.to_host({"metadata": meta, "spec": asked}, tight),
    ):
        with pytest.raises(Untranslatable):
            refused()
