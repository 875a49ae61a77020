"""The report on host objects: whether syncer and DNS run, and what the host refused. Pure."""

from collections.abc import Mapping, Sequence
from typing import Final

from bulkhead.api.conditions import ConditionType, Reason
from bulkhead.api.objects import Obj
from controller.decide import extras
from controller.decide.extras import Refused
from controller.plane.spec import DNS, SYNCER, PlaneSpec
from controller.tenant.status import Report
from controller.verdict import Verdict, is_of, not_starting, pod_trouble

_REFUSED_SECONDS: Final = 30.0


def followers(
    deployments: Mapping[str, Obj], pods: Sequence[Obj], pull_trouble: str = "", *, was: bool, incomplete: str = ""
) -> Report:
    """The report on syncer and DNS; `was`: whether they were ready before; `incomplete`: what the syncer cannot know."""
    verdict = _syncer(deployments, pods, pull_trouble, was=was, incomplete=incomplete)
    return Report({ConditionType.SYNCER_READY: verdict}, needed=(ConditionType.SYNCER_READY,))


def refusals(spec: PlaneSpec, refused: Sequence[Refused]) -> Report:
    """The report on everything that the host refused."""
    return Report(
        stuck=extras.stuck(refused, spec),
        remarks=extras.besides(refused, spec),
        again=_REFUSED_SECONDS if refused else None,
    )


def _syncer(deployments: Mapping[str, Obj], pods: Sequence[Obj], pull_trouble: str, *, was: bool, incomplete: str) -> Verdict:
    waiting = [name for name in (SYNCER, DNS) if not _available(deployments.get(name))]
    if not waiting:
        but = f", but {incomplete}" if incomplete else ""
        return Verdict("True", Reason.READY, f"the syncer and the tenant's DNS are ready{but}")
    for pod in pods:
        trouble = pod_trouble(pod) if any(is_of(pod, name) for name in waiting) else None
        if trouble is not None:
            return not_starting(*trouble, pull_trouble)
    why = f"; {incomplete}" if incomplete and SYNCER in waiting else ""
    return Verdict("False", Reason.RESTARTING if was else Reason.WAITING_FOR_SYNCER, f"not ready: {', '.join(waiting)}{why}")


def _available(deployment: Obj | None) -> bool:
    if deployment is None:
        return False
    status = deployment.get("status") or {}
    current = int(status.get("observedGeneration") or 0) >= int(deployment["metadata"].get("generation") or 0)
    return current and int(status.get("updatedReplicas") or 0) >= 1 and int(status.get("availableReplicas") or 0) >= 1
