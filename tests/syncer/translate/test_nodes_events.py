"""Nodes and events as tenants see them, tokens, and the way back from a host object."""

import base64
import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkhead.api import accelerators
from bulkhead.api import labels as marks
from bulkhead.api.objects import Obj
from syncer.translate import Reference, mirrored, origin, references, tokens
from syncer.translate.kinds import event, node, nodemarks
from syncer.translate.kinds.pod import to_host
from syncer.translate.registry import WITH_EVENTS
from tests.kit import translationsamples as samples
from tests.kit import yamlfiles

GPU = "nvidia.com/gpu"


def host_node(name: str, gpus: int, **more: Any) -> Obj:
    resources = {"cpu": "64", "memory": "512Gi", "pods": "110", GPU: str(gpus), "rdma/hca": "8"}
    return {
        "metadata": {"name": name, "labels": {"secret.example/x": "y", marks.GPU_COUNT: str(gpus), marks.ZONE: "a"}},
        "spec": {"providerID": "cloud://x", **more},
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "addresses": [{"type": "InternalIP", "address": "172.31.255.1"}],
            "conditions": [{"type": "Ready", "status": "True"}, {"type": "Weird", "status": "True"}],
            "nodeInfo": {"machineID": "m", "kubeletVersion": "v1.36.3", "operatingSystem": "linux", "architecture": "amd64"},
            "images": [{"names": ["secret/image"]}],
        },
    }


_COUNTS = st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), st.integers(0, 16), max_size=4)
# What each of some tenants holds on each node, and the host's own pods.
_HOLDINGS = st.dictionaries(st.sampled_from(["red", "blue", "green", "host"]), _COUNTS, max_size=4)
_SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
_JSON = st.recursive(_SCALARS, lambda inner: st.dictionaries(st.text(), inner))


def rooms(has: dict[str, int], holdings: dict[str, dict[str, int]]) -> dict[str, node.Room]:
    """The nodes as a syncer reads them, with what the controller noted there."""
    held = accelerators.by_node((name, {GPU: count}) for each in holdings.values() for name, count in each.items() if count)
    made = {}
    for name, count in has.items():
        note = accelerators.text(held.get(name, {}))
        host = host_node(name, count)
        host["metadata"]["annotations"] = {accelerators.HELD: note} if note else {}
        made[name], readable = node.room(host, [GPU])
        assert readable
    return made


@given(_COUNTS, st.integers(-1, 40), _COUNTS)
def test_item_49_a_tenant_never_sees_more_than_its_limit(has: dict[str, int], limit: int, used: dict[str, int]) -> None:
    taken = {name: {GPU: count} for name, count in used.items()}
    shares = node.gpu_shares(rooms(has, {}), {GPU: limit}, taken)
    assert sum(share[GPU] for share in shares.values()) == min(max(0, limit), sum(has.values()))
    assert all(0 <= shares[name][GPU] <= has[name] for name in has)
    assert shares == node.gpu_shares(dict(reversed(rooms(has, {}).items())), {GPU: limit}, taken)
    if sum(min(used.get(name, 0), has[name]) for name in has) <= limit:
        assert all(shares[name][GPU] >= min(used.get(name, 0), has[name]) for name in has)


@given(_COUNTS, st.integers(0, 40), _HOLDINGS)
def test_item_49_every_tenant_sees_what_the_others_leave_and_its_own(
    has: dict[str, int], limit: int, holdings: dict[str, dict[str, int]]
) -> None:
    for tenant in ("red", "blue", "green"):
        own = {name: {GPU: count} for name, count in holdings.get(tenant, {}).items()}
        shares = node.gpu_shares(rooms(has, holdings), {GPU: limit}, own)
        free = 0
        for name, count in has.items():
            others = sum(held.get(name, 0) for who, held in holdings.items() if who != tenant)
            mine = min(own.get(name, {}).get(GPU, 0), count)
            assert shares[name][GPU] <= max(mine, count - others)
            free += max(mine, count - others)
            if sum(min(each[GPU], has.get(where, 0)) for where, each in own.items()) <= limit:
                assert shares[name][GPU] >= mine
        assert sum(share[GPU] for share in shares.values()) == min(limit, free)


