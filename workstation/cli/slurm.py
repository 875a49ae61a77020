"""`bulkhead slurm`: a command or a shell in a tenant's own Slurm cluster.

    Tenant (host) ──> does it use Slurm, which users has it ──> kubeconfig ──> login pod in the plane ──> kubectl exec

It never speaks Slurm's protocol: commands run in the login pod, as the chosen user, through the tenant's own API. If a part is
not ready, the command says so before it runs anything. The words of the command are passed on unchanged; no shell parses them.
"""

import argparse
import contextlib
import re
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bulkhead.api.conditions import ConditionType, condition_of
from bulkhead.api.names import SLURM_CONTROLLER, SLURM_LOGIN, SLURM_NAMESPACE
from bulkhead.api.objects import Obj
from bulkhead.api.podphase import serves
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError
from workstation.cli import access, connection, eventloop
from workstation.cli.arguments import Host, add_host, add_tenant, host_of
from workstation.cli.failures import CliError, Exit
from workstation.cli.output import plain
from workstation.cli.parsing import RAW, Parser
from workstation.cli.trouble import troubles

# Slurm's own administrator in every image: may do everything in Slurm, and has no special rights in the pods.
ADMINISTRATOR = "slurm"
_PLANE_SECONDS = 10.0
_ANSWER_LIMIT_BYTES = 16 << 20
_USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}")


@dataclass(frozen=True, slots=True)
class SlurmRequest:
    """`slurm TENANT [-- COMMAND…]`."""

    host: Host
    tenant: str
    # None for the tenant's first administrator.
    user: str | None
    # Empty for a login shell.
    command: tuple[str, ...]


def add_arguments(parser: Parser) -> None:
    """`slurm TENANT [-- COMMAND…]`; `slurm token` has a parser of its own."""
    parser.usage = (
        "%(prog)s [options] TENANT [--user NAME] [-- COMMAND ...]\n"
        "       %(prog)s token [options] TENANT --user NAME [--lifetime TIME]"
    )
    parser.description = (
        "Run a command on the login node of a tenant's Slurm cluster, or open a shell there. The command gets this "
        "terminal and its stdin; bulkhead returns its exit code."
    )
    parser.epilog = (
        "examples:\n"
        "  bulkhead slurm red -- sinfo\n"
        "  bulkhead slurm red --user alice -- sbatch < train.sh\n"
        "  bulkhead slurm red --user alice -- srun --gres=gpu:2 --pty bash\n"
        "  bulkhead slurm red\n"
        "  bulkhead slurm token red --user alice --lifetime 1h      a token for the REST API\n"
    )
    parser.formatter_class = RAW
    add_host(parser)
    add_tenant(parser)
    parser.add_argument("-u", "--user", metavar="NAME", help="user in the tenant (default: its first administrator)")
    parser.set_defaults(command=())
    parser.does(_request, run)


def _request(options: argparse.Namespace) -> SlurmRequest:
    return SlurmRequest(host_of(options), options.tenant, options.user, tuple(options.command))


def run(request: SlurmRequest) -> int:
    """`bulkhead slurm TENANT [--user NAME] [-- COMMAND…]`; the exit code is the command's."""
    command = request.command
    pod, user, data, warnings = eventloop.run(_prepare(request))
    for warning in warnings:
        sys.stderr.write(f"warning: {plain(warning)}\n")
    interactive = sys.stdin.isatty() and sys.stdout.isatty()
    if not command and not interactive:
        raise CliError(
            "slurm: a login shell needs a terminal, and stdin is not one",
            next_step=f"give a command: bulkhead slurm {request.tenant} -- sinfo",
            code=Exit.USAGE,
        )
    with tempfile.TemporaryDirectory(prefix="bulkhead-") as folder, contextlib.ExitStack() as stack:
        path = Path(folder) / f"{request.tenant}.kubeconfig"
        access.write_private(path, data)
        environment = access.environment_of(request.tenant, path)
        words = exec_words(pod, inside(user, command), terminal=interactive)
        return access.run_program(words, environment, stack)


def exec_words(pod: str, command: Sequence[str], *, terminal: bool) -> list[str]:
    """The kubectl command that runs a command in a login pod. It always passes stdin on, for `sbatch < script`."""
    flags = ["-i", "-t"] if terminal else ["-i"]
    return ["kubectl", "-n", SLURM_NAMESPACE, "exec", "--quiet", *flags, pod, "-c", SLURM_LOGIN, "--", *command]


# `kubectl exec` starts as root without a login: become the user as sshd would, in their home and with their environment.
_BECOME = """user="$1"; shift
group="$(id -g "$user")" || exit 1
cd "$(getent passwd "$user" | cut -d: -f6)" 2>/dev/null || cd /
exec setpriv --reuid="$user" --regid="$group" --init-groups --reset-env -- bash -l "$@"
"""


def inside(user: str, command: Sequence[str]) -> list[str]:
    """The command line in the login pod: a login shell of the user, which executes the command if there is one.

    Both shells run their own arguments, so the command's words need no quoting and are never parsed as shell.
    """
    words = ["sh", "-c", _BECOME, "bulkhead", user]
    return [*words, "-c", 'exec "$@"', "bulkhead", *command] if command else words


