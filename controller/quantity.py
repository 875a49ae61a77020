"""Memory quantities of manifests in MiB. Pure; the API server checked that they are quantities at all."""

import re
from decimal import Decimal

_UNITS = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "": 1}
_MEMORY = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)(Ki|Mi|Gi|Ti|k|M|G|T|)")


def memory_mib(quantity: str) -> int | None:
    """Whole MiB of a memory quantity, rounded down; None when it is written in a way that memory never is."""
    match = _MEMORY.fullmatch(quantity)
    return None if match is None else int(Decimal(match[1]) * _UNITS[match[2]] / 2**20)
