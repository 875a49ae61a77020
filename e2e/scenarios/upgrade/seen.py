"""What runs for tenants on the host, and which part of it was replaced. Pure, except for the listing."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from e2e import names
from e2e.api import Api, Obj

WORK = "work"  # a pod of a tenant
SYNCER = "syncer"
PLANE = "plane"
DNS = "dns"


@dataclass(frozen=True, slots=True)
class Running:
    """One pod: its tenant, its part, and the runtime's IDs of its containers."""

    tenant: str
    part: str
    name: str
    containers: frozenset[tuple[str, str, int]]


def read(tenant: str, pod: Obj) -> Running:
    """A pod as the host has it. A restarted container has another ID and one restart more."""
    statuses = pod.get("status", {}).get("containerStatuses") or []
    return Running(
        tenant,
        pod["metadata"].get("labels", {}).get(names.COMPONENT) or WORK,
        pod["metadata"]["name"],
        frozenset((status["name"], status.get("containerID", ""), status.get("restartCount", 0)) for status in statuses),
    )


def running(host: Api, tenants: Iterable[str]) -> dict[str, Running]:
    """Every pod of these tenants, by UID."""
    return {
        pod["metadata"]["uid"]: read(tenant, pod)
        for tenant in tenants
        for space in (names.plane_namespace(tenant), names.work_namespace(tenant))
        for pod in host.list("Pod", space)
    }


def replaced(before: Mapping[str, Running], after: Mapping[str, Running], *, but: Iterable[str] = ()) -> list[str]:
    """The pods that ran before and do not run unchanged, as sentences; parts that may be replaced are left out.

    If no other part ran before, the result says so: then nothing was proved to stay.
    """
    if all(item.part in but for item in before.values()):
        return ["nothing ran before that had to stay"]
    return sorted(
        f"{each.tenant}: {each.part} {each.name} {'is gone' if uid not in after else 'has other containers'}"
        for uid, each in before.items()
        if each.part not in but and after.get(uid) != each
    )
