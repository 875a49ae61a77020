"""The report on the volumes under a plane's etcd. Pure."""

from collections.abc import Mapping, Sequence

from bulkhead.api.conditions import ConditionType
from bulkhead.api.objects import Obj
from controller.decide import storage
from controller.plane.spec import PlaneSpec
from controller.tenant.status import Report


def report(spec: PlaneSpec, claims: Sequence[Obj], refused: Mapping[str, str] | None) -> Report:
    """`refused` is why claims did not grow, by claim; None if that was not tried, and then the previous report stays."""
    if refused is None:
        return Report()
    return Report(conditions={ConditionType.STORAGE_APPLIED: storage.verdict(spec, claims, refused)})
