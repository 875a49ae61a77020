"""What a Tenant says while a member of its plane is missing."""

from bulkhead.api.conditions import ConditionType, Reason
from controller.plane.memberrecord import Record
from controller.plane.membership import Decision, Listed, Promote, Standing
from controller.tenant.facets.members.report import report

PODS = ("plane-0", "plane-1", "plane-2")
URLS = {pod: f"https://{pod}:2380" for pod in PODS}
LISTED = tuple(Listed(f"id-{pod}", pod, url) for pod, url in URLS.items())


def standing(answer: tuple[str, ...] = PODS[:2], *, founding: bool = False) -> Standing:
    return Standing(URLS, Record(founding=founding), lists=dict.fromkeys(answer, LISTED))


def test_a_plane_of_one_member_says_nothing() -> None:
    assert report(None, None, "").conditions == {ConditionType.DEGRADED: None}


def test_a_whole_plane_says_nothing_and_is_looked_at_as_usual() -> None:
    found = report(standing(PODS), Decision(), "")
    assert (found.conditions, found.again) == ({ConditionType.DEGRADED: None}, None)


def test_each_state_has_its_reason() -> None:
    states = {
        Reason.MEMBERS_DOWN: (Decision(), "plane-2 of 3 members do not answer"),
        Reason.MEMBER_REPLACED: (Decision(Promote("plane-2", LISTED[2]), replacing="plane-2"), "plane-2"),
        Reason.MEMBER_LOST: (Decision(trouble="plane-2 has lost its volume, and its new volume is not bound yet"), "plane-2"),
    }
    for reason, (decision, down) in states.items():
        verdict = report(standing(), decision, down).conditions[ConditionType.DEGRADED]
        assert verdict is not None
        assert (verdict.status, verdict.reason) == ("True", reason)
        assert "plane-2" in verdict.message


def test_a_plane_is_ready_without_its_third_member() -> None:
    assert report(standing(), Decision(), "plane-2 is down").needed == ()


def test_while_members_elect_a_leader_what_was_said_stays() -> None:
    found = report(standing(PODS[:1]), Decision(trouble="no leader"), "plane-1 and plane-2")
    assert found.conditions == {}
    assert found.again is not None


def test_a_plane_that_is_being_founded_is_looked_at_soon_and_not_called_replaced() -> None:
    found = report(standing(founding=True), Decision(replacing="plane-2"), "")
    assert found.conditions == {ConditionType.DEGRADED: None}
    assert found.again is not None
    assert found.again <= 5


def test_a_member_that_is_added_on_a_silent_node_has_what_to_type() -> None:
    gone = "plane-2 is on node w3, which does not answer"
    waits = report(standing(), Decision(replacing="plane-2"), "", gone).conditions[ConditionType.DEGRADED]
    assert waits is not None
    assert (waits.reason, waits.message.endswith(gone)) == (Reason.MEMBER_REPLACED, True)
    step = Decision(Promote("plane-2", LISTED[2]), replacing="plane-2")
    goes_on = report(standing(), step, "", gone).conditions[ConditionType.DEGRADED]
    assert goes_on is not None
    assert gone not in goes_on.message
