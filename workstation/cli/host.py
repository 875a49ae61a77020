"""`bulkhead host up|down|status|node|kubeconfig`: the embedded host from the command line.

Only arguments, printing and exit codes live here; the work is in `workstation.hostcluster`.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bulkhead.proxies import proxy_of_environment
from workstation.cli.arguments import Form, add_output, form_of
from workstation.cli.failures import CliError
from workstation.cli.output import document
from workstation.cli.parsing import Actions, Parser
from workstation.cli.values import between, folder
from workstation.hostcluster import cluster, outage, pki, registry, state
from workstation.hostcluster.component import DATA_DIR, NODE_ADDRESS, HostOptions
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


@dataclass(frozen=True, slots=True)
class UpRequest:
    """`host up`."""

    options: HostOptions
    # Whether to keep the number of real nodes that the host has, whatever `options` contains.
    same_nodes: bool
    # Whether to build the images of the Slurm mode.
    slurm: bool


@dataclass(frozen=True, slots=True)
class DownRequest:
    """`host down`; no folder means the one in the host's state file."""

    keep_data: bool
    data_dir: Path | None


@dataclass(frozen=True, slots=True)
class ShowRequest:
    """`host status` and `host node list`."""

    form: Form


@dataclass(frozen=True, slots=True)
class LoseRequest:
    """`host node lose`."""

    name: str
    how: str


@dataclass(frozen=True, slots=True)
class ReturnRequest:
    """`host node return`."""

    name: str


@dataclass(frozen=True, slots=True)
class KubeconfigRequest:
    """`host kubeconfig`."""


def _add_up(parsers: Actions) -> None:
    defaults = HostOptions()
    up = parsers.add_parser("up", help="start the host, or bring a running one up to date")
    up.shows(
        "sudo bulkhead host up",
        "sudo bulkhead host up --nodes 2 --simulated-nodes 20 --gpus-per-node 8",
    )
    up.add_argument("--nodes", type=between(1, MOST_NODES), default=None, metavar="N",
                    help=f"real nodes, 1 to {MOST_NODES} (default: as many as the host has, 1 for a new one). The first is "
                    "this machine; each other one is a kubelet, containerd and kube-proxy in its own network namespace. It "
                    "uses about 400 MiB of memory and a copy of every image on disk, and also reports all CPUs and memory of "
                    "the machine. Nodes can be added to a running host, but not removed")  # fmt: skip
    up.add_argument("--simulated-nodes", type=between(0, 5000), default=defaults.simulated_nodes, metavar="N",
                    help=f"simulated GPU nodes (default {defaults.simulated_nodes})")  # fmt: skip
    up.add_argument("--gpus-per-node", type=between(0, 64), default=defaults.gpus_per_node, metavar="N",
                    help=f"GPUs of every node, including the real ones (default {defaults.gpus_per_node})")  # fmt: skip
    up.add_argument("--nvlink-domain-size", type=between(1, 1000), default=defaults.nvlink_domain_size, metavar="N",
                    help=f"simulated nodes per NVLink domain (default {defaults.nvlink_domain_size})")  # fmt: skip
    up.add_argument("--slurm", action="store_true", help="also build the images of the Slurm mode (once; takes minutes)")
    up.add_argument("--registry", action="store_true",
                    help="also run a registry, with TLS and a password; fill it with `bulkhead images push`")  # fmt: skip
    up.add_argument("--no-imports", action="store_true",
                    help="import no Bulkhead images: its pods pull them from a registry, or fail")  # fmt: skip
    up.add_argument("--data-dir", type=folder, default=DATA_DIR, help=f"where the host keeps its data (default {DATA_DIR})")
    up.does(_up_request, _up)


def _up_request(options: argparse.Namespace) -> UpRequest:
    return UpRequest(
        HostOptions(
            data_dir=options.data_dir,
            nodes=options.nodes or 1,
            simulated_nodes=options.simulated_nodes,
            gpus_per_node=options.gpus_per_node,
            nvlink_domain_size=options.nvlink_domain_size,
            registry=options.registry,
            imports=not options.no_imports,
        ),
        same_nodes=options.nodes is None,
        slurm=options.slurm,
    )


