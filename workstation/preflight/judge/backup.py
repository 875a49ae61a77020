"""Whether snapshots of planes that classes schedule have a place, and a key that they are encrypted to. Pure."""

from bulkhead.api.untrusted import mapping, text
from workstation.preflight.facts import Obj, Observed, Unseen
from workstation.preflight.findings import Finding, failed, ok, skipped, warning
from workstation.preflight.values import Values

_KEY = "make a key pair on another machine (age-keygen), and give its public key to backup.recipients: docs/backup.md"


def place(observed: Observed, values: Values) -> Finding:
    """A target needs a key, and a schedule needs a target."""
    if values.backup_target and not values.backup_recipients:
        return failed("backup.target is set, and backup.recipients has no key: the controller would not start", _KEY)
    if values.backup_target:
        return ok(f"snapshots of planes go to {values.backup_target}, for {len(values.backup_recipients)} keys")
    listed = observed.lists.get("tenantclasses", ())
    scheduled = [] if isinstance(listed, Unseen) else [_name(found) for found in listed if _asks(found)]
    if scheduled:
        return warning(
            "classes schedule snapshots, and there is no place for them",
            "set backup.target, backup.recipients and networkPolicy.backup: docs/backup.md",
            scheduled,
        )
    return skipped("backup.target is not set: there are no snapshots of planes", "set it as docs/backup.md says")


def _asks(tenant_class: Obj) -> bool:
    backup = mapping(mapping(tenant_class.get("spec")).get("backup"))
    return bool(backup.get("schedule") or backup.get("shortestSchedule"))


def _name(obj: Obj) -> str:
    return text(mapping(obj.get("metadata")).get("name"))
