"""What is said of the volumes under a plane's etcd. Pure."""

from collections.abc import Mapping, Sequence

from bulkhead.api.conditions import ConditionType
from bulkhead.api.objects import Obj
from controller.decide import storage
from controller.plane.spec import PlaneSpec
from controller.tenant.status import Report


def report(spec: PlaneSpec, claims: Sequence[Obj], refused: Mapping[str, str] | None) -> Report:
    """`refused` is by claim why it does not grow; None where that was not tried, and all stays as it was reported."""
    if refused is None:
        return Report()
    return Report(conditions={ConditionType.STORAGE_APPLIED: storage.verdict(spec, claims, refused)})