def check_user(name: str) -> str:
    """The name, if it can be a user's; other text never reaches the pod."""
    if not _USER.fullmatch(name):
        raise CliError(
            f"the user must be a valid user name, not {name!r}",
            next_step="see spec.scheduling.slurm.users of the Tenant",
            code=Exit.USAGE,
        )
    return name


def slurm_spec(tenant: Obj) -> dict[str, Any]:
    """The Slurm part of a Tenant's spec; an error for a tenant that has no Slurm."""
    scheduling = (tenant.get("spec") or {}).get("scheduling") or {}
    found = scheduling.get("slurm")
    if scheduling.get("mode") != "Slurm" and not isinstance(found, dict):
        name = tenant["metadata"]["name"]
        raise CliError(
            f"tenant {name} does not use Slurm",
            next_step=f"set spec.scheduling.mode to Slurm: kubectl edit tenant {name}; docs/slurm.md shows an example",
        )
    return dict(found or {})


def choose_user(spec: dict[str, Any], asked: str | None) -> str:
    """The user who runs the command: the requested one, else the tenant's first administrator or user, else Slurm's own."""
    known = [item for item in spec.get("users") or () if isinstance(item, dict) and item.get("name")]
    names_known = [str(item["name"]) for item in known]
    if asked is not None:
        if check_user(asked) not in {*names_known, ADMINISTRATOR, "root"}:
            raise CliError(
                f"user {asked} is not one of the tenant's users ({', '.join(names_known) or 'it has none'})",
                next_step="add the user to spec.scheduling.slurm.users of the Tenant",
                code=Exit.NOT_FOUND,
            )
        return asked
    administrators = [str(item["name"]) for item in known if item.get("admin")]
    return check_user(next(iter([*administrators, *names_known]), ADMINISTRATOR))


def pick_login(pods: Iterable[Obj]) -> str | None:
    """The first ready login pod."""
    ready = sorted(str(pod["metadata"]["name"]) for pod in pods if _belongs(pod, SLURM_LOGIN) and serves(pod))
    return ready[0] if ready else None


async def _prepare(request: SlurmRequest) -> tuple[str, str, bytes, list[str]]:
    """The login pod, the user, the kubeconfig, and warnings."""
    async with connection.host_client(request.host) as client:
        tenant = await connection.get_tenant(client, request.tenant)
        spec = slurm_spec(tenant)
        if (spec.get("login") or {}).get("enabled") is False:
            raise CliError(
                f"tenant {request.tenant} has no login pod",
                next_step="set spec.scheduling.slurm.login.enabled to true",
            )
        user = choose_user(spec, request.user)
        data = await access.one_hour(client, request.host, tenant)
    pods = await _pods(request.tenant, data)
    login = pick_login(pods)
    if login is None:
        raise _no_login(tenant, pods)
    return login, user, data, _warnings(pods)


async def _pods(tenant: str, data: bytes) -> list[Obj]:
    try:
        async with plane_client(data) as plane:
            return (await plane.list(kinds.PODS, SLURM_NAMESPACE)).items
    except KubeError as error:
        raise silent(tenant, error) from error


def plane_client(data: bytes) -> Client:
    """A client of the plane of a tenant with Slurm."""
    return connection.plane_client(data, seconds=_PLANE_SECONDS, answer_bytes=_ANSWER_LIMIT_BYTES)


def silent(tenant: str, error: KubeError) -> CliError:
    """The error for a tenant whose own API gave no answer."""
    return CliError(
        f"tenant {tenant}: its API gave no answer: {error}", next_step=f"see why: bulkhead tenant describe {tenant}"
    )


def _no_login(tenant: Obj, pods: Sequence[Obj]) -> CliError:
    """Why no login is possible: the troubles of the pods, or else the Tenant's condition."""
    name = tenant["metadata"]["name"]
    found = troubles((pod for pod in pods if _belongs(pod, SLURM_LOGIN)), ()) or troubles(pods, ())
    why = "; ".join(str(item) for item in found[:3]) or _why_not_ready(tenant)
    if not why:
        waiting = [str(pod["metadata"]["name"]) for pod in pods if not serves(pod)]
        why = f"not ready: {', '.join(sorted(waiting)[:6])}" if waiting else "its pods do not exist yet"
    return CliError(f"tenant {name}: no login pod is ready: {why}", next_step=f"see more: bulkhead tenant describe {name}")


def _why_not_ready(tenant: Obj) -> str:
    found = condition_of(tenant, ConditionType.SLURM_READY)
    return f"{found.get('reason')}: {found.get('message') or 'no message'}" if found and found.get("status") != "True" else ""


def _warnings(pods: Sequence[Obj]) -> list[str]:
    """Warnings that explain why a command will fail: slurmctld is not ready."""
    if any(_belongs(pod, SLURM_CONTROLLER) and serves(pod) for pod in pods):
        return []
    found = troubles((pod for pod in pods if _belongs(pod, SLURM_CONTROLLER)), ())
    return [f"{SLURM_CONTROLLER} is not ready: {'; '.join(str(item) for item in found[:3]) or 'its pod does not run'}"]


def _belongs(pod: Obj, stateful_set: str) -> bool:
    """Whether a pod belongs to a StatefulSet, by its name and owner."""
    owners = pod["metadata"].get("ownerReferences") or ()
    named = re.fullmatch(re.escape(stateful_set) + r"-[0-9]+", str(pod["metadata"].get("name")))
    return bool(named) and any(item.get("kind") == "StatefulSet" and item.get("name") == stateful_set for item in owners)
