"""The tenants of a run: which there are, and how they come and go. `members` is pure; the rest asks the host.

Each kind of tenant has names of its own, so a later run with more tenants finds those of an earlier one as it needs them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from e2e import names, tenants
from e2e.api import Api
from e2e.slurm import clusters
from e2e.slurm.clusters import Cluster
from e2e.tenants import Tenant

Kind = Literal["plain", "members", "slurm"]  # members: a plane of three
WHOLE: Final = 10
SHORT: Final = 3
LEAST: Final = 2  # a target and a neighbour
MOST: Final = 40
NEWCOMER: Final = "chaos-new"
STANDARD: Final = "standard"  # the example class
THREE: Final = "chaos-three"
# The rest are plain. The special ones come early, so that a few tenants are enough to have them.
_FIRST: Final[tuple[tuple[str, Kind], ...]] = (
    ("chaos-a", "plain"),
    ("chaos-b", "plain"),
    ("chaos-c", "plain"),
    ("chaos-ha", "members"),
    ("chaos-slurm-a", "slurm"),
    ("chaos-slurm-b", "slurm"),
)
_REAL_GPUS: Final = 5  # so many tenants have a pod with a GPU of the real node, which leaves some for the experiments
_GPUS: Final = 2  # the nominal quota


@dataclass(frozen=True, slots=True)
class Member:
    """One tenant of a run."""

    name: str
    kind: Kind
    real_gpu: bool = False


def members(count: int) -> tuple[Member, ...]:
    """The first `count` tenants. Raises ValueError for none beside the target, or too many for one host."""
    if not LEAST <= count <= MOST:
        raise ValueError(f"TENANTS must be from {LEAST} to {MOST}, not {count}")
    letters = "defghijklmnopqrstuvwxyz"
    more = [(f"chaos-{letter}{suffix}", "plain") for suffix in ("", "2") for letter in letters]
    chosen: list[tuple[str, Any]] = [*_FIRST, *more][:count]
    return tuple(Member(name, kind, place < _REAL_GPUS) for place, (name, kind) in enumerate(chosen))


def manifest(member: Member) -> dict[str, Any]:
    """The Tenant of a member."""
    special: dict[Kind, dict[str, Any]] = {
        "plain": {},
        "members": {"controlPlane": {"replicas": 3}},
        "slurm": clusters.spec(clusters.slurm(clusters.node_set("cpu"))),
    }
    tenant_class = THREE if member.kind == "members" else STANDARD
    return tenants.manifest(member.name, gpus=_GPUS, tenant_class=tenant_class, **special[member.kind])


def class_of_three(standard: Mapping[str, Any]) -> dict[str, Any]:
    """A class that allows planes of three members, and is otherwise the example class."""
    spec = {**standard["spec"], "controlPlane": {**standard["spec"]["controlPlane"], "maxReplicas": 3}}
    return {"apiVersion": names.API_VERSION, "kind": "TenantClass", "metadata": {"name": THREE}, "spec": spec}


def bring_up(host: Api, chosen: Sequence[Member], note: Callable[[str], None]) -> dict[str, Tenant]:
    """Create those that are missing, all at once, and wait until their users can work."""
    if any(member.kind == "members" for member in chosen):
        host.apply(class_of_three(host.get("TenantClass", STANDARD)))
    for member in chosen:
        if host.find("Tenant", member.name) is None:
            host.create(manifest(member))
    wanted = [member.name for member in chosen]
    tenants.wait_ready(host, wanted, seconds=120 + 30 * len(wanted), note=lambda text: note(f"    waiting: {text[:160]}"))
    opened = {name: tenants.open_tenant(name) for name in wanted}
    for member in chosen:
        if member.kind == "slurm":
            clusters.wait_ready(host, member.name, seconds=300, note=lambda text: note(f"    waiting: {text[:160]}"))
            clusters.wait_nodes(Cluster(opened[member.name]), "cpu-0", seconds=180)
    return opened


def take_down(host: Api, chosen: Sequence[Member], note: Callable[[str], None]) -> None:
    """Delete the tenants that a short run does not use: ten planes would cost the next suite its cores."""
    kept = {member.name for member in members(SHORT)}
    extra = [member.name for member in chosen if member.name not in kept]
    if extra:
        note(f"removing {', '.join(extra)}")
    for name in extra:
        host.delete("Tenant", name)
    for name in extra:
        tenants.wait_gone(host, name, seconds=240)
