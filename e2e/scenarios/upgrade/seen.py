"""What runs for tenants on the host, and which of it is not what ran before. Pure but for the listing."""

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
    """One pod: whose it is, what it is, and its containers as the runtime numbers them."""

    tenant: str
    part: str
    name: str
    containers: frozenset[tuple[str, str, int]]


def read(tenant: str, pod: Obj) -> Running:
    """A pod as the host has it. A container that was restarted has another number, and one restart more."""
    statuses = pod.get("status", {}).get("containerStatuses") or []
    return Running(
        tenant,
        pod["metadata"].get("labels", {}).get(names.COMPONENT) or WORK,
        pod["metadata"]["name"],
        frozenset((each["name"], each.get("containerID", ""), each.get("restartCount", 0)) for each in statuses),
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
    """What ran before and does not run unchanged, in words; parts that may be replaced are left out.

    Where nothing else ran, nothing was seen to stay.
    """
    if all(each.part in but for each in before.values()):
        return ["nothing ran before that had to stay"]
    return sorted(
        f"{each.tenant}: {each.part} {each.name} {'is gone' if uid not in after else 'has other containers'}"
        for uid, each in before.items()
        if each.part not in but and after.get(uid) != each
    )
