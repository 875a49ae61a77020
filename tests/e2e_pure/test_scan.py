"""I7: what no host object may have, what its copy is that the host judges again, and what the host makes itself."""

from typing import Any, cast

import pytest

from e2e.api import ApiError
from e2e.chaos import scan


def host_pod(**spec: Any) -> dict[str, Any]:
    marks = {
        "bulkhead.dev/tenant-uid": "t",
        "bulkhead.dev/virtual-kind": "Pod",
        "bulkhead.dev/virtual-name": "x",
        "ledger.bulkhead.dev/admitted": "{}",
    }
    context = {"seccompProfile": {"type": "RuntimeDefault"}}
    base = {
        "containers": [{"name": "main"}],
        "securityContext": context,
        "automountServiceAccountToken": False,
        "nodeName": "n",
    }
    metadata = {"name": "x-0123456789abcdef", "namespace": "bh-red-work", "uid": "u", "annotations": marks}
    metadata["labels"] = {"app": "x", "topology.kubernetes.io/zone": "a"}  # the latter by the host, once it is bound
    return {"kind": "Pod", "metadata": metadata, "spec": base | spec, "status": {"phase": "Running"}}


def test_a_good_host_pod_has_no_findings() -> None:
    assert list(scan.findings(host_pod(), "t")) == []


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"hostNetwork": True}, "hostNetwork is true"),
        ({"hostPID": True}, "hostPID is true"),
        ({"hostIPC": True}, "hostIPC is true"),
        ({"automountServiceAccountToken": True}, "a token of the host is mounted"),
        ({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}, "volume v is a path of the node"),
        ({"containers": [{"name": "main", "securityContext": {"privileged": True}}]}, "container main is privileged"),
        ({"ephemeralContainers": [{"name": "e", "securityContext": {"privileged": True}}]}, "container e is privileged"),
        (
            {"initContainers": [{"name": "i", "securityContext": {"procMount": "Unmasked"}}]},
            "container i has procMount Unmasked",
        ),
        ({"securityContext": {}}, "container main has seccomp profile none"),
        (
            {"containers": [{"name": "main", "ports": [{"containerPort": 1, "hostPort": 1}]}]},
            "container main has a port of the node",
        ),
    ],
)
def test_a_bad_host_pod_is_found(spec: dict[str, Any], text: str) -> None:
    assert [found for found in scan.findings(host_pod(**spec), "t") if text in found]


def test_other_bad_objects_are_found() -> None:
    assert list(scan.findings(host_pod(), "other"))
    owned = host_pod()
    owned["metadata"]["ownerReferences"] = [{"kind": "Pod"}]
    assert list(scan.findings(owned, "t")) == ["Pod x-0123456789abcdef: it has owners"]
    tokens = {**owned, "kind": "Secret"}
    assert list(scan.findings(tokens, "t")) == []
    tokens["metadata"]["ownerReferences"] = [{"kind": "Node"}]
    assert list(scan.findings(tokens, "t")) == ["Secret x-0123456789abcdef: it has owners"]
    service = {**host_pod(), "kind": "Service", "spec": {"externalIPs": ["1.2.3.4"]}}
    assert "it claims the addresses" in str(list(scan.findings(service, "t")))
    secret = {**host_pod(), "kind": "Secret", "type": "kubernetes.io/service-account-token"}
    assert "the host would fill in a token" in str(list(scan.findings(secret, "t")))
    bare = {**host_pod(), "metadata": {"name": "x"}}
    assert len(list(scan.findings(bare, "t"))) == 3
    assert list(scan.namespace_findings({"metadata": {"name": "s", "labels": {}}}))


def test_the_copy_that_the_host_judges_is_what_the_syncer_would_create() -> None:
    given = host_pod()
    made = scan.candidate(given)
    assert made["metadata"]["name"] == "x-0123456789abcde0"
    assert "uid" not in made["metadata"]
    assert "ledger.bulkhead.dev/admitted" not in made["metadata"]["annotations"]
    assert made["metadata"]["labels"] == {"app": "x"}
    assert "nodeName" not in made["spec"]
    assert "status" not in made
    assert given == host_pod()


def test_how_a_claim_is_bound_is_the_hosts_own() -> None:
    bound = {"pv.kubernetes.io/bind-completed": "yes", "volume.kubernetes.io/storage-provisioner": "x", "bulkhead.dev/of": "y"}
    claim = {"kind": "PersistentVolumeClaim", "metadata": {"name": "data-0", "annotations": bound}, "spec": {"volumeName": "v"}}
    made = scan.candidate(claim)
    assert (made["metadata"]["annotations"], made["spec"]) == ({"bulkhead.dev/of": "y"}, {})


@pytest.mark.parametrize(
    ("changes", "its_own"),
    [
        ({}, True),
        ({"labels": {"endpointslice.kubernetes.io/managed-by": "bulkhead"}}, False),
        ({"labels": {}}, False),
        ({"ownerReferences": []}, False),
        ({"ownerReferences": [{"kind": "Service", "uid": "u2", "controller": True}]}, False),
        ({"ownerReferences": [{"kind": "Service", "uid": "u1"}]}, False),
        ({"ownerReferences": [{"kind": "Pod", "uid": "u1", "controller": True}]}, False),
    ],
)
def test_a_slice_is_the_hosts_own_only_with_a_mirrored_service_as_its_owner(changes: dict[str, Any], its_own: bool) -> None:
    owners = [{"kind": "Service", "uid": "u1", "controller": True}]
    labels = {"endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}
    metadata = {"name": "web-x7k2p", "labels": labels, "ownerReferences": owners} | changes
    assert scan.made_by_the_host({"kind": "EndpointSlice", "metadata": metadata}, {"u1"}) is its_own
    assert not scan.made_by_the_host({"kind": "Service", "metadata": metadata}, {"u1"})


@pytest.mark.parametrize(
    ("answers", "asked", "verdict"),
    [
        ({}, 1, ""),
        ({"10.0.0.6": "already allocated", "10.0.0.4": "refused"}, 3, ""),
        ({f"10.0.0.{number}": "already allocated" for number in range(14)}, 16, None),
        ({f"10.0.0.{number}": "the provided IP is not in the valid range" for number in range(14)}, 16, None),
        ({f"10.0.0.{number}": "refused" for number in range(14)}, 16, "Service x: the host would refuse it now: refused"),
    ],
)
def test_the_copy_of_a_service_has_an_address_near_by(answers: dict[str, str], asked: int, verdict: str | None) -> None:
    answers |= {f"9.255.255.{number}": next(iter(answers.values()), "") for number in range(250, 256) if len(answers) > 9}
    seen: list[str] = []

    class Host:
        def request(self, _method: str, _path: str, *, body: Any, **_: Any) -> None:
            seen.append(body["spec"]["clusterIP"])
            assert body["spec"]["clusterIPs"] == [seen[-1]]
            if text := answers.get(seen[-1], ""):
                raise ApiError(422, "Invalid", text)

    made = {"kind": "Service", "metadata": {"name": "x", "namespace": "s"}}
    given = made | {"spec": {"clusterIP": "10.0.0.5", "clusterIPs": ["10.0.0.5"]}}
    assert scan.judge(cast("Any", Host()), "Service", given) == verdict
    assert len(seen) == len(set(seen)) == asked
    assert "10.0.0.5" not in seen
