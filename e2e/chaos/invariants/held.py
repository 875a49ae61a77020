"""I2, I7 and I10: what may never be: more used than there is, a host object against policy, a secret that leaked. Pure."""

from e2e.chaos.history import HOST, History, Planted, Scanned, Searched, Use
from e2e.chaos.invariants.violation import Violation, experiment_at
from e2e.chaos.sightings import unused

LEAST_JUDGED = 0.5  # the share of a tenant's host objects that the host has to judge again


def within_limits(history: History) -> list[Violation]:
    """I2: no node and no tenant uses more GPUs than it has, and no device is in two pods."""
    found = [Violation("I2", "observer", text) for text in unused(history)]
    reported: set[tuple[str, str, str]] = set()
    for use in history.all(Use):
        experiment = experiment_at(history, use.at)
        if use.used <= use.limit or (use.scope, use.name, experiment) in reported:
            continue
        reported.add((use.scope, use.name, experiment))
        text = (
            f"{use.scope} {use.name}: {use.used} GPUs in use at {use.at:.1f}, {use.limit} are there"
            if use.scope != "device"
            else f"device {use.name}: in {use.used} pods at {use.at:.1f}: {use.holders}"
        )
        found.append(Violation("I2", experiment, text))
    return found


def policies_hold(history: History) -> list[Violation]:
    """I7: at the end, no host object of any tenant is against the policies: by our own rules, and by the host's."""
    scans = {scan.tenant: scan for scan in history.all(Scanned)}
    found = []
    for tenant in history.tenants:
        scan = scans.get(tenant)
        if scan is None or not scan.objects:
            found.append(Violation("I7", "scan", f"tenant {tenant}: no host object was scanned"))
            continue
        if scan.judged < LEAST_JUDGED * scan.objects:
            text = f"tenant {tenant}: the host judged {scan.judged} of {scan.objects} objects again: not observed"
            found.append(Violation("I7", "scan", text))
        found += [Violation("I7", "scan", f"tenant {tenant}: {text}") for text in scan.findings]
    return found


def secrets_kept(history: History) -> list[Violation]:
    """I10: no text of the platform, of the host or of another tenant contains a tenant's canary secret."""
    planted = {item.tenant for item in history.all(Planted)}
    searched = history.all(Searched)
    found = []
    for tenant in history.tenants:
        if tenant not in planted:
            found.append(Violation("I10", "search", f"tenant {tenant}: no canary was planted"))
        own = [item for item in searched if item.owner == tenant]
        if not any(item.bytes for item in own):
            found.append(Violation("I10", "search", f"tenant {tenant}: none of its texts were searched"))
        if not any(item.control for item in own):
            found.append(Violation("I10", "search", f"tenant {tenant}: the search did not find its own control"))
    if not any(item.owner == HOST and item.bytes for item in searched):
        found.append(Violation("I10", "search", "host: none of its texts were searched"))
    for item in searched:
        if item.control is False:
            found.append(Violation("I10", "search", f"{item.place}: the search did not find its control"))
        found += [
            Violation("I10", "search", f"a secret of tenant {tenant} is in {item.place}, which is of {item.owner}")
            for tenant in item.leaked
        ]
    return found
