"""Status of host pods as tenants read it."""

from typing import Any

import pytest

from bulkhead.api.objects import Obj
from syncer.translate import Reason
from syncer.translate.kinds import deviceclaim
from syncer.translate.kinds import podstatus as status
from syncer.translate.kinds.pod import GENERATION, to_host
from tests.kit import translationsamples as samples


def host_pod(own: Obj, **given: Any) -> Obj:
    host = to_host(own, samples.VIEW)
    host["metadata"] |= {"uid": "host-uid", "generation": 3}
    host["status"] = {"phase": "Running", **given}
    return host


def up(own: Obj, **given: Any) -> Obj:
    return status.status_to_virtual(host_pod(own, **given), own, samples.VIEW)


def test_item_60_addresses_of_the_host_are_the_tenants_kubelets() -> None:
    found = up(
        samples.pod(),
        hostIP="172.31.255.1",
        hostIPs=[{"ip": "172.31.255.1"}],
        podIP="10.244.0.9",
        podIPs=[{"ip": "10.244.0.9"}],
    )
    assert (found["hostIP"], found["hostIPs"], found["podIP"]) == ("10.112.4.11", [{"ip": "10.112.4.11"}], "10.244.0.9")


def test_item_63_quality_class_never_changes() -> None:
    own = samples.pod() | {"status": {"qosClass": "BestEffort"}}
    assert up(own, qosClass="Burstable")["qosClass"] == "BestEffort"
    assert up(samples.pod(), qosClass="Burstable")["qosClass"] == "Burstable"


def test_item_65_injected_containers_stay_behind() -> None:
    found = up(samples.pod(), containerStatuses=[{"name": "main", "containerID": "x://1"}, {"name": "istio-proxy"}])
    assert found["containerStatuses"] == [{"name": "main", "containerID": "x://1"}]