def test_item_49_what_others_took_on_one_node_is_shown_on_another() -> None:
    def shown(**holdings: dict[str, int]) -> list[int]:
        own = {name: {GPU: count} for name, count in holdings.get("red", {}).items()}
        found = node.gpu_shares(rooms({"a": 8, "b": 8}, holdings), {GPU: 4}, own)
        return [found[name][GPU] for name in ("a", "b")]

    assert shown() == [4, 0]
    assert shown(blue={"a": 6}) == [2, 2]
    assert shown(blue={"a": 8}, host={"b": 7}) == [0, 1]
    assert shown(red={"a": 2}, blue={"a": 6}) == [2, 2]
    # The sum that was noted does not have our own pods yet.
    late = rooms({"a": 8, "b": 8}, {"blue": {"a": 6}})
    assert node.gpu_shares(late, {GPU: 4}, {"a": {GPU: 2}})["a"] == {GPU: 4}


@given(_JSON)
def test_item_49_a_note_that_is_not_ours_counts_as_nothing_held(garbage: Any) -> None:
    host = host_node("a", 8)
    for note in (
        garbage,
        json.dumps(garbage),
        "[" * 9000,
        '{"nvidia.com/gpu": -1}',
        '{"nvidia.com/gpu": 1e400}',
        '{"a": true}',
    ):
        host["metadata"]["annotations"] = {accelerators.HELD: note}
        found, readable = node.room(host, [GPU])
        assert found.has == {GPU: 8}
        assert readable is (accelerators.read(note) is not None)
        assert readable or not found.held
        assert all(0 <= count <= 1_000_000 for count in found.held.values())


def test_item_49_a_tenant_is_not_shown_what_others_hold() -> None:
    host = host_node("a", 8)
    host["metadata"]["annotations"] = {accelerators.HELD: '{"nvidia.com/gpu":5}'}
    found = node.to_virtual(host, samples.VIEW, {GPU: 3})
    assert "annotations" not in found["metadata"]
    assert accelerators.HELD not in str(found)
    assert (
        found["status"]["capacity"][GPU] == found["status"]["allocatable"][GPU] == found["metadata"]["labels"][marks.GPU_COUNT]
    )


# What NVIDIA's feature discovery and operator write of a node, and whether a tenant sees it; where it counts devices, its own.
FACTS: dict[str, tuple[str, str | None]] = {
    "nvidia.com/gpu.present": ("true", "true"),
    "nvidia.com/gpu.product": ("NVIDIA-H100-80GB-HBM3", "NVIDIA-H100-80GB-HBM3"),
    "nvidia.com/gpu.compute.major": ("9", "9"),
    "nvidia.com/gpu.sharing-strategy": ("none", "none"),
    "nvidia.com/cuda.driver.rev": ("15", "15"),
    "nvidia.com/cuda.driver-version.full": ("570.86.15", "570.86.15"),
    "nvidia.com/cuda.runtime-version.major": ("12", "12"),
    "nvidia.com/mig.capable": ("true", "true"),
    "nvidia.com/mig.strategy": ("mixed", "mixed"),
    "nvidia.com/mig.config.state": ("success", "success"),
    "nvidia.com/mig-1g.10gb.product": ("NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"),
    "nvidia.com/mig-1g.10gb+me.memory": ("9856", "9856"),
    "nvidia.com/mig-1g.10gb.slices.gi": ("1", "1"),
    "nvidia.com/mig-1g.10gb.engines.encoder": ("0", "0"),
    "nvidia.com/gpu.count": ("8", "3"),
    "nvidia.com/mig-1g.10gb.count": ("7", "2"),
    # Of a profile that is none of the tenant's resources the host's number stays the host's.
    "nvidia.com/mig-3g.40gb.count": ("2", None),
    "nvidia.com/gpu.deploy.driver": ("true", None),
    "nvidia.com/gfd.timestamp": ("1732500000", None),
    "nvidia.com/gpu.machine": ("DGX", None),
    "nvidia.com/mig-1g.10gb.anything": ("x", None),
    "nvidia.com/mig-.count": ("x", None),
    "other.nvidia.com/gpu.present": ("true", None),
}


