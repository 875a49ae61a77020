"""What this tenant's host pods and ResourceClaims hold of the limited devices, counted by the syncer. Only memory, no I/O.

The host's ResourceQuota is the hard stop, but it is not strict: after a pod went, the quota controller counts again from a
cache that may lag behind, writes a lower use, and creates pass that should not. And it has one name for the GPUs that pods ask
for by `resources` and another for those of a DeviceClass, which it cannot add up. So the syncer, which alone creates both here,
counts first: pods in its cache that have not ended, claims that are there, and creates that the cache does not show yet. A
resource without a limit in the settings is limited to 0.

    claim before the create -> kept until the object is seen -> held until it ends or is gone; dropped when the create failed
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from bulkhead.api import accelerators, deviceclaims, ledger, names
from bulkhead.api.objects import Obj
from bulkhead.api.podphase import has_ended
from bulkhead.kube.informer import Change
from bulkhead.kube.objects import Key
from bulkhead.work.clock import Clock
from syncer.translate import Untranslatable
from syncer.translate.kinds import deviceclaim
from syncer.translate.reasons import Reason, when_raised

# A create that was answered but whose pod never showed: it came and went between two lists.
_UNSEEN_SECONDS: Final = 60.0
_PREFIX: Final = "requests."

Amounts = Mapping[str, int]
# The ledger's counts for a line of the quota, in a user's words and in this order; the quota itself is the ceiling. The host's
# quota also counts pods that only wait for the ledger, which a user who looks at running pods would not expect.
_WORDS: Final = {
    "nominal": "your own quota is {}",
    "used": "pods that have started hold {}",
    "borrowed": "{} of these are borrowed",
    "lent": "{} of your own are lent to others",
    "borrowable": "{} more can be borrowed now",
}
_ALWAYS: Final = frozenset({"used", "nominal"})


class Claims:
    """Devices held and about to be held."""

    def __init__(
        self,
        resources: Iterable[str],
        limits: Mapping[str, int],
        clock: Clock,
        *,
        hard: Callable[[], Obj | None],
        stands_for: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.resources = tuple(resources)
        # The resource that a device class stands for; any other counts under its own name.
        self._stands_for = stands_for
        # As the settings say now.
        self.limits = limits
        self._clock = clock
        self._hard = hard
        self._held: dict[Key, Amounts] = {}
        # The oldest first.
        self._made: dict[Key, tuple[float, Amounts]] = {}
        # What both add up to: it is asked for several times for each try of each pod.
        self._used: Counter[str] = Counter()

    def used(self, resource: str) -> int:
        """What pods and claims hold now, those that the cache does not show yet included."""
        now = self._clock.monotonic()
        while self._made and now - (oldest := next(iter(self._made.items())))[1][0] >= _UNSEEN_SECONDS:
            self.drop(oldest[0])
        return self._used[resource]

    def claim(self, key: Key, host: Obj, kind: str = "Pod") -> None:
        """Take what the object asks for, or refuse it; nothing may be awaited between the count and the taking."""
        asked = self._asked(kind, host)
        if not asked:
            return
        self.drop(key)  # an earlier attempt whose answer was lost
        for resource, amount in asked.items():
            used, limit = self.used(resource), self.limit(resource)
            if used + amount > limit:
                hope = "The pod starts when enough is free." if kind == "Pod" else "The claim is made when enough is free."
                hope = hope if amount <= limit else when_raised(hope)
                raise Untranslatable(Reason.QUOTA_EXCEEDED, f"{self.exceeded(resource, f'asked for {amount}')} {hope}", "")
        if key not in self._held:
            self._made[key] = (self._clock.monotonic(), asked)
            self._used.update(asked)

    def drop(self, key: Key) -> None:
        """The create failed."""
        if (made := self._made.pop(key, None)) is not None:
            self._used.subtract(made[1])

    def seen(self, change: Change, host: Obj | None, kind: str = "Pod") -> None:
        """A host pod or claim as the cache has it now; None when it is gone."""
        self.drop(change.key)
        if host is None or change.kind == "deleted" or (kind == "Pod" and has_ended(host)):
            if (held := self._held.pop(change.key, None)) is not None:
                self._used.subtract(held)
        elif change.key not in self._held and (amounts := self._asked(kind, host)):
            self._held[change.key] = amounts
            self._used.update(amounts)

    def _asked(self, kind: str, host: Obj) -> Amounts:
        """What an object asks for; names of pods and of claims on the host never meet, so one table has both."""
        if kind == deviceclaim.KIND:
            return deviceclaims.charged(host, self._stands_for)
        return accelerators.requested(host, self.resources)

    def counts(self, resource: str) -> bool:
        """Whether this resource is counted here."""
        return resource in self.resources

    def limit(self, resource: str) -> int:
        """The limit of the host's quota; the one of the settings if the host shows none."""
        hard = ((self._hard() or {}).get("spec") or {}).get("hard") or {}
        counted = f"{_PREFIX}{resource}"
        return accelerators.count(hard[counted]) if counted in hard else self.limits.get(resource, 0)

    def exceeded(self, resource: str, asked: str) -> str:
        """The words for a lack of room, with all numbers that are known."""
        meta = (self._hard() or {}).get("metadata") or {}
        text = f"quota {meta.get('name') or names.POD_QUOTA} exceeded: {asked} {resource}"
        used = self.used(resource)
        return f"{text}, {used} of {self.limit(resource)} are in use{_standing(meta, resource, used)}."


def _standing(meta: Mapping[str, Any], resource: str, used: int) -> str:
    """The ledger's counts for a resource, by flavor; empty until it has reported.

    It says so once a second at most. Where more has started by it than is in use now, only the nominal quota holds still.
    """
    lines = {
        line: numbers for line, numbers in ledger.read_standing(meta.get("annotations") or {}).items() if line[1] == resource
    }
    late = sum(numbers["used"] for numbers in lines.values()) > used
    parts = []
    for (flavor, _), numbers in sorted(lines.items()):
        shown = [name for name in _WORDS if (name == "nominal" if late else name in _ALWAYS or numbers[name])]
        words = ", ".join(_WORDS[name].format(numbers[name]) for name in shown)
        parts.append(f"{flavor}: {words}" if flavor else words)
    return f" ({'; '.join(parts)})" if parts else ""
