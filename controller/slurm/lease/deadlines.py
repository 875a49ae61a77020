"""Remembers the deadlines of workers that must be released, from one reconcile to the next. Pure.

Slurm has the same deadline in the reason of a drain, where a tenant may edit it; the earlier of the two counts. After a restart
of the controller only Slurm's deadline is known.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from controller.slurm.answers.view import SlurmView
from controller.slurm.lease.fleet import Action, Drain, Undrain, Worker
from controller.slurm.lease.release import is_leaving


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Deadlines of Slurm nodes, and the times since which NodeSets have had too many workers."""

    # Slurm node -> the earliest deadline that it was ever given.
    promised: Mapping[str, datetime] = field(default_factory=dict)
    # NodeSet -> since when it has had more workers than an admin allows, and what was allowed.
    over_since: Mapping[str, datetime] = field(default_factory=dict)
    allowed: Mapping[str, int] = field(default_factory=dict)

    def since(self, exceeding: Mapping[str, int], now: datetime) -> "Deadlines":
        """The deadlines, updated with the NodeSets that have too many workers now, and what is allowed.

        Where an admin allows still fewer, the time begins again: the jobs of workers that have to go only now have all of their
        grace period, and the others were promised their deadline already.
        """
        began = {
            name: now if name not in self.over_since or most < self.allowed.get(name, most) else self.over_since[name]
            for name, most in exceeding.items()
        }
        return replace(self, over_since=began, allowed=dict(exceeding))

    def after(self, actions: Iterable[Action], view: SlurmView | None, workers: Iterable[Worker]) -> "Deadlines":
        """The deadlines, updated with those of the actions; without workers that stay, as far as Slurm reports."""
        drains = [action for action in actions if isinstance(action, Drain)]
        promised = dict(self.promised)
        for drain in drains:
            if drain.deadline is not None:
                promised[drain.node] = min(drain.deadline, promised.get(drain.node, drain.deadline))
        if view is not None:
            leaving = {worker.name for worker in workers if is_leaving(view, worker)} | {drain.node for drain in drains}
            leaving -= {action.node for action in actions if isinstance(action, Undrain)}
            promised = {name: moment for name, moment in promised.items() if name in leaving}
        return replace(self, promised=promised)
