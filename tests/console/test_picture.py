"""What the console's picture says of a host: what is wrong first, every device once, and no name that breaks the page."""

import json
import re
from dataclasses import replace

import pytest

from bulkhead.api.ledger import STANDING, write_standing
from bulkhead.ledger.model import Decisions, Share, Snapshot, Standing, Tenant
from tests.console import sample
from workstation.cli.console.alarms import closed_of
from workstation.cli.console.drawing import Observed, picture_of
from workstation.cli.quotas.summary import noted_standings
from workstation.console import page
from workstation.console.picture import Level, as_json, marks, rack_of


def test_nothing_is_wrong_on_a_host_at_work() -> None:
    picture = picture_of(sample.small().seen())
    assert picture.alarms == ()
    assert [(row.name, row.level) for row in picture.tenants] == [("blue", Level.OK), ("green", Level.OK), ("red", Level.OK)]
    red = next(row for row in picture.tenants if row.name == "red")
    assert (red.used, red.nominal, red.borrowed, red.waiting) == (40, 32, 8, 0)


@pytest.mark.parametrize(
    ("host", "kind", "subject", "words"),
    [
        (sample.frozen_plane(), "tenant", "speech", "does not answer"),
        (
            sample.exhausted(),
            "cohort",
            "research",
            "256 of 256 nvidia.com/gpu are in use, and pods that request 24 wait; vision borrows 96",
        ),
        (sample.dead_node(), "node", "gpu-102", "it has 8 nvidia.com/gpu, in use by vision (8)"),
    ],
)
def test_what_is_wrong_comes_first_and_names_its_subject(host: sample.Host, kind: str, subject: str, words: str) -> None:
    first = picture_of(host.seen()).alarms[0]
    assert (first.kind, first.subject) == (kind, subject)
    assert words in first.text
    assert first.next_step


def test_a_cohort_with_too_little_left_is_not_called_exhausted() -> None:
    host = sample.lab()
    (alarm,) = picture_of(host.seen()).alarms
    assert (alarm.subject, alarm.reason) == ("research", "TooFewLeft")
    assert "236 of 256 nvidia.com/gpu are in use" in alarm.text
    assert "the others are kept for workloads ahead in the queue, or are too few together" in alarm.text
    assert picture_of(sample.exhausted().seen()).alarms[0].reason == "Exhausted"


def test_a_controller_that_is_down_is_one_alarm_and_not_one_for_each_tenant() -> None:
    host = sample.small()
    host.controllers = ({"status": {}},)
    assert [(alarm.kind, alarm.level) for alarm in picture_of(host.seen()).alarms] == [("controller", Level.BAD)]


def test_a_controller_that_could_not_be_looked_at_is_not_called_down() -> None:
    host = sample.small()
    host.stored["red"] = sample.stored("red", "Provisioning", "m")
    del host.stored["red"]["status"]
    (alarm,) = picture_of(replace(host.seen(), controllers=None)).alarms
    assert (alarm.subject, alarm.reason, alarm.level) == ("red", "ControllerUnknown", Level.WARN)


@pytest.mark.parametrize(
    ("reason", "level"), [("Restoring", Level.WARN), ("TeardownBlocked", Level.BAD), ("Terminating", Level.WARN)]
)
def test_a_plane_that_is_on_its_way_is_not_broken_and_a_deletion_that_is_stuck_is(reason: str, level: Level) -> None:
    host = sample.small()
    host.stored["red"] = sample.stored("red", reason, "m")
    if reason != "Restoring":
        host.stored["red"]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    (alarm,) = picture_of(host.seen()).alarms
    assert (alarm.subject, alarm.reason, alarm.level) == ("red", reason, level)


def test_tenants_with_trouble_come_before_the_others() -> None:
    host = sample.small()
    host.stored["red"] = sample.stored("red", "DataLost", "the volume is empty")
    host.stored["green"] = sample.stored("green", "Provisioning", "objects are being created")
    assert [(row.name, row.level) for row in picture_of(host.seen()).tenants] == [
        ("red", Level.BAD), ("green", Level.WARN), ("blue", Level.OK),
    ]  # fmt: skip


def test_the_map_has_every_device_once_by_rack_domain_flavor_and_slice() -> None:
    picture = picture_of(sample.small().seen())
    shown = {item.resource: item for item in picture.maps}
    assert list(shown) == [sample.GPU, sample.MIG]
    nodes = [tile for rack in shown[sample.GPU].racks for tile in rack.nodes]
    assert [rack.name for rack in shown[sample.GPU].racks] == ["rack-1", "rack-2"]
    assert sum(tile.capacity for tile in nodes) == 64
    assert sum(amount for tile in nodes for _, amount in tile.held) == 45
    assert {(tile.domain, tile.flavor) for tile in nodes} == {
        ("nvl-1-0", "h100"), ("nvl-1-1", "h100"), ("nvl-2-0", "a100"), ("nvl-2-1", "a100"),
    }  # fmt: skip
    assert shown[sample.MIG].racks[0].nodes[0].held == (("blue", 9),)


def test_racks_are_in_the_order_of_their_numbers_and_nodes_without_one_in_parts() -> None:
    host = sample.Host(nodes=[sample.node(f"n{at}", {sample.GPU: 8}) for at in range(70)])
    host.nodes += [sample.node(f"r{at}", {sample.GPU: 8}, f"rack-{at}") for at in (2, 10, 1)]
    names = [rack.name for rack in picture_of(host.seen()).maps[0].racks]
    assert names == ["rack-1", "rack-2", "rack-10", "n0 to n63", "n64 to n69"]


