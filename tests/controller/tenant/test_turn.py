"""The facets of a tenant: their order, what holds one up, and the way of a Tenant to its one status."""

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest

from bulkhead.api.conditions import ConditionType, Reason
from bulkhead.kube.client import Client
from bulkhead.kube.errors import Forbidden, Unavailable
from bulkhead.kube.kubeconfig import KubeConfig
from controller.__main__ import Controller
from controller.pki.material import KeysLostError
from controller.refusal import Refusal
from controller.settings import Settings
from controller.tenant import consists, running, status
from controller.tenant.apply import Outdated
from controller.tenant.consists import FACETS, in_order
from controller.tenant.facets.quota.facet import Quota
from controller.tenant.status import Ended, Report
from controller.tenant.turn import Facet, Turn
from controller.verdict import Verdict
from tests.kit.tenantsamples import NOW, plane_spec, tenant

ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True, slots=True)
class Done:
    """What a facet of these tests makes."""

    by: str


@dataclass(frozen=True, slots=True)
class Later(Done):
    """What the last one makes."""


@dataclass
class Step(Facet):
    """A facet that remembers that it acted, or fails."""

    name: ClassVar[str] = "step"
    of: str
    acted: list[str]
    fails: BaseException | None = None
    needs: tuple[type, ...] = ()  # type: ignore[misc]
    in_any_case: bool = False  # type: ignore[misc]
    makes: object = field(default_factory=lambda: Done("a step"))

    async def reconcile(self, turn: Turn) -> Turn:
        self.acted.append(self.of)
        if self.fails is not None:
            raise self.fails
        return turn.plus(self.makes)


def turn() -> Turn:
    return Turn(cast("Any", SimpleNamespace(tenant=tenant())), cast("Any", SimpleNamespace(held=None)), plane_spec())


async def ran(*steps: tuple[str, dict[str, Any]]) -> tuple[list[str], Refusal | None]:
    acted: list[str] = []
    _, failure = await running.run([Step(name, acted, **settings) for name, settings in steps], turn())
    return acted, failure


FAILURES: list[tuple[BaseException, Reason]] = [
    (Unavailable(503, "Unavailable", "no"), Reason.HOST_UNAVAILABLE),
    (Forbidden(403, "Forbidden", "no"), Reason.HOST_REFUSED),
    (TimeoutError("late"), Reason.HOST_UNAVAILABLE),
    (KeysLostError("gone"), Reason.KEYS_LOST),
]


@pytest.mark.parametrize(("error", "reason"), FAILURES, ids=[type(each).__name__ for each, _ in FAILURES])
async def test_after_a_failure_only_those_act_that_do_in_any_case(error: BaseException, reason: Reason) -> None:
    acted, failure = await ran(("a", {}), ("b", {"fails": error}), ("c", {}), ("d", {"in_any_case": True}))
    assert acted == ["a", "b", "d"]
    assert failure is not None
    assert failure.reason is reason


async def test_the_first_failure_counts() -> None:
    first, second = Forbidden(403, "Forbidden", "first"), Unavailable(503, "Unavailable", "second")
    _, failure = await ran(("a", {"fails": first}), ("b", {"fails": second, "in_any_case": True}))
    assert failure is not None
    assert failure.reason is Reason.HOST_REFUSED


async def test_a_facet_does_not_act_without_what_it_needs() -> None:
    later = {"needs": (Later,)}
    assert (await ran(("a", {}), ("b", later)))[0] == ["a"]
    assert (await ran(("a", {"makes": Later("a")}), ("b", later)))[0] == ["a", "b"]
    # In any case is not without it either.
    assert (await ran(("a", {}), ("b", later | {"in_any_case": True})))[0] == ["a"]


async def test_where_keys_exist_that_were_not_observed_nothing_more_is_decided() -> None:
    acted: list[str] = []
    steps = [Step("a", acted, fails=Outdated("keys")), Step("b", acted, in_any_case=True)]
    with pytest.raises(Outdated):
        await running.run(steps, turn())
    assert acted == ["a"]


