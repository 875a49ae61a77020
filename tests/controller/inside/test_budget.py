"""What planes may take of the controller's memory: one of them, and all together."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube.errors import Forbidden, NotFound, TooLarge, Unavailable
from bulkhead.kube.objects import Resource
from bulkhead.work.clock import SystemClock
from controller.inside.access import PlaneAccess
from controller.inside.budget import Budget
from tests.kit.tenantsamples import plane_spec


async def test_a_plane_takes_its_own_bound_and_no_more() -> None:
    budget = Budget(total=1000, each=100)
    async with budget.turn("a", 5) as turn:
        turn.charge(60)
        with pytest.raises(TooLarge, match="more than 100 bytes"):
            turn.charge(41)
        async with budget.turn("a", 5) as second:
            with pytest.raises(TooLarge, match="more than 100 bytes"):
                second.charge(41)
        turn.release(60)
        turn.charge(100)
    assert budget.held == 0


async def test_together_the_largest_goes_and_the_small_ones_are_served() -> None:
    budget = Budget(total=300, each=200)
    full, ended = asyncio.Event(), asyncio.Event()

    async def greedy() -> None:
        async with budget.turn("greedy", 5) as turn:
            turn.charge(200)
            full.set()
            await ended.wait()

    task = asyncio.create_task(greedy())
    await full.wait()
    async with budget.turn("modest", 5) as turn:
        turn.charge(90)
        assert budget.held == 290
        turn.charge(20)
        assert budget.held == 110
        with pytest.raises(TooLarge, match="those of this plane need the most"):
            await task
        # Its own loss did not free the room twice.
        assert budget.held == 110
    assert (budget.held, budget.most) == (0, 290)


async def test_the_plane_that_would_be_the_largest_is_refused_itself() -> None:
    budget = Budget(total=300, each=300)
    async with budget.turn("a", 5) as one, budget.turn("b", 5) as other:
        one.charge(100)
        with pytest.raises(TooLarge, match="those of this plane need the most"):
            other.charge(250)
        other.charge(150)
        assert budget.held == 250


async def test_past_its_deadline_a_turn_is_over() -> None:
    budget = Budget()

    async def waiting() -> None:
        async with budget.turn("a", 0.01) as turn:
            turn.charge(5)
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        await waiting()
    assert budget.held == 0


@contextmanager
def _no_spin(seconds: float = 10) -> Iterator[None]:
    """Break a loop that never awaits, which no deadline of asyncio's can."""

    def stop(*_: object) -> None:
        pytest.fail("it spins")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


async def test_a_turn_that_was_left_takes_nothing_more() -> None:
    budget = Budget(total=300, each=200)
    async with budget.turn("a", 5) as turn:
        turn.charge(100)
    for charge in (turn.charge, turn.arrived):
        with pytest.raises(TooLarge, match="ended"):
            charge(1)
    assert (budget.held, turn.read) == (0, 0)


async def test_where_no_turn_can_be_ended_the_asker_is_refused_and_nobody_spins() -> None:
    budget = Budget(total=300, each=250)
    async with budget.turn("fat", 5) as left:
        pass
    # Past the turn's own check: the plane that holds the most has no turn that could release it.
    budget.charge(left, 250)
    async with budget.turn("modest", 5) as turn:
        turn.charge(40)
        with _no_spin(), pytest.raises(TooLarge, match="more than 300 bytes"):
            turn.charge(20)
        assert budget.held == 290


async def test_a_turn_past_its_deadline_is_ended_without_harm_to_the_other() -> None:
    budget = Budget(total=300, each=200)
    late, leaving = asyncio.Event(), asyncio.Event()

    async def fat() -> None:
        async with budget.turn("fat", 0.01) as turn:
            turn.charge(200)
            try:
                await asyncio.Event().wait()
            finally:
                late.set()
                await leaving.wait()

    task = asyncio.create_task(fat())
    await late.wait()
    async with budget.turn("modest", 5) as turn:
        turn.charge(90)
        turn.charge(20)
        assert budget.held == 110
        leaving.set()
        with pytest.raises(TooLarge, match="those of this plane need the most"):
            await task
        assert budget.held == 110
    assert budget.held == 0


async def test_what_is_put_into_a_plane_is_through_before_its_turn_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    through: list[str] = []

    class Slow:
        def __init__(self, client: object, turn: Any) -> None:
            self._turn = turn

        async def apply(self, r: Resource, obj: Obj) -> None:
            name = obj["metadata"]["name"]
            if name.startswith("refused"):
                raise Forbidden(403, "Forbidden", name)
            for _ in range(20):
                await asyncio.sleep(0)
            self._turn.charge(1)
            through.append(name)

    monkeypatch.setattr("controller.inside.access.Plane", Slow)
    budget, spec = Budget(), plane_spec()
    access = PlaneAccess(SystemClock(), lambda _: None, budget)
    monkeypatch.setitem(access._connections, spec.tenant, type("Connection", (), {"client": None}))
    objects = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}} for name in ("refused", "a", "refused-too", "b")
    ]
    with pytest.raises(Forbidden, match=r"refused$"):
        await access.bootstrap(spec, objects)
    assert through == ["a", "b"]
    assert budget.held == 0


async def test_a_definition_that_a_plane_refuses_keeps_nothing_else_back_and_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was not written must not be remembered as done."""
    through: list[str] = []

    class Refusing:
        def __init__(self, _client: object, _turn: object) -> None:
            self.refuses = refuses

        async def get(self, r: Resource, _name: str, **_: object) -> object:
            if r.kind == "CustomResourceDefinition":
                raise Unavailable(503, "", "starts") if self.refuses else NotFound(404, "NotFound", "")
            return SimpleNamespace(metadata=SimpleNamespace(uid="u"))

        async def apply(self, _r: Resource, obj: Obj) -> None:
            through.append(obj["metadata"]["name"])

        async def create(self, _r: Resource, obj: Obj) -> None:
            through.append(obj["metadata"]["name"])

    monkeypatch.setattr("controller.inside.access.Plane", Refusing)
    spec = plane_spec()
    access = PlaneAccess(SystemClock(), lambda _: None, Budget())
    monkeypatch.setitem(access._connections, spec.tenant, type("Connection", (), {"client": None}))
    kinds: list[Obj] = [
        {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "a"}, "spec": {}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}},
    ]
    refuses = True
    assert await access.bootstrap(spec, kinds) == ("u", False)
    assert through == ["b"]
    refuses = False
    assert await access.bootstrap(spec, kinds) == ("u", True)
    assert sorted(through) == ["a", "b", "b"]


@pytest.mark.parametrize("there", [True, False])
async def test_a_plane_lacks_the_account_that_every_pod_names_until_it_is_made(
    monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    class Asked:
        def __init__(self, _client: object, _turn: object) -> None:
            """Only the account is asked for."""

        async def get(self, r: Resource, name: str, namespace: str, **_: object) -> None:
            assert (r.kind, name, namespace) == ("ServiceAccount", "default", "default")
            if not there:
                raise NotFound(404, "NotFound", "")

    monkeypatch.setattr("controller.inside.access.Plane", Asked)
    spec = plane_spec()
    access = PlaneAccess(SystemClock(), lambda _: None, Budget())
    monkeypatch.setitem(access._connections, spec.tenant, type("Connection", (), {"client": None}))
    assert (await access.lacks(spec) == "") is there
