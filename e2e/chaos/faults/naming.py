"""Names that are new each time. Each fault labels what it creates with `LABELS`, so that a person can find it."""

import time
from collections.abc import Mapping
from typing import Final

LABEL: Final = "chaos"
LABELS: Final[Mapping[str, str]] = {LABEL: "yes"}
SELECTOR: Final = f"{LABEL}=yes"


def again() -> str:
    """The name of a pod that shows that a target works again."""
    return f"again-{time.monotonic_ns()}"


def marker() -> str:
    """A value that differs from every earlier one."""
    return str(time.time_ns())
