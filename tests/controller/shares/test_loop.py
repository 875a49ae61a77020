"""The steps of one look in their turn, with a plane that refuses some of them. No server."""

from typing import Any, cast

import pytest

from bulkhead.kube.errors import Forbidden
from controller.shares import loop
from controller.shares.content import Content
from controller.shares.decide import Create, Decision, Slot, Step
from controller.shares.loop import ShareLoops
from controller.shares.spec import Item
from tests.kit.fakeclock import FakeClock

ITEM = Item("Secret", "registry")
CONTENT = Content(ITEM, "Opaque", (), (), "digest", 0)


def creates(*namespaces: str) -> Decision:
    return Decision(tuple(Create(Slot("Secret", namespace, ITEM.name), CONTENT) for namespace in namespaces))


async def test_what_the_plane_refuses_keeps_no_other_copy_from_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenant's policy for some namespaces refused as many copies as end a look, and those after them were never made."""
    made: list[str] = []
    tried: list[str] = []

    async def do(_: object, step: Step) -> None:
        assert isinstance(step, Create)
        tried.append(step.slot.namespace)
        if step.slot.namespace in policed:
            raise Forbidden(403, "Forbidden", "a policy says no")
        made.append(step.slot.namespace)

    monkeypatch.setattr(loop.inside, "do", do)  # type: ignore[attr-defined]
    anything = cast("Any", None)
    loops, entry = ShareLoops(FakeClock(), anything, anything, anything), loop._Entry((), "")
    policed = {f"policed-{number}" for number in range(7)}
    decision = creates(*sorted(policed), "web")
    assert "a policy says no" in await loops._apply("red", entry, anything, decision)
    assert made == []
    assert len(tried) == loop._MOST_REFUSED
    assert await loops._apply("red", entry, anything, decision)
    assert made == ["web"]
    # Once it is allowed it is like any other.
    policed.clear()
    assert await loops._apply("red", entry, anything, decision) == ""
    assert entry.refused == set()


async def test_what_is_no_longer_wanted_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    async def do(_: object, __: Step) -> None:
        raise Forbidden(403, "Forbidden", "no")

    monkeypatch.setattr(loop.inside, "do", do)  # type: ignore[attr-defined]
    anything = cast("Any", None)
    loops, entry = ShareLoops(FakeClock(), anything, anything, anything), loop._Entry((), "")
    await loops._apply("red", entry, anything, creates("a", "b"))
    assert {slot.namespace for slot in entry.refused} == {"a", "b"}
    await loops._apply("red", entry, anything, creates("b"))
    assert {slot.namespace for slot in entry.refused} == {"b"}