def _add_node(parsers: Actions) -> None:
    node = parsers.add_parser("node", help="list the real nodes of a running host, break one, or bring one back")
    commands = node.actions("COMMAND")
    nodes = commands.add_parser("list", help="show the real nodes; exit code 1 if one is lost or not ready")
    nodes.shows("bulkhead host node list")
    add_output(nodes)
    nodes.does(_show_request, _list_nodes)
    lose = commands.add_parser("lose", help="break a node as a fault would; the cluster has to detect it")
    lose.shows("sudo bulkhead host node lose bulkhead-host-2 --how cut")
    lose.add_argument("name", help="a node other than the first, such as bulkhead-host-2")
    lose.add_argument("--how", choices=tuple(outage.LOSE), default="killed",
                      help="killed: all its processes end at once, as if its power failed (default); paused: they are "
                      "suspended; cut: its network cable is unplugged")  # fmt: skip
    lose.does(lambda options: LoseRequest(options.name, options.how), _lose)
    back = commands.add_parser("return", help="bring a lost node back, and wait until it is ready")
    back.shows("sudo bulkhead host node return bulkhead-host-2")
    back.add_argument("name")
    back.does(lambda options: ReturnRequest(options.name), _return)


def _show_request(options: argparse.Namespace) -> ShowRequest:
    return ShowRequest(form_of(options))


def add_arguments(parser: Parser) -> None:
    """`host` with its subcommands."""
    parser.description = "The embedded host: a whole cluster on this machine (needs root)."
    parsers = parser.actions("COMMAND")
    _add_up(parsers)
    down = parsers.add_parser("down", help="stop the host and remove everything of it from the machine")
    down.shows("sudo bulkhead host down", "sudo bulkhead host down --keep-data")
    down.add_argument("--keep-data", action="store_true", help="keep the data folder: the next `up` resumes the same cluster")
    down.add_argument("--data-dir", type=folder, default=None, help="the data folder, if the host died and left no state")
    down.does(lambda options: DownRequest(options.keep_data, options.data_dir), _down)
    _add_node(parsers)
    status = parsers.add_parser("status", help="show the state of each component; exit code 1 if one is not ready")
    status.shows("bulkhead host status")
    add_output(status)
    status.does(_show_request, _status)
    kubeconfig = parsers.add_parser("kubeconfig", help="print the administrator's kubeconfig")
    kubeconfig.shows("bulkhead host kubeconfig > ~/.kube/bulkhead-host.yaml")
    kubeconfig.does(lambda _: KubeconfigRequest(), _kubeconfig)


def _failed(error: Exception) -> int:
    Console(stderr=True, highlight=False).print(Text(f"error: {error}", style="red"), soft_wrap=True)
    return 1


def _up(request: UpRequest) -> int:
    options = request.options
    if request.same_nodes:
        options = replace(options, nodes=cluster.known_nodes(options.data_dir))
    try:
        with Reporter() as report:
            handle = cluster.up(options, report, slurm=request.slurm)
    except (cluster.HostError, RuntimeError, OSError) as error:
        return _failed(error)
    print(f"The host is up. KUBECONFIG={handle.kubeconfig}")
    if proxy_of_environment(handle.context.api_url):
        print(f"A proxy is set (HTTPS_PROXY): kubectl and helm reach the host only if NO_PROXY has {NODE_ADDRESS}.")
    if options.registry:
        context = handle.context
        print(f"It has a registry at {registry.ADDRESS}: user {registry.USER}, password in {registry.password_file(context)},")
        print(f"CA certificate in {registry.ca_file(context)}. Fill it:")
        print(f"  bulkhead images push {registry.ADDRESS}/bulkhead --username {registry.USER} --password-stdin \\")
        print(f"    --ca-file {registry.ca_file(context)} < {registry.password_file(context)}")
    return 0


def _down(request: DownRequest) -> int:
    try:
        with Reporter() as report:
            cluster.down(report, data_dir=request.data_dir, keep_data=request.keep_data)
    except (cluster.HostError, RuntimeError, OSError) as error:
        return _failed(error)
    print(
        "The host is down; nothing of it is left on the machine."
        if not request.keep_data
        else "The host is down; its data is kept."
    )
    return 0


