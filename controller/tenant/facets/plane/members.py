"""The members of a plane, each a pod of its StatefulSet: which of them serve, and why the others do not. Pure.

A plane serves while a quorum of its members does: with fewer, no etcd takes a write. Which pods there are to be follows from
how many members its etcd was begun with, so that one of which no pod is left is missed too.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from bulkhead.api.conditions import Reason
from bulkhead.api.objects import Obj
from bulkhead.api.podphase import serves
from controller.plane.spec import PLANE
from controller.verdict import why_down


@dataclass(frozen=True, slots=True)
class Down:
    """A member that does not serve; a reason only where that is more than a matter of time."""

    reason: Reason | None
    message: str


@dataclass(frozen=True, slots=True)
class Members:
    """All members of a plane at one moment."""

    wanted: int
    down: tuple[Down, ...]

    @property
    def serving(self) -> int:
        """How many serve."""
        return self.wanted - len(self.down)

    @property
    def quorum(self) -> int:
        """How many must."""
        return self.wanted // 2 + 1

    @property
    def quorate(self) -> bool:
        """Whether enough of them serve."""
        return self.serving >= self.quorum

    @property
    def trouble(self) -> Down | None:
        """The first that does not come up by itself."""
        return next((member for member in self.down if member.reason is not None), None)

    @property
    def named(self) -> str:
        """Every member that is down, with its cause."""
        return "; ".join(member.message for member in self.down)

    @property
    def note(self) -> str:
        """What a plane that serves all the same says of them; empty where none is down."""
        if not self.down:
            return ""
        left = self.serving - self.quorum
        more = f"{left} more may be down" if left else "one more failure stops it"
        return f"{self.serving} of the plane's {self.wanted} members serve, and {more}: {self.named}"


def look(pods: Iterable[Obj], replicas: int) -> Members:
    """The members of a plane, by its pods."""
    there = {str(pod["metadata"]["name"]): pod for pod in pods}
    found = ((name, there.get(name)) for name in (f"{PLANE}-{number}" for number in range(replicas)))
    return Members(replicas, tuple(Down(*why_down(name, pod)) for name, pod in found if pod is None or not serves(pod)))
