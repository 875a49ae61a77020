"""The experiments, as data. To add one: a small class in `faults` and an entry here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from e2e.chaos import faults
from e2e.chaos.faults import Fault


@dataclass(frozen=True, slots=True)
class Experiment:
    """One fault, its target, and how long the target may take to work again."""

    name: str
    title: str
    fault: Fault
    recover_within: float
    target: Literal["tenant", "controller"] = "tenant"


EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment("apiserver-killed", "API server of A killed", faults.KillApiServer(), 60),
    Experiment("syncer-killed", "syncer of A killed before the status write", faults.KillSyncerBeforeStatus(), 60),
    Experiment("webhook-closed", "webhook in A fails closed on everything", faults.FailClosedWebhook(), 60),
    Experiment("etcd-frozen", "etcd of A frozen for 60 s", faults.FreezeEtcd(60), 120),
    Experiment("flood", "5,000 ConfigMaps and 200 CRDs in A", faults.Flood(), 120),
    Experiment("controller-killed", "controller killed while provisioning", faults.KillControllerMidway(), 120, "controller"),
)

# The same faults with the same proofs for a short run: they last less long, or are smaller.
SHORT: Mapping[str, Experiment] = {
    each.name: each
    for each in (
        Experiment("webhook-closed", "webhook in A fails closed on everything", faults.FailClosedWebhook(8), 60),
        Experiment("etcd-frozen", "etcd of A frozen for 15 s", faults.FreezeEtcd(15), 120),
        Experiment("flood", "1,000 ConfigMaps and 40 CRDs in A", faults.Flood(1000, 40), 120),
    )
}


def shortened(experiments: Sequence[Experiment]) -> tuple[Experiment, ...]:
    """The same experiments; those that have a short form are in it."""
    return tuple(SHORT.get(item.name, item) for item in experiments)


def named(wanted: list[str]) -> tuple[Experiment, ...]:
    """The experiments with these names; all experiments if the list is empty."""
    if not wanted:
        return EXPERIMENTS
    known = {item.name: item for item in EXPERIMENTS}
    unknown = sorted(set(wanted) - set(known))
    if unknown:
        raise ValueError(f"no experiment is called {', '.join(unknown)}; there are: {', '.join(known)}")
    return tuple(known[name] for name in wanted)