def test_marks_are_each_given_once() -> None:
    names = [f"team-{at:03}" for at in range(1200)]
    found = marks([*names, "red", "blue"])
    assert len(set(found.values())) == 1202
    assert max(map(len, found.values())) <= 2
    assert found["red"] == "R"


def test_without_nodes_a_rack_has_its_sums_and_its_nodes_are_found_by_name() -> None:
    picture = picture_of(sample.small().seen())
    told = as_json(picture, nodes=False)
    rack = told["maps"][0]["racks"][1]
    assert "nodes" not in rack
    assert (rack["count"], rack["capacity"], rack["free"]) == (4, 32, 19)
    assert rack["states"] == {"full": 1, "partial": 1, "whole": 2}
    found = rack_of(picture, sample.GPU, "rack-2")
    assert found is not None
    assert len(found.nodes) == 4
    assert rack_of(picture, sample.GPU, "rack-9") is None


def test_a_node_that_broke_down_is_told_apart_from_one_that_was_cordoned() -> None:
    ready = {
        "type": "Ready",
        "status": "Unknown",
        "reason": "NodeStatusUnknown",
        "message": "no news.",
        "lastTransitionTime": "t",
    }
    broken = closed_of({"spec": {"unschedulable": True}, "status": {"conditions": [ready]}})
    assert broken is not None
    assert (broken.why, broken.since, broken.cordoned) == ("NodeStatusUnknown: no news", "t", False)
    cordoned = closed_of({"spec": {"unschedulable": True}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    assert cordoned is not None
    assert cordoned.cordoned
    assert closed_of({"spec": {}, "status": "odd"}) is None


def test_no_name_ends_the_element_that_holds_the_picture() -> None:
    host = sample.small()
    host.stored["red"] = sample.stored("red", "DataLost", sample.HOSTILE[3])
    text = page.document(as_json(picture_of(host.seen()), nodes=True), live=False)
    holder = re.search(r'<script type="application/json" id="picture">(.*?)</script>', text, re.DOTALL)
    assert holder is not None
    assert not set("<>&") & set(holder[1])
    names = {row["name"].removeprefix("ml/") for row in json.loads(holder[1])["queue"]}
    assert names == set(sample.HOSTILE)
    assert text.count("<script") == 2


def test_the_page_may_load_and_send_nothing() -> None:
    text = page.document(None, live=False)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    rules = dict(rule.strip().split(" ", 1) for rule in policy[1].split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["connect-src"] == "'none'"
    assert "unsafe" not in policy[1]
    assert not re.search(r'(src|href)="(https?:)?//', text)
    assert "connect-src 'self'" in page.policy(live=True)


def test_the_script_makes_no_markup_from_text() -> None:
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(", "http:", "https:"):
        assert word not in page.script(), word


def test_a_large_map_stays_below_a_mebibyte() -> None:
    host = sample.large()
    picture = picture_of(host.seen())
    assert len(json.dumps(as_json(picture, nodes=True))) < 1 << 20
    assert len(json.dumps(as_json(picture, nodes=False))) < 400_000


def so_far() -> Observed:
    """A host of which tenants and quotas were read."""
    host = sample.small()
    seen, bare = host.seen(), Snapshot(host.tenants, (), (), {})
    noted = {name: {("", sample.GPU): Standing(16, 64, 20, 4, 0, 9)} for name in host.tenants}
    return replace(seen, view=replace(seen.view, snapshot=bare), reading="nodes (12 so far), pods", noted=noted)


def test_before_nodes_and_pods_are_read_the_picture_has_what_the_ledger_noted_and_says_so() -> None:
    host = sample.small()
    host.stored["red"] = sample.stored("red", "DataLost", "the volume is empty")
    seen = replace(so_far(), view=replace(so_far().view, tenants=host.stored))
    picture = picture_of(seen, Decisions())
    told = as_json(picture, nodes=True)
    assert told["reading"] == "nodes (12 so far), pods"
    assert [alarm.subject for alarm in picture.alarms] == ["red"]
    assert {row.name: (row.used, row.nominal, row.borrowed) for row in picture.tenants}["blue"] == (20, 16, 4)
    assert [(row.used, row.lent) for line in picture.cohorts[0].lines for row in line.rows] == [(20, 0)] * 3
    assert (picture.maps, picture.queue) == ((), ())
    assert as_json(picture_of(sample.small().seen()), nodes=True)["reading"] == ""


def test_what_no_ledger_noted_is_what_the_api_server_counts() -> None:
    tenant = Tenant("red", shares={("", sample.GPU): Share(4, lending=0)})
    quota = {"status": {"used": {f"requests.{sample.GPU}": "6"}}}
    assert noted_standings(quota, tenant) == {("", sample.GPU): Standing(4, 6, 6, 2, 0, 0)}
    counts = {"nominal": 4, "ceiling": 9, "used": 3, "borrowed": 0, "lent": 1, "borrowable": 5}
    noted = {"metadata": {"annotations": {STANDING: write_standing({("", sample.GPU): counts})}}}
    assert noted_standings(quota | noted, tenant) == {("", sample.GPU): Standing(**counts)}
    assert noted_standings({"status": {"used": "odd"}}, tenant)["", sample.GPU].used == 0
