"""The report on a plane's store: whether it has room, its programs the memory for a full one, and its disks the speed. Pure."""

from typing import Final

from bulkhead.api.conditions import ConditionType, Reason
from controller.plane.budgets import COMPONENTS
from controller.plane.contents import Contents
from controller.plane.etcdfigures import SLOW_SECONDS
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


def report(spec: PlaneSpec, store: Store | None, contents: Contents | None = None) -> Report:
    """Empty if the store was not looked at. The API of a full store answers, but accepts no new objects."""
    if store is None:
        return Report()
    conditions: dict[ConditionType, Verdict | None] = {ConditionType.STORE_HAS_ROOM: verdict(spec, store, contents)}
    if store.slow is not None:
        conditions[ConditionType.STORE_DISK_FAST] = _disks(store)
    return Report(
        conditions=conditions,
        needed=(ConditionType.STORE_HAS_ROOM,) if store.full else (),
        again=_FULL_SECONDS if store.full else None,
    )


def is_filling(store: Store) -> bool:
    """Whether so much of the store is taken that the status says so."""
    return store.quorate and _percent(store) >= _FILLING_PERCENT


def verdict(spec: PlaneSpec, store: Store, contents: Contents | None = None) -> Verdict:
    """The verdict on the store, the worst fault first."""
    if store.unread:
        return Verdict("Unknown", Reason.WAITING_FOR_PLANE, store.unread)
    most = f"; {contents.words}" if contents is not None and contents.words else ""
    if store.full:
        return Verdict("False", Reason.STORE_FULL, f"{_full(store)}{most}")
    # The quota as etcd runs: for a held tenant, and before a restart, it differs from the spec.
    percent, quota = _percent(store), store.quota // _MIB
    if percent >= _FILLING_PERCENT:
        taken = percent // _STEP_PERCENT * _STEP_PERCENT
        left = f"{taken} % or more of {quota}Mi are taken; at 100 % the API accepts nothing new"
        return Verdict("False", Reason.STORE_FILLING, f"{left}: {_REMEDY}{most}")
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
    if store.rests_until:
        when = f"it was filled again and again within an hour, so it opens not before {store.rests_until}"
        return f"{what}; {how}; {when}; {_REMEDY}"
    return f"{what}; {how}; {_REMEDY}; the API accepts writes again about 1 min later"


def _disks(store: Store) -> Verdict:
    """The verdict on the members' disks; the figures are rounded, so that they do not change the status all the time."""
    limit = f"{SLOW_SECONDS * 1000:.0f} ms"
    if not store.slow:
        return Verdict("True", Reason.READY, f"99 % of the writes to the disks of etcd take less than {limit}")
    named = ", ".join(f"pod {slow.name}: about {_milliseconds(slow.seconds)} ms" for slow in store.slow)
    return Verdict(
        "False",
        Reason.DISK_SLOW,
        f"1 % of the writes to disk take longer than {limit} ({named}), so the API is slow and etcd may lose its leader; "
        "move the volume to a faster StorageClass, or take load from the node's disk",
    )


def _milliseconds(seconds: float) -> int:
    """Rounded down to a step, so that the message does not change all the time."""
    steps = (200, 250, 300, 400, 500, 600, 800, 1000, 1500, 2000, 3000, 4000, 6000, 8000)
    return max((step for step in steps if step <= seconds * 1000), default=150)


def _percent(store: Store) -> int:
    return store.size * 100 // max(1, store.quota)


def _rounded(percent: int) -> int:
    """Rounded up to 50, 60, 70 or 80, so that a store in use does not change the status all the time."""
    return max(50, (percent // 10 + 1) * 10)
