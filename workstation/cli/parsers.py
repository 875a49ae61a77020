"""The parsers of the tenant commands. They load fast: each names its function and imports its module only when it runs."""

import argparse
import importlib
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Final, TypeAlias

from bulkhead.api.auditevents import MOST_EVENTS
from bulkhead.api.quantity import InvalidQuantityError, parse, whole
from workstation.cli.failures import CliError, Exit

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # noqa: SLF001 - argparse has no public name for it
RAW = argparse.RawDescriptionHelpFormatter
_DAY: Final = 86_400.0
_SHORT_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0}
_UNITS: Final = {**_SHORT_UNITS, "d": _DAY, "w": 7 * _DAY}
_NAME: Final = re.compile(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?")
_LONGEST_NAME: Final = 253


def later(module: str, function: str) -> Callable[[argparse.Namespace], int]:
    """A function whose module is imported when it is called."""

    def run(options: argparse.Namespace) -> int:
        return int(getattr(importlib.import_module(f"workstation.cli.{module}"), function)(options))

    return run


def object_name(text: str) -> str:
    """What an object of Kubernetes may be called; anything else would be no part of a path."""
    if len(text) > _LONGEST_NAME or not _NAME.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no object's name: lower-case letters, digits, '-' and '.'")
    return text


def _seconds(text: str) -> float:
    """A duration: 90, 90s, 5m or 1h, at most a day."""
    value = _duration(text, _SHORT_UNITS)
    if not 0 < value <= _DAY:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration such as 90s, 5m or 1h, at most 24h")
    return value


def _duration(text: str, units: Mapping[str, float]) -> float:
    """Seconds; below 0 where it is none."""
    number, unit = (text[:-1], units[text[-1]]) if text[-1:] in units else (text, 1.0)
    try:
        return float(number) * unit
    except ValueError:
        return -1.0


def _gpus(text: str) -> int:
    try:
        return whole(text)
    except InvalidQuantityError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of GPUs") from error


def quota(text: str) -> tuple[str, str]:
    """A resource and how much of it: memory=512Gi."""
    name, separator, value = text.partition("=")
    try:
        parse(value)
    except InvalidQuantityError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a quota such as memory=512Gi") from error
    if not name or not separator:
        raise argparse.ArgumentTypeError(f"{text!r} is not a quota such as memory=512Gi")
    return name, value


def each_once(asked: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Quotas by resource; an error where one is named twice, as nobody knows which is meant."""
    found: dict[str, str] = {}
    for name, value in asked:
        if name in found:
            raise CliError(f"{name}: named twice, as {found[name]} and as {value}", code=Exit.USAGE)
        found[name] = value
    return found


def add_tenant(commands: Commands, shared: argparse.ArgumentParser) -> None:
    """`tenant create | list | describe | accept-data | delete`."""
    tenant = commands.add_parser(
        "tenant", help="create, list, describe and delete tenants", description="Tenants of this cluster."
    )
    actions = tenant.add_subparsers(metavar="ACTION", required=True)
    _add_create(actions, shared)

    listing = actions.add_parser("list", aliases=["ls"], parents=[shared], help="list tenants", description="List tenants.")
    listing.add_argument("-o", "--output", choices=["table", "wide", "json", "yaml"], default="table", help="form of the list")
    listing.set_defaults(handler=later("tenants", "list_tenants"))

    describe = actions.add_parser(
        "describe",
        parents=[shared],
        help="show a tenant: conditions, pods, what was refused and why",
        description="Show one tenant: its conditions, the pods of its plane, recent events, "
        "and which of its own pods may not run and why.",
    )
    describe.add_argument("name", metavar="NAME", help="the tenant")
    describe.set_defaults(handler=later("description", "describe_tenant"))

    accept = actions.add_parser(
        "accept-data",
        parents=[shared],
        help="go on with the data that a tenant's plane has, after it was lost or came back older",
        description="Say what the host would lose, and take the plane as it is now for the tenant's plane. Its syncer goes on "
        "then: what the plane does not have any more is deleted on the host, and the pods of it end. This cannot be undone.",
    )
    accept.add_argument("name", metavar="NAME", help="the tenant")
    accept.add_argument("-y", "--yes", action="store_true", help="do not ask")
    add_wait(accept, "until it is not reported as lost any more")
    accept.set_defaults(handler=later("acceptdata", "accept_data"))

    delete = actions.add_parser(
        "delete",
        parents=[shared],
        help="delete a tenant and everything in it",
        description="Delete a tenant with its plane, its data and its pods. This cannot be undone.",
    )
    delete.add_argument("name", metavar="NAME", help="the tenant")
    delete.add_argument("-y", "--yes", action="store_true", help="do not ask")
    add_wait(delete, "until it is gone")
    delete.set_defaults(handler=later("tenants", "delete_tenant"))


def _add_create(actions: Commands, shared: argparse.ArgumentParser) -> None:
    create = actions.add_parser(
        "create",
        parents=[shared],
        help="create a tenant and wait until it is ready",
        description="Create a tenant: a Kubernetes API server and etcd of its own, and a quota of the shared GPUs.",
        epilog="examples:\n"
        "  bulkhead tenant create red --gpus 8\n"
        "  bulkhead tenant create blue --class large --admin alice@example.org --admin group:ml-team\n"
        "  bulkhead tenant create -f green.yaml --no-wait\n",
        formatter_class=RAW,
    )
    create.add_argument("name", metavar="NAME", nargs="?", help="name of the tenant; may be left out with -f")
    create.add_argument("-f", "--file", metavar="FILE", help="a Tenant as YAML or JSON, - for stdin; options override it")
    create.add_argument(
        "--class", dest="class_name", metavar="CLASS", help="its TenantClass (default: the only one, or `standard`)"
    )
    create.add_argument("--mode", choices=["Kubernetes", "Slurm"], help="who schedules inside the tenant")
    create.add_argument("--gpus", metavar="N", type=_gpus, help="quota of nvidia.com/gpu")
    create.add_argument(
        "--quota",
        metavar="RESOURCE=QUANTITY",
        type=quota,
        action="append",
        default=[],
        help="quota of cpu, memory, ephemeral-storage, requests.storage or devices, such as memory=512Gi; may be repeated",
    )
    create.add_argument(
        "--admin",
        metavar="NAME",
        action="append",
        default=[],
        help="a user, or group:NAME, with full rights inside; may be repeated",
    )
    add_wait(create, "until it is ready")
    create.set_defaults(handler=later("tenants", "create_tenant"))


def add_wait(parser: argparse.ArgumentParser, what: str) -> None:
    """`--wait` and `--timeout`."""
    parser.add_argument("--wait", action=argparse.BooleanOptionalAction, default=True, help=f"wait {what} (default: yes)")
    parser.add_argument("--timeout", metavar="TIME", type=_seconds, default=300.0, help="for the wait: 90s, 5m; default 5m")


def since(text: str) -> float:
    """How long ago: 90s, 5m, 36h, 7d or 2w, at most ten years."""
    value = _duration(text, _UNITS)
    if not 0 < value <= 3650 * _DAY:
        raise argparse.ArgumentTypeError(f"{text!r} is not how long ago, such as 30m, 36h, 7d or 2w")
    return value


def _events(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) < 6 and 0 < int(text) <= MOST_EVENTS:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a number of events from 1 to {MOST_EVENTS}")


def _plain_name(text: str) -> str:
    if not text.isprintable() or len(text) > 1024:
        raise argparse.ArgumentTypeError("a name of at most 1024 printable characters")
    return text


def add_audit(commands: Commands, shared: argparse.ArgumentParser) -> None:
    """`audit TENANT`."""
    parser = commands.add_parser(
        "audit",
        parents=[shared],
        help="who did what in a tenant's plane",
        description="Print the audit trail of a tenant's plane, the newest last. Its class has to ask for one (spec.audit).",
        epilog="examples:\n"
        "  bulkhead audit red --since 1h\n"
        "  bulkhead audit red --user alice@example.org --verb delete\n"
        "  bulkhead audit red --since 7d -o json | jq .objectRef\n",
        formatter_class=RAW,
    )
    parser.add_argument("tenant", metavar="TENANT", help="the tenant")
    parser.add_argument("--since", metavar="TIME", type=since, default=3600.0, help="how far back: 30m, 1h, 7d; default 1h")
    parser.add_argument("--user", metavar="NAME", type=_plain_name, help="only what this user did, or others acting as it")
    parser.add_argument("--verb", metavar="VERB", type=_plain_name, help="only this, such as create, delete or get")
    parser.add_argument("--limit", metavar="N", type=_events, default=500, help="the newest N; default 500")
    parser.add_argument(
        "-o", "--output", choices=["table", "json"], default="table", help="a table, or whole events, one JSON object a line"
    )
    parser.set_defaults(handler=later("audit", "print_trail"))


def add_slurm(commands: Commands, shared: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    """`slurm TENANT [-- COMMAND…]`, or `slurm token TENANT` where `token` is the word after `slurm`."""
    if ("slurm", "token") in pairwise(word for word in argv if not word.startswith("-")):
        _add_slurm_token(commands, shared)
        return
    parser = commands.add_parser(
        "slurm",
        parents=[shared],
        help="a login shell or one command in a tenant's Slurm cluster",
        usage="%(prog)s [options] TENANT [--user NAME] [-- COMMAND ...]\n"
        "       %(prog)s token [options] TENANT --user NAME [--lifetime TIME]",
        description="Run a command on the login node of a tenant's Slurm cluster, or open a shell there. The command gets this "
        "terminal and its stdin; its exit code becomes that of bulkhead.",
        epilog="examples:\n"
        "  bulkhead slurm red -- sinfo\n"
        "  bulkhead slurm red --user alice -- sbatch < train.sh\n"
        "  bulkhead slurm red --user alice -- srun --gres=gpu:2 --pty bash\n"
        "  bulkhead slurm red\n"
        "  bulkhead slurm token red --user alice --lifetime 1h      a token for the REST API\n",
        formatter_class=RAW,
    )
    parser.add_argument("tenant", metavar="TENANT", help="the tenant")
    _add_user(parser, "the tenant's user who runs it (default: its first administrator)", required=False)
    parser.set_defaults(handler=later("slurm", "run"), command=())


def _add_slurm_token(commands: Commands, shared: argparse.ArgumentParser) -> None:
    slurm = commands.add_parser("slurm", help="a login shell or one command in a tenant's Slurm cluster")
    actions = slurm.add_subparsers(metavar="ACTION", required=True)
    parser = actions.add_parser(
        "token",
        parents=[shared],
        help="a token for the REST API of a tenant's Slurm",
        description="Print a token for slurmrestd, as `scontrol token` does.\n"
        "Revoke all tokens of a tenant:\n  kubectl annotate tenant NAME bulkhead.dev/revoke-tokens=$(date +%s) --overwrite",
        epilog="examples:\n  export $(bulkhead slurm token red --user alice --lifetime 1h)\n",
        formatter_class=RAW,
    )
    parser.add_argument("tenant", metavar="TENANT", help="the tenant")
    _add_user(parser, "the user whom the token authenticates", required=True)
    parser.add_argument("--lifetime", metavar="TIME", type=_seconds, default=1800.0, help="90s, 30m, 1h; default 30m")
    parser.set_defaults(handler=later("slurm", "print_token"))


def _add_user(parser: argparse.ArgumentParser, text: str, *, required: bool) -> None:
    parser.add_argument("-u", "--user", metavar="NAME", default=None, required=required, help=text)


def add_images(commands: Commands) -> None:
    """`images list | build | push`."""
    images = commands.add_parser(
        "images",
        help="build Bulkhead's images and push them into a registry",
        description="The images of Bulkhead, for clusters that pull from a registry of yours.",
    )
    actions = images.add_subparsers(metavar="ACTION", required=True)
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument(
        "--folder", metavar="DIR", help="where the archives and their SBOMs lie (default ~/.cache/bulkhead/archives)"
    )
    listing = actions.add_parser(
        "list", aliases=["ls"], parents=[shared], help="list the images", description="List the images."
    )
    listing.add_argument("-o", "--output", choices=["table", "json"], default="table", help="form of the list")
    listing.set_defaults(handler=later("images", "list_images"))

    build = actions.add_parser(
        "build",
        parents=[shared],
        help="build archives of the images, each with an SBOM",
        description="Build the images as OCI archives, each with an SBOM (SPDX) beside it. What is there and the same stays.",
    )
    _add_choice(build)
    build.set_defaults(handler=later("images", "build_images"))
    _add_push(actions, shared)


def _add_choice(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("images", metavar="IMAGE", nargs="*", help="which ones, as `images list` names them (default: all)")
    parser.add_argument(
        "--architecture",
        metavar="ARCH",
        choices=["amd64", "arm64"],
        action="append",
        default=[],
        help="amd64 or arm64; may be repeated (default: this machine's). Programs of another one are cross-compiled, which "
        "takes a Go toolchain and, for Kubernetes, many minutes",
    )


def _add_push(actions: Commands, shared: argparse.ArgumentParser) -> None:
    push = actions.add_parser(
        "push",
        parents=[shared],
        help="push the images into a registry, and write a values file for the chart",
        description="Push the images into a registry, built first where they are not, and write a values file with their "
        "digests. What is there is not sent again; an interrupted push goes on where it was.",
        epilog="examples:\n"
        "  bulkhead images push registry.example.org/bulkhead\n"
        "  bulkhead images push registry.example.org/bulkhead --username ci --password-stdin < password\n"
        "  bulkhead images push 10.0.0.1:5000/bulkhead --ca-file ca.crt --pull-secret registry --values images.yaml\n"
        "  bulkhead images push registry.example.org/bulkhead --architecture amd64 --architecture arm64\n"
        "  helm install bulkhead charts/bulkhead -n bulkhead-system -f images.yaml\n",
        formatter_class=RAW,
    )
    push.add_argument("registry", metavar="REGISTRY", help="HOST[:PORT][/PATH]; every image becomes a repository below it")
    _add_choice(push)
    push.add_argument(
        "--no-build",
        action="store_true",
        help="push the archives that lie in the folder; build nothing",
    )
    push.add_argument("-u", "--username", metavar="NAME", help="the user who pushes (default: what docker's config.json has)")
    push.add_argument("--password-stdin", action="store_true", help="read the user's password from stdin")
    push.add_argument("--auth-file", metavar="FILE", help="a config.json to read credentials from, instead of docker's own")
    push.add_argument("--ca-file", metavar="FILE", help="the authority of the registry's certificate (default: the system's)")
    push.add_argument("--plain-http", action="store_true", help="without TLS: whoever sees the network sees the password")
    push.add_argument(
        "--values", metavar="FILE", default="bulkhead-images.yaml", help="the values file (default bulkhead-images.yaml)"
    )
    push.add_argument(
        "--pull-secret",
        metavar="NAME",
        action="append",
        default=[],
        help="a Secret in the chart's namespace with which clusters pull; written into the values file; may be repeated",
    )
    push.set_defaults(handler=later("images", "push_images"))


def add_preflight(commands: Commands, shared: argparse.ArgumentParser) -> None:
    """`preflight`."""
    parser = commands.add_parser(
        "preflight",
        parents=[shared],
        help="check, before installing, whether this cluster can carry Bulkhead",
        description="Check a cluster before Bulkhead is installed: versions and APIs, overlapping address ranges, whether\n"
        "NetworkPolicies are really enforced, storage, nodes, GPUs, images with their pull secrets, rights, remains.\n"
        "It makes pods in a namespace of its own, removes them, and takes a minute at most.",
        epilog="examples:\n"
        "  bulkhead preflight --values values.yaml\n"
        "  bulkhead preflight --values values.yaml --range 10.96.0.0/11 --range 192.168.0.0/16\n"
        "  bulkhead preflight --json | jq '.checks[] | select(.state == \"failed\")'\n\n"
        "exit codes: 0 nothing failed (there may be warnings), 1 something failed\n",
        formatter_class=RAW,
    )
    for option, metavar, what in (
        ("--values", "FILE", "values as `helm install -f` gets them"),
        ("--range", "CIDR", "a network in use that services.range must keep out of"),
        ("--rwx-class", "CLASS", "StorageClass to try ReadWriteMany with"),
    ):
        parser.add_argument(option, metavar=metavar, action="append", default=[], help=f"{what}; may be repeated")
    parser.add_argument("--image", metavar="IMAGE", help="image with python3 for the probes (default: the bulkhead image)")
    parser.add_argument("--registry-config", metavar="FILE", help="a config.json of `docker login`, tried as a pull secret")
    parser.add_argument(
        "-n",
        "--namespace",
        metavar="NAME",
        type=object_name,
        default="bulkhead-system",
        help="where the pull secrets are read",
    )
    parser.add_argument(
        "--timeout", metavar="TIME", type=_seconds, default=60.0, help="for all of it, 60s at most and by default"
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.set_defaults(handler=later("preflight", "preflight"))


def add_version(commands: Commands, shared: argparse.ArgumentParser) -> None:
    """`version`."""
    parser = commands.add_parser(
        "version", parents=[shared], help="print the versions", description="Print this command's version."
    )
    parser.set_defaults(handler=_version)


def _version(_options: argparse.Namespace) -> int:
    import bulkhead  # noqa: PLC0415

    print(f"bulkhead {bulkhead.__version__}")
    return 0
