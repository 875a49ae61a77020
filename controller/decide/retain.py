"""Planes that outlive their Tenant: which are kept, until when, and which are not any longer. Pure.

    Tenant being deleted ──> kept_of ──> marks on its namespaces and its slice ──> the Tenant goes
    marks without a Tenant ──> retained_by ──> until then nothing is changed ──> an ordinary teardown

The marks alone decide: a plane without readable ones is never ended by itself (docs/decisions/0051-retained-planes.md).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from bulkhead.api import durations, labels, names, planerecord
from bulkhead.api.conditions import timestamp
from bulkhead.api.moments import moment_of
from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping, text
from controller.decide.deletion import RETAIN

# For how long a plane is kept whose Tenant asked for that when no class gave a duration.
_USUAL_SECONDS: Final = 7 * 24 * 3600
# So long before the end it is announced, or for the whole time if that is shorter.
ANNOUNCED: Final = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class Kept:
    """A plane to keep: its identity, and until when."""

    identity: str
    until: datetime

    @property
    def label(self) -> dict[str, str]:
        """The mark that selects it."""
        return {labels.RETAINED: self.identity}

    @property
    def annotation(self) -> dict[str, str]:
        """The mark that ends it."""
        return {labels.RETAINED_UNTIL: timestamp(self.until)}

    def marks(self, obj: Obj) -> bool:
        """Whether an object has both marks."""
        meta = mapping(obj.get("metadata"))
        has = mapping(meta.get("labels")).get(labels.RETAINED), mapping(meta.get("annotations")).get(labels.RETAINED_UNTIL)
        return has == (self.identity, timestamp(self.until))


@dataclass(frozen=True, slots=True)
class Retained:
    """A plane that is kept. until: None if its mark cannot be read, and then it is kept for good."""

    tenant: str
    identity: str
    uid: str  # of the Tenant that it was
    until: datetime | None
    terminating: bool = False

    def ends(self, now: datetime) -> bool:
        """Whether its time is over."""
        return self.until is not None and now >= self.until

    def as_tenant(self) -> Obj:
        """What stands for its Tenant in a teardown."""
        return {"metadata": {"name": self.tenant, "uid": self.uid}, "spec": {}}


def kept_of(tenant: Obj) -> Kept | None:
    """Whether the plane of a Tenant that is being deleted is kept; None if it is not, or there is none.

    A Tenant that takes up a retained plane and is deleted before that was reported keeps it again.
    """
    spec, status = mapping(tenant.get("spec")), mapping(tenant.get("status"))
    rule = mapping(status.get("deletion"))
    reported, adopted = text(status.get("planeIdentity")), text(spec.get("adopt"))
    identity = reported or adopted
    asks = RETAIN in {spec.get("deletionPolicy"), rule.get("policy")} or (not reported and bool(adopted))
    if not asks or not planerecord.is_identity(identity):
        return None
    seconds = durations.seconds(rule.get("retainFor")) or _USUAL_SECONDS
    since = datetime.fromisoformat(str(tenant["metadata"]["deletionTimestamp"]))
    return Kept(identity, since + timedelta(seconds=seconds))


def retained_by(obj: Mapping[str, Any] | None, tenant: str) -> Retained | None:
    """The plane that an object, one of its namespaces or its slice, is marked for; None if it is not."""
    meta = mapping(mapping(obj).get("metadata"))
    marks, notes = mapping(meta.get("labels")), mapping(meta.get("annotations"))
    identity = text(marks.get(labels.RETAINED))
    own = marks.get(labels.TENANT) == tenant and marks.get(labels.MANAGED_BY) == labels.MANAGED_BY_BULKHEAD
    if not own or not planerecord.is_identity(identity):
        return None
    return Retained(
        tenant, identity, text(notes.get(labels.TENANT_UID)), moment_of(notes.get(labels.RETAINED_UNTIL)),
        terminating=bool(meta.get("deletionTimestamp")),
    )  # fmt: skip


def announced(found: Retained, now: datetime) -> str:
    """The announcement of the end; empty while that is far."""
    if found.until is None or now < found.until - ANNOUNCED:
        return ""
    return (
        f"the retained plane {found.identity} of tenant {found.tenant} ends at {timestamp(found.until)}, with its volumes and "
        f"keys; a Tenant {found.tenant} with spec.adopt: {found.identity} takes it up again"
    )


def where(tenant: str) -> str:
    """The namespace in which a plane is kept."""
    return names.plane_namespace(tenant)
