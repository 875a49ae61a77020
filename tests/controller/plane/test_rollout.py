"""Which pod of a plane of three starts again with a changed template, and when none does."""

from dataclasses import replace

import pytest

from controller.plane import memberrecord
from controller.plane.memberrecord import Record, Recovery
from controller.plane.membership import Claim, Decision, Evict, Listed, Pod, Restart, Standing
from controller.plane.rollout import decide
from tests.kit.tenantsamples import plane_spec

SPEC = plane_spec(control_plane={"replicas": 3})
PODS = memberrecord.pods_of(SPEC)
FIRST, SECOND, THIRD = PODS
URLS = {pod: memberrecord.peer_url(SPEC, pod) for pod in PODS}
ALL = tuple(Listed(f"{number}", pod, URLS[pod]) for number, pod in enumerate(PODS))


def standing(outdated: tuple[str, ...] = PODS, away: tuple[str, ...] = (), **more: object) -> Standing:
    """A plane whose pods in `away` are not ready and do not answer."""
    there = [pod for pod in PODS if pod not in away]
    pods = {pod: Pod(pod, f"uid-{pod}", outdated=pod in outdated, ready=pod in there) for pod in PODS}
    lists = dict.fromkeys(there, ALL) if len(there) > 1 else {}
    found = Standing(URLS, Record(), pods, lists, dict.fromkeys(there, 7), tuple(Claim(pod, "claim") for pod in PODS))
    return replace(found, **more)  # type: ignore[arg-type]


def test_pods_of_the_present_template_are_left_alone() -> None:
    assert decide(standing(())) == Decision()
    assert decide(standing((), (THIRD,))) == Decision()


def test_one_pod_at_a_time_the_highest_first() -> None:
    assert decide(standing()).step == Evict(THIRD, f"uid-{THIRD}")
    assert decide(standing((FIRST, SECOND))).step == Evict(SECOND, f"uid-{SECOND}")
    assert decide(standing((FIRST,))).step == Evict(FIRST, f"uid-{FIRST}")


@pytest.mark.parametrize("away", PODS)
def test_no_member_goes_while_another_one_is_away(away: str) -> None:
    outdated = tuple(pod for pod in PODS if pod != away)
    found = decide(standing(outdated, (away,)))
    assert found.step is None
    assert found.rolling == f"{' and '.join(outdated)} start again with the present settings once every member answers"


@pytest.mark.parametrize("away", PODS)
def test_a_pod_that_serves_nothing_gets_the_present_template_at_once(away: str) -> None:
    assert decide(standing(PODS, (away,))).step == Restart(away, f"uid-{away}")
    # Two are down because of the template: a corrected one has to reach them.
    others = tuple(pod for pod in PODS if pod != away)
    assert isinstance(decide(standing(PODS, others)).step, Restart)
    assert isinstance(decide(standing(PODS, PODS, record=Record(founding=True))).step, Restart)


def test_a_pod_that_answers_or_is_ready_serves() -> None:
    """The controller may be cut off from members that serve, and a kubelet may be late."""
    silent = standing(PODS, lists={}, heard={})
    assert decide(silent).step is None
    assert "once every member answers" in decide(silent).rolling
    unready = standing((THIRD,))
    unready = replace(unready, pods={**unready.pods, THIRD: replace(unready.pods[THIRD], ready=False)})
    assert decide(unready).step is None


def test_a_member_that_learns_or_is_missing_is_waited_for() -> None:
    learns = (*ALL[:2], replace(ALL[2], learner=True))
    assert not isinstance(decide(standing((FIRST,), lists=dict.fromkeys(PODS[:2], learns))).step, Evict)
    gone = standing((FIRST,))
    assert decide(replace(gone, pods={pod: gone.pods[pod] for pod in (FIRST, SECOND)})).step is None


def test_members_that_do_not_agree_who_belongs_to_them_are_left_alone() -> None:
    others = tuple(replace(member, id=f"{member.id}0") for member in ALL)
    found = decide(standing(PODS, lists={FIRST: ALL, SECOND: ALL, THIRD: others}))
    assert found.step is None
    assert "once every member answers" in found.rolling


def test_a_recovery_and_members_that_differ_come_first() -> None:
    recovers = standing(PODS, (FIRST, SECOND), record=Record(recovery=Recovery(THIRD, former="uid")))
    assert decide(recovers).rolling == ""
    # It waits for the member that was chosen, and no pod is ended meanwhile.
    waits = decide(standing(PODS, PODS, record=Record(recovery=Recovery(THIRD))))
    assert (waits.step, waits.rolling) == (None, "")
    assert "waits until plane-2 answers" in waits.recovering
    assert decide(standing(PODS, corrupt=("0",))).rolling == ""


def test_the_only_member_of_a_plane_that_grows_is_not_the_rollouts() -> None:
    found = standing((FIRST,))
    assert decide(replace(found, pods={**found.pods, FIRST: replace(found.pods[FIRST], alone=True)})).step is None


def test_a_pod_is_outdated_only_if_both_revisions_are_known() -> None:
    made = {"metadata": {"generation": 4}, "status": {"observedGeneration": 4, "updateRevision": "plane-b"}}
    assert memberrecord.revision(made) == "plane-b"
    assert memberrecord.revision({"metadata": {"generation": 5}, "status": made["status"]}) == "", "not seen yet"
    assert memberrecord.revision(None) == ""
    pod = {"metadata": {"name": FIRST, "labels": {"controller-revision-hash": "plane-a"}}}
    assert memberrecord.is_outdated(pod, "plane-b")
    assert not memberrecord.is_outdated(pod, "plane-a")
    assert not memberrecord.is_outdated(pod, "")
    assert not memberrecord.is_outdated({"metadata": {"name": FIRST}}, "plane-b")