def test_item_65_resources_that_the_platform_set_by_default_stay_behind() -> None:
    own = samples.pod()
    own["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "20m"}, "limits": {"cpu": "30m"}}
    defaults = {"memory": "4Gi", "ephemeral-storage": "10Gi"}
    main = {
        "name": "main",
        "allocatedResources": {"cpu": "20m", "memory": "32Mi"},
        "resources": {"requests": {"cpu": "20m", "memory": "32Mi"}, "limits": {"cpu": "30m"} | defaults},
    }
    (shown,) = up(own, containerStatuses=[main])["containerStatuses"]
    assert shown["allocatedResources"] == {"cpu": "20m"}
    assert shown["resources"] == {"requests": {"cpu": "20m"}, "limits": {"cpu": "30m"}}
    del own["spec"]["containers"][0]["resources"]
    assert up(own, containerStatuses=[main])["containerStatuses"][0]["resources"] == {}


def test_item_66_tenants_own_conditions_survive_and_native_ones_come_from_the_host() -> None:
    own = samples.pod() | {
        "status": {"conditions": [{"type": "example.com/linked", "status": "True"}, {"type": "Ready", "status": "True"}]}
    }
    found = up(own, conditions=[{"type": "Ready", "status": "False"}, {"type": "host.example/x", "status": "True"}])
    assert found["conditions"] == [{"type": "Ready", "status": "False"}, {"type": "example.com/linked", "status": "True"}]


def test_a_disruption_that_the_plane_tells_of_stays_until_the_host_tells_of_one() -> None:
    evicted = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
    own = samples.pod() | {"status": {"conditions": [evicted, {"type": "Ready", "status": "True"}]}}
    assert up(own, phase="Failed")["conditions"] == [evicted]
    taken = evicted | {"reason": "PreemptionByScheduler"}
    assert up(own, conditions=[taken])["conditions"] == [taken]


def test_item_48_83_messages_speak_of_virtual_names() -> None:
    own = samples.pod({"imagePullSecrets": [{"name": "registry"}]})
    host = host_pod(own)
    secret = host["spec"]["imagePullSecrets"][0]["name"]
    message = f"pod {host['metadata']['name']} in bh-red-work: secret {secret}, stranger-{'0' * 32}, bh-red"
    found = up(own, message=message, conditions=[{"type": "Ready", "status": "False", "message": message}])
    assert found["message"] == "pod web-0 in team: secret registry, (hidden), (hidden)"
    assert found["conditions"][0]["message"] == found["message"]


def test_item_64_78_generation_is_the_one_that_the_kubelet_has_seen() -> None:
    own = samples.pod(metadata={"generation": 7})
    host = host_pod(own, observedGeneration=3, conditions=[{"type": "Ready", "status": "True", "observedGeneration": 3}])
    assert host["metadata"]["annotations"][GENERATION] == "7"
    found = status.status_to_virtual(host, own, samples.VIEW)
    assert (found["observedGeneration"], found["conditions"][0]["observedGeneration"]) == (7, 7)
    host["status"]["observedGeneration"] = 2
    assert "observedGeneration" not in status.status_to_virtual(host, own, samples.VIEW)


def test_item_67_a_second_look_changes_nothing() -> None:
    own = samples.pod()
    host = host_pod(own, conditions=[{"type": "Ready", "status": "True", "lastProbeTime": None}], hostIP="1.2.3.4", message="")
    first = status.status_to_virtual(host, own, samples.VIEW)
    assert status.same(status.status_to_virtual(host, own | {"status": first}, samples.VIEW), first)


def test_blocked_keeps_its_time_while_nothing_is_new() -> None:
    first = status.blocked(samples.pod(), Reason.QUOTA_EXCEEDED, "4 of 4 used", "2026-01-01T00:00:00Z")
    again = status.blocked(samples.pod() | {"status": first}, Reason.QUOTA_EXCEEDED, "4 of 4 used", "2026-01-02T00:00:00Z")
    assert first == again
    assert first["phase"] == "Pending"
    assert first["conditions"][0]["reason"] == "QuotaExceeded"


def test_item_52_what_the_plane_wrote_about_claims_stays() -> None:
    statuses = [{"name": "gpu", "resourceClaimName": "web-0-gpu-x7k2p"}]
    own = samples.pod() | {"status": {"resourceClaimStatuses": statuses}}
    found = up(own, resourceClaimStatuses=[{"name": "gpu", "resourceClaimName": "of-the-host"}])
    assert found["resourceClaimStatuses"] == statuses


def test_item_52_an_allocation_comes_up_without_the_hosts_reservation() -> None:
    result = {"request": "gpu", "driver": "gpu.example.com", "pool": "gpu-a", "device": "gpu-3", "tolerations": []}
    host = {
        "status": {"allocation": {"devices": {"results": [result]}, "nodeSelector": {}}, "reservedFor": [{"name": "host-pod"}]}
    }
    own = {"status": {"reservedFor": [{"resource": "pods", "name": "web-0", "uid": "1"}]}}
    found = deviceclaim.status_to_virtual(host, own, samples.VIEW)
    assert found["reservedFor"] == own["status"]["reservedFor"]
    kept = {key: result[key] for key in ("request", "driver", "pool", "device")}
    assert found["allocation"] == {"devices": {"results": [kept]}}


def test_an_allocation_gives_way_to_another_as_api_servers_let_it() -> None:
    """None is taken away that is reserved, and none is taken in place of another."""

    def allocation(device: str) -> Obj:
        return {"devices": {"results": [{"request": "gpu", "driver": "gpu.example.com", "pool": "gpu-a", "device": device}]}}

    devices = [{"driver": "gpu.example.com", "pool": "gpu-a", "device": "gpu-1"}]
    reserved = {"allocation": allocation("gpu-1"), "reservedFor": [{"resource": "pods", "name": "web-0", "uid": "1"}]}
    hosts: list[Obj] = [{"status": {}}, {"status": {"allocation": allocation("gpu-2")}}]
    for host in hosts:
        assert deviceclaim.status_to_virtual(host, {"status": reserved}, samples.VIEW) == reserved
        free = {"allocation": allocation("gpu-1"), "devices": devices}
        assert deviceclaim.status_to_virtual(host, {"status": free}, samples.VIEW) == {}
        assert deviceclaim.status_to_virtual(host, {"status": {}}, samples.VIEW) == host["status"]
    same = {"allocation": allocation("gpu-1") | {"nodeSelector": {}}}
    shown = {"allocation": allocation("gpu-1"), "devices": devices}
    assert deviceclaim.status_to_virtual({"status": same}, {"status": shown}, samples.VIEW) == shown
    # A plane that does not keep a field would else be asked for it for ever.
    same["allocation"]["devices"]["results"][0]["shareID"] = "s"
    assert deviceclaim.status_to_virtual({"status": same}, {"status": shown}, samples.VIEW) == shown


def test_item_66_readiness_gates_go_down_once() -> None:
    own = samples.pod({"readinessGates": [{"conditionType": "example.com/linked"}]})
    own["status"] = {
        "conditions": [{"type": "example.com/linked", "status": "True"}, {"type": "example.com/other", "status": "True"}]
    }
    host = host_pod(own)
    patch = status.readiness_to_host(own, host)
    expected = {"metadata": {"uid": "host-uid"}, "status": {"conditions": [{"type": "example.com/linked", "status": "True"}]}}
    assert patch == expected
    host["status"]["conditions"] = patch["status"]["conditions"]
    assert status.readiness_to_host(own, host) is None


def test_item_66_a_gate_whose_condition_the_tenant_took_away_is_closed() -> None:
    own = samples.pod({"readinessGates": [{"conditionType": "example.com/linked"}]})
    host = host_pod(own)
    host["spec"]["readinessGates"].append({"conditionType": "balancer.of.the/host"})
    kept = [{"type": name, "status": "True"} for name in ("balancer.of.the/host", "Ready")]
    host["status"]["conditions"] = [{"type": "example.com/linked", "status": "True"}, *kept]
    patch = status.readiness_to_host(own, host)
    assert patch is not None
    assert patch["status"]["conditions"] == [{"$patch": "delete", "type": "example.com/linked"}]
    host["status"]["conditions"] = kept
    assert status.readiness_to_host(own, host) is None


def test_the_plane_keeps_its_own_word_since_when_a_pod_is_scheduled() -> None:
    below = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:05Z"}
    above = below | {"lastTransitionTime": "2026-01-01T00:00:07Z"}
    host = {"metadata": {}, "status": {"phase": "Pending", "conditions": [below]}}
    virtual = samples.pod() | {"status": {"phase": "Pending", "conditions": [above]}}
    assert status.status_to_virtual(host, virtual, samples.VIEW)["conditions"] == [above]
    waiting = samples.pod() | {"status": {"phase": "Pending", "conditions": [above | {"status": "False"}]}}
    assert status.status_to_virtual(host, waiting, samples.VIEW)["conditions"] == [below]


@pytest.mark.parametrize(
    ("below", "above", "expected"),
    [
        ({"phase": "Pending"}, {"phase": "Running", "startTime": "2026-01-01T00:00:05Z"}, True),
        ({"phase": "Running", "startTime": "2026-01-01T00:00:05Z"}, {"phase": "Succeeded"}, True),
        ({}, {"startTime": ["forged"]}, True),
        ({"phase": "Running", "startTime": "2026-01-01T00:00:05Z"}, {"phase": "Pending"}, False),
        ({"phase": "Failed"}, {"phase": "Running"}, False),
        ({"phase": "Pending"}, {"phase": "Pending"}, False),
        (None, None, False),
        ({"phase": "Pending"}, "forged", False),
    ],
)
def test_a_start_and_an_end_are_not_taken_back(below: Any, above: Any, expected: bool) -> None:
    assert status.goes_back({"status": below}, {"status": above}) is expected


def test_texts_of_a_readiness_gate_are_cut_for_the_host_and_then_left_alone() -> None:
    """Kubernetes bounds the texts of no condition: 64 of them would be a host pod of any size."""
    own = samples.pod({"readinessGates": [{"conditionType": "example.org/gate"}]})
    host = host_pod(own)
    closed = {"type": "example.org/gate", "status": "False", "reason": "r" * 1_000_000, "message": "é" * 1_000_000}
    own["status"] = {"conditions": [closed]}
    patch = status.readiness_to_host(own, host)
    assert patch is not None
    (written,) = patch["status"]["conditions"]
    assert (written["reason"], written["message"]) == ("r" * 128, "é" * 512)
    host["status"]["conditions"] = [written]
    assert status.readiness_to_host(own, host) is None
    (shown,) = status.status_to_virtual(host, own, samples.VIEW)["conditions"]
    assert shown == closed, "the tenant keeps its own"
