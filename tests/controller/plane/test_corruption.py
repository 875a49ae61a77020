"""What is done about a member that has other data than the others, from every state that a controller may find."""

from dataclasses import replace

from controller.plane import memberrecord
from controller.plane.corruption import decide
from controller.plane.memberrecord import Record
from controller.plane.membership import Claim, Decision, Disarm, Discard, Listed, Pod, Remove, Restart, Standing
from tests.kit.tenantsamples import plane_spec

SPEC = plane_spec(control_plane={"replicas": 3})
PODS = memberrecord.pods_of(SPEC)
URLS = {pod: memberrecord.peer_url(SPEC, pod) for pod in PODS}
WRONG = PODS[2]
ALL = tuple(Listed(str(number + 1), pod, URLS[pod]) for number, pod in enumerate(PODS))
CLAIMS = tuple(Claim(pod, f"claim-{pod}") for pod in PODS)
ENDING = (*CLAIMS[:2], replace(CLAIMS[2], ends=True))


def standing(members: tuple[Listed, ...] = ALL, answer: tuple[str, ...] = PODS, **more: object) -> Standing:
    pods = {pod: Pod(pod, f"uid-{pod}") for pod in PODS}
    found = Standing(URLS, Record(), pods, dict.fromkeys(answer, members), claims=CLAIMS)
    return replace(found, **more)  # type: ignore[arg-type]


def ended() -> dict[str, Pod]:
    return {pod: Pod(pod, f"uid-{pod}", corrupt=pod == WRONG) for pod in PODS}


def test_members_that_agree_are_left_alone() -> None:
    assert decide(standing()) == Decision()


def test_a_member_with_an_alarm_goes_and_the_others_serve_before_anything_else() -> None:
    assert decide(standing(corrupt=("3",))).step == Discard(CLAIMS[2])
    assert decide(standing(corrupt=("3",), claims=ENDING)).step == Remove(WRONG, ALL[2], "other data")
    two = ALL[:2]
    assert decide(standing(two, PODS[:2], corrupt=("3",), claims=ENDING)).step == Disarm("3")
    assert decide(standing(two, PODS[:2], claims=ENDING)).step == Restart(WRONG, f"uid-{WRONG}")


def test_a_member_that_does_not_start_for_it_gets_another_volume() -> None:
    found = standing(answer=PODS[:2], pods=ended())
    assert decide(found).step == Discard(CLAIMS[2])
    assert decide(replace(found, claims=ENDING)).step == Restart(WRONG, f"uid-{WRONG}")
    # The next pod waits for its volume, or has no node yet.
    waits = ended() | {WRONG: Pod(WRONG, "uid-new", on_node=False)}
    assert decide(replace(found, claims=ENDING, pods=waits)).step is None
    removed = standing(ALL[:2], PODS[:2], claims=ENDING, pods=waits)
    assert decide(removed).step is None


def test_nothing_is_given_up_while_another_member_is_away() -> None:
    found = standing(answer=PODS[1:], corrupt=("3",))
    assert decide(found).step is None
    assert "once every other member answers" in decide(found).corrupt
    assert not isinstance(decide(standing(answer=PODS[:1], pods=ended())).step, Discard)


def test_an_alarm_without_a_member_decides_nothing() -> None:
    found = decide(standing(corrupt=("0",)))
    assert found.step is None
    assert "no majority agrees" in found.corrupt


def test_an_alarm_without_a_member_ends_once_there_is_only_one() -> None:
    one = standing(ALL[:1], PODS[:1], corrupt=("0",))
    assert decide(one).step == Disarm("0")
    assert decide(standing(ALL[:2], PODS[:2], corrupt=("0",))).step is None


def test_a_member_that_answers_has_started_whatever_an_older_look_showed() -> None:
    assert decide(standing(pods=ended())).step is None


def test_what_a_container_says_at_its_end_is_read() -> None:
    words = 'level:"fatal" error:"checkCompatibility: found data inconsistency with peers"'
    terminated = {"terminated": {"exitCode": 1, "message": words}}

    def pod(**status: object) -> dict[str, object]:
        return {"metadata": {"name": WRONG}, "status": {"containerStatuses": [{"name": "etcd", **status}]}}

    assert memberrecord.corrupt(pod(state=terminated))
    assert memberrecord.corrupt(pod(state={"waiting": {}}, lastState=terminated))
    assert not memberrecord.corrupt(pod(state={"running": {}}, lastState=terminated))
    assert not memberrecord.corrupt(pod(state={"waiting": {}}))
    assert not memberrecord.corrupt({"metadata": {"name": WRONG}})
