"""Waits that show what they wait for: until a tenant is Ready, or until it is gone.

    poll the Tenant ──> its conditions ──> the line on the screen
    every two seconds its pods and events ──> warnings, each printed once

It polls because a wait takes seconds, and three small reads a second are simpler than a watch. A wait changes nothing. If it
ends early, the operation continues on the host.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from bulkhead.api import conditions, names
from bulkhead.api.conditions import HOPELESS, ConditionType
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import ApiError, Forbidden, NotFound, Timeout, may_pass
from workstation.cli.failures import CliError, Exit
from workstation.cli.output import Progress
from workstation.cli.tenant import patience
from workstation.cli.tenant.patience import LateError, Waits
from workstation.cli.trouble import Trouble, troubles

_INTERVAL = 0.3
_TROUBLE_EVERY = 2.0


def ready_condition(tenant: Obj) -> Mapping[str, Any] | None:
    """The Ready condition, if it is about the current spec."""
    return conditions.current_condition(tenant, ConditionType.READY) or None


def describe(tenant: Obj) -> str:
    """What the tenant waits for: the condition with the reason for which it is not Ready, else its Ready condition.

    Others that are not true may be advice, such as MembersSpread, which no wait is about.
    """
    ready = ready_condition(tenant)
    if ready is None:
        return "the controller has not reconciled it yet"
    listed = (tenant.get("status") or {}).get("conditions") or ()
    parts = [item for item in listed if item.get("status") != "True" and item.get("type") != ConditionType.READY]
    shown = next((item for item in parts if item.get("reason") == ready.get("reason")), ready)
    return f"{shown.get('type')}: {shown.get('reason')}: {shown.get('message') or 'no message'}"


async def until_ready(client: Client, name: str, *, seconds: float, progress: Progress) -> Obj:
    """The Tenant once it is Ready. Raises CliError with an exit code if that is impossible or takes too long."""
    seen: set[tuple[str, str]] = set()
    next_warnings = _now() + _TROUBLE_EVERY

    async def look() -> Obj | Waits:
        nonlocal next_warnings
        try:
            tenant = await client.get(kinds.TENANTS, name)
        except NotFound as error:
            raise CliError(f"tenant {name}: deleted while waiting for it", code=Exit.NOT_FOUND) from error
        found = ready_condition(tenant)
        if found is not None and found.get("status") == "True":
            return tenant
        if found is not None and found.get("reason") in HOPELESS:
            raise _hopeless(name, found)
        if _now() >= next_warnings:
            await _warn(client, name, seen, progress)
            next_warnings = _now() + _TROUBLE_EVERY
        return Waits(describe(tenant))

    subject = f"waiting for tenant {name}"
    try:
        return await patience.until(client, look, subject, seconds=seconds, every=_INTERVAL, progress=progress)
    except LateError as late:
        raise CliError(
            f"tenant {name}: not ready after {seconds:g} s: {late.last}",
            next_step=f"it continues in the background; see why it waits: bulkhead tenant describe {name}",
            code=Exit.TIMEOUT,
        ) from late


async def until_gone(client: Client, name: str, uid: str, *, seconds: float, progress: Progress) -> None:
    """Return when the tenant with this UID is gone; a new one of the same name counts as gone."""

    async def look() -> Waits | None:
        try:
            tenant = await client.get(kinds.TENANTS, name)
        except NotFound:
            return None
        if tenant["metadata"].get("uid") != uid:
            return None
        return Waits(describe(tenant) if ready_condition(tenant) else "deletion was requested")

    subject = f"waiting for tenant {name} to be gone"
    try:
        await patience.until(client, look, subject, seconds=seconds, every=_INTERVAL, progress=progress)
    except LateError as late:
        raise CliError(
            f"tenant {name}: still there after {seconds:g} s: {late.last}",
            next_step=f"deletion continues in the background; see what is left: bulkhead tenant describe {name}",
            code=Exit.TIMEOUT,
        ) from late


async def plane_troubles(client: Client, name: str) -> list[Trouble]:
    """What keeps the pods of a tenant's plane from starting."""
    namespace = names.plane_namespace(name)
    pods = await client.list(kinds.PODS, namespace)
    events = await client.list(kinds.EVENTS, namespace, field_selector="type=Warning")
    return troubles(pods.items, current(events.items, pods.items))


def current(events: list[Obj], pods: list[Obj]) -> list[Obj]:
    """Events except those about pods that are gone or have started since, or have a node since if that was missing."""
    running = {str(pod["metadata"]["name"]) for pod in pods if (pod.get("status") or {}).get("phase") == "Running"}
    placed = {str(pod["metadata"]["name"]) for pod in pods if (pod.get("spec") or {}).get("nodeName")}
    alive = {str(pod["metadata"]["name"]) for pod in pods}
    kept = []
    for event in events:
        subject = event.get("involvedObject") or {}
        if subject.get("kind") == "Pod" and (subject.get("name") in running or subject.get("name") not in alive):
            continue
        if event.get("reason") == "FailedScheduling" and subject.get("name") in placed:
            continue
        kept.append(event)
    return kept


async def _warn(client: Client, name: str, seen: set[tuple[str, str]], progress: Progress) -> None:
    """Print each new warning once. The wait continues if permission is missing or the API does not answer."""
    try:
        found = await plane_troubles(client, name)
    except (ApiError, Timeout) as error:
        if isinstance(error, NotFound | Forbidden) or may_pass(error):
            return
        found = [Trouble(f"namespace {names.plane_namespace(name)}", "Unreadable", str(error))]
    for item in found:
        if item.key not in seen:
            seen.add(item.key)
            progress.warn(str(item))


def _hopeless(name: str, found: Mapping[str, Any]) -> CliError:
    return CliError(
        f"tenant {name}: {found.get('reason')}: {found.get('message')}",
        next_step=f"correct the spec with kubectl edit tenant {name}, or remove it: bulkhead tenant delete {name}",
    )


def _now() -> float:
    return asyncio.get_running_loop().time()
