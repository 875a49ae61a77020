"""Labels, annotations and markers that Bulkhead puts on objects, exactly as docs/contracts.md names them.

Constants and three pure functions. What is ours and whose it is gets decided by these and never by an object's name.
"""

from collections.abc import Mapping
from typing import Any, Final

from bulkhead.api.untrusted import mapping

MANAGED_BY: Final = "app.kubernetes.io/managed-by"
MANAGED_BY_BULKHEAD: Final = "bulkhead"
TENANT: Final = "bulkhead.dev/tenant"
COMPONENT: Final = "bulkhead.dev/component"

# The marker on every mirrored object; admission policy lets only the syncer write it.
SYNCED: Final = "bulkhead.dev/managed-by"
SYNCED_BY_SYNCER: Final = "syncer"
# Selects what syncers have made.
MIRRORED: Final = f"{SYNCED}={SYNCED_BY_SYNCER}"
VIRTUAL_UID: Final = "bulkhead.dev/virtual-uid"  # label and annotation
TENANT_UID: Final = "bulkhead.dev/tenant-uid"
VIRTUAL_KIND: Final = "bulkhead.dev/virtual-kind"
VIRTUAL_NAMESPACE: Final = "bulkhead.dev/virtual-namespace"
VIRTUAL_NAME: Final = "bulkhead.dev/virtual-name"
VIRTUAL_OWNERS: Final = "bulkhead.dev/virtual-owners"  # on pods: their owners in the plane, as JSON

# On a Tenant whose plane is a clone: the tenant and the snapshot that it is made of. It never gets an empty plane instead.
CLONE_OF: Final = "bulkhead.dev/clone-of"

# Selects the controller's Deployment and its pods, as the chart labels them.
CONTROLLER: Final = "app.kubernetes.io/name=bulkhead,app.kubernetes.io/component=controller"

# On objects that the controller makes inside a plane; the syncer never mirrors them.
PLATFORM: Final = "bulkhead.dev/platform"

# On copies of the host's shared Secrets and ConfigMaps inside a plane, which the syncer mirrors as any other; and on
# ServiceAccounts, which of their imagePullSecrets the platform has put there.
SHARED: Final = "bulkhead.dev/shared"
SHARED_PULL_SECRETS: Final = "bulkhead.dev/shared-pull-secrets"
# On volumes and claims that are made for a SharedVolume, on the host and in planes: its name; and of what such a volume of the
# host was made, as a digest.
SHARED_VOLUME: Final = "bulkhead.dev/shared-volume"
SHARED_DIGEST: Final = "bulkhead.dev/shared-digest"

# On the work namespace of a tenant that is taken down: the policies of the host let its pods be deleted.
ENDS: Final = "bulkhead.dev/ends"

# On virtual nodes: whose cordon it is, and which taints are the host's.
CORDONED_BY: Final = "bulkhead.dev/cordoned-by"
HOST_TAINTS: Final = "bulkhead.dev/host-taints"

# On ConfigMaps of the system's namespace that hold what was metered: `open` or `closed`; up to when, in ms since 1970;
# and in how many bytes.
USAGE: Final = "bulkhead.dev/usage"
USAGE_UNTIL: Final = "bulkhead.dev/usage-until"
USAGE_BYTES: Final = "bulkhead.dev/usage-bytes"

# On TenantSnapshots that the controller asked for by a schedule: the identity of the plane. And on any of them that is never
# thinned out.
SCHEDULED: Final = "bulkhead.dev/scheduled-for"
KEEP: Final = "bulkhead.dev/keep"

# On a Tenant whose class asks that its deletion is confirmed, and on namespaces of one: the object's own UID. And on those
# namespaces, by the controller, that it is asked for.
CONFIRM: Final = "bulkhead.dev/confirm-deletion"
CONFIRMED_ONLY: Final = "bulkhead.dev/deletion"
ASKS: Final = "Confirm"

# On the namespaces of a plane whose Tenant was deleted and that is kept: its identity. And until when.
RETAINED: Final = "bulkhead.dev/retained"
RETAINED_UNTIL: Final = "bulkhead.dev/retained-until"

# On a ServiceCIDR that keeps addresses of other Services in the slice of a tenant that is gone: the tenant's name.
LEFT_BY: Final = "bulkhead.dev/left-by"

# On the record of a plane that its syncer does not believe: by it the controller learns of that at once.
QUARANTINED: Final = "bulkhead.dev/quarantined"

# On the definitions of our kinds: the release that wrote them.
RELEASE: Final = "bulkhead.dev/release"

# On the Service by which the proxy finds a plane: that it is one, the plane's names, and its address.
EXPOSED_BY: Final = "bulkhead.dev/exposed-by"
EXPOSED_BY_PROXY: Final = "proxy"
PROXY_HOSTS: Final = "bulkhead.dev/proxy-hosts"
PROXY_TARGET: Final = "bulkhead.dev/proxy-target"

# On nodes.
HOSTNAME: Final = "kubernetes.io/hostname"
SIMULATED: Final = "bulkhead.dev/simulated"
RACK: Final = "bulkhead.dev/rack"
NVLINK_DOMAIN: Final = "bulkhead.dev/nvlink-domain"
GPU_PRODUCT: Final = "nvidia.com/gpu.product"
GPU_COUNT: Final = "nvidia.com/gpu.count"
GPU_CLIQUE: Final = "nvidia.com/gpu.clique"
ZONE: Final = "topology.kubernetes.io/zone"

GPU: Final = "nvidia.com/gpu"  # the resource name, unless the class names others


def made_for(tenant: str, component: str | None = None) -> dict[str, str]:
    """The labels on everything that Bulkhead makes on the host for a tenant."""
    labels = {MANAGED_BY: MANAGED_BY_BULKHEAD, TENANT: tenant}
    return labels if component is None else labels | {COMPONENT: component}


def tenant_selector(tenant: str, component: str | None = None) -> str:
    """The label selector that finds what `made_for` marked."""
    return ",".join(f"{key}={value}" for key, value in made_for(tenant, component).items())


def is_platforms(obj: Mapping[str, Any]) -> bool:
    """Whether the platform put an object into a tenant's plane."""
    return mapping(mapping(obj.get("metadata")).get("labels")).get(PLATFORM) == "true"


def is_mirrored(obj: Mapping[str, Any]) -> bool:
    """Whether a host object carries the syncer's marker; an unmarked object is never adopted."""
    return mapping(mapping(obj.get("metadata")).get("labels")).get(SYNCED) == SYNCED_BY_SYNCER
