"""What a plane may lose by its receiver and reach because of it, whatever the class says."""

from dataclasses import replace
from typing import Any

import pytest

from bulkhead.api import labels
from bulkhead.api.conditions import Reason
from controller.decide.plan import plan
from controller.existing import by_slot
from controller.plane import auditreceiver, network
from controller.plane.addresses import ALWAYS, API, NODES, PODS, RECEIVERS, SERVICES, SLICES, STORAGE, Reserved
from controller.plane.auditlosses import Losses, losses_of
from controller.plane.auditreceiver import EVENT_BYTES, Bounds
from controller.plane.spec import PlaneSpec
from controller.plane.trail import Audit, Receiver
from controller.tenant.facets.audit import report as auditing
from tests.controller.plane.test_rendering import RECEIVER
from tests.kit.tenantsamples import changed, material, plane_spec

HOST = (
    *ALWAYS,
    Reserved("10.96.0.0/16", SERVICES),
    Reserved("10.112.0.0/12", SLICES),
    Reserved("10.244.0.0/16", PODS),
    Reserved("192.0.2.10/32", API),
    Reserved("192.0.2.11/32", NODES),
)


def sending(**changes: Any) -> PlaneSpec:
    return plane_spec(
        audit=Audit(receiver=replace(RECEIVER, **changes)), network={"reserved": HOST, "pod_addresses": ("172.20.0.4",)}
    )


def ways(spec: PlaneSpec) -> list[Any]:
    policy, usual = (
        next(found for found in network.policies(one) if found["metadata"]["name"] == "allow-plane")
        for one in (spec, plane_spec(network={"reserved": HOST}))
    )
    return [rule for rule in policy["spec"]["egress"] if rule not in usual["spec"]["egress"]]


@pytest.mark.parametrize(
    ("changes", "peer"),
    [
        ({}, {"ipBlock": {"cidr": "203.0.113.7/32"}}),
        ({"address": "2001:db8::7"}, {"ipBlock": {"cidr": "2001:db8::7/128"}}),
        (
            {"address": "10.96.0.9", "namespace": "logging"},
            {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "logging"}}},
        ),
    ],
)
def test_a_plane_reaches_its_receiver_alone(changes: dict[str, str], peer: Any) -> None:
    assert ways(sending(**changes)) == [{"to": [peer], "ports": [{"protocol": "TCP", "port": 8443}]}]


@pytest.mark.parametrize(
    "changes",
    [
        *(
            {"address": address}
            for address in (
                "169.254.169.254", "127.0.0.1", "::1", "fe80::1", "168.63.129.16", "fd00:ec2::254", "10.96.0.1", "10.112.4.1",
                "10.244.1.2", "192.0.2.10", "192.0.2.11", "::ffff:192.0.2.10", "64:ff9b::a9fe:a9fe", "64:ff9b::c000:20a",
                "172.20.0.4", "x",
            )
        ),
        *({"namespace": name} for name in ("bulkhead-system", "bh-team-a", "bh-team-a-work")),
    ],
    ids=str,
)  # fmt: skip
def test_no_receiver_opens_the_host(changes: dict[str, str]) -> None:
    spec = sending(**changes)
    assert ways(spec) == []
    said = auditing.verdict(spec, None)
    assert said is not None
    assert (said.status, said.reason) == ("False", Reason.RECEIVER_UNUSABLE)
    # The positive control.
    assert ways(sending()) != []


def test_a_receiver_is_reached_though_it_is_closed_to_tenants_pods() -> None:
    beside = (Reserved("203.0.113.7/32", RECEIVERS), Reserved("203.0.113.7/32", STORAGE))
    assert ways(changed(sending(), network={"reserved": (*HOST, *beside)})) == ways(sending()) != []


@pytest.mark.parametrize("memory_mib", [32, 128, 256, 512, 1024, 4096, 65536])
def test_what_waits_and_is_sent_takes_a_quarter_of_the_memory_at_most(memory_mib: int) -> None:
    """However long the receiver is silent and however large events are, as far as batches of one event allow it."""
    bounds = Bounds.of(memory_mib)
    under_way = 170 * max(bounds.batch, 1)
    if memory_mib >= 128:
        assert (bounds.buffer + 3 * under_way) * EVENT_BYTES <= (memory_mib << 20) // 4
    assert bounds.buffer >= 1
    assert bounds.batch >= 1


