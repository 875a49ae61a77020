"""Behaviours 22 to 51 as far as a pure function shows them: names, volumes, scheduling."""

from typing import Any

import pytest

from bulkhead.api import ledger
from bulkhead.api.objects import Obj
from syncer.translate import Reason, Untranslatable, diff, references
from syncer.translate.kinds import pod
from syncer.translate.podspec import scheduling
from syncer.translate.registry import KINDS
from tests.kit import translationsamples as samples

IN_TREE = ["iscsi", "rbd", "flexVolume", "cinder", "cephfs", "azureFile", "scaleIO", "storageos", "glusterfs", "nfs"]


def to_host(spec: Any = None, meta: Any = None, **view: Any) -> Obj:
    return KINDS["Pod"].to_host(samples.pod(spec, meta), samples.view(view))


def refusal(spec: Any, **view: Any) -> Untranslatable:
    with pytest.raises(Untranslatable) as refused:
        to_host(spec, **view)
    return refused.value


@pytest.mark.parametrize("policy", ["ClusterFirst", "ClusterFirstWithHostNet", None])
def test_item_22_names_are_resolved_as_in_a_cluster_of_its_own(policy: str | None) -> None:
    spec = to_host({"dnsPolicy": policy})["spec"]
    assert spec["dnsPolicy"] == "None"
    assert spec["dnsConfig"]["nameservers"] == ["10.112.4.10"]
    assert spec["dnsConfig"]["searches"] == ["team.svc.cluster.local", "svc.cluster.local", "cluster.local"]
    assert {"name": "ndots", "value": "5"} in spec["dnsConfig"]["options"]


def test_item_22_a_resolver_of_its_own_is_kept() -> None:
    config = {"nameservers": ["192.0.2.1"], "searches": ["corp.example"]}
    assert to_host({"dnsPolicy": "None", "dnsConfig": config})["spec"]["dnsConfig"] == config


def test_item_23_a_pod_waits_while_dns_has_no_address() -> None:
    refused = refusal({}, dns_address="")
    assert refused.reason is Reason.WAITING_FOR_DNS
    assert refused.retriable


def test_item_24_the_tenants_resolver_options_and_searches_are_kept() -> None:
    options = [{"name": "ndots", "value": "2"}, {"name": "single-request-reopen"}]
    config = to_host({"dnsConfig": {"options": options, "searches": ["slurm-workers.slurm.svc.cluster.local"]}})["spec"][
        "dnsConfig"
    ]
    assert config["options"] == options
    assert config["searches"][-1] == "slurm-workers.slurm.svc.cluster.local"


def test_item_25_the_name_of_the_api_leads_nowhere_else() -> None:
    aliases = [{"ip": "192.0.2.1", "hostnames": ["kubernetes.default.svc.cluster.local", "kubernetes", "db.example.com"]}]
    assert to_host({"hostAliases": aliases})["spec"]["hostAliases"] == [{"ip": "192.0.2.1", "hostnames": ["db.example.com"]}]


@pytest.mark.parametrize(
    ("name", "own", "expected"),
    [("web-0", None, "web-0"), ("web.0", None, "web-0"), ("web-0", "head", "head"), ("a" * 80, None, "a" * 63)],
)
def test_item_26_the_hostname_is_the_pods_name_or_its_own(name: str, own: str | None, expected: str) -> None:
    spec = to_host({"hostname": own} if own else {}, {"name": name})["spec"]
    assert spec["hostname"] == expected


def test_item_27_a_subdomain_adds_no_container_and_names_nothing_of_the_host() -> None:
    spec = to_host({"hostname": "w-0", "subdomain": "workers"})["spec"]
    assert spec["hostname"] == "w-0"
    assert "subdomain" not in spec
    assert "initContainers" not in spec
    full = to_host({"hostname": "w-0", "subdomain": "workers", "setHostnameAsFQDN": True})["spec"]
    assert full["hostnameOverride"] == "w-0.workers.team.svc.cluster.local"


def test_item_28_what_volumes_refer_to_is_renamed() -> None:
    volumes = [
        {"name": "a", "configMap": {"name": "m"}},
        {"name": "b", "secret": {"secretName": "s"}},
        {"name": "c", "persistentVolumeClaim": {"claimName": "p"}},
        {"name": "d", "projected": {"sources": [{"configMap": {"name": "m"}}, {"secret": {"name": "s"}}]}},
    ]
    view = samples.VIEW
    config_map, secret = view.host_name("ConfigMap", "team", "m"), view.host_name("Secret", "team", "s")
    one, two, three, four = to_host({"volumes": volumes})["spec"]["volumes"]
    assert (one["configMap"]["name"], two["secret"]["secretName"]) == (config_map, secret)
    assert three["persistentVolumeClaim"]["claimName"] == view.host_name("PersistentVolumeClaim", "team", "p")
    assert [each[kind]["name"] for each, kind in zip(four["projected"]["sources"], ("configMap", "secret"), strict=True)] == [
        config_map,
        secret,
    ]


