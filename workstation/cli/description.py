"""`bulkhead tenant describe`: one tenant from outside (the host) and, as far as it answers, from inside (its own API).

Reads only. The tenant's plane is asked with a short deadline and treated as hostile: what it says is bounded and printed as
plain text, and its silence is part of the description.
"""

import argparse
import asyncio
import sys
from collections.abc import Iterable
from typing import Any

from bulkhead.api import accelerators, labels, names, podresources
from bulkhead.api.objects import Obj
from bulkhead.api.podphase import placed_on
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import Forbidden, KubeError, NotFound
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.kube.objects import Resource
from workstation.cli import connection, waiting
from workstation.cli.credentials import certificate, document
from workstation.cli.failures import CliError, Exit
from workstation.cli.output import age, heading, plain, table
from workstation.cli.tenants import gpus_of
from workstation.cli.trouble import troubles, unscheduled

_EVENTS_SHOWN = 15
_PLANE_SECONDS = 5.0
_PLANE_BODY = 8 << 20


def describe_tenant(options: argparse.Namespace) -> int:
    """`bulkhead tenant describe NAME`."""
    return asyncio.run(_describe(options))


async def _describe(options: argparse.Namespace) -> int:
    async with connection.host_client(options) as client:
        tenant = await connection.get_tenant(client, options.name)
        name = str(tenant["metadata"]["name"])
        _summary(tenant)
        _conditions(tenant)
        plane, work = names.plane_namespace(name), names.work_namespace(name)
        pods = await _readable(client, kinds.PODS, plane)
        events = await _readable(client, kinds.EVENTS, plane)
        heading(f"Plane ({plane})")
        _pods(pods)
        found = troubles(pods, waiting.current(events, pods))
        for item in found:
            print(f"  warning: {plain(item)}")
        quota = await _readable(client, kinds.RESOURCE_QUOTAS, work)
        _quota(quota)
        own = await _readable(client, kinds.EVENTS, None, field_selector="involvedObject.kind=Tenant")
        _events([*(item for item in own if (item.get("involvedObject") or {}).get("name") == name), *events])
        await _refused(client, tenant, options)
    return Exit.DONE


async def _readable(client: Client, r: Resource, namespace: str | None, **selectors: str) -> list[Obj]:
    """A list; empty where the namespace does not exist yet or this user may not read it."""
    try:
        return (await client.list(r, namespace, **selectors)).items  # type: ignore[arg-type]
    except NotFound:
        return []
    except Forbidden as error:
        sys.stderr.write(f"not shown: {plain(error)}\n")
        return []


def _summary(tenant: Obj) -> None:
    spec, status = tenant.get("spec") or {}, tenant.get("status") or {}
    versions = status.get("versions") or {}
    lines = {
        "Tenant": tenant["metadata"]["name"],
        "Class": spec.get("class"),
        "Mode": (spec.get("scheduling") or {}).get("mode"),
        "Version": versions.get("kubernetes") or spec.get("kubernetesVersion"),
        "Endpoint": status.get("endpoint"),
        "GPUs": f"{gpus_of(tenant)} used of limit",
        "Dedicated": _dedicated(status),
        "Slice": status.get("serviceSlice"),
        "Age": age(tenant["metadata"].get("creationTimestamp")),
    }
    if tenant["metadata"].get("deletionTimestamp"):
        lines["Deleting"] = f"for {age(tenant['metadata']['deletionTimestamp'])}"
    for label, value in lines.items():
        print(f"{label + ':':<10} {plain(value) if value else '-'}")


def _dedicated(status: Obj) -> str | None:
    """The nodes dedicated to the tenant, and their GPUs."""
    own = status.get("dedicated") or {}
    if not own:
        return None
    names = ", ".join(own.get("names") or ())
    waiting = f"; {own['waiting']} more still run pods of others" if own.get("waiting") else ""
    return f"{own.get('nodes', 0)} nodes with {own.get('gpus', 0)} GPUs{f': {names}' if names else ''}{waiting}"


def _conditions(tenant: Obj) -> None:
    heading("Conditions")
    listed = (tenant.get("status") or {}).get("conditions") or ()
    if not listed:
        print("  none: the controller has not reconciled this tenant yet")
        return
    rows = [
        (item.get("type"), item.get("status"), item.get("reason"), age(item.get("lastTransitionTime")), item.get("message"))
        for item in listed
    ]
    table(["TYPE", "STATUS", "REASON", "SINCE", "MESSAGE"], rows, indent=2)


