"""The members of a plane, each a pod of its StatefulSet: which of them serve, and why the others do not. Pure.

A plane serves while a quorum of its members does: with fewer, etcd accepts no writes. The expected pods are computed from the
number of members with which its etcd was started, so that a member without any pod is also missed.
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
    """A member that does not serve; with a reason only if it will not recover by itself."""

    reason: Reason | None
    message: str


@dataclass(frozen=True, slots=True)
class Members:
    """All members of a plane at one moment."""

    wanted: int
    down: tuple[Down, ...]

    @property
    def serving(self) -> int:
        """The number of members that serve."""
        return self.wanted - len(self.down)

    @property
    def quorum(self) -> int:
        """The number of members that must serve."""
        return self.wanted // 2 + 1

    @property
    def quorate(self) -> bool:
        """Whether enough members serve."""
        return self.serving >= self.quorum

    @property
    def trouble(self) -> Down | None:
        """The first member that will not recover by itself; None if there is none."""
        return next((member for member in self.down if member.reason is not None), None)

    @property
    def named(self) -> str:
        """Every member that is down, with the cause."""
        return "; ".join(member.message for member in self.down)

    @property
    def note(self) -> str:
        """The remark of a plane that serves with members down; empty if none is down."""
        if not self.down:
            return ""
        left = self.serving - self.quorum
        if left < 0:
            return f"{self.serving} of the plane's {self.wanted} members serve, and it is the only one: {self.named}"
        more = f"{left} more may be down" if left else "one more failure stops it"
        return f"{self.serving} of the plane's {self.wanted} members serve, and {more}: {self.named}"


def look(pods: Iterable[Obj], replicas: int) -> Members:
    """The members of a plane, from its pods."""
    there = {str(pod["metadata"]["name"]): pod for pod in pods}
    found = ((name, there.get(name)) for name in (f"{PLANE}-{number}" for number in range(replicas)))
    return Members(replicas, tuple(Down(*why_down(name, pod)) for name, pod in found if pod is None or not serves(pod)))
