"""The order of files if several processes run the tests: first the longest, then those with API servers, then the rest.

Of those with servers come first the ones that use the pair that a process shares among its tests, so that it can end the pair.

    nodes of pytest ──> unit_of ──> a file, or files that share a server ──> place_of ──> each process takes the next unit

All other processes would wait for a long file that comes last, but not for a short one. `make slowest` shows which are long.
Pure: node IDs in, units and places out.
"""

from collections.abc import Container, Mapping
from typing import Final

# Files of a unit share an API server of their folder: one process runs them all, so that one such server exists, not four.
SCHEDULED: Final = "with a scheduler"
POLICED: Final = "with the chart's policies"
CONTROLLED: Final = "with the controller's rights"
MORTAL: Final = "with a server that is killed"
QUIET: Final = "with a host without tenants"
GUARDED: Final = "with a few of the chart's policies"
TRANSLATED: Final = "with the chart's policies and tenants of many classes"
LONE: Final = "with a server whose policies and kinds change"
UNITS: Final[Mapping[str, frozenset[str]]] = {
    SCHEDULED: frozenset(
        f"tests/apiserver/test_{name}.py"
        for name in (
            "ledger_admissions",
            "ledger_cohorts",
            "ledger_crashes",
            "ledger_gangs",
            "ledger_moves",
            "ledger_places",
            "ledger_reclaims",
            "ledger_reserved",
            "ledger_slices",
            "ledger_slurm",
            "ledger_theft",
            "sync_traces",
            "sync_with_ledger",
            "usage_devices",
        )
    ),
    POLICED: frozenset(
        f"tests/chart/test_{name}.py"
        for name in (
            "chaos_scan",
            "node_policy",
            "policies",
            "policies_of_facts",
            "policies_of_pods",
            "privileged_pods",
        )
    ),
    CONTROLLED: frozenset(
        f"tests/chart/controller/test_{name}.py" for name in ("ledger", "logins", "people", "policies", "rights")
    ),
    MORTAL: frozenset(f"tests/kube/test_{name}.py" for name in ("informer", "lease", "watch")),
    QUIET: frozenset(f"tests/controller/host/test_{name}.py" for name in ("cohorts", "logins", "owned", "quarantines")),
    GUARDED: frozenset(
        f"tests/chart/test_{name}.py" for name in ("confirm_deletion", "identity_policy", "in_use", "login_requests")
    ),
    TRANSLATED: frozenset(("tests/adversarial/test_host_policies.py", "tests/chart/test_policies_and_translation.py")),
    LONE: frozenset(f"tests/apiserver/test_{name}.py" for name in ("chaos_clock", "drop_privileges", "plane_definitions")),
}
_UNIT_OF: Final = {file: unit for unit, files in UNITS.items() for file in files}
# The units that take longest by `make slowest`.
LONGEST_FIRST: Final = (
    SCHEDULED,
    "tests/chaosrun/test_run.py",
    "tests/apiserver/test_store.py",
    "tests/apiserver/test_store_members.py",
    "tests/apiserver/test_audit_webhook.py",
    "tests/controller/tenant/test_reconcile.py",
    "tests/apiserver/test_oidc.py",
    "tests/chart/test_uninstall.py",
    POLICED,
    TRANSLATED,
    CONTROLLED,
    MORTAL,
    "tests/adversarial/test_floods.py",
    "tests/chart/test_priority.py",
    "tests/controller/tenant/test_reconcile_extras.py",
    "tests/apiserver/test_sync_podgroups.py",
    "tests/apiserver/test_preflight.py",
    "tests/apiserver/test_sync_snapshots_unserved.py",
    "tests/apiserver/test_sync_hostile.py",
    "tests/adversarial/test_mirrored.py",
)
PAIRED: Final = 1  # the phase of those on the shared pair
_PLACES: Final = {unit: place for place, unit in enumerate(LONGEST_FIRST)}


def file_of(node: str) -> str:
    """The file of a test by its node ID."""
    return node.partition("::")[0]


def unit_of(node: str) -> str:
    """The tests that one process takes at once."""
    file = file_of(node)
    return _UNIT_OF.get(file, file)


def phase_of(unit: str, paired: Container[str], served: Container[str]) -> int:
    """When a unit's turn is: 0 for the longest, then those on the shared pair, those with servers of their own, the rest.

    A process never goes back to an earlier phase, so it needs the pair no more once it is past it.
    """
    if unit in _PLACES:
        return 0
    return PAIRED if unit in paired else PAIRED + 1 if unit in served else PAIRED + 2


def place_of(node: str, paired: Container[str], served: Container[str]) -> tuple[int, int, str, str]:
    """The sort key of a test; a stable sort keeps those of a file in their order, and those of a unit together."""
    unit = unit_of(node)
    shared, file = (unit, file_of(node)) if unit in UNITS else ("", "")
    return phase_of(unit, paired, served), _PLACES.get(unit, 0), shared, file
