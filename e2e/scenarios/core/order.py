"""Which tests of the core suite follow each other in one process, and in which order the groups start.

A group is a file, except for the groups listed here. To add a test that shares part of the host with others, add it to a group.
Pure: node IDs of pytest in, names of groups out.
"""

from collections.abc import Mapping, Sequence

ALONE = "alone"
GROUPS: Mapping[str, Sequence[str]] = {
    # These count the GPUs of nodes, or change the resources of nodes.
    "gpus": (
        "test_console",
        "test_dashboards",
        "test_dedicated",
        "test_flavors",
        "test_kueue",
        "test_ledger",
        "test_newcomer",
        "test_nodes",
        "test_own_scheduler",
        "test_podgroups",
        "test_quota",
        "test_slinky_worker",
        "test_tasks",
        "test_theft",
        "test_python_client::test_the_example_runs_a_gpu_pod_and_streams_its_logs",
        "test_deletion::test_item_76_a_tenant_with_work_goes_without_a_trace",
    ),
    # These kill or stop the controller, or count its restarts.
    "controller": (
        "test_alerts",
        "test_controller_rights",
        "test_deletion",
        "test_large_pods",
    ),
    # These share a tenant of a class that allows every address (`shared`).
    "everywhere": ("test_canaries", "test_egress"),
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
    "gpus",
    "controller",
    "test_repair",
    "test_audit_webhook",
    "test_oidc",
    "test_store_full",
    "everywhere",
    "test_shared_volumes",
    "test_autoscaling",
    "test_shares",
    "test_preflight",
    "test_python_client",
    "test_login",
    "test_first_hour",
    "test_lost_data",
    "test_isolation",
    "test_audit",
    "test_metrics",
    "test_mirror",
    "test_storage",
    "test_drains",
    "test_node_ports",
    "test_policies",
    "test_confinement",
)

_GROUP_OF = {member: group for group, members in GROUPS.items() for member in members}


def group_of(node: str) -> str:
    """The group of a test by its node ID."""
    path, _, test = node.partition("::")
    file = path.rpartition("/")[2].removesuffix(".py")
    return _GROUP_OF.get(f"{file}::{test}") or _GROUP_OF.get(file) or file


def runs_alone(node: str) -> bool:
    return group_of(node) == ALONE


def place_of(node: str) -> tuple[int, str]:
    """The sort key of a test; tests of a group stay in their order."""
    group = group_of(node)
    if group == ALONE:
        return len(LONGEST_FIRST) + 1, group
    return LONGEST_FIRST.index(group) if group in LONGEST_FIRST else len(LONGEST_FIRST), group
