"""Which tests of the core suite follow each other in one process, and in which order the groups start.

A group is a file, except for the groups listed here, whose members run in the order of the list: a member that leaves a tenant
unfit for others comes after them. To add a test that shares part of the host or a tenant with others, add it to a group.
Pure: node IDs of pytest in, names of groups out.
"""

from collections.abc import Mapping, Sequence

ALONE = "alone"
GROUPS: Mapping[str, Sequence[str]] = {
    # These count the GPUs of nodes, or change the resources of nodes.
    "gpus": (
        "test_newcomer",
        "test_console",
        "test_dedicated",
        "test_nodes",
        "test_python_client::test_the_example_runs_a_gpu_pod_and_streams_its_logs",
        # A pair of tenants in a cohort (`shared.in_a_cohort`). The first counts all that its tenants ever used.
        "test_flavors",
        "test_ledger",
        "test_theft",
        # A tenant with a class of its own (`shared.of_its_own_class`), which the last one deletes.
        "test_quota",
        "test_edits",
        "test_drains",
        "test_deletion_with_work",
        # A tenant whose cluster has pod groups (`shared.with_pod_groups`).
        "test_own_scheduler",
        "test_podgroups",
        "test_kueue",
        "test_slinky_worker",
        "test_tasks",
    ),
    # These kill or stop the controller, or count its restarts.
    "controller": (
        "test_alerts",
        "test_controller_rights",
        "test_large_pods",
        "test_deletion",
    ),
    # These share a tenant of a class that allows every address (`shared`), which the last test deletes.
    "everywhere": ("test_egress", "test_canaries"),
    # These share two tenants whose audit trail goes to files and to a receiver, which the last one ends (`shared.audited`).
    "audit": ("test_oidc", "test_audit", "test_audit_webhook"),
    # These damage the same tenant in one way after the other. The last one deletes it.
    "damage": ("test_repair", "test_lost_data", "test_repair::test_the_drifting_tenant_goes_without_a_trace"),
    # These change the host as a whole, or judge all of it: no other test runs meanwhile.
    ALONE: (
        "test_chaos_command",
        "test_doctor",
        "test_exposure",
        "test_power_cut",
        "test_preflight::test_policies_that_are_not_enforced_are_found_out",
    ),
}
# The longest groups start first, so that no process is left with a long group at the end, while what runs alone waits for it.
# `make slowest OF=e2e-core` says how long each took. Groups that run alone come last, when no other test has to wait for them.
LONGEST_FIRST = (
    "audit",
    "gpus",
    "controller",
    "test_dashboards",
    "damage",
    "test_store_full",
    "everywhere",
    "test_shared_volumes",
    "test_autoscaling",
    "test_shares",
    "test_preflight",
    "test_python_client",
    "test_login",
    "test_first_hour",
    "test_isolation",
    "test_metrics",
    "test_mirror",
    "test_storage",
    "test_node_ports",
    "test_policies",
    "test_confinement",
)

_MEMBERS = {member: (group, at) for group, members in GROUPS.items() for at, member in enumerate(members)}


def group_of(node: str) -> str:
    """The group of a test by its node ID."""
    return _member(node)[0]


def runs_alone(node: str) -> bool:
    return group_of(node) == ALONE


def place_of(node: str) -> tuple[int, str, int]:
    """The sort key of a test; tests of a member stay in their order."""
    group, at = _member(node)
    if group == ALONE:
        return len(LONGEST_FIRST) + 1, group, at
    return LONGEST_FIRST.index(group) if group in LONGEST_FIRST else len(LONGEST_FIRST), group, at


def _member(node: str) -> tuple[str, int]:
    """The group of a test, and its place there."""
    path, _, test = node.partition("::")
    file = path.rpartition("/")[2].removesuffix(".py")
    return _MEMBERS.get(f"{file}::{test}") or _MEMBERS.get(file) or (file, 0)
