"""Which step heals a plane of three, from every state in which a controller may find it."""

from dataclasses import replace
from itertools import product

import pytest

from controller.plane import memberrecord
from controller.plane.memberrecord import Record, is_refusal, refused, tries
from controller.plane.membership import Add, Decision, Listed, Move, Pod, Promote, Remove, Restart, Standing, Write, decide
from tests.kit.tenantsamples import plane_spec

SPEC = plane_spec(control_plane={"replicas": 3})
PODS = memberrecord.pods_of(SPEC)
URLS = {pod: memberrecord.peer_url(SPEC, pod) for pod in PODS}
CLOSED = Record(version="7")
LOST = PODS[2]
MIB = 1 << 20


def listed(pod: str, *, started: bool = True, learner: bool = False, id_: str = "") -> Listed:
    return Listed(id_ or f"id-{pod}", pod if started else "", URLS[pod], learner)


ALL = tuple(listed(pod) for pod in PODS)
TWO = ALL[:2]


def standing(
    members: tuple[Listed, ...] = ALL, answer: tuple[str, ...] = PODS, lost: tuple[str, ...] = (), **more: object
) -> Standing:
    pods = {pod: Pod(pod, f"uid-{pod}", refused=pod in lost, capacity=2048 * MIB) for pod in PODS}
    found = Standing(URLS, CLOSED, pods, dict.fromkeys(answer, members), size=100 * MIB)
    return replace(found, **more)  # type: ignore[arg-type]


def lost(members: tuple[Listed, ...], **more: object) -> Decision:
    """What is done while the third pod has lost its volume."""
    return decide(standing(members, PODS[:2], (LOST,), **more))


def test_a_whole_plane_is_left_alone() -> None:
    assert decide(standing()) == Decision()
    assert decide(standing(answer=PODS[:2])) == Decision(), "a silent member may come back with its data"


def test_each_state_on_the_way_has_its_next_step() -> None:
    assert lost(ALL).step == Remove(LOST, ALL[2])
    assert lost(TWO).step == Add(LOST, URLS[LOST])
    added = (*TWO, listed(LOST, started=False, learner=True, id_="new"))
    assert lost(added).step == Write(Record(open_for=LOST, version="7"))
    opened = Record(open_for=LOST, version="8")
    assert lost(added, record=opened).step == Restart(LOST, f"uid-{LOST}")
    waits = decide(standing(added, PODS[:2], record=opened))
    assert (waits.step, waits.replacing) == (None, LOST)
    started = (*TWO, listed(LOST, learner=True, id_="new"))
    assert decide(standing(started, PODS[:2], record=opened)).step == Write(Record(version="8"))
    assert decide(standing(started, PODS[:2], learning=(LOST,))).step == Promote(LOST, started[2])


def test_a_record_is_never_open_while_a_member_that_started_could_lose_its_volume() -> None:
    """The record closes before the learner votes."""
    started = (*TWO, listed(LOST, learner=True))
    for record in (Record(open_for=LOST), Record(open_for="plane-9")):
        assert isinstance(decide(standing(started, PODS[:2], record=record)).step, Write)


def test_below_a_quorum_nothing_is_done() -> None:
    for members, gone in product((ALL, TWO), ((LOST,), PODS[1:], ())):
        for record in (CLOSED, Record(founding=True), Record(open_for=LOST)):
            found = decide(standing(members, PODS[:1], gone, record=record))
            assert found.step is None
            assert "fewer than a quorum" in found.trouble


def test_a_member_is_removed_only_if_all_others_answer() -> None:
    more = (*ALL, Listed("id-4", "plane-3", "https://elsewhere:2380"))
    found = decide(standing((*more, Listed("id-5", PODS[0], "https://fifth:2380")), PODS[:2], (LOST,)))
    assert found.step is None
    assert "plane-3" in found.trouble
    # Two voters are left and one of them lost its volume: removed, the other would be alone.
    assert decide(standing((ALL[0], ALL[2]), (PODS[0], LOST), (LOST,))).step is None


def test_a_member_that_answers_is_not_lost_whatever_its_pod_showed_before() -> None:
    assert decide(standing(ALL, PODS, (LOST,))) == Decision()


def test_members_that_do_not_agree_decide_nothing() -> None:
    found = decide(standing(lists={PODS[0]: ALL, PODS[1]: TWO}))
    assert found.step is None
    assert "do not agree" in found.trouble


@pytest.mark.parametrize(
    ("capacity", "words"), [(None, "not bound"), (300 * MIB, "too small: 456Mi are needed"), (456 * MIB, "")]
)
def test_a_new_member_has_room_before_the_old_one_goes(capacity: int | None, words: str) -> None:
    pods = dict(standing(lost=(LOST,)).pods)
    pods[LOST] = replace(pods[LOST], capacity=capacity)
    for members in (ALL, TWO):
        found = lost(members, pods=pods)
        assert (found.step is None) == bool(words)
        assert words in found.trouble


def test_a_learner_whose_volume_is_lost_is_removed_without_the_others() -> None:
    learner = listed(LOST, learner=True)
    assert lost((*TWO, learner)).step == Remove(LOST, learner)


