"""The report on the way to a plane from outside the host: its names, and whether it is reached there. Pure."""

from collections.abc import Iterable

from bulkhead.api.conditions import ConditionType, Reason
from bulkhead.api.objects import Obj
from controller.decide import extras
from controller.decide.extras import Refused
from controller.plane.spec import PUBLIC, PlaneSpec
from controller.tenant.facets.exposure import gatewayroute
from controller.tenant.status import Report
from controller.verdict import Verdict


def report(
    spec: PlaneSpec, route: Obj | None, refused: Iterable[Refused] = (), gateway: Obj | None = None, *, unseen: bool = False
) -> Report:
    """See `verdict`. `unseen`: it was not looked at, and the previous report stays."""
    return Report(
        conditions={} if unseen else {ConditionType.EXPOSED: verdict(spec, route, refused, gateway)},
        fields={
            "endpoint": spec.endpoint,
            "tlsServerName": spec.tls_server_name,
            "hostnames": list(spec.exposure.names) or None,
        },
    )


def verdict(spec: PlaneSpec, route: Obj | None, refused: Iterable[Refused] = (), gateway: Obj | None = None) -> Verdict | None:
    """The condition Exposed; None if the API server is not exposed.

    `route` is the TLSRoute as last observed, `refused` what the host refused to apply or to delete, `gateway` the Gateway that
    the route names: empty if it does not exist, None if that is unknown.
    """
    if (refusal := extras.exposed(refused, spec)) is not None:
        return refusal
    if spec.exposure.type == "None":
        return None
    return _missing(spec, route, gateway) or Verdict("True", Reason.APPLIED, f"the API server is reached at {spec.endpoint}")


def _missing(spec: PlaneSpec, route: Obj | None, gateway: Obj | None) -> Verdict | None:
    """Why the API server is not reached, although the host accepted every object; None if it is reached."""
    exposure = spec.exposure
    if exposure.unmet:
        return Verdict("False", Reason.DOMAIN_MISSING, f"exposure {exposure.type}: {exposure.unmet}")
    if exposure.type == "LoadBalancer" and not exposure.addresses:
        return Verdict("False", Reason.WAITING_FOR_ADDRESS, _no_address(spec))
    if exposure.gateway is None:
        return None
    if not exposure.route_version:
        return Verdict("False", Reason.NOT_SUPPORTED, "the host does not serve TLSRoutes (gateway.networking.k8s.io)")
    trouble = gatewayroute.trouble(spec, exposure.gateway, route, gateway)
    return Verdict("False", Reason.ROUTE_REFUSED, trouble) if trouble else None


def _no_address(spec: PlaneSpec) -> str:
    """The message about a missing address. Only the load balancer's controller knows why; it writes Events of the Service."""
    balancer = spec.exposure.balancer
    whose = f" of class {balancer.class_name}" if balancer is not None and balancer.class_name else ""
    return (
        f"Service {spec.namespace}/{PUBLIC} has no address yet; is there a load balancer controller{whose} on the host? "
        f"next: if there is, events of the Service give the reason, such as a pool without a free address: "
        f"kubectl -n {spec.namespace} describe service {PUBLIC}"
    )
