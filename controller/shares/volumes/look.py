"""One look at the shared volumes of one tenant: on the host, and then in its plane.

    given? ──> grants ──> on_host ──> steps ──> in_plane ──> steps ──> what was found

What the host refuses, or does not answer, is a trouble of these volumes and keeps nothing else of the look from being done.
What the plane does is the caller's, as for everything else that is shared in it.
"""

import logging
from dataclasses import dataclass, replace

from bulkhead.api import names
from bulkhead.kube.errors import AlreadyExists, ApiError, Conflict, KubeError, NotFound, Throttled, Unavailable
from controller.inside.calls import Plane
from controller.shares.decide import Space
from controller.shares.volumes import plane as inside
from controller.shares.volumes.decide import MOST_CLAIMS, Decision, Make, There, in_plane, on_host
from controller.shares.volumes.host import HostVolumes
from controller.shares.volumes.offers import Granted, granted

_log = logging.getLogger(__name__)
_MOST_STEPS_A_LOOK = 100
_MOST_NAMED = 8


@dataclass(frozen=True, slots=True)
class VolumesFound:
    """What a look found."""

    claims: int = 0
    troubles: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    refused: str = ""  # what the plane said to a write
    leaving: tuple[str, ...] = ()  # claims that pods still have though they are not given, and which pods
    moves: bool = False  # whether there was anything to do, or is to be waited for
    idle: bool = False  # whether nothing is given and nothing is left


async def look(
    host: HostVolumes, tenant: str, class_name: str, plane: Plane, spaces: tuple[Space, ...], *, was_idle: bool
) -> VolumesFound:
    """Take it; where there was nothing the last time and nothing is given now, nothing is read."""
    given = host.given(tenant, class_name)
    if given is None:
        return VolumesFound(troubles=("SharedVolumes of the host were not read yet",))
    if was_idle and not given:
        return VolumesFound(idle=True)
    try:
        what = granted(await host.offers(), tenant, given, host.written())
        there = await host.there(tenant)
        decision = on_host(what.grants, there, what.held, names.work_namespace(tenant))
        for step in decision.steps[:_MOST_STEPS_A_LOOK]:
            await host.do(step)
        holders = await host.holders(tenant, decision.leaving)
    except KubeError as error:
        _log.warning("shared volumes: %s", error, extra={"tenant": tenant})
        return VolumesFound(troubles=(f"the host does not let shared volumes be made: {error}"[:400],))
    found = await _show(plane, what, decision, spaces, tenant)
    leaving = tuple(_held(claim, tenant, pods) for claim, pods in sorted(holders.items()))
    return replace(found, leaving=leaving, idle=found.idle and not given and there == There())


def _held(claim: str, tenant: str, pods: tuple[str, ...]) -> str:
    """A claim that goes, and the pods by which it stays for now."""
    more = f" and {len(pods) - _MOST_NAMED} more" if len(pods) > _MOST_NAMED else ""
    how = "writable" if claim.startswith(names.WRITABLE_CLAIM) else "read-only"
    namespace = names.work_namespace(tenant)
    return f"{claim} ({how}): pods {', '.join(sorted(pods)[:_MOST_NAMED])}{more} of namespace {namespace}"


async def _show(plane: Plane, what: Granted, host: Decision, spaces: tuple[Space, ...], tenant: str) -> VolumesFound:
    """The steps in the plane."""
    there = await inside.there(plane)
    decision = in_plane(what.grants, host.ready, spaces, there, what.held)
    conflicts: list[str] = []
    refused = ""
    for step in decision.steps[:_MOST_STEPS_A_LOOK]:
        try:
            await inside.do(plane, step)
        except AlreadyExists:
            if isinstance(step, Make):
                conflicts.append(f"the {step.kind} of {step.namespace}/{step.grant.claim}")
        except (Conflict, NotFound):
            # It has changed since it was read, or its namespace is going: the next look sees what there is.
            continue
        except (Throttled, Unavailable):
            raise
        except ApiError as error:
            _log.info("the plane refuses a shared volume: %s", error, extra={"tenant": tenant})
            refused = refused or str(error)[:300]
    lacking = [f"SharedVolume {name}: {why}" for name, why in sorted({**what.held, **what.refused}.items())]
    lacking += [
        f"{claim}: {'its pods have not ended yet' if claim in host.leaving else 'the host has not bound it yet'}"
        for claim in host.waits
    ]
    if decision.beyond:
        lacking.append(f"{decision.beyond} claims are left out: all in one plane are at most {MOST_CLAIMS}")
    made = {(claim.namespace, claim.name) for claim in there.claims} & decision.wanted
    return VolumesFound(
        claims=len(made),
        troubles=tuple(lacking),
        conflicts=tuple(conflicts),
        refused=refused,
        moves=bool(host.steps or host.waits or host.leaving or len(decision.steps) > len(conflicts)),
        idle=there == There(),
    )
