"""One run, from the plan to the last deletion.

    plan ──> lease, remains of dead runs ──> record ──> tenants, planes ──> prober, baseline
        ──> each experiment: record, inject, prove, lift, recover, judge ──> undo, record and lease deleted ──> Report

Whatever ends it (its last experiment, Ctrl-C, `chaos stop`, a lost lease, an error), it undoes what its record names before it
returns. If its process dies, `stop` and the next run do that.
"""

import asyncio
import contextlib
import secrets
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass
from typing import Any, Final

from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists, KubeError, NotFound
from workstation.chaos import journal, judge, measure, objects, observe, plan, report, rights, undo
from workstation.chaos.experiment import Stage, conduct
from workstation.chaos.journal import Journal
from workstation.chaos.judge import HOST, Limits
from workstation.chaos.measure import Api, Samples
from workstation.chaos.plan import MAX_RUN_SECONDS, Order, Plan, Refused
from workstation.chaos.planes import Planes, Unreached
from workstation.chaos.record import HOST_KIND, Entry, Record
from workstation.chaos.report import Outcome, Report
from workstation.chaos.undo import Say

_READY_SECONDS: Final = 300.0
_POLL_SECONDS: Final = 0.5
_OPEN_TRIES: Final = 20
_SETTLE_SECONDS: Final = 2.0
# Planes that have just become Ready may still be busy with themselves.
_BASELINES: Final = 3


class Stopped(Exception):  # noqa: N818 - reads as a sentence: except Stopped
    """The run cannot go on; the text says why."""


@dataclass(frozen=True, slots=True)
class Ground:
    """Where a run works: the host, the namespace of its record, and the way into planes."""

    host: Client
    planes: Planes
    namespace: str
    say: Say


async def prepare(ground: Ground, order: Order) -> Plan:
    """What a run would do. Reads only. Raises Refused and KubeError."""
    facts = await observe.facts(ground.host, ground.namespace)
    made = plan.plan(order, facts, f"chaos-{secrets.token_hex(3)}")
    lacking = await rights.lacking(ground.host, made, ground.namespace)
    if lacking:
        cause = f"this kubeconfig may not {', '.join(map(str, lacking))}"
        if order.acts:
            raise Refused(cause, "ask an admin of the host for ClusterRole bulkhead-chaos, as docs/chaos.md has it")
        ground.say(f"{cause}: with --yes the run is refused")
    return made


async def run(ground: Ground, made: Plan, limits: Limits) -> Report:
    """The whole run. Raises Busy while another one is going on, and KubeError if the host does not answer at its begin."""
    clock = asyncio.get_running_loop().time
    begin = clock()
    async with journal.leased(ground.host, ground.namespace, made.run, ground.say) as lease:
        swept, trouble = await sweep(ground)
        if trouble:
            raise Refused(f"an earlier run is not undone: {trouble[0]}", "undo it first: bulkhead chaos stop")
        book = Journal(ground.host, ground.namespace, Record(made.run, tuple(_entries(made))))
        running = _Running(ground, made, limits, book)
        ended, interrupted, left = "", False, []
        try:
            await book.begin()
            ended = await _until_ended(running, book.asked_to_end(lease))
        except asyncio.CancelledError:
            ended, interrupted = "it was interrupted", True
        except (KubeError, Unreached, Stopped) as error:
            ended = str(error)
        finally:
            if ended:
                ground.say(f"the run ends: {ended}; undoing it")
            # A second Ctrl-C leaves the rest to `chaos stop`.
            left = await asyncio.shield(asyncio.ensure_future(_undone(ground, book)))
    outcomes = [*running.outcomes]
    outcomes += [
        report.skipped(experiment, ended or "the run ended before it") for experiment in made.experiments[len(outcomes) :]
    ]
    return Report(made, tuple(outcomes), clock() - begin, ended, interrupted, tuple(left), tuple(swept))


async def sweep(ground: Ground) -> tuple[list[str], list[str]]:
    """Undo all runs that have left something: their names, and what is still left. Call it with the lease held."""
    records, trouble = await journal.remains(ground.host, ground.namespace)
    for record in records:
        ground.say(f"undoing run {record.run}, which has not undone itself")
        left = await undo.undo(ground.host, ground.planes, record, ground.say)
        trouble += left
        if not left:
            await journal.remove(ground.host, ground.namespace, record.run)
    return [record.run for record in records], trouble


def _entries(made: Plan) -> Iterable[Entry]:
    """What a run may have created before its first experiment."""
    yield Entry(HOST_KIND)
    if not made.own_target:
        yield Entry("Namespace", made.target)


async def _until_ended(running: "_Running", asked: Coroutine[Any, Any, str]) -> str:
    """Run the experiments, until all are done or the run must end: why, or an empty text."""
    body = asyncio.create_task(running.all())
    watching = asyncio.create_task(asked)
    try:
        async with asyncio.timeout(MAX_RUN_SECONDS + _READY_SECONDS):
            await asyncio.wait({body, watching}, return_when=asyncio.FIRST_COMPLETED)
        if body.done():
            body.result()
            return ""
        return watching.result()
    except TimeoutError:
        return f"it took longer than {(MAX_RUN_SECONDS + _READY_SECONDS) / 60:.0f} minutes"
    finally:
        for task in (body, watching):
            task.cancel()
        await asyncio.gather(body, watching, return_exceptions=True)


async def _undone(ground: Ground, book: Journal) -> list[str]:
    left = await undo.undo(ground.host, ground.planes, book.record, ground.say)
    if not left:
        try:
            await book.end()
        except KubeError as error:
            left = [f"ConfigMap {ground.namespace}/{objects.record_name(book.record.run)}: {error}"]
    return left


