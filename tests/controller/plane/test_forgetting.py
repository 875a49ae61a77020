"""What is done about a member that lost what it had received while it was added, from every state."""

from dataclasses import replace

import pytest

from controller.plane.corruption import decide
from controller.plane.memberrecord import Record, Recovery, forgot, is_forgetful
from controller.plane.membership import Claim, Decision, Discard, Listed, Pod, Promote, Remove, Restart, Standing, Write
from tests.controller.plane.test_membership import ALL, LOST, MIB, PODS, TWO, listed, standing

CLAIMS = tuple(Claim(pod, f"claim-{pod}") for pod in PODS)
ENDING = (*CLAIMS[:2], replace(CLAIMS[2], ends=True))
OPEN = Record(open_for=LOST, version="8")
ADDED = listed(LOST, started=False, learner=True, id_="new")
PUBLISHED = listed(LOST, learner=True, id_="new")
LINE = '{"level":"panic","msg":"tocommit(14) is out of range [lastIndex(0)]. Was the raft log corrupted, truncated, or lost?"}'
STACK = "go.etcd.io/raft/v3.(*raftLog).commitTo(0xd361d1f3040, 0xe)\n\tgo.etcd.io/raft/v3@v3.6.0/log.go:324 +0xef"


def found(member: Listed, **more: object) -> Standing:
    pods = {pod: Pod(pod, f"uid-{pod}", capacity=2048 * MIB, forgot=pod == LOST) for pod in PODS}
    given: dict[str, object] = {"pods": pods, "claims": CLAIMS, "record": OPEN}
    return standing((*TWO, member), PODS[:2], **(given | more))


@pytest.mark.parametrize("member", [ADDED, PUBLISHED, replace(ADDED, learner=False)])
@pytest.mark.parametrize("record", [OPEN, Record()])
def test_a_member_that_forgot_before_it_voted_gets_another_volume_and_is_added_again(member: Listed, record: Record) -> None:
    first = decide(found(member, record=record))
    assert first.step == Discard(CLAIMS[2])
    assert "plane-2 has lost what it had received before it voted; it is added again" in first.moving
    assert decide(found(member, record=record, claims=ENDING)).step == Remove(LOST, member, "forgotten")


def test_its_pod_starts_again_only_once_the_record_is_closed() -> None:
    removed = found(PUBLISHED, claims=ENDING, lists=dict.fromkeys(PODS[:2], TWO))
    assert decide(removed).step == Write(Record(version="8"))
    assert decide(replace(removed, record=Record())).step == Restart(LOST, f"uid-{LOST}")


def test_a_voter_that_has_started_is_left_to_an_admin() -> None:
    assert decide(found(ALL[2])).step == Write(Record(version="8"))
    assert decide(found(ALL[2], record=Record())) == Decision()


def test_a_voter_that_never_started_goes_only_if_every_other_one_answers() -> None:
    more = (*TWO, replace(ADDED, learner=False), Listed("id-4", "plane-3", "https://elsewhere:2380"))
    five = (*more, Listed("id-5", "plane-0", "https://fifth:2380"))
    waits = decide(found(ADDED, lists=dict.fromkeys(PODS[:2], five)))
    assert waits.step is None
    assert "once every other member answers" in waits.trouble


def test_one_that_answers_is_left_alone() -> None:
    answers = found(replace(ADDED, learner=False), lists=dict.fromkeys(PODS, (*TWO, replace(ADDED, learner=False))))
    assert not isinstance(decide(answers).step, Discard | Remove)


def test_without_a_quorum_and_during_a_recovery_nothing_is_given_up() -> None:
    assert decide(found(ADDED, lists={PODS[0]: (*TWO, ADDED)})).step is None
    asked = Record(recovery=Recovery(PODS[0]), version="8")
    assert decide(found(ADDED, record=asked)).step == Write(Record(version="8"))


def test_a_learner_votes_only_once_it_answers() -> None:
    learner = found(PUBLISHED, pods={pod: Pod(pod) for pod in PODS}, record=Record())
    assert decide(learner) == Decision(replacing=LOST)
    assert decide(replace(learner, learning=(LOST,))).step == Promote(LOST, PUBLISHED)


def test_only_etcds_own_words_show_that_it_forgot() -> None:
    assert is_forgetful(LINE)
    assert is_forgetful(STACK), "what is left of a long trace"
    assert not is_forgetful("the member has been permanently removed from the cluster; tocommit is what it was asked")

    def pod(state: object, last: object = None) -> dict[str, object]:
        return {
            "metadata": {"name": LOST},
            "status": {"containerStatuses": [{"name": "etcd", "state": state, "lastState": last}]},
        }

    ended = {"terminated": {"exitCode": 2, "message": LINE}}
    assert forgot(pod(ended))
    assert forgot(pod({"waiting": {"reason": "CrashLoopBackOff"}}, ended))
    assert forgot(pod({"running": {}}, ended)), "it ends again as soon as its leader finds it"
    assert not forgot(pod({"terminated": {"message": "removed"}}, ended)), "it ended for another reason since"
    assert not forgot(pod({"running": {}}))
