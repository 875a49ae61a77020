"""PodDisruptionBudgets: the number in a budget's status counts for no more than the pods that there are on the host."""

from bulkhead.kube.objects import Obj
from syncer.mirrors.follower import Follower
from syncer.translate import TenantView, selectors
from syncer.translate.kinds import disruptionbudget
from syncer.watch.informers import Caches


class Budgets(Follower):
    """Counts the tenant's host pods that a budget selects."""

    def __init__(self, caches: Caches) -> None:
        super().__init__(disruptionbudget.KIND)
        self._pods = caches.host["Pod"].store

    def translate(self, virtual: Obj, view: TenantView) -> tuple[Obj, list[str]]:
        """The host budget for `virtual`."""
        return disruptionbudget.to_host(virtual, view, self._selected), []

    def _selected(self, selector: Obj) -> int:
        return sum(selectors.selects(selector, meta.labels or {}) for meta in self._pods.metas())