@pytest.mark.parametrize("source", ["clusterTrustBundle", "podCertificate"])
def test_item_28_sources_of_the_host_are_refused(source: str) -> None:
    volumes = [{"name": "v", "projected": {"sources": [{source: {"name": "host", "signerName": "a/b"}}]}}]
    assert refusal({"volumes": volumes}).reason is Reason.NOT_SUPPORTED


def test_item_29_an_ephemeral_volume_is_the_one_claim_that_the_plane_makes() -> None:
    volumes = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"]}}}}]
    (volume,) = to_host({"volumes": volumes})["spec"]["volumes"]
    claim = samples.VIEW.host_name("PersistentVolumeClaim", "team", "web-0-scratch")
    assert volume == {"name": "scratch", "persistentVolumeClaim": {"claimName": claim}}
    wanted = references.of_pod(samples.pod({"volumes": volumes}))
    assert [(each.kind, each.name) for each in wanted] == [("PersistentVolumeClaim", "web-0-scratch")]


@pytest.mark.parametrize("source", IN_TREE)
def test_item_30_volumes_that_reach_storage_of_the_host_are_refused(source: str) -> None:
    assert refusal({"volumes": [{"name": "v", source: {"secretRef": {"name": "s"}}}]}).reason is Reason.NOT_ALLOWED


def test_item_30_an_inline_csi_volume_is_refused() -> None:
    volume = {"name": "v", "csi": {"driver": "d", "nodePublishSecretRef": {"name": "s"}}}
    assert refusal({"volumes": [volume]}).reason is Reason.NOT_ALLOWED


@pytest.mark.parametrize("level", ["baseline", "privileged"])
def test_item_31_pull_secrets_are_renamed_and_serve_image_volumes_too(level: str) -> None:
    model = {"name": "model", "image": {"reference": "registry.example/model:1", "pullPolicy": "IfNotPresent"}}
    host = to_host({"imagePullSecrets": [{"name": "registry"}], "volumes": [model]}, pod_security=level)
    assert host["spec"]["imagePullSecrets"] == [{"name": samples.VIEW.host_name("Secret", "team", "registry")}]
    assert model in host["spec"]["volumes"]
    unknown = {"name": "model", "image": {"reference": "a", "credentials": "b"}}
    assert refusal({"volumes": [unknown]}).field == "spec.volumes[0].image.credentials"


@pytest.mark.parametrize("level", ["baseline", "restricted", "privileged"])
def test_item_32_the_hosts_files_are_never_mounted(level: str) -> None:
    refused = refusal({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}, pod_security=level)
    assert refused.field == "spec.volumes[0].hostPath"


def test_no_probe_and_no_hook_holds_a_container_longer_than_its_pod_may_take_to_end() -> None:
    probe = {"tcpSocket": {"port": 1}, "terminationGracePeriodSeconds": 1_000_000_000}
    hook = {"preStop": {"sleep": {"seconds": 1_000_000}}, "postStart": {"sleep": {"seconds": 5}}}
    main = {"name": "main", "image": "a", "livenessProbe": probe, "startupProbe": probe, "lifecycle": hook}
    init = {
        "name": "init",
        "image": "a",
        "restartPolicy": "Always",
        "livenessProbe": probe | {"terminationGracePeriodSeconds": 9},
    }
    found = to_host({"containers": [main], "initContainers": [init], "terminationGracePeriodSeconds": 10_000_000})["spec"]
    assert found["terminationGracePeriodSeconds"] == 3600
    assert [found["containers"][0][name]["terminationGracePeriodSeconds"] for name in ("livenessProbe", "startupProbe")] == [
        3600
    ] * 2
    assert found["containers"][0]["lifecycle"] == {
        "preStop": {"sleep": {"seconds": 3600}},
        "postStart": {"sleep": {"seconds": 5}},
    }
    assert found["initContainers"][0]["livenessProbe"]["terminationGracePeriodSeconds"] == 9


@pytest.mark.parametrize(("asked", "given"), [(None, 20), (0, 1), (20, 20), (21, 20)])
def test_a_pod_ends_within_what_its_class_allows(asked: int | None, given: int) -> None:
    spec = {"containers": [{"name": "main", "image": "a"}], "terminationGracePeriodSeconds": asked}
    assert to_host(spec, max_grace_seconds=20)["spec"]["terminationGracePeriodSeconds"] == given
    told = pod.shortened(spec, samples.view({"max_grace_seconds": 20}))
    assert ("must be at most 20, not 21" in told) == (asked == 21)
    assert bool(told) == (asked == 21)