def test_a_member_that_was_removed_and_returns_with_its_volume_is_named() -> None:
    found = decide(standing(TWO, PODS[:2]))
    assert found.step is None
    assert LOST in found.trouble
    assert "delete the claim" in found.trouble
    # One that found no data the last time is not it, though it runs for a moment.
    pods = {LOST: Pod(LOST, tries=True, capacity=2048 * MIB)}
    assert decide(standing(TWO, PODS[:2], pods=pods)).step == Add(LOST, URLS[LOST])
    assert decide(standing(ALL, PODS[:2], pods=pods)) == Decision()


def test_the_record_closes_once_a_quorum_has_started() -> None:
    founding = Record(founding=True, version="1")
    assert decide(standing(record=founding)).step == Write(Record(version="1"))
    two = (*TWO, listed(LOST, started=False))
    assert decide(standing(two, PODS[:2], record=founding)).step == Write(Record(open_for=LOST, version="1"))
    one = (ALL[0], *(listed(pod, started=False) for pod in PODS[1:]))
    assert decide(standing(one, PODS[:1], record=founding)).step is None
    # A voter that never started acknowledged nothing; it needs no replacement.
    assert decide(standing(two, PODS[:2])).step == Write(Record(open_for=LOST, version="7"))


def test_no_member_that_has_started_finds_its_name_in_a_record_that_is_not_its_own() -> None:
    founding = memberrecord.data(SPEC, Record(founding=True))
    assert founding["state"] == "new"
    assert all(f"{pod}={URLS[pod]}" in founding["cluster"].split(",") for pod in PODS)
    closed = memberrecord.data(SPEC, Record())
    opened = memberrecord.data(SPEC, Record(open_for=LOST))
    assert closed["state"] == opened["state"] == "existing"
    names = {
        text: [entry.partition("=")[0] for entry in data["cluster"].split(",")] for text, data in (("c", closed), ("o", opened))
    }
    assert not set(names["c"]) & set(PODS)
    assert set(names["o"]) & set(PODS) == {LOST}
    # etcd wants the URLs of the whole cluster.
    assert {entry.partition("=")[2] for entry in opened["cluster"].split(",")} == set(URLS.values())


@pytest.mark.parametrize("record", [Record(founding=True), Record(), Record(open_for=LOST)])
def test_a_record_is_read_as_it_was_written(record: Record) -> None:
    written = memberrecord.config_map(SPEC, record)
    written["metadata"]["resourceVersion"] = "5"
    assert memberrecord.read(written) == replace(record, version="5")


def test_a_damaged_record_is_closed() -> None:
    for found in ({}, {"data": None}, {"data": {"state": "New"}}, {"data": {"open": 7}}):
        assert memberrecord.read(found).closed


REFUSAL = '{"msg":"discovery failed","error":"error setting up initial cluster: couldn\'t find local name \\"plane-2\\" in the'


def test_only_etcds_own_refusal_shows_that_a_volume_is_lost() -> None:
    assert is_refusal("plane-2", REFUSAL)
    assert not is_refusal("plane-1", REFUSAL)
    ended = {"terminated": {"exitCode": 1, "message": REFUSAL}}

    def pod(state: object, last: object = None, name: str = "etcd") -> dict[str, object]:
        return {
            "metadata": {"name": "plane-2"},
            "status": {"containerStatuses": [{"name": name, "state": state, "lastState": last}]},
        }

    assert refused(pod(ended))
    assert refused(pod({"waiting": {"reason": "CrashLoopBackOff"}}, ended))
    assert not refused(pod({"running": {}}, ended)), "it runs now"
    assert tries(pod({"running": {}}, ended))
    assert not refused(pod({"terminated": {"message": "panic: tocommit"}}, ended)), "it ended for another reason since"
    assert not refused(pod(ended, name="kube-apiserver"))
    assert not refused({"metadata": {"name": "plane-2"}})


ONLY = Listed("id", PODS[0], "https://127.0.0.1:2380")


def growing(*, alone: bool = True, tries: tuple[str, ...] = PODS[1:], room: int = 2048, only: Listed = ONLY) -> Decision:
    """A plane of one member that is to have three."""
    pods = {pod: Pod(pod, f"uid-{pod}", tries=pod in tries, capacity=room * MIB) for pod in PODS}
    pods[PODS[0]] = replace(pods[PODS[0]], alone=alone)
    return decide(Standing(URLS, CLOSED, pods, {PODS[0]: (only,)}, size=100 * MIB))


def test_the_only_member_starts_again_once_both_others_have_started_and_have_room() -> None:
    assert growing(tries=PODS[2:]).step is None
    assert "waits until the pod plane-1 has started" in growing(tries=PODS[2:]).growing
    assert growing(room=100).step is None
    assert "plane-1 cannot join: its new volume of 100Mi is too small: 456Mi are needed" in growing(room=100).growing
    assert growing().step == Restart(PODS[0], f"uid-{PODS[0]}")


def test_its_url_is_told_only_once_peers_can_reach_it_and_then_members_are_added() -> None:
    assert growing(alone=False).step == Move(PODS[0], ONLY, URLS[PODS[0]])
    moved = replace(ONLY, peer_url=URLS[PODS[0]])
    assert growing(alone=False, only=moved).step == Add(PODS[1], URLS[PODS[1]])


def test_an_open_record_names_the_pods_without_a_member() -> None:
    members = (ALL[0], listed(PODS[1], started=False, learner=True))
    assert decide(standing(members, PODS[:1])).step == Write(Record(open_for=PODS[1], without=PODS[2:], version="7"))
