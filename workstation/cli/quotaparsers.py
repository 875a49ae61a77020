"""The parsers of what an admin asks of quotas and accelerators. They load fast: each imports its module only when it runs."""

import argparse

from workstation.cli.parsers import RAW, Commands, later, object_name, quota, since


def _interval(text: str) -> float:
    """Seconds between two frames."""
    try:
        value = float(text.removesuffix("s"))
    except ValueError:
        value = -1.0
    if not 0.5 <= value <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 0.5 to 3600")
    return value


def add_top(commands: Commands, shared: argparse.ArgumentParser) -> None:
    """`top`."""
    parser = commands.add_parser(
        "top",
        parents=[shared],
        help="who has which GPUs, who borrows, what waits, and a map of the nodes",
        description="The tenants of each cohort with what they have of each device: nominal quota, used, borrowed, lent,\n"
        "waiting; and a map of the nodes, a letter for each device, by rack and NVLink domain where nodes are labelled so.",
        epilog="examples:\n"
        "  bulkhead top\n"
        "  bulkhead top --watch                             drawn again every two seconds\n"
        "  bulkhead top --resource nvidia.com/mig-1g.10gb\n"
        "  bulkhead top -o json | jq '.nodes[] | select(.state == \"whole\") | .name'\n\n"
        "A node is whole while nobody has any of its devices, broken when only some are free, else full; gangs of whole nodes\n"
        "wait for whole ones. With more nodes than lines they stand side by side, and then those that look alike once, with\n"
        "their number (12x........). NO_COLOR=1 turns colours off; a pipe never gets any.\n",
        formatter_class=RAW,
    )
    parser.add_argument("-w", "--watch", action="store_true", help="again and again, until interrupted")
    parser.add_argument("--interval", metavar="SECONDS", type=_interval, default=2.0, help="between two frames; default 2")
    parser.add_argument("--resource", metavar="NAME", help="this one alone, such as nvidia.com/gpu (default: all devices)")
    _add_output(parser)
    parser.set_defaults(handler=later("quotas.top", "show"))


def add_why(commands: Commands, shared: argparse.ArgumentParser) -> None:
    """`why TENANT POD`."""
    parser = commands.add_parser(
        "why",
        parents=[shared],
        help="why a tenant's pod waits, or when it is taken back",
        description="Why a pod waits, at length: its verdict, the numbers of its quota, who of its gang is missing, what\n"
        "keeps it from which nodes, its place in the queue, a forecast. Of one that runs: where, what it borrows, until when.",
        epilog="examples:\n"
        "  bulkhead why red train-0\n"
        "  bulkhead why red train-0 -n ml\n"
        "  bulkhead why red train-0 -o json | jq .placement\n\n"
        "TENANT POD is what the tenant calls it. A pod that has no copy on the host, since it is beyond what its tenant may\n"
        "ever hold or was refused, is explained by the tenant's own API.\n",
        formatter_class=RAW,
    )
    parser.add_argument("tenant", metavar="TENANT", help="the tenant")
    parser.add_argument("pod", metavar="POD", type=object_name, help="the pod, as its tenant calls it")
    parser.add_argument(
        "-n",
        "--namespace",
        metavar="NAME",
        type=object_name,
        default="default",
        help="its namespace in the plane; default `default`",
    )
    _add_output(parser)
    parser.set_defaults(handler=later("quotas.why", "explain_pod"))


def add_cohort(commands: Commands, shared: argparse.ArgumentParser) -> None:
    """`cohort [NAME]`."""
    parser = commands.add_parser(
        "cohort",
        parents=[shared],
        help="who lends to whom, by what rules, and the queue",
        description="Tenants of one cohort lend each other idle quota. Without a name all cohorts; with one its members, what\n"
        "each may lend and borrow and has lent and borrowed, its rules, and what waits, the next one first, with forecasts.",
        epilog="examples:\n"
        "  bulkhead cohort\n"
        "  bulkhead cohort research\n"
        "  bulkhead cohort research -o json | jq '.queue[0]'\n",
        formatter_class=RAW,
    )
    parser.add_argument("name", metavar="NAME", nargs="?", help="the cohort (default: list all of them)")
    _add_output(parser)
    parser.set_defaults(handler=later("quotas.cohort", "show"))