def test_another_credential_restarts_nothing_and_another_place_does() -> None:
    asked = Audit(receiver=RECEIVER)
    other = Audit(receiver=replace(RECEIVER, credential=(("token", "b3RoZXI="),), trouble="x"))
    assert auditreceiver.read_once(asked) == auditreceiver.read_once(other) != {}
    assert auditreceiver.secrets(plane_spec(audit=asked)) != auditreceiver.secrets(plane_spec(audit=other))
    for changes in ({"url": "https://other.example.org/team-a"}, {"certificate_authority": "x"}):
        assert auditreceiver.read_once(Audit(receiver=replace(RECEIVER, **changes))) != auditreceiver.read_once(asked)


@pytest.mark.parametrize("credential", [(), (("token", "eA=="),), (("tls.crt", "eA=="), ("tls.key", "eQ=="))])
def test_a_plane_keeps_what_it_has(credential: tuple[tuple[str, str], ...]) -> None:
    (made,) = auditreceiver.secrets(plane_spec(audit=Audit(receiver=replace(RECEIVER, credential=credential))))
    assert auditreceiver.kept(made) == credential
    assert auditreceiver.kept(None) == ()


def test_a_plane_that_is_held_keeps_the_files_that_its_pod_mounts() -> None:
    spec = plane_spec()
    meta = {"name": auditreceiver.SECRET, "namespace": spec.namespace, "labels": labels.made_for(spec.tenant), "uid": "u"}
    there = by_slot([{"kind": "Secret", "metadata": meta}])
    assert plan(spec, material(spec), there, held=True).deletions == ()
    # Of a tenant that is not held it goes with what the class says.
    assert [deletion.slot.name for deletion in plan(spec, material(spec), there).deletions] == [auditreceiver.SECRET]


def test_the_credential_is_in_no_text_of_a_plane() -> None:
    assert "dG9rZW4=" not in repr(sending())


METRICS = b"""# HELP apiserver_audit_error_total [ALPHA] Counter of audit events that failed to be audited properly.
# TYPE apiserver_audit_error_total counter
apiserver_audit_error_total{plugin="buffered"} 1.5e+06
apiserver_audit_error_total{plugin="log"} 7
apiserver_audit_error_total{plugin="webhook"} 12
apiserver_audit_event_total 99
"""


def test_losses_are_read_of_metrics() -> None:
    assert losses_of(METRICS) == (("buffered", 1_500_000), ("webhook", 12))
    hostile = b'apiserver_audit_error_total{plugin="webhook"} '
    for number in (b"NaN", b"+Inf", b"-1", b"1e", b"9" * 400, b"1.2.3", b"1.2.3e+05", b".e+05", b""):
        assert losses_of(hostile + number + b"\n") == (), number


@pytest.mark.parametrize(
    ("receiver", "losses", "status", "reason", "said"),
    [
        ({}, Losses(), "True", Reason.READY, "no event was lost"),
        ({}, Losses((("webhook", 3),)), "True", Reason.READY, "lost since the API server started: 3 were not accepted"),
        ({}, Losses((("buffered", 3),), growing=True), "False", Reason.EVENTS_LOST, "3 did not fit"),
        ({}, Losses(unread="silent"), "Unknown", Reason.PLANE_UNREADABLE, "silent"),
        ({}, None, "Unknown", Reason.WAITING_FOR_PLANE, "has not reported"),
        ({"trouble": "gone"}, Losses(), "False", Reason.RECEIVER_UNUSABLE, "gone; until then the previous credential"),
        ({"trouble": "gone", "credential": ()}, Losses(), "False", Reason.RECEIVER_UNUSABLE, "are sent without one"),
    ],
)
def test_the_condition(receiver: dict[str, Any], losses: Losses | None, status: str, reason: Reason, said: str) -> None:
    found = auditing.verdict(sending(**receiver), losses)
    assert found is not None
    assert (found.status, found.reason) == (status, reason)
    assert said in found.message


def test_without_a_receiver_there_is_none() -> None:
    assert auditing.verdict(plane_spec(audit=Audit()), None) is None
    assert auditreceiver.secrets(plane_spec()) == []


def test_a_url_without_a_port_is_at_443() -> None:
    assert Receiver("https://audit.example.org/team-a", "203.0.113.7", "", "x").port == 443
