"""What this tenant's host pods hold of the limited accelerators, counted by the syncer itself. Only memory, no I/O.

The host's ResourceQuota is the hard stop, but it is not strict: after a pod went, the quota controller counts again from a
cache that may lag behind, writes a lower use, and creates pass that should not. So the syncer, which alone creates pods here,
counts first: pods in its cache that have not ended, and creates that the cache does not show yet.

    claim before the create -> kept until the host pod is seen -> held until it ends or is gone; dropped when the create failed
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from bulkhead.api import names
from bulkhead.api.podphase import has_ended
from bulkhead.kube.informer import Change
from bulkhead.kube.objects import Key, Obj
from bulkhead.work.clock import Clock
from syncer.translate import Untranslatable
from syncer.translate.reasons import Reason

# A create that was answered but whose pod never showed: it came and went between two lists.
_UNSEEN_SECONDS: Final = 60.0
_PREFIX: Final = "requests."

Amounts = Mapping[str, int]


class Claims:
    """Accelerators held and about to be held."""

    def __init__(self, resources: Iterable[str], clock: Clock, *, hard: Callable[[], Obj | None]) -> None:
        self._resources = tuple(resources)
        self._clock = clock
        self._hard = hard
        self._held: dict[Key, Amounts] = {}
        self._made: dict[Key, tuple[float, Amounts]] = {}

    def used(self, resource: str) -> int:
        """What pods hold now, those that the cache does not show yet included."""
        now = self._clock.monotonic()
        self._made = {
            key: made for key, made in self._made.items() if now - made[0] < _UNSEEN_SECONDS and key not in self._held
        }
        open_claims = (amounts for _, amounts in self._made.values())
        return sum(amounts.get(resource, 0) for amounts in (*self._held.values(), *open_claims))

    def claim(self, key: Key, host: Obj) -> None:
        """Take what the pod asks for, or refuse it; nothing may be awaited between the count and the taking."""
        asked = requests(host, self._resources)
        if not asked:
            return
        self._made.pop(key, None)  # an earlier attempt whose answer was lost
        name, limits = self._limits()
        for resource, amount in asked.items():
            used, limit = self.used(resource), limits.get(resource)
            if limit is not None and used + amount > limit:
                text = f"quota {name} exceeded: asked for {amount} {resource}, {used} of {limit} are in use."
                raise Untranslatable(Reason.QUOTA_EXCEEDED, f"{text} The pod starts when enough is free.", "")
        self._made[key] = (self._clock.monotonic(), asked)

    def drop(self, key: Key) -> None:
        """The create failed."""
        self._made.pop(key, None)

    def seen(self, change: Change, host: Obj | None) -> None:
        """A host pod as the cache has it now; None when it is gone."""
        if host is None or change.kind == "deleted":
            self._held.pop(change.key, None)
            self._made.pop(change.key, None)
            return
        self._made.pop(change.key, None)
        if has_ended(host):
            self._held.pop(change.key, None)
        elif change.key not in self._held and (amounts := requests(host, self._resources)):
            self._held[change.key] = amounts

    def _limits(self) -> tuple[str, dict[str, int]]:
        quota = self._hard() or {}
        hard = (quota.get("spec") or {}).get("hard") or {}
        found = {name.removeprefix(_PREFIX): _count(value) for name, value in hard.items() if name.startswith(_PREFIX)}
        return str((quota.get("metadata") or {}).get("name") or names.POD_QUOTA), found


def requests(pod: Obj, resources: Iterable[str]) -> dict[str, int]:
    """What a pod counts for: its containers together, or its largest init container if that is more."""
    spec = pod.get("spec") or {}
    inits = spec.get("initContainers") or []
    lasting = [each for each in inits if each.get("restartPolicy") == "Always"] + list(spec.get("containers") or [])
    found = {}
    for resource in resources:
        together = sum(_asked(each, resource) for each in lasting)
        amount = max([together, *(_asked(each, resource) for each in inits)])
        if amount:
            found[resource] = amount
    return found


def _asked(container: Mapping[str, Any], resource: str) -> int:
    given = container.get("resources") or {}
    value = (given.get("requests") or {}).get(resource, (given.get("limits") or {}).get(resource, 0))
    return _count(value)


def _count(value: object) -> int:
    """Whole devices; what is no whole number was refused by the API server and counts as nothing here."""
    text = str(value)
    return int(text) if text.isdigit() else 0