def add_quota(commands: Commands, shared: argparse.ArgumentParser) -> None:
    """`quota try TENANT RESOURCE=QUANTITY…`."""
    parent = commands.add_parser("quota", help="try a changed quota, without changing it")
    actions = parent.add_subparsers(metavar="ACTION", required=True)
    parser = actions.add_parser(
        "try",
        parents=[shared],
        help="who would lose what, and when",
        description="What would happen if a tenant's nominal quota were changed: which pods would be taken back, of whom and\n"
        "by when, which would start, and what everybody would have. Decided as the ledger would, on what runs now. It changes\n"
        "nothing.",
        epilog="examples:\n"
        "  bulkhead quota try red nvidia.com/gpu=16\n"
        "  bulkhead quota try red nvidia.com/gpu@h100=8 cpu=64\n"
        "  bulkhead quota try red nvidia.com/gpu=0 -o json | jq '.losses | length'\n"
        "Then change it: kubectl edit tenant red\n",
        formatter_class=RAW,
    )
    parser.add_argument("tenant", metavar="TENANT", help="the tenant")
    parser.add_argument(
        "quota",
        metavar="RESOURCE=QUANTITY",
        nargs="+",
        type=quota,
        help="its nominal quota of a resource, or of resource@flavor",
    )
    _add_output(parser)
    parser.set_defaults(handler=later("quotas.trial", "try_it"))


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o", "--output", choices=["text", "json"], default="text", help="form; json in base units, and with all"
    )


def add_usage(commands: Commands, shared: argparse.ArgumentParser) -> None:
    """`usage [TENANT]`."""
    parser = commands.add_parser(
        "usage",
        parents=[shared],
        help="for how long tenants held GPUs",
        description="Device-hours of each tenant, resource and flavor: used while a container ran, idle while devices were\n"
        "held and nothing ran on them, and of both what was borrowed. Counted up to this moment; of pods that have gone since\n"
        "the controller stored it last, a minute ago at most, the last minute is counted as soon as it has.\n"
        "Reserved are free devices that wait for a workload of the tenant, so that others may not use them: beside what\n"
        "was held, and as the controller stored it last.",
        epilog="examples:\n"
        "  bulkhead usage                                   all tenants, the last seven days\n"
        "  bulkhead usage red --since 24h --by owner        whose jobs of red they were\n"
        "  bulkhead usage --since 30d --by namespace -o csv > november.csv\n"
        "  bulkhead usage -o json | jq '.items[] | select(.idleSeconds > .usedSeconds)'\n\n"
        "An owner is what controls the pod in the tenant's plane, such as Job/train. Under * is what was too much to\n"
        "keep by name."
        " Time is in whole hours: from the hour in which --since lies. The controller keeps 400 days.\n",
        formatter_class=RAW,
    )
    parser.add_argument("tenant", metavar="TENANT", nargs="?", help="one tenant (default: all of them)")
    parser.add_argument("--since", metavar="TIME", type=since, default=7 * 86_400.0, help="how far back: 12h, 7d; default 7d")
    parser.add_argument("--by", choices=["tenant", "namespace", "owner"], default="tenant", help="what is summed up")
    parser.add_argument(
        "-n", "--namespace", metavar="NAME", type=object_name, default="bulkhead-system", help="where the controller runs"
    )
    parser.add_argument(
        "-o", "--output", choices=["table", "json", "csv"], default="table", help="form; json and csv in seconds"
    )
    parser.set_defaults(handler=later("quotas.usage", "print_usage"))