def test_item_37_the_tenants_wishes_reach_the_hosts_scheduler() -> None:
    toleration = {"key": "team", "operator": "Exists"}
    spec = to_host({"nodeSelector": {"zone": "a"}, "tolerations": [toleration]})["spec"]
    assert spec["nodeSelector"]["zone"] == "a"
    assert toleration in spec["tolerations"]


def test_item_37_50_a_tenants_own_scheduler_pins_and_the_host_still_counts() -> None:
    waiting = refusal({"schedulerName": "mine"})
    assert waiting.reason is Reason.WAITING_FOR_SCHEDULER
    spec = to_host({"schedulerName": "mine", "nodeName": "gpu-a"})["spec"]
    assert "nodeName" not in spec
    assert "schedulerName" not in spec
    terms = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert terms[0]["matchFields"] == [{"key": "metadata.name", "operator": "In", "values": ["gpu-a"]}]


def test_item_38_the_enforced_selector_wins_and_a_named_node_must_be_visible() -> None:
    assert to_host({"nodeSelector": {"bulkhead.dev/pool": "mine"}})["spec"]["nodeSelector"]["bulkhead.dev/pool"] == "shared"
    assert refusal({"nodeName": "of-another"}).reason is Reason.NODE_NOT_VISIBLE


def test_item_39_enforced_tolerations_stand_once_and_are_repaired() -> None:
    enforced = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    host = to_host({"tolerations": [enforced]})
    assert host["spec"]["tolerations"].count(enforced) == 1
    drifted = to_host({})
    drifted["metadata"]["uid"] = "1"
    drifted["spec"]["tolerations"] = []
    (patch,) = diff.pod_patches(to_host({}), drifted)
    assert enforced in patch.body["spec"]["tolerations"]


def test_item_40_tolerations_are_only_added() -> None:
    before = to_host({"tolerations": [{"key": "old", "operator": "Exists"}]})
    before["metadata"]["uid"] = "1"
    hook = {"key": "from.a/webhook", "operator": "Exists"}
    before["spec"]["tolerations"].append(hook)
    (patch,) = diff.pod_patches(to_host({"tolerations": [{"key": "new", "operator": "Exists"}]}), before)
    kept = [each["key"] for each in patch.body["spec"]["tolerations"]]
    assert {"old", "new", "from.a/webhook"} <= set(kept)


def test_item_41_affinity_sees_the_tenants_own_pods_only() -> None:
    def term(**more: Any) -> Obj:
        given = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "a"}}, **more}
        spec = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [given]}}}
        host = to_host(spec)["spec"]["affinity"]["podAntiAffinity"]
        found: Obj = host["requiredDuringSchedulingIgnoredDuringExecution"][0]
        assert not {"namespaces", "namespaceSelector"} & set(found)
        assert found["labelSelector"]["matchLabels"]["bulkhead.dev/tenant"] == "red"
        return found

    own = term()
    assert "bulkhead.dev/namespace-hash" in own["labelSelector"]["matchLabels"]
    (listed,) = term(namespaces=["team", "prod"])["labelSelector"]["matchExpressions"]
    assert (listed["operator"], len(listed["values"])) == ("In", 2)
    everywhere = term(namespaceSelector={})["labelSelector"]
    assert "bulkhead.dev/namespace-hash" not in str(everywhere)
    assert everywhere["matchLabels"]["app"] == "a"
    both = {"namespaces": ["a"], "namespaceSelector": {"matchLabels": {"b": "c"}}}
    with pytest.raises(Untranslatable) as refused:
        term(**both)
    assert refused.value.reason is Reason.NOT_SUPPORTED


def test_item_42_match_label_keys_are_merged_into_the_selector() -> None:
    constraint = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
        "matchLabelKeys": ["pod-template-hash"],
    }
    labels = {"app": "web", "pod-template-hash": "x1"}
    (found,) = to_host({"topologySpreadConstraints": [constraint]}, {"labels": labels})["spec"]["topologySpreadConstraints"]
    assert "matchLabelKeys" not in found
    assert {"key": "pod-template-hash", "operator": "In", "values": ["x1"]} in found["labelSelector"]["matchExpressions"]


def test_item_43_a_selector_that_is_absent_stays_absent() -> None:
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    (found,) = to_host({"topologySpreadConstraints": [constraint]})["spec"]["topologySpreadConstraints"]
    assert "labelSelector" not in found


