"""The steps by which a plane without a quorum comes back from one member, from every state that a controller may find."""

from dataclasses import replace
from itertools import product

import pytest

from controller.plane import memberrecord
from controller.plane.memberrecord import Record, Recovery
from controller.plane.membership import Claim, Decision, Discard, Listed, Pod, Quarantine, Restart, Standing, Write
from controller.plane.quorumrecovery import decide
from tests.kit.tenantsamples import plane_spec

SPEC = plane_spec(control_plane={"replicas": 3})
PODS = memberrecord.pods_of(SPEC)
URLS = {pod: memberrecord.peer_url(SPEC, pod) for pod in PODS}
FIRST, SECOND, CHOSEN = PODS
ASKED = Recovery(CHOSEN)
NOTED = Recovery(CHOSEN, former=f"uid-{CHOSEN}", discards=(f"claim-{FIRST}", f"claim-{SECOND}"))
FORCED = replace(NOTED, forced=True)
ALL = tuple(Listed(f"id-{pod}", pod, URLS[pod]) for pod in PODS)


def standing(recovery: Recovery | None, **more: object) -> Standing:
    pods = {pod: Pod(pod, f"uid-{pod}") for pod in PODS}
    claims = tuple(Claim(pod, f"claim-{pod}") for pod in PODS)
    found = Standing(URLS, Record(recovery=recovery, version="7"), pods, heard={CHOSEN: 100}, claims=claims)
    return replace(found, **more)  # type: ignore[arg-type]


def step(recovery: Recovery | None, **more: object) -> object:
    return decide(standing(recovery, **more)).step


def test_nothing_is_recovered_unasked() -> None:
    assert step(None) is None
    assert "fewer than a quorum" in decide(standing(None)).trouble


def test_the_syncer_is_told_before_anything_is_noted_and_noted_before_anything_is_deleted() -> None:
    assert isinstance(step(ASKED), Quarantine)
    assert step(ASKED, quarantined=True) == Write(Record(recovery=NOTED, version="7"))
    assert step(NOTED, quarantined=True) == Discard(Claim(FIRST, f"claim-{FIRST}"))


def test_each_volume_of_the_others_goes_and_then_each_pod_that_still_uses_one() -> None:
    one, two, own = (Claim(pod, f"claim-{pod}") for pod in PODS)
    going = replace(one, ends=True)
    assert step(NOTED, claims=(going, two, own)) == Discard(two)
    both = (going, replace(two, ends=True), own)
    assert step(NOTED, claims=both) == Restart(FIRST, f"uid-{FIRST}")
    # A pod that waits for a node uses no volume; one that ends is not in the list.
    waiting = {FIRST: Pod(FIRST, "uid-new", on_node=False), SECOND: Pod(SECOND, f"uid-{SECOND}"), CHOSEN: Pod(CHOSEN, "uid")}
    assert step(NOTED, claims=both, pods=waiting) == Restart(SECOND, f"uid-{SECOND}")
    found = decide(standing(NOTED, claims=both, pods={CHOSEN: Pod(CHOSEN, f"uid-{CHOSEN}")}))
    assert found.step is None
    assert "waits until the pod of plane-0 and plane-1 has ended" in found.recovering


def test_it_may_start_alone_only_once_no_volume_of_the_others_is_left() -> None:
    own, new = Claim(CHOSEN, f"claim-{CHOSEN}"), Claim(FIRST, "claim-new")
    assert step(NOTED, claims=(own, new)) == Write(Record(recovery=FORCED, version="7"))
    for left, ends in product((FIRST, SECOND), (True, False)):
        found = step(NOTED, claims=(own, Claim(left, f"claim-{left}", ends)), pods={})
        assert not isinstance(found, Write), (left, ends)


def test_its_pod_is_started_again_once_and_again_only_if_it_does_not_come_up() -> None:
    assert step(FORCED) == Restart(CHOSEN, f"uid-{CHOSEN}")
    pods = {CHOSEN: Pod(CHOSEN, "uid-new", runs_for=30.0)}
    assert step(FORCED, pods=pods) is None
    assert step(FORCED, pods={CHOSEN: replace(pods[CHOSEN], runs_for=121.0)}) == Restart(CHOSEN, "uid-new")
    assert step(FORCED, pods={}) is None


def test_the_flag_goes_as_soon_as_it_is_the_only_member_and_leads() -> None:
    alone = (Listed("id", CHOSEN, URLS[CHOSEN]),)
    assert step(FORCED, lists={CHOSEN: alone}) == Write(Record(version="7"))
    # Members of the old cluster do not count as that.
    assert not isinstance(step(FORCED, lists={CHOSEN: ALL}), Write)
    assert not isinstance(step(FORCED, lists={FIRST: (Listed("id", FIRST, URLS[FIRST]),)}), Write)


def test_a_quorum_that_is_back_ends_it_before_anything_is_deleted() -> None:
    found = decide(standing(ASKED, lists=dict.fromkeys((FIRST, CHOSEN), ALL)))
    assert found == Decision(Write(Record(version="7")), trouble=found.trouble)
    assert "a quorum answers again" in found.trouble
    # Later it goes on: volumes may be gone.
    assert isinstance(step(NOTED, lists=dict.fromkeys((FIRST, CHOSEN), ALL)), Discard)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"heard": {}}, "waits until plane-2 answers"),
        ({"pods": {}}, "waits until plane-2 answers"),
        ({"claims": (Claim(CHOSEN, "claim", ends=True),)}, "the volume of plane-2 is being deleted"),
        ({"claims": ()}, "the volume of plane-2 is being deleted"),
    ],
)
def test_a_member_without_an_answer_or_a_volume_is_not_recovered_from(more: dict[str, object], words: str) -> None:
    found = decide(standing(ASKED, **more))
    assert found.step is None
    assert words in found.recovering


def test_a_name_that_no_pod_has_is_dropped() -> None:
    found = decide(standing(Recovery("plane-9")))
    assert found.step == Write(Record(version="7"))
    assert "no member plane-9" in found.trouble


def test_the_record_says_all_of_it_and_is_read_back() -> None:
    for recovery in (None, ASKED, NOTED, FORCED):
        record = Record(recovery=recovery)
        data = memberrecord.data(SPEC, record)
        assert memberrecord.read({"data": data}) == record
        # While one may start alone, no member without data may.
        assert data["cluster"].startswith("no-member=")
        assert data["force"] == ("true" if recovery == FORCED else "false")
    opened = Record(open_for=FIRST, without=(SECOND,))
    data = memberrecord.data(SPEC, opened)
    assert memberrecord.read({"data": data}) == opened
    assert SECOND not in data["cluster"]
    assert data["cluster"].count("https://") == 2, "etcd compares the number of members"
