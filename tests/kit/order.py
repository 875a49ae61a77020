"""Which file of tests comes first where several run at a time: what takes longest, then what needs API servers, then the rest.

    nodes of pytest ──> place_of ──> order of the files ──> each process takes the next one (`--dist loadfile`)

A long file that comes last is waited for by every other process; a short one is not. `make slowest` says which are long.
Pure: node IDs in, places out.
"""

from typing import Final

# Those that take more than half a minute each.
LONGEST_FIRST: Final = (
    "tests/apiserver/test_audit_webhook.py",
    "tests/apiserver/test_sync_snapshots_unserved.py",
    "tests/apiserver/test_oidc.py",
    "tests/apiserver/test_sync_hostile.py",
    "tests/apiserver/test_ledger_crashes.py",
    "tests/controller/tenant/test_reconcile.py",
    "tests/chart/test_uninstall.py",
    "tests/apiserver/test_preflight.py",
    "tests/controller/tenant/test_reconcile_extras.py",
    "tests/apiserver/test_sync_podgroups.py",
)
_PLACES: Final = {file: place for place, file in enumerate(LONGEST_FIRST)}


def file_of(node: str) -> str:
    """The file of a test by its node ID."""
    return node.partition("::")[0]


def place_of(node: str, *, server: bool) -> int:
    """What to sort tests by; a stable sort leaves those of a file in their order."""
    return _PLACES.get(file_of(node), len(_PLACES) if server else len(_PLACES) + 1)
