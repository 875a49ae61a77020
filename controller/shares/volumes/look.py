"""One look at the shared volumes of one tenant: on the host, and then in its plane.

    granted? ──> grants ──> on_host ──> steps ──> in_plane ──> steps ──> VolumesFound

If the host refuses a request or does not answer, only the shared volumes report a trouble; the rest of the look continues.
Errors of the plane go to the caller, as for everything else that is shared with it.
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
    """The result of a look."""

    claims: int = 0
    troubles: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    refused: str = ""  # the plane's message for a write that it refused
    leaving: tuple[str, ...] = ()  # claims that are no longer granted but still used, and the pods that use them
    moves: bool = False  # whether there was anything to do, or is something to wait for
    idle: bool = False  # whether nothing is granted and nothing is left


async def look(
    host: HostVolumes, tenant: str, class_name: str, plane: Plane, spaces: tuple[Space, ...], *, was_idle: bool
) -> VolumesFound:
    """Look once. If the last look found nothing and nothing is granted now, nothing is read."""
    given = host.given(tenant, class_name)
    if given is None:
        return VolumesFound(troubles=("the host's SharedVolumes have not been read yet",))
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
        return VolumesFound(troubles=(f"the host refuses to create shared volumes: {error}"[:400],))
    found = await _show(plane, what, decision, spaces, tenant)
    leaving = tuple(_held(claim, tenant, pods) for claim, pods in sorted(holders.items()))
    return replace(found, leaving=leaving, idle=found.idle and not given and there == There())


def _held(claim: str, tenant: str, pods: tuple[str, ...]) -> str:
    """A claim that will be removed, and the pods that still use it."""
    more = f" and {len(pods) - _MOST_NAMED} more" if len(pods) > _MOST_NAMED else ""
    how = "writable" if claim.startswith(names.WRITABLE_CLAIM) else "read-only"
    namespace = names.work_namespace(tenant)
    return f"{claim} ({how}): pods {', '.join(sorted(pods)[:_MOST_NAMED])}{more} of namespace {namespace}"


async def _show(plane: Plane, what: Granted, host: Decision, spaces: tuple[Space, ...], tenant: str) -> VolumesFound:
    """Do the steps in the plane."""
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
            # It has changed since it was read, or its namespace is terminating: the next look decides again.
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
        lacking.append(f"{decision.beyond} claims are left out: one plane has at most {MOST_CLAIMS} claims of shared volumes")
    made = {(claim.namespace, claim.name) for claim in there.claims} & decision.wanted
    return VolumesFound(
        claims=len(made),
        troubles=tuple(lacking),
        conflicts=tuple(conflicts),
        refused=refused,
        moves=bool(host.steps or host.waits or host.leaving or len(decision.steps) > len(conflicts)),
        idle=there == There(),
    )