def test_item_59_a_node_shows_what_others_select_gpu_nodes_by() -> None:
    """A DaemonSet that selects GPU nodes had no pods at all, while a pod with the same selector ran."""
    host = host_node("gpu-a", 8)
    host["metadata"]["labels"] |= {key: value for key, (value, _) in FACTS.items()}
    view = samples.view({"gpu_resources": (GPU, "nvidia.com/mig-1g.10gb")})
    found = node.to_virtual(host, view, {GPU: 3, "nvidia.com/mig-1g.10gb": 2})["metadata"]["labels"]
    assert {key: found.get(key) for key in FACTS} == {key: shown for key, (_, shown) in FACTS.items()}
    # They are the host's: what a tenant writes there is none of its own marks.
    own = nodemarks.of_tenant({"metadata": {"labels": dict.fromkeys(FACTS, "mine")}}).labels
    assert set(own) == {key for key, (_, shown) in FACTS.items() if shown is None} - {"nvidia.com/mig-3g.40gb.count"}


def test_item_59_60_a_node_shows_what_scheduling_needs_and_no_more() -> None:
    taints = [
        {"key": GPU, "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "timeAdded": "x"},
        {"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"},
    ]
    found = node.to_virtual(host_node("gpu-a", 8, taints=taints, unschedulable=True), samples.VIEW, {GPU: 3})
    assert found["metadata"] == {
        "name": "gpu-a",
        "labels": {"kubernetes.io/hostname": "gpu-a", marks.GPU_COUNT: "3", marks.ZONE: "a", marks.PLATFORM: "true"},
        "annotations": {marks.CORDONED_BY: "host", marks.HOST_TAINTS: "kwok.x-k8s.io/node:NoSchedule"},
    }
    assert found["spec"] == {
        "taints": [{"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}],
        "unschedulable": True,
    }
    assert found["status"]["allocatable"] == {"cpu": "64", "memory": "512Gi", "pods": "110", GPU: "3"}
    assert found["status"]["addresses"][0] == {"type": "InternalIP", "address": "10.112.4.11"}
    assert found["status"]["daemonEndpoints"] == {"kubeletEndpoint": {"Port": 10250}}
    assert [entry["type"] for entry in found["status"]["conditions"]] == ["Ready"]
    assert "secret" not in str(found)
    assert found["status"]["nodeInfo"]["machineID"] == ""


def test_a_node_declares_of_what_its_kubelet_can_do_what_the_syncer_carries_down() -> None:
    """A plane's API server refuses to resize a pod as a whole on a node that does not declare it."""
    host = host_node("gpu-a", 8)
    assert node.to_virtual(host, samples.VIEW, {})["status"][node.FEATURES] == []
    resize = "InPlacePodLevelResourcesVerticalScaling"
    restart = "RestartAllContainersOnContainerExits"
    host["status"]["declaredFeatures"] = ["AnythingNew", "ExtendWebSocketsToKubelet", resize, restart]
    assert node.to_virtual(host, samples.VIEW, {})["status"][node.FEATURES] == [resize, restart]
    host["status"]["declaredFeatures"] = [{}, 7, None]
    assert node.to_virtual(host, samples.VIEW, {})["status"][node.FEATURES] == []


def test_item_49_use_counts_bound_pods_that_run() -> None:
    def pod(where: str, phase: str, **spec: Any) -> Obj:
        return {"spec": {"nodeName": where, **spec}, "status": {"phase": phase}}

    two = [{"resources": {"limits": {GPU: "2"}}}]
    init = [{"resources": {"limits": {GPU: "1"}}, "restartPolicy": "Always"}, {"resources": {"limits": {GPU: "4"}}}]
    pods = [pod("a", "Running", containers=two), pod("a", "Succeeded", containers=two), pod("", "Pending", containers=two)]
    pods.append(pod("b", "Pending", containers=two, initContainers=init))
    assert accelerators.by_node(accelerators.holds(each, [GPU]) for each in pods) == {"a": {GPU: 2}, "b": {GPU: 5}}
    assert accelerators.extended(pods[3]) == {GPU}
    assert accelerators.extended(pod("a", "", containers=[{"resources": {"limits": {"cpu": "1", "memory": "1"}}}])) == set()


def test_item_83_an_event_is_about_the_virtual_object() -> None:
    own = samples.pod()
    host = to_host(own, samples.VIEW)
    name = host["metadata"]["name"]
    host_event = {
        "metadata": {"name": f"{name}.17ab", "namespace": "bh-red-work"},
        "involvedObject": {"kind": "Pod", "name": name, "uid": "host-uid", "fieldPath": "spec.containers{main}"},
        "reason": "FailedScheduling",
        "message": f"bh-red-work/{name} cannot be scheduled",
        "source": {"component": "kubelet", "host": "gpu-a"},
        "type": "Warning",
        "count": 3,
        "firstTimestamp": "2026-01-01T00:00:00Z",
    }
    assert event.involved(host_event, WITH_EVENTS) == ("Pod", name)
    found = event.to_virtual(host_event, own, samples.VIEW)
    assert found["metadata"]["name"].startswith("web-0.")
    assert found["message"] == "team/web-0 cannot be scheduled"
    assert found["involvedObject"] == {
        "apiVersion": "v1", "kind": "Pod", "namespace": "team", "name": "web-0", "uid": own["metadata"]["uid"],
        "fieldPath": "spec.containers{main}",
    }  # fmt: skip
    assert found["source"] == {"component": "kubelet", "host": "gpu-a"}
    assert "bh-red" not in str(found)
    assert "host-uid" not in str(found)
    assert event.involved({"involvedObject": {"kind": "Node", "name": "gpu-a"}}, WITH_EVENTS) == ("", "")


def test_what_the_plane_reports_too_is_not_told_twice() -> None:
    """Of a pod with two budgets the plane named the one that it chose, and the copies from the host named "(hidden)"."""
    about = {"kind": "Pod", "name": "web-0-1"}
    host_event = {"involvedObject": about, "reason": "MultiplePodDisruptionBudgets"}
    assert event.involved(host_event, WITH_EVENTS) == ("", "")
    assert event.involved(host_event | {"reason": "FailedMount"}, WITH_EVENTS) == ("Pod", "web-0-1")


@pytest.mark.parametrize(
    ("change", "hidden"),
    [
        ({}, True),
        ({"count": 4}, True),
        ({"count": 5}, False),  # half a minute later it is no longer a start
        ({"count": None, "series": {"count": 9}}, False),
        ({"count": "x"}, False),
        ({"reason": "FailedScheduling"}, False),
        ({"message": 'MountVolume.SetUp failed for volume "a" : secret "other" not found'}, False),
    ],
)
def test_item_83_a_kubelet_that_is_earlier_than_the_tokens_is_no_news(change: dict[str, Any], *, hidden: bool) -> None:
    own = samples.pod()
    message = f'MountVolume.SetUp failed for volume "a" : secret "{tokens.secret_name(own, samples.VIEW)}" not found'
    found = {"reason": "FailedMount", "message": message, "count": 1} | change
    assert event.waits_for_tokens(found, own, samples.VIEW) is hidden
    assert not event.waits_for_tokens(found, samples.pod("other") | {"kind": "Service"}, samples.VIEW)


def test_item_03_the_way_back_is_proven_by_the_name() -> None:
    host = to_host(samples.pod(), samples.VIEW)
    found = origin.of_host(host, samples.VIEW)
    assert found is not None
    assert (found.kind, found.namespace, found.name) == ("Pod", "team", "web-0")
    for change in (
        {"name": "web-1"},
        {"labels": {}},
        {"annotations": host["metadata"]["annotations"] | {marks.VIRTUAL_NAME: "b"}},
    ):
        other = copy.deepcopy(host)
        other["metadata"] |= change
        assert origin.of_host(other, samples.VIEW) is None
    assert origin.of_host(host, samples.view({"tenant_uid": "another"})) is None


def _with_tokens(*sources: Obj) -> Obj:
    return samples.pod(
        {"volumes": [{"name": "t", "projected": {"sources": [{"serviceAccountToken": source} for source in sources]}}]}
    )


def test_item_12_13_tokens_are_asked_for_once_each_with_a_lifetime() -> None:
    own = _with_tokens(
        {"path": "a"}, {"path": "b", "expirationSeconds": 3600}, {"path": "c", "audience": "vault", "expirationSeconds": 10**9}
    )
    needs = tokens.token_requests(own)
    assert [(need.audience, need.expiration_seconds, need.path) for need in needs] == [
        ("", 3600, "a"), ("", 3600, "b"), ("vault", 86400, "c"),
    ]  # fmt: skip
    assert needs[0].key == needs[1].key != needs[2].key
    assert tokens.token_requests(_with_tokens({"path": "a", "expirationSeconds": 1}))[0].expiration_seconds == 600


def test_item_15_the_pod_mounts_exactly_the_keys_that_the_secret_has() -> None:
    own = _with_tokens({"path": "a"}, {"path": "c", "audience": "vault"})
    needs = tokens.token_requests(own, samples.VIEW.max_token_seconds)
    secret = tokens.secret(
        own, samples.VIEW, {need.key: f"token of {need.path}" for need in needs}, {"metadata": {"name": "h", "uid": "u"}}
    )
    sources = to_host(own, samples.VIEW)["spec"]["volumes"][0]["projected"]["sources"]
    assert (
        {source["secret"]["name"] for source in sources}
        == {secret["metadata"]["name"]}
        == {tokens.secret_name(own, samples.VIEW)}
    )
    mounted = {
        item["path"]: base64.b64decode(secret["data"][item["key"]]) for source in sources for item in source["secret"]["items"]
    }
    assert mounted == {"a": b"token of a", "c": b"token of c"}
    assert secret["metadata"]["ownerReferences"] == [{"apiVersion": "v1", "kind": "Pod", "name": "h", "uid": "u"}]
    recreated = samples.merged(own, {"metadata": {"uid": "another"}})
    assert tokens.secret_name(recreated, samples.VIEW) != secret["metadata"]["name"]


def test_item_31_33_references_of_a_pod() -> None:
    own = yamlfiles.load(samples.HERE / "cases/pod/gpu-training.virtual.yaml")
    assert references.of_pod(own) == {
        Reference("ConfigMap", "team", "settings"),
        Reference("Secret", "team", "db"),
        Reference("Secret", "team", "registry"),
        Reference("PersistentVolumeClaim", "team", "dataset"),
        Reference("PersistentVolumeClaim", "team", "train-0-abcde-scratch"),
    }


def test_item_81_what_has_no_mirror() -> None:
    def service(name: str, namespace: str = "team", **more: Any) -> Obj:
        return {
            "metadata": {"name": name, "namespace": namespace, **more.pop("metadata", {})},
            "spec": {"clusterIP": "1.2.3.4", **more},
        }

    assert mirrored.service(service("a"))
    assert not mirrored.service(service("kubernetes", "default"))
    assert not mirrored.service(service("a", type="ExternalName"))
    assert not mirrored.service(service("a", clusterIP=""))
    assert not mirrored.service(service("kube-dns", "kube-system", metadata={"labels": {marks.PLATFORM: "true"}}))
    labels = {mirrored.SERVICE_NAME: "a"}
    assert mirrored.endpoint_slice({"metadata": {"labels": labels}})
    by_controller = labels | {mirrored.MANAGED_BY: "endpointslice-controller.k8s.io"}
    assert not mirrored.endpoint_slice({"metadata": {"labels": by_controller}})
