"""Which virtual objects are mirrored at all. One that is not mirrored is not an error, and nothing reports it to the tenant."""

from collections.abc import Mapping
from typing import Any, Final

from bulkhead.api import labels as marks
from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping
from syncer.translate.view import TenantView

MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
SERVICE_NAME: Final = "kubernetes.io/service-name"
_BY_SELECTOR: Final = "endpointslice-controller.k8s.io"


def always(virtual: Obj) -> bool:
    """Every object but those that the platform itself put into the plane."""
    return not marks.is_platforms(virtual)


def everybody(_view: TenantView) -> bool:
    """For kinds that every tenant may use."""
    return True


def nothing_to_say(_virtual: Obj, _view: TenantView) -> list[str]:
    """For kinds that are mirrored whole or not at all."""
    return []


def same_view(view: TenantView, _host: Obj) -> TenantView:
    """For kinds of which a copy is judged like a new object."""
    return view


def stays(_host: Obj, _view: TenantView) -> bool:
    """For kinds of which a copy that was once accepted does no harm."""
    return True


def service(virtual: Obj) -> bool:
    """Not ExternalName, which the tenant's DNS answers by itself, not `default/kubernetes`, not without an address yet."""
    spec = mapping(virtual.get("spec"))
    meta = mapping(virtual.get("metadata"))
    if (meta.get("namespace"), meta.get("name")) == ("default", "kubernetes") or spec.get("type") == "ExternalName":
        return False
    return always(virtual) and bool(spec.get("clusterIP"))


def endpoint_slice(virtual: Obj) -> bool:
    """Only slices of Services without a selector: for the others the host's own controller makes them."""
    meta = mapping(virtual.get("metadata"))
    labels = _labels(virtual)
    if (meta.get("namespace"), labels.get(SERVICE_NAME)) == ("default", "kubernetes"):
        return False
    return always(virtual) and bool(labels.get(SERVICE_NAME)) and labels.get(MANAGED_BY) != _BY_SELECTOR


def _labels(virtual: Obj) -> Mapping[str, Any]:
    return mapping(mapping(virtual.get("metadata")).get("labels"))
