"""Members whose node is gone: which those are, how they are reported, and what a plane of three does."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from controller.plane import stranded
from controller.plane.memberrecord import Record
from controller.plane.membership import Claim, Decision, Discard, Listed, Pod, Remove, Restart, Write, decide
from controller.plane.stranded import Stranded, Strandings, is_away, node_of
from tests.controller.plane.test_membership import ALL, CLOSED, LOST, PODS, TWO, listed, standing

OLD = "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had volume node affinity conflict."
NEW = "0/3 nodes are available: 3 node(s) didn't match PersistentVolume's node affinity. preemption: not helpful"
CLAIM = {"metadata": {"name": f"data-{LOST}", "annotations": {"volume.kubernetes.io/selected-node": "w3"}}}
TAKEN = datetime(2026, 6, 1, 12, tzinfo=UTC)
CLAIMS = tuple(Claim(pod, f"claim-{pod}") for pod in PODS)
ENDING = (*CLAIMS[:2], replace(CLAIMS[2], ends=True))


def pod(message: str = "", node: str = "") -> dict[str, object]:
    unplaced = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return {"metadata": {"name": LOST}, "spec": {"nodeName": node} if node else {}, "status": {"conditions": [unplaced]}}


@pytest.mark.parametrize("message", [OLD, NEW])
def test_a_pod_whose_volume_is_elsewhere_depends_on_that_node(message: str) -> None:
    assert node_of(pod(message), CLAIM) == ("w3", True)
    assert node_of(pod(message), None) == ("", False)
    assert node_of(pod(message), {"metadata": {}}) == ("", False)


def test_a_pod_that_may_run_elsewhere_depends_on_no_node() -> None:
    assert node_of(pod("0/3 nodes are available: 3 Insufficient cpu."), CLAIM) == ("", False)
    assert node_of(pod(OLD, node="w1"), CLAIM) == ("w1", False)
    assert node_of({}, CLAIM) == ("", False)


@pytest.mark.parametrize("name", ["w3,metadata.name=w1", "W3", "", "w" * 300])
def test_no_name_but_a_nodes_is_asked_for(name: str) -> None:
    claim = {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": name}}}
    assert node_of(pod(OLD), claim) == ("", False)
    assert node_of(pod(node=name), None) == ("", False)


def test_a_node_is_away_if_it_is_not_there_or_not_ready() -> None:
    assert is_away([])
    assert is_away([{"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}])
    assert not is_away([{"status": {"conditions": [{"type": "Ready", "status": "True"}]}}])


def test_a_node_that_is_away_answers_if_its_kubelet_says_that_it_is_not_ready() -> None:
    assert not stranded.answers([])
    for status, says in (("Unknown", False), ("False", True)):
        assert stranded.answers([{"status": {"conditions": [{"type": "Ready", "status": status}]}}]) is says


def test_no_pod_is_deleted_by_force_while_its_kubelet_answers() -> None:
    found = Strandings((Stranded("plane-0", "w1", exists=True, has_volume=False, answers=True),))
    for words in (stranded.of_the_only("red", "bh-red", found), stranded.of_several("bh-red", found)):
        assert words.startswith("plane-0 is on node w1, which is not ready")
        assert words.endswith("if its volume can be reached from there: kubectl delete pod plane-0 -n bh-red")


def test_of_the_only_member_the_last_snapshot_is_offered() -> None:
    lost = Strandings((Stranded("plane-0", "w3", exists=False, has_volume=True),), "red-1", TAKEN)
    words = stranded.of_the_only("red", "bh-red", lost)
    assert words.startswith("the volume of plane-0 is on node w3, which no longer exists. Bring the node back")
    assert "the last whole snapshot is red-1 of 2026-06-01T12:00:00Z" in words
    assert words.endswith("then bulkhead tenant restore red --from red-1 --key FILE")
    without = stranded.of_the_only("red", "bh-red", replace(lost, snapshot="", taken=None))
    assert "there is no whole snapshot of it" in without
    assert "restore" not in without
    bound = Strandings((Stranded("plane-0", "w3", exists=True, has_volume=False),), "red-1", TAKEN)
    assert "restore" not in stranded.of_the_only("red", "bh-red", bound), "its volume may be reached from elsewhere"
    assert "kubectl delete pod plane-0 -n bh-red --grace-period=0 --force" in stranded.of_the_only("red", "bh-red", bound)
    assert stranded.of_the_only("red", "bh-red", Strandings()) == ""


def gone(pods: tuple[str, ...] = (LOST,)) -> dict[str, Pod]:
    return {name: Pod(name, f"uid-{name}", stranded="w3" if name in pods else "") for name in PODS}


ADDED = (*TWO, listed(LOST, started=False, learner=True, id_="new"))
OPEN = Record(open_for=LOST, version="8")


def test_a_member_that_was_being_added_is_added_again_with_another_volume() -> None:
    """The record is open: its claim goes only after the member, since an empty volume could start under its ID until then."""
    found = standing(ADDED, PODS[:2], pods=gone(), claims=CLAIMS, record=OPEN)
    assert decide(found).step == Remove(LOST, ADDED[2], "gone")
    assert "was on node w3, which no longer exists, before its member had started; it is added again" in decide(found).moving
    removed = replace(found, lists=dict.fromkeys(PODS[:2], TWO))
    assert decide(removed).step == Write(Record(version="8"))
    closed = replace(removed, record=CLOSED)
    assert decide(closed).step == Discard(CLAIMS[2])
    assert decide(replace(closed, claims=CLAIMS[:2])).step == Restart(LOST, f"uid-{LOST}")


def test_a_member_that_was_being_added_and_whose_claim_is_gone_is_added_again() -> None:
    pods = {name: Pod(name, f"uid-{name}", on_node=name != LOST) for name in PODS}
    found = standing(ADDED, PODS[:2], pods=pods, claims=CLAIMS[:2], record=OPEN)
    assert decide(found).step == Remove(LOST, ADDED[2], "gone")
    assert "plane-2 waits for a volume that is gone; it is added again" in decide(found).moving
    # With a claim it waits for a node, and with a node for its etcd.
    assert decide(replace(found, claims=CLAIMS)) == Decision(replacing=LOST)
    there = {name: Pod(name, f"uid-{name}") for name in PODS}
    assert decide(replace(found, pods=there)) == Decision(replacing=LOST)


def test_a_voter_that_was_being_added_is_given_up_only_if_all_others_answer() -> None:
    """The third of a plane that was founded by two is a voter before it has started."""
    voter = (*TWO, listed(LOST, started=False))
    found = standing(voter, PODS[:2], pods=gone(), claims=CLAIMS, record=OPEN)
    assert decide(found).step == Remove(LOST, voter[2], "gone")
    four = (*voter, Listed("id-4", "plane-3", "https://elsewhere:2380"))
    waits = decide(replace(found, lists=dict.fromkeys((*PODS[:2], "plane-9"), (*four, listed("plane-0", id_="id-5")))))
    assert waits.step is None
    assert "replaced once every other member answers" in waits.trouble
    # One that answers has its volume.
    assert decide(replace(found, lists=dict.fromkeys(PODS, voter))) == Decision(replacing=LOST)


def test_a_member_whose_node_was_deleted_gets_another_volume() -> None:
    found = standing(answer=PODS[:2], pods=gone(), claims=CLAIMS)
    assert decide(found).step == Discard(CLAIMS[2])
    assert "was on node w3, which no longer exists; it gets another one" in decide(found).moving
    assert decide(replace(found, claims=ENDING)).step == Restart(LOST, f"uid-{LOST}")
    # The claim of a pod without a node goes at once.
    assert decide(replace(found, claims=CLAIMS[:2])).step == Restart(LOST, f"uid-{LOST}")
    removed = standing(TWO, PODS[:2], pods=gone(), claims=CLAIMS)
    assert decide(removed).step == Discard(CLAIMS[2])


def test_a_pod_that_waits_for_a_claim_that_is_gone_is_made_again() -> None:
    pods = {name: Pod(name, f"uid-{name}", on_node=name != LOST) for name in PODS}
    bare = standing(answer=PODS[:2], pods=pods, claims=CLAIMS[:2])
    assert decide(bare).step == Restart(LOST, f"uid-{LOST}")
    assert "waits for a volume that is gone" in decide(bare).moving
    assert decide(replace(bare, claims=CLAIMS)).step is None, "the scheduler has not chosen a node yet"


def test_no_volume_is_given_up_while_another_member_is_away() -> None:
    one = standing(answer=PODS[:1], pods=gone(), claims=CLAIMS)
    assert decide(one).step is None
    learns = (*ALL[:1], replace(ALL[1], learner=True), ALL[2])
    assert not isinstance(decide(standing(learns, PODS[:1], pods=gone(), claims=CLAIMS)).step, Discard)
    # A quorum with one member silent besides.
    silent = standing(answer=(PODS[0], LOST), pods=gone((PODS[1],)), lists={PODS[0]: ALL}, claims=CLAIMS)
    assert decide(silent).step is None


def test_a_member_that_answers_is_not_given_up_whatever_an_older_look_showed() -> None:
    assert decide(standing(pods=gone(), claims=CLAIMS)) == Decision()


def test_of_several_members_each_has_what_to_type() -> None:
    found = Strandings(
        (Stranded("plane-0", "w1", exists=True, has_volume=False), Stranded("plane-2", "w3", exists=True, has_volume=True))
    )
    words = stranded.of_several("bh-red", found)
    assert "plane-0 is on node w1, which does not answer; if it is off for good: kubectl delete pod plane-0" in words
    assert "if it is gone for good: kubectl delete pvc data-plane-2 -n bh-red --wait=false && kubectl delete pod" in words
    assert stranded.of_several("bh-red", Strandings()) == ""