def _lose(request: LoseRequest) -> int:
    try:
        with Reporter() as report:
            outage.lose(request.name, request.how, report)
    except (cluster.HostError, RuntimeError, OSError) as error:
        return _failed(error)
    print(f"{request.name} is {request.how}. `bulkhead host node return {request.name}` brings it back.")
    return 0


def _return(request: ReturnRequest) -> int:
    try:
        with Reporter() as report:
            outage.bring_back(request.name, report)
    except (cluster.HostError, RuntimeError, OSError) as error:
        return _failed(error)
    print(f"{request.name} is back and ready.")
    return 0


def _list_nodes(request: ShowRequest) -> int:
    found = cluster.status()
    if found is None:
        raise CliError("the host is down", next_step="start it with `bulkhead host up`")
    nodes = outage.overview(found)
    if request.form == "table":
        _print_nodes(nodes)
    else:
        document([asdict(node) for node in nodes], request.form)
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


def _as_json(found: state.HostState) -> dict[str, Any]:
    """The state with keys that programs may rely on; times are RFC 3339."""
    return {
        "phase": found.phase,
        "supervisorPid": found.pid,
        "startedAt": _moment(found.started),
        "certificatesEnd": _moment(found.certificates_end),
        "error": found.error,
        "options": {_camel(name): value for name, value in found.options.items()},
        "lostNodes": found.lost,
        "components": [
            {
                "name": item.name,
                "phase": item.phase,
                "pid": item.pid,
                "restarts": item.restarts,
                "since": _moment(item.since),
                "detail": item.detail,
                "log": item.log,
            }
            for item in found.components
        ],
    }


def _moment(at: float) -> str | None:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z") if at else None


def _certificates(found: state.HostState) -> str:
    """What to do about certificates of the host that end soon, or have ended; empty otherwise."""
    left = found.certificates_end - time.time()
    if not found.certificates_end or left > pki.RENEW_BEFORE.total_seconds():
        return ""
    what = "have ended" if left <= 0 else "end"
    day = datetime.fromtimestamp(found.certificates_end, UTC).strftime("%Y-%m-%d %H:%M UTC")
    return f"the host's certificates {what} ({day}): `bulkhead host up` renews them and restarts the components that use them"


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


def _status(request: ShowRequest) -> int:
    found = cluster.status()
    if found is None:
        if request.form == "table":
            print("The host is down. Start it with `bulkhead host up`.")
        else:
            document({"phase": "down"}, request.form)
        return 1
    ended = 0 < found.certificates_end <= time.time()
    well = found.phase == "running" and not ended and all(item.phase == "ready" for item in found.components)
    if request.form != "table":
        document(_as_json(found), request.form)
        return 0 if well else 1
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 200
    console.print(f"host: {found.phase} (supervisor {found.pid}, started {_ago(found.started)} ago)")
    console.print(_table(found))
    if ending := _certificates(found):
        console.print(ending, soft_wrap=True, markup=False)
    for item in [] if found.error else found.components:
        if item.detail and item.phase != "ready":
            console.print(f"{item.name}: {item.detail}", soft_wrap=True, markup=False)
    if found.error:
        console.print(found.error, soft_wrap=True, markup=False)
    return 0 if well else 1


def _kubeconfig(_: KubeconfigRequest) -> int:
    found = cluster.status()
    path = (state.options_from_json(found.options).data_dir if found else DATA_DIR) / "kubeconfig"
    try:
        sys.stdout.write(path.read_text())
    except OSError as error:
        return _failed(RuntimeError(f"the embedded host has no kubeconfig: {error}; start it with `bulkhead host up`"))
    return 0


def main(argv: list[str] | None = None) -> int:
    """Only the subcommands: `python -m workstation.cli.host up`."""
    from workstation.cli.main import main as command  # noqa: PLC0415 - main imports this file by its name

    return command(["host", *(sys.argv[1:] if argv is None else argv)])


if __name__ == "__main__":
    sys.exit(main())