def _pods(pods: list[Obj]) -> None:
    if not pods:
        print("  no pods")
        return
    rows = []
    for pod in pods:
        status = pod.get("status") or {}
        containers = status.get("containerStatuses") or ()
        ready = sum(bool(item.get("ready")) for item in containers)
        total = len((pod.get("spec") or {}).get("containers") or ())
        restarts = sum(int(item.get("restartCount") or 0) for item in containers)
        rows.append(
            (
                pod["metadata"]["name"],
                f"{ready}/{total}",
                status.get("phase"),
                restarts,
                placed_on(pod) or None,
            )
        )
    table(["POD", "READY", "PHASE", "RESTARTS", "NODE"], rows, indent=2)


def _quota(quotas: list[Obj]) -> None:
    rows = []
    for quota in quotas:
        status = quota.get("status") or {}
        used = status.get("used") or {}
        rows += [(name, used.get(name, "0"), hard) for name, hard in sorted((status.get("hard") or {}).items())]
    if rows:
        heading("Quota on the host")
        table(["RESOURCE", "USED", "LIMIT"], rows, indent=2)
        for resource in unlimited(name for name, *_ in rows):
            print(f"  {resource}: no ceiling set by class or tenant")


def unlimited(counted: Iterable[str]) -> list[str]:
    """A resource that every pod uses and that no quota of the tenant limits, as a TenantClass names it."""
    known = {name.removeprefix("requests.").removeprefix("limits.") for name in counted}
    return [resource for resource in podresources.AMOUNTS if resource.removeprefix("requests.") not in known]


def _events(events: list[Obj]) -> None:
    heading("Events (newest last)")
    latest: dict[tuple[str, ...], str] = {}
    for event in sorted(events, key=_when):
        subject = event.get("involvedObject") or {}
        name = f"{str(subject.get('kind') or '').lower()}/{subject.get('name')}"
        key = (str(event.get("type")), str(event.get("reason")), name, str(event.get("message") or ""))
        latest.pop(key, None)  # what is said again moves to the end
        latest[key] = _when(event)
    if not latest:
        print("  none")
        return
    rows = [(age(when), *key) for key, when in list(latest.items())[-_EVENTS_SHOWN:]]
    table(["AGE", "TYPE", "REASON", "OBJECT", "MESSAGE"], rows, indent=2)


def _when(event: Obj) -> str:
    series = event.get("series") or {}
    moments = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    return str(next((moment for moment in moments if moment), event["metadata"].get("creationTimestamp") or ""))


async def _refused(client: Client, tenant: Obj, options: argparse.Namespace) -> None:
    """The tenant's own pods that do not run, with the messages that the tenant sees."""
    heading("The tenant's pods that may not run")
    try:
        found = await certificate.current(client, options, tenant, patience=_PLANE_SECONDS)
        config = KubeConfig.from_bytes(document.with_certificate(tenant, found), hostile=True)
        plane = Client(
            config, user_agent="bulkhead-cli", field_manager="bulkhead-cli", timeout=_PLANE_SECONDS, max_body=_PLANE_BODY
        )
        async with plane:
            pending = (await plane.list(kinds.PODS, field_selector="status.phase=Pending")).items
    except (CliError, KubeError) as error:
        print(f"  unknown: {plain(error)}")
        return
    refused = unscheduled(pending)
    if refused:
        table(["POD", "GPUS", "REASON", "MESSAGE"], [_refusal(pod, condition) for pod, condition in refused], indent=2)
    else:
        print("  none")
    listed = {str(pod["metadata"]["name"]) for pod, _ in refused}
    for item in troubles((pod for pod in pending if str(pod["metadata"]["name"]) not in listed), ()):
        print(f"  warning: {plain(item)}")


def _refusal(pod: Obj, condition: dict[str, Any]) -> tuple[object, ...]:
    meta = pod["metadata"]
    return (f"{meta.get('namespace')}/{meta['name']}", gpus_asked(pod), condition.get("reason"), condition.get("message"))


def gpus_asked(pod: Obj) -> str:
    """GPUs that the pod counts for, as text."""
    return str(accelerators.requested(pod, (labels.GPU,)).get(labels.GPU, "-"))
