"""`bulkhead slurm`: a command, a shell or a token of a tenant's own Slurm cluster.

    Tenant (host) ──> does it use Slurm, who are its users ──> kubeconfig ──> the login pod in the plane ──> kubectl exec
                                                                      └────> Secret slurm-keys ──> a JWT for slurmrestd

Never speaks Slurm itself: commands run in the login pod, as the chosen user, through the tenant's own API. What is not ready is
named before anything is run. The words of the command are passed on unchanged; no shell interprets them on the way.
"""

import argparse
import asyncio
import contextlib
import re
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from bulkhead.api.conditions import ConditionType, condition_of
from bulkhead.api.names import SLURM_CONTROLLER, SLURM_KEYS, SLURM_LOGIN, SLURM_NAMESPACE, SLURM_TOKEN_KEY
from bulkhead.api.objects import Obj
from bulkhead.api.podphase import serves
from bulkhead.api.slurmtoken import sign
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError, NotFound
from bulkhead.kube.kubeconfig import KubeConfig
from workstation.cli import access, connection
from workstation.cli.failures import CliError, Exit
from workstation.cli.output import plain
from workstation.cli.trouble import troubles

# Slurm's own administrator in every image: may do everything in Slurm, and has no special rights in the pods.
ADMINISTRATOR = "slurm"
_PLANE_SECONDS = 10.0
_PLANE_BODY = 16 << 20
_USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}")


def run(options: argparse.Namespace) -> int:
    """`bulkhead slurm TENANT [--user NAME] [-- COMMAND…]`; the exit code is the command's."""
    command = list(options.command)
    pod, user, data, warnings = asyncio.run(_prepare(options))
    for warning in warnings:
        sys.stderr.write(f"warning: {plain(warning)}\n")
    interactive = sys.stdin.isatty() and sys.stdout.isatty()
    if not command and not interactive:
        raise CliError(
            "slurm: a login shell needs a terminal, and there is none",
            next_step=f"give a command: bulkhead slurm {options.tenant} -- sinfo",
            code=Exit.USAGE,
        )
    with tempfile.TemporaryDirectory(prefix="bulkhead-") as folder, contextlib.ExitStack() as stack:
        path = Path(folder) / f"{options.tenant}.kubeconfig"
        access.write_private(path, data)
        environment = access.environment_of(options.tenant, path)
        words = exec_words(pod, inside(user, command), terminal=interactive)
        return access.run_program(words, environment, stack)


def print_token(options: argparse.Namespace) -> int:
    """`bulkhead slurm token TENANT --user NAME --lifetime TIME`: one line that a shell can export."""
    key = asyncio.run(_signing_key(options))
    now = int(time.time())
    sys.stdout.write(f"SLURM_JWT={sign(key, check_user(options.user), issued=now, expires=now + int(options.lifetime))}\n")
    sys.stdout.flush()
    return Exit.DONE


def exec_words(pod: str, command: Sequence[str], *, terminal: bool) -> list[str]:
    """The kubectl call that runs a command in a login pod; stdin always goes along, for `sbatch < script`."""
    flags = ["-i", "-t"] if terminal else ["-i"]
    return ["kubectl", "-n", SLURM_NAMESPACE, "exec", "--quiet", *flags, pod, "-c", SLURM_LOGIN, "--", *command]


# `kubectl exec` begins as root without a login: become the user as sshd would, in the user's home, with the user's environment.
_BECOME = """user="$1"; shift
group="$(id -g "$user")" || exit 1
cd "$(getent passwd "$user" | cut -d: -f6)" 2>/dev/null || cd /
exec setpriv --reuid="$user" --regid="$group" --init-groups --reset-env -- bash -l "$@"
"""


def inside(user: str, command: Sequence[str]) -> list[str]:
    """What runs in the login pod: a login shell of the user, which becomes the command when there is one.

    Both shells run their own arguments, so the command's words need no quoting and are never parsed as shell.
    """
    words = ["sh", "-c", _BECOME, "bulkhead", user]
    return [*words, "-c", 'exec "$@"', "bulkhead", *command] if command else words


