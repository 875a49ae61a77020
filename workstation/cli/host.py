"""`bulkhead host up|down|status|node|kubeconfig`: the embedded host from the command line.

Only arguments, printing and exit codes live here; the work is in `workstation.hostcluster`.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from workstation.hostcluster import cluster, outage, registry, state
from workstation.hostcluster.component import DATA_DIR, HostOptions
from workstation.hostcluster.node import MOST_NODES
from workstation.hostcluster.progress import Reporter

_COLOURS = {
    "ready": "green",
    "failed": "red",
    "stopped": "red",
    "unhealthy": "yellow",
    "restarting": "yellow",
    "lost": "magenta",
}
_INTERRUPTED = 130


def _count(text: str, low: int, high: int) -> int:
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
    if not low <= value <= high:
        raise argparse.ArgumentTypeError(f"{value} is not between {low} and {high}")
    return value


def _between(low: int, high: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        return _count(text, low, high)

    return parse


def _folder(text: str) -> Path:
    path = Path(text)
    if not path.is_absolute() or path == Path("/"):
        raise argparse.ArgumentTypeError(f"{text!r} is not an absolute path of a folder")
    return path


def _add_up(parsers: Any) -> None:
    defaults = HostOptions()
    up = parsers.add_parser("up", help="start the host, or bring a running one up to date")
    up.add_argument("--nodes", type=_between(1, MOST_NODES), default=None, metavar="N",
                    help=f"real nodes, 1 to {MOST_NODES} (default: as many as the host has, 1 for a new one). The first is "
                    "this machine; each further one is a kubelet, containerd and kube-proxy of its own in a network namespace, "
                    "takes about 400 MiB of memory and a copy of every image on disk, and offers the whole machine's CPUs and "
                    "memory again. A running host can be given more, not fewer")  # fmt: skip
    up.add_argument("--simulated-nodes", type=_between(0, 5000), default=defaults.simulated_nodes, metavar="N",
                    help=f"simulated GPU nodes (default {defaults.simulated_nodes})")  # fmt: skip
    up.add_argument("--gpus-per-node", type=_between(0, 64), default=defaults.gpus_per_node, metavar="N",
                    help=f"GPUs of every node, the real one included (default {defaults.gpus_per_node})")  # fmt: skip
    up.add_argument("--nvlink-domain-size", type=_between(1, 1000), default=defaults.nvlink_domain_size, metavar="N",
                    help=f"simulated nodes per NVLink domain (default {defaults.nvlink_domain_size})")  # fmt: skip
    up.add_argument("--slurm", action="store_true", help="build the images of the Slurm mode too (once; takes minutes)")
    up.add_argument("--registry", action="store_true",
                    help="a registry beside the host, with TLS and a password; `bulkhead images push` fills it")  # fmt: skip
    up.add_argument("--no-imports", action="store_true",
                    help="import no images of Bulkhead: its pods pull them from a registry, or fail")  # fmt: skip
    up.add_argument("--data-dir", type=_folder, default=DATA_DIR, help=f"where the host keeps its data (default {DATA_DIR})")
    up.set_defaults(handler=_up)


def _add_node(parsers: Any) -> None:
    node = parsers.add_parser("node", help="list the real nodes of a running host, lose one, or bring a lost one back")
    commands = node.add_subparsers(dest="node_command", required=True, metavar="COMMAND")
    nodes = commands.add_parser("list", help="show the real nodes; exit code 1 when one is lost or not ready")
    nodes.add_argument("-o", "--output", choices=("table", "json"), default="table")
    nodes.set_defaults(handler=_list_nodes)
    lose = commands.add_parser("lose", help="take a node away, as a fault would; the cluster finds out by itself")
    lose.add_argument("name", help="a node other than the first, such as bulkhead-host-2")
    lose.add_argument("--how", choices=tuple(outage.LOSE), default="killed",
                      help="killed: its processes all end at once, as when its power fails (default); paused: they stand "
                      "still; cut: its network cable is out")  # fmt: skip
    lose.set_defaults(handler=_lose)
    back = commands.add_parser("return", help="bring a lost node back, and wait until it is ready")
    back.add_argument("name")
    back.set_defaults(handler=_return)


def add_parser(subparsers: Any) -> None:
    """Add `host` with its subcommands; each sets `handler`, which takes the parsed arguments and returns the exit code."""
    host = subparsers.add_parser("host", help="the embedded host: a whole cluster on this machine (needs root)")
    parsers = host.add_subparsers(dest="host_command", required=True, metavar="COMMAND")
    _add_up(parsers)
    down = parsers.add_parser("down", help="stop the host and remove everything of it from the machine")
    down.add_argument("--keep-data", action="store_true", help="keep the data folder: the next `up` resumes the same cluster")
    down.add_argument("--data-dir", type=_folder, default=None, help="the data folder, when the host died and left no state")
    down.set_defaults(handler=_down)
    _add_node(parsers)
    status = parsers.add_parser("status", help="show the state of each component; exit code 1 when one is not ready")
    status.add_argument("-o", "--output", choices=("table", "json"), default="table")
    status.set_defaults(handler=_status)
    kubeconfig = parsers.add_parser("kubeconfig", help="print the administrator's kubeconfig")
    kubeconfig.set_defaults(handler=_kubeconfig)


def _failed(error: Exception) -> int:
    Console(stderr=True, highlight=False).print(Text(f"error: {error}", style="red"), soft_wrap=True)
    return 1


def _up(arguments: argparse.Namespace) -> int:
    options = HostOptions(
        data_dir=arguments.data_dir, nodes=arguments.nodes or cluster.known_nodes(arguments.data_dir),
        simulated_nodes=arguments.simulated_nodes, gpus_per_node=arguments.gpus_per_node,
        nvlink_domain_size=arguments.nvlink_domain_size, registry=arguments.registry, imports=not arguments.no_imports,
    )  # fmt: skip
    try:
        with Reporter() as report:
            handle = cluster.up(options, report, slurm=arguments.slurm)
    except (cluster.HostError, RuntimeError, OSError) as error:
        return _failed(error)
    print(f"The host is up. KUBECONFIG={handle.kubeconfig}")
    if options.registry:
        context = handle.context
        print(f"Its registry is {registry.ADDRESS}, user {registry.USER}, password in {registry.password_file(context)},")
        print(f"its authority {registry.ca_file(context)}. Fill it:")
        print(f"  bulkhead images push {registry.ADDRESS}/bulkhead --username {registry.USER} --password-stdin \\")
        print(f"    --ca-file {registry.ca_file(context)} < {registry.password_file(context)}")
    return 0


def _down(arguments: argparse.Namespace) -> int:
    try:
        with Reporter() as report:
            cluster.down(report, data_dir=arguments.data_dir, keep_data=arguments.keep_data)
    except (cluster.HostError, RuntimeError, OSError) as error:
        return _failed(error)
    print(
        "The host is down; nothing of it is left on the machine."
        if not arguments.keep_data
        else "The host is down; its data is kept."
    )
    return 0


def _lose(arguments: argparse.Namespace) -> int:
    try:
        with Reporter() as report:
            outage.lose(arguments.name, arguments.how, report)
    except (cluster.HostError, RuntimeError, OSError) as error:
        return _failed(error)
    print(f"{arguments.name} is {arguments.how}. `bulkhead host node return {arguments.name}` brings it back.")
    return 0


def _return(arguments: argparse.Namespace) -> int:
    try:
        with Reporter() as report:
            outage.bring_back(arguments.name, report)
    except (cluster.HostError, RuntimeError, OSError) as error:
        return _failed(error)
    print(f"{arguments.name} is back and ready.")
    return 0


def _list_nodes(arguments: argparse.Namespace) -> int:
    found = cluster.status()
    if found is None:
        return _failed(cluster.HostError("the host is down; start it with `bulkhead host up`"))
    nodes = outage.overview(found)
    if arguments.output == "json":
        print(json.dumps([asdict(node) for node in nodes], indent=2))
    else:
        _print_nodes(nodes)
    return 0 if all(node.state == "ready" for node in nodes) else 1


def _print_nodes(nodes: Sequence[outage.NodeState]) -> None:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in ("NODE", "STATE", "ADDRESS", "PODS", "DETAIL"):
        table.add_column(column, no_wrap=True)
    for node in nodes:
        state_of = Text(node.state, style="green" if node.state == "ready" else "magenta")
        table.add_row(node.name, state_of, node.address, node.pods, node.detail)
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 200
    console.print(table)


def _ago(moment: float) -> str:
    seconds = int(time.time() - moment) if moment else 0
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s" if moment else "-"


def _table(found: state.HostState) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in ("COMPONENT", "STATE", "PID", "RESTARTS", "SINCE", "LOG"):
        table.add_column(column, no_wrap=True)
    for item in found.components:
        phase = Text(item.phase, style=_COLOURS.get(item.phase, ""))
        table.add_row(item.name, phase, str(item.pid or "-"), str(item.restarts), _ago(item.since), item.log)
    return table


def _status(arguments: argparse.Namespace) -> int:
    found = cluster.status()
    if found is None:
        print('{"phase": "down"}' if arguments.output == "json" else "The host is down. Start it with `bulkhead host up`.")
        return 1
    well = found.phase == "running" and all(item.phase == "ready" for item in found.components)
    if arguments.output == "json":
        print(json.dumps(asdict(found), indent=2))
        return 0 if well else 1
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 200
    console.print(f"host: {found.phase} (supervisor {found.pid}, started {_ago(found.started)} ago)")
    console.print(_table(found))
    for item in [] if found.error else found.components:
        if item.detail and item.phase != "ready":
            console.print(f"{item.name}: {item.detail}", soft_wrap=True, markup=False)
    if found.error:
        console.print(found.error, soft_wrap=True, markup=False)
    return 0 if well else 1


def _kubeconfig(_: argparse.Namespace) -> int:
    found = cluster.status()
    path = (state.options_from_json(found.options).data_dir if found else DATA_DIR) / "kubeconfig"
    try:
        sys.stdout.write(path.read_text())
    except OSError as error:
        return _failed(RuntimeError(f"no kubeconfig of the embedded host: {error}; start it with `bulkhead host up`"))
    return 0


def main(argv: list[str] | None = None) -> int:
    """The subcommands alone: `python -m workstation.cli.host up`."""
    parser = argparse.ArgumentParser(prog="bulkhead")
    add_parser(parser.add_subparsers(required=True))
    arguments = parser.parse_args(["host", *(sys.argv[1:] if argv is None else argv)])
    try:
        return int(arguments.handler(arguments))
    except KeyboardInterrupt:
        return _INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
