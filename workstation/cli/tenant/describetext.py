"""A tenant's description as text for people."""

from collections.abc import Sequence

from bulkhead.api.objects import Obj
from workstation.cli.output import age, heading, plain, table
from workstation.cli.tenant.description import (
    Description,
    EventLine,
    Inside,
    PodLine,
    event_lines,
    gpus_asked,
    pod_lines,
    quota_lines,
    unlimited,
)
from workstation.cli.tenant.listing import gpus_in_words

_EVENTS_SHOWN = 15


def show(found: Description) -> None:
    """Print all of it."""
    _summary(found.tenant)
    _conditions(found.tenant)
    heading(f"Plane ({found.plane})")
    _pods(list(pod_lines(found.pods)))
    for item in found.troubles:
        print(f"  warning: {plain(item)}")
    _quota(quota_lines(found.quotas))
    _events(event_lines(found.events))
    _inside(found.inside)


def _summary(tenant: Obj) -> None:
    spec, status = tenant.get("spec") or {}, tenant.get("status") or {}
    versions = status.get("versions") or {}
    lines = {
        "Tenant": tenant["metadata"]["name"],
        "Class": spec.get("class"),
        "Mode": (spec.get("scheduling") or {}).get("mode"),
        "Version": versions.get("kubernetes") or spec.get("kubernetesVersion"),
        "Endpoint": status.get("endpoint"),
        "GPUs": gpus_in_words(tenant),
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
    waiting = f"; {own['waiting']} more still run pods of other tenants" if own.get("waiting") else ""
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


def _pods(pods: Sequence[PodLine]) -> None:
    if not pods:
        print("  no pods")
        return
    rows = [(pod.name, f"{pod.ready}/{pod.containers}", pod.phase, pod.restarts, pod.node) for pod in pods]
    table(["POD", "READY", "PHASE", "RESTARTS", "NODE"], rows, indent=2)


def _quota(rows: Sequence[tuple[str, str, str]]) -> None:
    if rows:
        heading("Quota on the host")
        table(["RESOURCE", "USED", "LIMIT"], rows, indent=2)
        for resource in unlimited(name for name, *_ in rows):
            print(f"  {resource}: neither class nor tenant sets a limit")


def _events(events: Sequence[EventLine]) -> None:
    heading("Events (newest last)")
    if not events:
        print("  none")
        return
    rows = [(age(line.when), line.type, line.reason, line.object, line.message) for line in events[-_EVENTS_SHOWN:]]
    table(["AGE", "TYPE", "REASON", "OBJECT", "MESSAGE"], rows, indent=2)


def _inside(found: Inside) -> None:
    heading("The tenant's pods that may not run")
    if found.unknown:
        print(f"  unknown: {plain(found.unknown)}")
        return
    rows = [
        (
            f"{pod['metadata'].get('namespace')}/{pod['metadata']['name']}",
            gpus_asked(pod),
            condition.get("reason"),
            condition.get("message"),
        )
        for pod, condition in found.refused
    ]
    if rows:
        table(["POD", "GPUS", "REASON", "MESSAGE"], rows, indent=2)
    else:
        print("  none")
    for item in found.troubles:
        print(f"  warning: {plain(item)}")