def check_user(name: str) -> str:
    """The name, if it can be a user's; anything else never reaches the pod."""
    if not _USER.fullmatch(name):
        raise CliError(
            f"{name!r} is not a user name", next_step="see spec.scheduling.slurm.users of the Tenant", code=Exit.USAGE
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
    """Who runs the command: the one asked for, else the tenant's first administrator or first user, else Slurm's own."""
    known = [item for item in spec.get("users") or () if isinstance(item, dict) and item.get("name")]
    names_known = [str(item["name"]) for item in known]
    if asked is not None:
        if check_user(asked) not in {*names_known, ADMINISTRATOR, "root"}:
            raise CliError(
                f"user {asked} is not among the tenant's users ({', '.join(names_known) or 'there are none'})",
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


async def _prepare(options: argparse.Namespace) -> tuple[str, str, bytes, list[str]]:
    """The login pod, the user, the kubeconfig, and warnings."""
    async with connection.host_client(options) as client:
        tenant = await connection.get_tenant(client, options.tenant)
        spec = slurm_spec(tenant)
        if (spec.get("login") or {}).get("enabled") is False:
            raise CliError(
                f"tenant {options.tenant}: has no login pod",
                next_step="set spec.scheduling.slurm.login.enabled to true",
            )
        user = choose_user(spec, options.user)
        data = await access.one_hour(client, options, tenant)
    pods = await _pods(options.tenant, data)
    login = pick_login(pods)
    if login is None:
        raise _no_login(tenant, pods)
    return login, user, data, _warnings(pods)


async def _pods(tenant: str, data: bytes) -> list[Obj]:
    try:
        async with _plane(data) as plane:
            return (await plane.list(kinds.PODS, SLURM_NAMESPACE)).items
    except KubeError as error:
        raise _silent(tenant, error) from error


async def _signing_key(options: argparse.Namespace) -> bytes:
    """The key that the tenant's slurmrestd and slurmctld check tokens with."""
    import base64  # noqa: PLC0415
    import binascii  # noqa: PLC0415

    async with connection.host_client(options) as client:
        tenant = await connection.get_tenant(client, options.tenant)
        slurm_spec(tenant)
        data = await access.one_hour(client, options, tenant)
    try:
        async with _plane(data) as plane:
            secret = await plane.get(kinds.SECRETS, SLURM_KEYS, SLURM_NAMESPACE)
        return base64.b64decode(secret["data"][SLURM_TOKEN_KEY], validate=True)
    except NotFound as error:
        raise CliError(
            f"tenant {options.tenant}: Slurm has no keys yet",
            next_step=f"see its progress: bulkhead tenant describe {options.tenant}",
            code=Exit.NOT_FOUND,
        ) from error
    except (KeyError, TypeError, binascii.Error) as error:
        raise CliError(f"tenant {options.tenant}: Secret {SLURM_NAMESPACE}/{SLURM_KEYS} holds no {SLURM_TOKEN_KEY}") from error
    except KubeError as error:
        raise _silent(options.tenant, error) from error


def _plane(data: bytes) -> Client:
    """A client of the tenant's plane, which is not trusted: short deadline, bounded answers."""
    config = KubeConfig.from_bytes(data, hostile=True)
    return Client(config, user_agent="bulkhead-cli", field_manager="bulkhead-cli", timeout=_PLANE_SECONDS, max_body=_PLANE_BODY)


def _silent(tenant: str, error: KubeError) -> CliError:
    return CliError(
        f"tenant {tenant}: its API gave no answer: {error}", next_step=f"see why: bulkhead tenant describe {tenant}"
    )


def _no_login(tenant: Obj, pods: Sequence[Obj]) -> CliError:
    """Why no login is possible: the troubles of the pods, else the Tenant's condition."""
    name = tenant["metadata"]["name"]
    found = troubles((pod for pod in pods if _belongs(pod, SLURM_LOGIN)), ()) or troubles(pods, ())
    said = "; ".join(str(item) for item in found[:3]) or _why_not_ready(tenant)
    if not said:
        waiting = [str(pod["metadata"]["name"]) for pod in pods if not serves(pod)]
        said = f"not ready: {', '.join(sorted(waiting)[:6])}" if waiting else "its pods do not exist yet"
    return CliError(f"tenant {name}: no login pod is ready: {said}", next_step=f"see more: bulkhead tenant describe {name}")


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
    """Whether a pod is one of a StatefulSet's, by its name and owner."""
    owners = pod["metadata"].get("ownerReferences") or ()
    named = re.fullmatch(re.escape(stateful_set) + r"-[0-9]+", str(pod["metadata"].get("name")))
    return bool(named) and any(item.get("kind") == "StatefulSet" and item.get("name") == stateful_set for item in owners)
