"""Events of host objects for the tenant: about its own object, in its own words.

The name is a digest of the host event's, so that the same event updated on the host updates the same virtual event, and a
tenant learns no host name from it.
"""

from collections.abc import Container, Mapping
from typing import Any, Final

from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping, text
from syncer.translate import metadata, sanitise, tokens
from syncer.translate.metadata import Identity
from syncer.translate.view import TenantView

_COPIED: Final = ("type", "firstTimestamp", "lastTimestamp", "count", "eventTime", "action", "series")
_TEXT_LIMIT: Final = 128
_NAME_LIMIT: Final = 253 - 33
# A pod's tokens are requested once it is bound, so the kubelet tries its volume too early, once or twice, at every pod. After
# so many tries within its first half minute the tokens are late, and the tenant is told.
_EARLY_TRIES: Final = 5
# What the host reports about its own doings; and what the plane reports by itself, because it has the same budgets.
_KEPT_REASONS: Final = frozenset({"FailedToUpdateEndpointSlices", "FailedToCreateEndpoint", "MultiplePodDisruptionBudgets"})


def involved(host_event: Obj, kinds: Container[str]) -> tuple[str, str]:
    """Kind and host name of the object that an event is about; empty texts where it is none of `kinds`."""
    about = mapping(host_event.get("involvedObject"))
    kind, name = about.get("kind"), about.get("name")
    if not isinstance(kind, str) or kind not in kinds or not isinstance(name, str) or host_event.get("reason") in _KEPT_REASONS:
        return "", ""
    return kind, name


def waits_for_tokens(host_event: Obj, virtual: Obj, view: TenantView) -> bool:
    """Whether the kubelet only tried a pod's volume before its tokens were there: true of nearly every pod as it starts."""
    if host_event.get("reason") != "FailedMount" or str(virtual.get("kind") or "Pod") != "Pod":
        return False
    tries = host_event.get("count") or mapping(host_event.get("series")).get("count") or 1
    early = isinstance(tries, int) and tries < _EARLY_TRIES
    return early and tokens.secret_name(virtual, view) in str(host_event.get("message"))


def to_virtual(host_event: Obj, virtual: Obj, view: TenantView) -> Obj:
    """The event for the tenant; `virtual` is the object whose mirror it is about."""
    identity = metadata.identity(str(virtual.get("kind") or "Pod"), virtual)
    host_meta = mapping(host_event.get("metadata"))
    about = mapping(host_event.get("involvedObject"))
    source = mapping(host_event.get("source"))
    component = text(source.get("component") or host_event.get("reportingComponent"))[:_TEXT_LIMIT]
    event: Obj = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{identity.name[:_NAME_LIMIT].rstrip('.-')}.{metadata.digest(str(host_meta.get('name')))}",
            "namespace": identity.namespace,
        },
        "involvedObject": _reference(identity, virtual, about),
        "reason": text(host_event.get("reason"))[:_TEXT_LIMIT],
        "message": sanitise.for_tenant(str(host_event.get("message") or ""), virtual | {"kind": identity.kind}, view),
        "source": {"component": component},
        "reportingComponent": component,
        "reportingInstance": "",
    }
    if source.get("host") in view.nodes:
        event["source"]["host"] = source["host"]
    if host_event.get("eventTime"):
        event["reportingInstance"] = component  # needed beside eventTime; the host's own would name a host
    return event | {key: host_event[key] for key in _COPIED if host_event.get(key) is not None}


def _reference(identity: Identity, virtual: Obj, about: Mapping[str, Any]) -> Obj:
    reference: Obj = {
        "apiVersion": str(virtual.get("apiVersion") or "v1"),
        "kind": identity.kind,
        "namespace": identity.namespace,
        "name": identity.name,
        "uid": identity.uid,
    }
    if isinstance(about.get("fieldPath"), str):
        reference["fieldPath"] = about["fieldPath"][:_TEXT_LIMIT]
    return reference
