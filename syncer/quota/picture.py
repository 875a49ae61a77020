"""A tenant's own quota as its plane shows it, from what the host says of it and what the syncer counts. Pure.

    ResourceQuotas of the work namespace ──> limits, the ledger's standing and queue ──┐
    devices held, limits of the settings ──> lines where the ledger says nothing ──────┴──> OwnQuota ──> ConfigMap
    the controller's note of device-hours ──> OwnUsage ─────────────────────────────────────────────────────┘

Of the ledger's queue only the tenant's own pods are taken, by their virtual UIDs: what it says of a pod that is not the
tenant's, or no longer waits, is left out.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from bulkhead.api import labels, ledger, names, ownquota, ownusage
from bulkhead.api.conditions import condition_of
from bulkhead.api.objects import Obj
from bulkhead.api.ownquota import Limit, OwnLine, OwnQuota
from bulkhead.api.ownusage import OwnUsage
from bulkhead.api.podphase import has_ended, is_pending_deletion, placed_on
from bulkhead.api.untrusted import mapping, text

# What a quota counts beside devices: its name there, without the prefix that every limit of pods has.
_PREFIX: Final = "requests."
_LONGEST_QUANTITY: Final = 64


def waits(virtual: Obj) -> str | None:
    """The reason for which a virtual pod waits for a node; "" if it gives none yet, None if it does not wait."""
    if placed_on(virtual) or has_ended(virtual) or is_pending_deletion(virtual):
        return None
    reason = text(condition_of(virtual, "PodScheduled").get("reason"))
    return reason if ownquota.is_reason(reason) else ""


def own_quota(
    quotas: Iterable[Obj],
    devices: Iterable[OwnLine],
    reasons: Iterable[str],
    virtual_uid: Callable[[str], str | None],
    *,
    in_cohort: bool,
) -> OwnQuota:
    """The picture. `devices` are the syncer's own counts; `virtual_uid` maps the UID of a host pod that waits."""
    known = sorted(quotas, key=lambda quota: str(quota["metadata"].get("name")))
    pods = next((quota for quota in known if quota["metadata"].get("name") == names.POD_QUOTA), {})
    noted = mapping(mapping(pods.get("metadata")).get("annotations"))
    told = [OwnLine(resource, flavor, **counts) for (flavor, resource), counts in ledger.read_standing(noted).items()]
    by_ledger = {line.resource for line in told}
    lines = [*told, *(line for line in devices if line.resource not in by_ledger)]
    lines.sort(key=lambda line: ("/" not in line.resource, line.resource, line.flavor))
    counted = {line.resource for line in lines}
    found = {virtual_uid(uid): place for uid, place in ledger.read_queue(noted).items()}
    return OwnQuota(
        lines=tuple(lines[: ownquota.MOST_LINES]),
        limits=tuple(limit for quota in known for limit in _limits(quota, counted))[: ownquota.MOST_LIMITS],
        waiting=dict(sorted(Counter(reasons).items())[: ownquota.MOST_REASONS]),
        queue={uid: place for uid, place in found.items() if uid is not None},
        in_cohort=in_cohort,
    )


def own_usage(quotas: Iterable[Obj]) -> OwnUsage | None:
    """For how long the tenant held devices, as the controller noted it; None if it noted nothing."""
    pods = next((quota for quota in quotas if quota["metadata"].get("name") == names.POD_QUOTA), {})
    noted = mapping(mapping(pods.get("metadata")).get("annotations"))
    return ownusage.read(noted.get(ownusage.ANNOTATION))


def config_map(own: OwnQuota, at: float, usage: OwnUsage | None = None) -> Obj:
    """The object in the plane."""
    data = {ownquota.FILE: ownquota.write(own, at)} | ({} if usage is None else {ownusage.FILE: ownusage.write(usage)})
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": ownquota.CONFIG_MAP,
            "namespace": ownquota.NAMESPACE,
            "labels": {labels.PLATFORM: "true", labels.MANAGED_BY: labels.MANAGED_BY_BULKHEAD},
        },
        "data": data,
    }


def is_same(found: Obj, own: OwnQuota, usage: OwnUsage | None = None) -> bool:
    """Whether an object of the plane is the picture, whenever that was written, and nothing besides."""
    read = ownquota.read(found)
    written = None if read is None else ledger.seconds(read[1])
    if written is None or found.get("immutable") or found.get("binaryData"):
        return False
    wanted, meta = config_map(own, written, usage), mapping(found.get("metadata"))
    return bool(found.get("data") == wanted["data"] and meta.get("labels") == wanted["metadata"]["labels"])


def _limits(quota: Mapping[str, Any], counted: set[str]) -> Iterable[Limit]:
    """The limits of one quota, but for what the lines say already."""
    status = mapping(quota.get("status"))
    used = mapping(status.get("used"))
    for name, hard in sorted(mapping(status.get("hard")).items()):
        resource = name.removeprefix(_PREFIX)
        if resource not in counted or not name.startswith(_PREFIX):
            yield Limit(name, str(hard)[:_LONGEST_QUANTITY], str(used.get(name, "0"))[:_LONGEST_QUANTITY])
