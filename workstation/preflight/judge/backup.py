"""Whether snapshots of planes that classes schedule have a place, and a key that they are encrypted to. Pure."""

from bulkhead.api.untrusted import mapping, sequence, text
from workstation.preflight.facts import Obj, Observed, Unseen
from workstation.preflight.findings import Finding, failed, ok, skipped, warning
from workstation.preflight.values import Values

_KEY = "make a key pair on another machine (age-keygen), and give its public key to backup.recipients: docs/backup.md"


def place(observed: Observed, values: Values) -> Finding:
    """A target needs a key, and a schedule needs a target that exists."""
    if values.backup_target and not values.backup_recipients:
        return failed("backup.target is set, and backup.recipients has no key: the controller would not start", _KEY)
    listed = observed.lists.get("tenantclasses", ())
    classes = () if isinstance(listed, Unseen) else tuple(listed)
    strange = {target for found in classes for target in _targets(found)} - set(values.backup_targets)
    if strange:
        return warning(
            "classes name targets for snapshots that the chart does not have",
            "add them to backup.targets, or correct spec.backup of the classes: docs/backup.md",
            sorted(strange),
        )
    if values.backup_target:
        return ok(f"snapshots of planes go to {values.backup_target}, for {len(values.backup_recipients)} keys")
    scheduled = [_name(found) for found in classes if _asks(found)]
    if scheduled:
        return warning(
            "classes schedule snapshots, and there is no place for them",
            "set backup.target, backup.recipients and networkPolicy.backup: docs/backup.md",
            scheduled,
        )
    return skipped("backup.target is not set: there are no snapshots of planes", "set it as docs/backup.md says")


def _asks(tenant_class: Obj) -> bool:
    backup = mapping(mapping(tenant_class.get("spec")).get("backup"))
    return not text(backup.get("target")) and bool(backup.get("schedule") or backup.get("shortestSchedule"))


def _targets(tenant_class: Obj) -> list[str]:
    """The targets that a class names."""
    backup = mapping(mapping(tenant_class.get("spec")).get("backup"))
    return [name for name in (text(backup.get("target")), *map(text, sequence(backup.get("targets"))[:32])) if name]


def _name(obj: Obj) -> str:
    return text(mapping(obj.get("metadata")).get("name"))
