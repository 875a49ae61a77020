"""What the host's admission policies know of one tenant: annotations on its work namespace, which the controller alone writes.

A syncer decides by its settings; the policies decide again by these, and take no syncer's word for any of them. Each fact but
the last two is always there, if only empty, so that a missing one means that it was not written yet: the policies then read it
in the strictest way. Several values are sorted and joined by commas; none of what is listed here can contain one.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from bulkhead.api import ledger

# The one address at which the tenant's node ports may be served.
NODE_ADDRESS: Final = "bulkhead.dev/node-address"
# The addresses that its Services may have, as a CIDR.
SERVICE_SLICE: Final = "bulkhead.dev/service-slice"
# `key=value` of each label of the pool, which every pod selects by.
NODE_SELECTOR: Final = "bulkhead.dev/node-selector"
# Taints that pods may tolerate, in the form of `toleration`.
ALLOWED_TOLERATIONS: Final = "bulkhead.dev/allowed-tolerations"
# The class that every pod has, and those that pods may have where that one is empty.
RUNTIME_CLASS: Final = "bulkhead.dev/runtime-class"
ALLOWED_RUNTIME_CLASSES: Final = "bulkhead.dev/allowed-runtime-classes"
# The class of pods that name none, and those that pods may name.
PRIORITY_CLASS: Final = "bulkhead.dev/priority-class"
ALLOWED_PRIORITY_CLASSES: Final = "bulkhead.dev/allowed-priority-classes"
# `true` where every pod runs in a user namespace of its own.
USER_NAMESPACES: Final = "bulkhead.dev/user-namespaces"
# Profiles of the nodes that pods may name.
SECCOMP_PROFILES: Final = "bulkhead.dev/allowed-seccomp-profiles"
APPARMOR_PROFILES: Final = "bulkhead.dev/allowed-apparmor-profiles"
# `resource=quantity`: the most that one pod may request, and how many times its request a container's limit may be.
MOST_PER_POD: Final = "bulkhead.dev/most-per-pod"
MOST_LIMIT_RATIO: Final = "bulkhead.dev/most-limit-request-ratio"
# For how many seconds a pod may go on after its deletion.
MAX_GRACE_SECONDS: Final = "bulkhead.dev/max-grace-seconds"
# The most that one claim may ask for; none: any size.
MOST_PER_CLAIM: Final = "bulkhead.dev/most-per-claim"
ALLOWED_INGRESS_CLASSES: Final = "bulkhead.dev/allowed-ingress-classes"
# Hosts of Ingresses that are the tenant's own, with everything below them.
INGRESS_HOSTS: Final = "bulkhead.dev/ingress-hosts"
# StorageClasses that claims may name; none: the host's default one.
ALLOWED_STORAGE_CLASSES: Final = "bulkhead.dev/allowed-storage-classes"
# The host's default StorageClasses, which alone claims may name where none is listed above.
DEFAULT_STORAGE_CLASSES: Final = "bulkhead.dev/default-storage-classes"
ALLOWED_SNAPSHOT_CLASSES: Final = "bulkhead.dev/allowed-snapshot-classes"
ALLOWED_DEVICE_CLASSES: Final = "bulkhead.dev/allowed-device-classes"
# Resources of devices, and huge pages, that pods may ask for: those that the tenant's quota counts.
ALLOWED_RESOURCES: Final = "bulkhead.dev/allowed-resources"
# Resources whose pods are made with the ledger's gate, and `true` where pods of gangs are. These two alone are left out where
# there is nothing to say: without them a tenant borrows nothing, since they are written before its quota is raised.
GATED_RESOURCES: Final = ledger.GATED_RESOURCES
GATED_GANGS: Final = ledger.GATED_GANGS


def listed(values: Iterable[str]) -> str:
    """Several values as one fact."""
    return ",".join(sorted(set(values)))


def pairs(values: Iterable[tuple[str, str]]) -> str:
    """Labels as one fact."""
    return listed(f"{key}={value}" for key, value in values)


def toleration(entry: Mapping[str, Any]) -> str:
    """One toleration: `key=value:effect`, without `=value` for any value, without `:effect` for any.

    Where it ends after some time, `@seconds` follows.
    """
    text = str(entry.get("key") or "")
    if entry.get("operator") != "Exists":
        text += f"={entry.get('value') or ''}"
    if entry.get("effect"):
        text += f":{entry['effect']}"
    seconds = entry.get("tolerationSeconds")
    return text if seconds is None else f"{text}@{seconds}"
