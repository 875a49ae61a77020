"""One experiment: record, inject, prove, lift, recover, judge. A fault is lifted however its injection ends."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final

from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists, KubeError
from workstation.chaos import judge, measure, objects, observe
from workstation.chaos.experiments import Experiment
from workstation.chaos.faults.scene import Fault, Scene
from workstation.chaos.faults.table import FAULTS
from workstation.chaos.journal import Journal
from workstation.chaos.judge import HOST, Limits, Proof, Seen
from workstation.chaos.measure import Samples
from workstation.chaos.plan import Plan
from workstation.chaos.report import Outcome
from workstation.chaos.undo import Say

# What an injection may take in addition to the time of its fault, and a lift in any case.
_INJECT_MORE_SECONDS: Final = 150.0
_LIFT_SECONDS: Final = 120.0
# After a fault that was not shown there may be nothing to recover from.
_UNSHOWN_SECONDS: Final = 20.0
_POLL_SECONDS: Final = 0.5
# Kubelets report restarts late.
_SETTLE_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class Stage:
    """What all experiments of a run share."""

    host: Client
    plane: Client
    plan: Plan
    namespace: str
    limits: Limits
    journal: Journal
    samples: Samples
    say: Say


async def conduct(stage: Stage, experiment: Experiment, baseline: tuple[float, float]) -> Outcome:
    """Run one experiment. Raises KubeError if the host's API fails between faults."""
    scene, fault = _scene(stage, experiment), FAULTS[experiment.name]
    await stage.journal.intend(f"{experiment.name}: begins")
    with suppress(AlreadyExists):
        # A former flood's end took it along.
        await stage.plane.create(kinds.CONFIG_MAPS, objects.config_map(scene.run, objects.PROBE))
    pods_before = await observe.pods(stage.host, stage.namespace)
    stage.say(f"{experiment.name}: {experiment.title}")
    begin = measure.now()
    async with _lifted_if_ended(scene, fault):
        proofs = await _injected(scene, fault)
        await asyncio.sleep(max(0.0, begin + scene.seconds - measure.now()))
    stage.say(f"{experiment.name}: lifting the fault")
    lifted = measure.now()
    shown = any(proof.shown for proof in proofs)
    seconds = experiment.recover_seconds if shown else min(_UNSHOWN_SECONDS, experiment.recover_seconds)
    missing = await _lifted(scene, fault) or await _recovered(stage, scene, fault, seconds)
    recovered_after = measure.now() - lifted
    await asyncio.sleep(_SETTLE_SECONDS)
    end = measure.now()
    await stage.samples.answered(end, stage.plan.request_seconds)
    seen = Seen(
        proofs=proofs,
        before=judge.figures(stage.samples.found, *baseline),
        during=judge.figures(stage.samples.found, begin, end),
        pods_before=pods_before,
        pods_after=await observe.pods(stage.host, stage.namespace),
        excused=HOST if experiment.platform else scene.target,
        missing=missing,
        recovered_after=recovered_after,
    )
    verdict = judge.judge(seen, (*sorted(stage.plan.neighbours), HOST), stage.limits)
    stage.say(f"{experiment.name}: {verdict.state}")
    return Outcome(experiment, verdict, measure.now() - begin)


def _scene(stage: Stage, experiment: Experiment) -> Scene:
    return Scene(
        host=stage.host,
        plane=stage.plane,
        run=stage.plan.run,
        target=stage.plan.target,
        own_target=stage.plan.own_target,
        namespace=stage.namespace,
        image=stage.plan.image,
        seconds=stage.plan.fault_seconds,
        experiment=experiment,
        intend=stage.journal.intend,
    )


async def _injected(scene: Scene, fault: Fault) -> tuple[Proof, ...]:
    try:
        async with asyncio.timeout(scene.seconds + _INJECT_MORE_SECONDS):
            return tuple(await fault.inject(scene))
    except TimeoutError:
        return (Proof(False, f"the fault was not injected within {scene.seconds + _INJECT_MORE_SECONDS:g} s"),)
    except KubeError as error:
        return (Proof(False, f"the fault was not injected: {error}"),)


@asynccontextmanager
async def _lifted_if_ended(scene: Scene, fault: Fault) -> AsyncIterator[None]:
    """A block in which the fault is there. A run that ends in it frees the target at once.

    What undoes the run does it too, but needs the host for that, whose outage may be what ends the run.
    """
    try:
        yield
    except asyncio.CancelledError:
        with suppress(KubeError, TimeoutError):
            async with asyncio.timeout(_LIFT_SECONDS / 4):
                await fault.lift(scene)
        raise


async def _lifted(scene: Scene, fault: Fault) -> str:
    """Lift the fault: why it was not; empty if it was."""
    try:
        async with asyncio.timeout(_LIFT_SECONDS):
            await fault.lift(scene)
    except TimeoutError:
        return f"the fault was not lifted within {_LIFT_SECONDS:g} s"
    except KubeError as error:
        return f"the fault was not lifted: {error}"
    return ""


async def _recovered(stage: Stage, scene: Scene, fault: Fault, seconds: float) -> str:
    """Wait until the target works: what is missing at its deadline; empty if nothing is."""
    end = measure.now() + seconds
    missing = "nothing was seen of it"
    while measure.now() < end:
        try:
            async with asyncio.timeout(max(1.0, end - measure.now())):
                missing = await fault.recovered(scene)
        except TimeoutError:
            break
        except KubeError as error:
            missing = str(error)
        if not missing:
            return ""
        stage.say(f"{scene.experiment.name}: waiting for the target to work again: {missing}")
        await asyncio.sleep(_POLL_SECONDS)
    return f"not within {seconds:g} s: {missing}"