def test_item_44_gates_hold_the_host_pod_and_leave_with_the_virtual_ones() -> None:
    gated = to_host({"schedulingGates": [{"name": "example.com/queue"}]})
    (gate,) = gated["spec"]["schedulingGates"]
    gated["metadata"]["uid"] = "1"
    (patch,) = diff.pod_patches(to_host({}), gated)
    assert patch.body["spec"]["schedulingGates"] == [{"name": gate["name"], "$patch": "delete"}]


def test_item_45_priority_passes_by_name_and_list_and_never_by_number() -> None:
    spec = to_host({"priorityClassName": "batch", "priority": 2_000_000_000, "preemptionPolicy": "Never"})["spec"]
    assert spec["priorityClassName"] == "batch"
    assert not {"priority", "preemptionPolicy"} & set(spec)
    for name in ("system-unknown", "unknown"):
        assert refusal({"priorityClassName": name}).reason is Reason.NOT_ALLOWED


@pytest.mark.parametrize("name", ["system-cluster-critical", "system-node-critical"])
@pytest.mark.parametrize(
    "view",
    [{}, {"priority_class": "tenants"}, {"priority_class": "tenants", "allowed_priority_classes": ["system-node-critical"]}],
)
def test_item_45_a_class_of_the_hosts_components_is_the_tenants_own_on_the_host(name: str, view: dict[str, Any]) -> None:
    asked = {"priorityClassName": name, "priority": 2_000_001_000}
    plain, made = to_host({}, **view), to_host(asked, **view)
    assert made["spec"] == plain["spec"]
    assert name in scheduling.mapped(asked)
    assert "wait for quota" in scheduling.mapped(asked)
    assert not any(scheduling.mapped({"priorityClassName": other}) for other in ("", "batch", "system-unknown", None))


def test_item_45_among_the_tenants_own_pods_such_a_class_counts_at_the_ledger() -> None:
    gpus = {"name": "main", "image": "a", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    spec = {"containers": [gpus], "priorityClassName": "system-node-critical", "priority": 2_000_001_000}
    made = to_host(spec, gated_resources=["nvidia.com/gpu"], priority_class="tenants")
    assert made["spec"]["priorityClassName"] == "tenants"
    assert made["metadata"]["annotations"][ledger.OWN_PRIORITY] == "2000001000"


OWNER = {"apiVersion": "slinky.slurm.net/v1beta1", "kind": "NodeSet", "name": "n", "uid": "7", "controller": True}


@pytest.mark.parametrize(
    ("context", "owner", "helped"),
    [
        ({"privileged": True}, {}, True),
        ({"capabilities": {"add": ["KILL", "BPF"]}}, {}, True),
        ({"procMount": "Unmasked"}, {}, False),
        ({"privileged": True}, {"kind": "LoginSet"}, False),
        ({"privileged": True}, {"apiVersion": "slinky.slurm.net.example.com/v1"}, False),
        ({"privileged": True}, {"controller": False}, False),
    ],
)
def test_a_worker_of_slinky_that_is_refused_for_its_privileges_says_the_way_out(
    context: Any, owner: Any, *, helped: bool
) -> None:
    spec = {"containers": [{"name": "main", "image": "a", "securityContext": context}]}
    with pytest.raises(Untranslatable) as refused:
        to_host(spec, {"ownerReferences": [OWNER | owner]})
    assert refused.value.reason is Reason.POD_SECURITY
    assert ("isolation.dropPrivileges: SlinkyWorkers" in str(refused.value)) == helped
    assert "leave it out" in str(refusal({"containers": [spec["containers"][0] | {"securityContext": {"privileged": True}}]}))


def test_item_46_a_runtime_class_is_forced_or_chosen_from_the_list() -> None:
    assert to_host({"runtimeClassName": "sandboxed"})["spec"]["runtimeClassName"] == "sandboxed"
    assert to_host({}, runtime_class="gvisor")["spec"]["runtimeClassName"] == "gvisor"
    assert refusal({"runtimeClassName": "privileged"}).reason is Reason.NOT_ALLOWED
    aliases = {"own": "sandboxed", "stale": "withdrawn"}
    assert to_host({"runtimeClassName": "own"}, runtime_aliases=aliases)["spec"]["runtimeClassName"] == "sandboxed"
    assert refusal({"runtimeClassName": "stale"}, runtime_aliases=aliases).reason is Reason.NOT_ALLOWED


def test_item_51_resources_of_the_pod_as_a_whole_reach_the_host_beside_those_of_containers() -> None:
    resources = {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}
    container = {"name": "main", "image": "a", "resources": {"limits": {"memory": "1Gi"}}}
    spec = to_host({"resources": resources, "containers": [container]})["spec"]
    assert spec["resources"] == resources
    assert spec["containers"][0]["resources"] == {"limits": {"memory": "1Gi"}}
