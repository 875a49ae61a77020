"""The report on a tenant's namespaces, its slice and its class. Pure."""

from collections.abc import Sequence
from typing import Any

from bulkhead.api.conditions import ConditionType, Reason
from bulkhead.api.objects import Obj
from controller.plane.spec import PlaneSpec
from controller.tenant.status import Report
from controller.verdict import Verdict


def report(spec: PlaneSpec, namespaces: Sequence[Obj], tenant_class: Obj | None) -> Report:
    """`namespaces` are the tenant's existing ones."""
    return Report(
        conditions={ConditionType.NAMESPACES_READY: _namespaces(namespaces)},
        needed=(ConditionType.NAMESPACES_READY,),
        fields={"serviceSlice": spec.service_slice},
        in_full={"class": _applied(tenant_class)},
    )


def _namespaces(found: Sequence[Obj]) -> Verdict:
    leaving = [str(namespace["metadata"]["name"]) for namespace in found if namespace["metadata"].get("deletionTimestamp")]
    if leaving:
        return Verdict("False", Reason.RESTARTING, f"namespace {leaving[0]} is being deleted and will be recreated")
    if len(found) < 2:
        return Verdict("False", Reason.PROVISIONING, "the namespaces are being created")
    return Verdict("True", Reason.READY, "both namespaces exist")


def _applied(tenant_class: Obj | None) -> dict[str, Any]:
    """The class as it was applied."""
    if tenant_class is None:
        return {}
    meta = tenant_class["metadata"]
    return {
        "name": meta["name"],
        "uid": meta.get("uid", ""),
        "generation": int(meta.get("generation") or 0),
        "spec": tenant_class.get("spec") or {},
    }
