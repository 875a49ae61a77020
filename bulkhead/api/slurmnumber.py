"""The form in which slurmrestd gives numbers and times: set or not, infinite or not. Pure."""

from typing import Final

import msgspec


class Number(msgspec.Struct, frozen=True, gc=False):
    """Slurm's number."""

    set: bool = False
    infinite: bool = False
    number: float = 0

    @property
    def value(self) -> int | None:
        """The number; None if it is not set or infinite."""
        return int(self.number) if self.set and not self.infinite and abs(self.number) < 2**62 else None


NO_NUMBER: Final = Number()