def test_the_latest_of_what_was_made_counts_and_what_is_missing_is_named() -> None:
    made = turn().plus(Done("first"), None, Done("second"))
    assert made.need(Done) == Done("second")
    assert made.of(Later) is None
    assert len(made.made) == 2
    with pytest.raises(LookupError, match="no facet before this one made a Later"):
        made.need(Later)


def test_a_tenant_consists_of_what_the_tuple_says_in_its_order() -> None:
    assert len({facet.name for facet in FACETS}) == len(FACETS)
    some = consists.built_in(cast("Any", _Anything()))
    assert [type(facet) for facet in in_order(reversed(some))] == [kind for kind in FACETS if kind in map(type, some)]
    with pytest.raises(ValueError, match="add Facet to FACETS"):
        in_order([Quota(), Facet()])


class _Anything:
    def __getattr__(self, name: str) -> Any:
        return None


async def test_the_process_offers_every_facet() -> None:
    client = Client(KubeConfig(server="https://127.0.0.1:1"), user_agent="test", field_manager="test")
    controller = Controller(client, KubeConfig(server="https://127.0.0.1:1"), Settings())
    assert [type(facet) for facet in controller._workers._reconciler._facets] == list(FACETS)


def report(**changes: Any) -> Report:
    return Report(conditions={ConditionType.QUOTA_APPLIED: Verdict("True", Reason.APPLIED, "yes")}, **changes)


def ready(reports: Sequence[Report], ended: Ended | None = None) -> tuple[str, str]:
    made = status.fold(tenant(), reports, ended or Ended(), NOW)
    found = next(each for each in made["conditions"] if each["type"] == "Ready")
    return found["reason"], found["message"]


LOST, STUCK, PART = (Verdict("False", reason, reason) for reason in (Reason.DATA_LOST, Reason.HOST_REFUSED, Reason.CRASHING))
BOUNDS = Refusal(Reason.OUT_OF_BOUNDS, "no")


def test_ready_says_the_gravest_first() -> None:
    part = Report({ConditionType.SLURM_READY: PART}, needed=(ConditionType.SLURM_READY,))
    stuck, lost = report(stuck=STUCK), report(alarm=LOST)
    assert ready([part])[0] == Reason.CRASHING
    assert ready([part, stuck])[0] == Reason.HOST_REFUSED
    assert ready([part, stuck], Ended(failure=Refusal(Reason.HOST_UNAVAILABLE, "away")))[0] == Reason.HOST_UNAVAILABLE
    assert ready([part, stuck], Ended(held=BOUNDS, failure=Refusal(Reason.HOST_UNAVAILABLE, "away")))[0] == Reason.OUT_OF_BOUNDS
    assert ready([part, stuck, lost], Ended(held=BOUNDS))[0] == Reason.DATA_LOST
    assert ready([report(remarks=("members",)), report(remarks=("refused", "more"))]) == (
        Reason.READY,
        f"{status.READY}; refused; more; members",
    )


def test_the_earliest_look_that_a_facet_asks_for_counts() -> None:
    assert status.again([report(), report(again=30), report(again=15)]) == 15
    assert status.again([report()]) is None


# From the handler to the write of the status, with every function that hands the Tenant on.
TRIP = {
    "controller/handlers.py": ("tenant",),
    "controller/worker.py": ("_work", "_reconcile"),
    "controller/tenant/reconcile.py": ("reconcile", "_look_after", "_build", "_turn"),
    "controller/tenant/admitting.py": ("admit",),
    "controller/tenant/running.py": ("run",),
    "controller/tenant/status.py": ("fold",),
    "controller/tenant/report.py": ("report",),
}


def test_the_trip_of_a_tenant_ends_in_few_places() -> None:
    returns = 0
    for path, names in TRIP.items():
        found = [
            node
            for node in ast.walk(ast.parse((ROOT / path).read_text()))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name in names
        ]
        assert {each.name for each in found} == set(names), path
        returns += sum(isinstance(node, ast.Return) for each in found for node in ast.walk(each))
    assert returns <= 8, returns
