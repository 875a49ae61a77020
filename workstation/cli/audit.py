"""`bulkhead audit`: who did what in a tenant's plane, as its API servers wrote it down.

    Tenant ──> pods of its plane ──┬─ container `audit` ──> the reader in it, by kubectl exec ──┐
                                   └─ trail on stdout ──> the container's log ─────────────────┴─> merged, newest last

Only an admin of the host reads it: nothing of it goes by the tenant's own API. What the trail holds was partly written by the
tenant, so it is bounded and printed without control characters.
"""

import argparse
import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from bulkhead.api import labels, names
from bulkhead.api.auditevents import MOST_BYTES, Choice, Newest, moment, read, row
from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping, mappings, sequence
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError
from workstation.cli import access, connection
from workstation.cli.failures import CliError, Exit
from workstation.cli.output import plain, table

_READER = "audit"
_SERVER = "kube-apiserver"
_SECONDS = 60.0
_LOG_LINES = 50_000
_LOG_BYTES = 48 << 20
_PLANE_POD = re.compile(r"plane-[0-9]{1,3}")


def print_trail(options: argparse.Namespace) -> int:
    """`bulkhead audit TENANT [--since 1h] [--user U] [--verb V] [-o table|json]`."""
    since = f"{datetime.now(UTC) - timedelta(seconds=options.since):%Y-%m-%dT%H:%M:%S}"
    choice = Choice(since, options.user or "", options.verb or "", options.limit)
    trails, notes = asyncio.run(_collect(options, choice))
    events = sorted(filter(None, (read(line) for trail in trails for line in trail.lines)), key=moment)
    _print(events[-choice.most :], options.output)
    older = sum(trail.left_out for trail in trails) + len(events[: -choice.most])
    if older:
        notes.append(f"{older} older events are not shown: choose a shorter --since, or a larger --limit")
    if large := sum(trail.large for trail in trails):
        notes.append(f"{large} events are too large to be read: they are in the trail itself")
    for note in notes:
        sys.stderr.write(f"warning: {plain(note)}\n")
    return Exit.DONE


def _print(events: Sequence[Mapping[str, Any]], form: str) -> None:
    if form == "json":
        for event in events:
            sys.stdout.write(json.dumps(event, ensure_ascii=True) + "\n")
        return
    table(["TIME (UTC)", "USER", "VERB", "CODE", "FROM", "WHAT"], [_columns(event) for event in events])


def _columns(event: Mapping[str, Any]) -> tuple[str, ...]:
    time, user, verb, what, code, source = row(event)
    return time, user, verb, code, source, what


async def _collect(options: argparse.Namespace, choice: Choice) -> tuple[list[Newest], list[str]]:
    """What all pods of the plane have, and why one of them has nothing to say."""
    async with connection.host_client(options) as client:
        tenant = await connection.get_tenant(client, options.tenant)
        namespace = names.plane_namespace(str(tenant["metadata"]["name"]))
        selector = f"{labels.TENANT}={options.tenant}"
        found = (await client.list(kinds.PODS, namespace, label_selector=selector)).items
        pods = [pod for pod in found if _PLANE_POD.fullmatch(str(pod["metadata"]["name"]))]
        if not pods:
            raise CliError(
                f"tenant {options.tenant}: its plane does not run",
                next_step=f"see why: bulkhead tenant describe {options.tenant}",
            )
        trails: list[Newest] = []
        failures: list[CliError] = []
        for pod in pods:
            try:
                trails.append(await _trail(client, options, pod, choice))
            except KubeError as error:
                failures.append(CliError(f"pod {pod['metadata']['name']}: {error}"))
            except CliError as error:
                failures.append(error)
    if not trails:
        raise failures[0]
    return trails, [error.cause for error in failures]


async def _trail(client: Client, options: argparse.Namespace, pod: Obj, choice: Choice) -> Newest:
    """What one pod has; what its reader left out counts as left out here."""
    newest = Newest(choice)
    containers = {str(each.get("name")): each for each in mappings(mapping(pod.get("spec")).get("containers"))}
    if _READER in containers:
        *events, summary = await asyncio.to_thread(_read_files, options, pod, choice)
        told = mapping(read(summary))
        newest.add(events)
        newest.large += _number(told.get("large"))
        newest.left_out += _number(told.get("leftOut"))
        return newest
    flags = [str(each) for each in sequence(containers.get(_SERVER, {}).get("command"))]
    if "--audit-log-path=-" in flags:
        where = kinds.PODS.path(pod["metadata"]["namespace"], pod["metadata"]["name"], "log")
        bounds = f"sinceSeconds={int(options.since) + 1}&tailLines={_LOG_LINES}&limitBytes={_LOG_BYTES}"
        newest.add((await client.get_raw(f"{where}?container={_SERVER}&{bounds}", timeout=_SECONDS)).split(b"\n"))
        return newest
    if any(
        str(flag).startswith("--audit-webhook-config-file=") for flag in sequence(containers.get(_SERVER, {}).get("command"))
    ):
        raise CliError(
            f"tenant {options.tenant}: its audit trail is sent to the class's receiver, and kept nowhere else",
            next_step="read it there, or set sink File in spec.audit of its TenantClass: then it is kept here too",
        )
    raise CliError(
        f"tenant {options.tenant}: its class asks for no audit trail that can be read",
        next_step="set spec.audit of its TenantClass, for example to {sink: File, retain: true}; its planes restart once",
    )


def _read_files(options: argparse.Namespace, pod: Obj, choice: Choice) -> list[bytes]:
    """What the reader in a pod's container prints."""
    path = connection.find_kubeconfig(options.kubeconfig)
    environment = access.environment_of(options.tenant, path)
    program = shutil.which("kubectl", path=environment.get("PATH", os.defpath))
    if program is None:
        raise CliError("kubectl: no such program on PATH", next_step="install it: files are read by kubectl exec")
    namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
    words = [program, *(("--context", options.context) if options.context else ()), "-n", namespace]
    words += ["exec", "--quiet", name, "-c", _READER, "--", "python3", "-m", "bulkhead.auditreader", f"--most={choice.most}"]
    words += [f"--since={choice.since}", f"--user={choice.user}", f"--verb={choice.verb}"]
    try:
        done = subprocess.run(
            words, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise CliError(f"pod {name}: its trail was not read within {_SECONDS:.0f} s", next_step="try again") from error
    lines = done.stdout[: 2 * MOST_BYTES].splitlines()
    if done.returncode or not lines:
        said = done.stderr[-500:].decode(errors="replace")
        raise CliError(
            f"pod {name}: its trail cannot be read: {said}", next_step=f"see why: bulkhead tenant describe {options.tenant}"
        )
    return lines


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0
