"""The report on a plane's store: whether it has room, and whether its programs have the memory for a full one. Pure."""

from typing import Final

from bulkhead.api.conditions import ConditionType, Reason
from controller.plane.budgets import COMPONENTS
from controller.plane.sizing import needed_mib
from controller.plane.spec import PlaneSpec
from controller.plane.storestate import Store, must_go
from controller.tenant.status import Report
from controller.verdict import Verdict

# While it is full, its tenant deletes objects and waits for room.
_FULL_SECONDS: Final = 15.0
FIELD: Final = "controlPlane.storage.quota"
_MIB: Final = 1 << 20
# From here on the status reports how little is left; in steps, so that it is not written for every object.
_FILLING_PERCENT: Final = 80
_STEP_PERCENT: Final = 5
_REMEDY: Final = f"delete objects of the tenant's API, or raise {FIELD} of the Tenant or its class"


def report(spec: PlaneSpec, store: Store | None) -> Report:
    """Empty if the store was not looked at. The API of a full store answers, but accepts no new objects."""
    if store is None:
        return Report()
    return Report(
        conditions={ConditionType.STORE_HAS_ROOM: verdict(spec, store)},
        needed=(ConditionType.STORE_HAS_ROOM,) if store.full else (),
        again=_FULL_SECONDS if store.full else None,
    )


def verdict(spec: PlaneSpec, store: Store) -> Verdict:
    """The verdict on the store, the worst fault first."""
    if store.unread:
        return Verdict("Unknown", Reason.WAITING_FOR_PLANE, store.unread)
    if store.full:
        return Verdict("False", Reason.STORE_FULL, _full(store))
    # The quota as etcd runs: for a held tenant, and before a restart, it differs from the spec.
    percent, quota = store.size * 100 // max(1, store.quota), store.quota // _MIB
    if percent >= _FILLING_PERCENT:
        taken = percent // _STEP_PERCENT * _STEP_PERCENT
        left = f"{taken} % or more of {quota}Mi are taken; at 100 % the API accepts nothing new"
        return Verdict("False", Reason.STORE_FILLING, f"{left}: {_REMEDY}")
    if short := too_little(spec):
        return Verdict("False", Reason.MEMORY_BELOW_QUOTA, short)
    return Verdict("True", Reason.READY, f"less than {_rounded(percent)} % of {quota}Mi are taken")


def too_little(spec: PlaneSpec) -> str:
    """Which memory limits are too small for a full store; empty if none is."""
    found, quota = [], spec.storage.quota_mib
    for field, attribute in COMPONENTS.items():
        limit = getattr(spec.budgets, attribute).memory_limit_mib
        need = needed_mib(attribute, quota, spec.control_plane.replicas)
        if limit < need:
            found.append(f"controlPlane.resources.{field}.limits.memory is {limit}Mi and {need}Mi are needed")
    if not found:
        return ""
    remedy = f"raise the limits, or leave them out, or lower {FIELD}"
    return f"a full store ({FIELD}: {quota}Mi) would get these killed again and again: {'; '.join(found)}; {remedy}"


def _full(store: Store) -> str:
    what = f"the API accepts only deletions: {store.size // _MIB}Mi of {store.quota // _MIB}Mi are taken"
    more = -(-must_go(store) // _MIB)
    how = f"about {more}Mi must be freed, and old revisions are removed automatically" if more else "room is being made"
    return f"{what}; {how}; {_REMEDY}; the API accepts writes again about 1 min later"


def _rounded(percent: int) -> int:
    """Rounded up to 50, 60, 70 or 80, so that a store in use does not change the status all the time."""
    return max(50, (percent // 10 + 1) * 10)