class _Running:
    """The body of a run, and its outcomes so far."""

    def __init__(self, ground: Ground, made: Plan, limits: Limits, book: Journal) -> None:
        self.outcomes: list[Outcome] = []
        self._ground = ground
        self._plan = made
        self._limits = limits
        self._book = book

    async def all(self) -> None:
        """Create the tenants, measure, and run the experiments one after another."""
        ground, made = self._ground, self._plan
        tenants = await self._tenants()
        async with contextlib.AsyncExitStack() as stack:
            planes: dict[str, Client] = {}
            for name, tenant in tenants.items():
                ground.say(f"opening the API of tenant {name}")
                planes[name] = await stack.enter_async_context(ground.planes.open(tenant))
                await settle_in(planes[name], made.run)
            space, most = objects.space(made.run), made.request_seconds
            apis = [Api(name, planes[name], space, objects.PROBE, True, most) for name in sorted(made.neighbours)]
            record = objects.record_name(made.run)
            apis.append(Api(HOST, ground.host, ground.namespace, record, False, most))
            samples = await stack.enter_async_context(measure.measuring(apis))
            baseline = await self._baseline(samples)
            stage = Stage(
                ground.host, planes[made.target], made, ground.namespace, self._limits, self._book, samples, ground.say
            )
            for experiment in made.experiments:
                await self._confirmed()
                self.outcomes.append(await conduct(stage, experiment, baseline))
                if samples.broken:
                    raise Stopped(samples.broken)

    async def _baseline(self, samples: Samples) -> tuple[float, float]:
        """The begin and end of a time without a fault in which no request failed. Raises Stopped if there is none."""
        made, why = self._plan, ""
        for _ in range(_BASELINES):
            more = f" once more, because of {why}" if why else ""
            self._ground.say(f"measuring without a fault for {made.baseline_seconds:g} s{more}")
            # The first requests open connections.
            await asyncio.sleep(_SETTLE_SECONDS)
            begin = measure.now()
            await asyncio.sleep(made.baseline_seconds)
            end = measure.now()
            await samples.answered(end, made.request_seconds)
            why = judge.unfit(judge.figures(samples.found, begin, end), (*sorted(made.neighbours), HOST))
            if not why:
                return begin, end
        raise Stopped(f"the cluster is not well without any fault, so none was made: {why}")

    async def _tenants(self) -> dict[str, Obj]:
        """The tenants of the run, Ready, and the target."""
        host, made = self._ground.host, self._plan
        for name in made.creates:
            self._ground.say(f"creating tenant {name}")
            await host.create(kinds.TENANTS, objects.tenant(made, name, self._ground.namespace))
        return await self._ready() | await self._confirmed()

    async def _confirmed(self) -> dict[str, Obj]:
        """The target that was named, as it is now; empty if the run created it. Raises Stopped if another one has its name.

        Some experiments find what they break by the tenant's name, and a run is long.
        """
        made = self._plan
        if made.own_target:
            return {}
        try:
            target = await self._ground.host.get(kinds.TENANTS, made.target)
        except NotFound as error:
            raise Stopped(f"tenant {made.target} is gone") from error
        if str(target["metadata"]["uid"]) != made.target_uid:
            raise Stopped(f"tenant {made.target} is another one than the one that was confirmed")
        if target["metadata"].get("deletionTimestamp"):
            raise Stopped(f"tenant {made.target} is being deleted")
        return {made.target: target}

    async def _ready(self) -> dict[str, Obj]:
        host, made = self._ground.host, self._plan
        clock = asyncio.get_running_loop().time
        end = clock() + _READY_SECONDS
        while True:
            listed = (await host.list(kinds.TENANTS, label_selector=objects.selector(made.run))).items
            # A copy of one of them has its label too, and belongs to its maker.
            found = {name: item for item in listed if (name := str(item["metadata"]["name"])) in made.creates}
            for name in made.creates:
                _still_possible(name, found.get(name))
            waiting = [name for name in made.creates if not observe.is_ready(found[name])]
            if not waiting:
                return found
            why = observe.waits_for(found[waiting[0]])
            if clock() >= end:
                raise Stopped(f"tenant {waiting[0]} was not Ready within {_READY_SECONDS:g} s: {why}")
            self._ground.say(f"waiting for {len(waiting)} of {len(made.creates)} tenants to be Ready: {waiting[0]}: {why}")
            await asyncio.sleep(_POLL_SECONDS)


def _still_possible(name: str, tenant: Obj | None) -> None:
    """Raises Stopped if one of the run's own tenants cannot become Ready: what waiting does not change."""
    if tenant is None or tenant["metadata"].get("deletionTimestamp"):
        raise Stopped(f"tenant {name} was deleted while the run waited for it")
    refusal = observe.refusal(tenant)
    if refusal:
        raise Stopped(f"tenant {name} is refused: {refusal}")


async def settle_in(plane: Client, run_name: str) -> None:
    """The run's namespace in a plane, and the ConfigMap that is read and written there; both may exist."""
    for kind, obj in (
        (kinds.NAMESPACES, objects.namespace(run_name)),
        (kinds.CONFIG_MAPS, objects.config_map(run_name, objects.PROBE)),
    ):
        for attempt in range(_OPEN_TRIES):
            try:
                await plane.create(kind, obj)
                break
            except AlreadyExists:
                break
            except KubeError:
                # A plane that has just become Ready may refuse for a moment, until it knows its admins' rights.
                if attempt == _OPEN_TRIES - 1:
                    raise
                await asyncio.sleep(_POLL_SECONDS)
