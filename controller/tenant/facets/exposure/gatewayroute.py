"""What a Gateway reports on a tenant's TLSRoute, and what a person can do if it does not accept the route. Pure.

    status.parents ──> those of the Gateway that the route names now ──> accepted, and its backend found? ──> "" or a sentence

Implementations report little: some leave the message out, some keep the report on an earlier route, a former Gateway or one
that is gone. So only a report on the route's present generation and parent counts, and only if the Gateway exists. The advice
for each reason is written here.
"""

from collections.abc import Mapping
from typing import Any, Final

from bulkhead.api import labels
from bulkhead.api.conditions import condition_of
from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping, mappings, text
from controller.plane.spec import PLANE, PlaneSpec
from controller.plane.ways import Gateway

_MAX_PARENTS: Final = 32  # the limit of the Gateway API
_MESSAGE_CHARACTERS: Final = 512


def trouble(spec: PlaneSpec, gateway: Gateway, route: Obj | None, there: Obj | None = None) -> str:
    """Why the route leads nowhere, with what to do; empty if the Gateway has accepted it.

    `there` is the Gateway, empty if it does not exist, None if that is unknown.
    """
    if there is not None and not there:
        return f"{_called(gateway)} does not exist; next: create it, or name another (exposure.gateway of chart or class)"
    return _of_route(spec, gateway, route) or _unprogrammed(gateway, there or {})


def _unprogrammed(gateway: Gateway, there: Obj) -> str:
    """What the Gateway reports on itself, if it forwards nothing at all."""
    found, meta = condition_of(there, "Programmed"), mapping(there.get("metadata"))
    if found.get("status") != "False" or _is_stale(found, meta.get("generation")):
        return ""
    look = f"kubectl -n {gateway.namespace} describe gateway {gateway.name}"
    return f"{_called(gateway)} accepts the route, but is not Programmed: {_words(found)}; next: fix the Gateway ({look})"


def _of_route(spec: PlaneSpec, gateway: Gateway, route: Obj | None) -> str:
    status, made = mapping((route or {}).get("status")), mapping((route or {}).get("metadata"))
    parents = mappings(status.get("parents"), _MAX_PARENTS)
    own = [parent for parent in parents if _is_of(gateway, mapping(parent.get("parentRef")), spec.namespace)]
    # Several controllers may each have an entry for one Gateway: one that accepts the route is enough.
    found = [_of_parent(spec, gateway, parent, made.get("generation")) for parent in own]
    silent = f"{_called(gateway)} has not reported whether it accepts the route; {_ask(gateway, spec)}"
    return min(found, key=bool, default=silent)


def _of_parent(spec: PlaneSpec, gateway: Gateway, parent: Mapping[str, Any], generation: object) -> str:
    accepted, resolved = (condition_of({"status": parent}, kind) for kind in ("Accepted", "ResolvedRefs"))
    if not accepted or _is_stale(accepted, generation):
        return f"{_called(gateway)} has not reported yet whether it accepts the current route; {_ask(gateway, spec)}"
    if accepted.get("status") != "True":
        return f"{_called(gateway)} does not accept the route: {_words(accepted)}; next: {_advice(spec, gateway, accepted)}"
    if resolved.get("status") == "False" and not _is_stale(resolved, generation):
        told = f"{_called(gateway)} accepts the route, but forwards nothing: {_words(resolved)}"
        return f"{told}; next: {_advice(spec, gateway, resolved)}"
    return ""


def _is_of(gateway: Gateway, ref: Mapping[str, Any], namespace: str) -> bool:
    """Whether an entry is about the parent that the route names: implementations repeat the reference as it was written."""
    there = (text(ref.get("namespace")) or namespace, text(ref.get("name")), text(ref.get("sectionName")))
    return there == (gateway.namespace, gateway.name, gateway.section)


def _is_stale(condition: Mapping[str, Any], generation: object) -> bool:
    observed = condition.get("observedGeneration")
    return isinstance(observed, int) and isinstance(generation, int) and 0 < observed < generation


def _words(condition: Mapping[str, Any]) -> str:
    reason, message = text(condition.get("reason")) or "no reason given", text(condition.get("message"))
    return (f"{reason}: {message}" if message else reason)[:_MESSAGE_CHARACTERS]


def _called(gateway: Gateway) -> str:
    listener = f", listener {gateway.section}," if gateway.section else ""
    return f"Gateway {gateway.namespace}/{gateway.name}{listener}"


def _ask(gateway: Gateway, spec: PlaneSpec) -> str:
    return (
        f"next: check that it exists and is Programmed (kubectl -n {gateway.namespace} get gateway {gateway.name}), and that "
        f"its controller runs and reads TLSRoutes ({spec.exposure.route_version} is what this host serves)"
    )


def _advice(spec: PlaneSpec, gateway: Gateway, condition: Mapping[str, Any]) -> str:
    name = f"{gateway.namespace}/{gateway.name}"
    wanted = f"protocol TLS, tls.mode Passthrough and hostname *.{spec.exposure.hostnames[0].partition('.')[2]}, or none"
    backend = f"see Service {spec.namespace}/{PLANE} and its EndpointSlices, which exist once its pod runs"
    steps = {
        "NotAllowedByListeners": f"let a listener of Gateway {name} accept TLSRoutes of namespace {spec.namespace}: "
        f"allowedRoutes.namespaces with from: Selector and the label {labels.MANAGED_BY}={labels.MANAGED_BY_BULKHEAD}",
        "NoMatchingListenerHostname": f"give a listener of Gateway {name} {wanted}",
        "NoMatchingParent": f"name a listener that Gateway {name} has (exposure.gateway of chart or class), with {wanted}",
        "BackendNotFound": backend,
        "EndpointsNotFound": backend,  # a reason of Envoy Gateway
    }
    return steps.get(text(condition.get("reason")), f"fix what it reports, at Gateway {name} or its controller")
