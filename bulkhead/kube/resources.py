"""The kinds that Bulkhead reads or writes, as constants. Adding a kind is one line here."""

from bulkhead.kube.objects import Resource as Resource  # noqa: PLC0414 -- exported with the constants on purpose

# core
BINDINGS = Resource("", "v1", "bindings", "Binding", True)
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap", True)
ENDPOINTS = Resource("", "v1", "endpoints", "Endpoints", True)
EVENTS = Resource("", "v1", "events", "Event", True)
LIMIT_RANGES = Resource("", "v1", "limitranges", "LimitRange", True)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", False)
NODES = Resource("", "v1", "nodes", "Node", False)
PERSISTENT_VOLUMES = Resource("", "v1", "persistentvolumes", "PersistentVolume", False)
PERSISTENT_VOLUME_CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", True)
PODS = Resource("", "v1", "pods", "Pod", True)
POD_TEMPLATES = Resource("", "v1", "podtemplates", "PodTemplate", True)
REPLICATION_CONTROLLERS = Resource("", "v1", "replicationcontrollers", "ReplicationController", True)
RESOURCE_QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota", True)
SECRETS = Resource("", "v1", "secrets", "Secret", True)
SERVICES = Resource("", "v1", "services", "Service", True)
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount", True)

# workloads
CONTROLLER_REVISIONS = Resource("apps", "v1", "controllerrevisions", "ControllerRevision", True)
DAEMON_SETS = Resource("apps", "v1", "daemonsets", "DaemonSet", True)
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", True)
REPLICA_SETS = Resource("apps", "v1", "replicasets", "ReplicaSet", True)
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet", True)
CRON_JOBS = Resource("batch", "v1", "cronjobs", "CronJob", True)
JOBS = Resource("batch", "v1", "jobs", "Job", True)
HORIZONTAL_POD_AUTOSCALERS = Resource("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", True)

# access
CLUSTER_ROLES = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", False)
CLUSTER_ROLE_BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", False)
ROLES = Resource("rbac.authorization.k8s.io", "v1", "roles", "Role", True)
ROLE_BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", True)
# The body of `serviceaccounts/<name>/token` is a TokenRequest; it is reached with `Client.create_subresource`.
TOKEN_REVIEWS = Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", False)
SELF_SUBJECT_REVIEWS = Resource("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", False)
SUBJECT_ACCESS_REVIEWS = Resource("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", False)
SELF_SUBJECT_ACCESS_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", False
)
CERTIFICATE_SIGNING_REQUESTS = Resource(
    "certificates.k8s.io", "v1", "certificatesigningrequests", "CertificateSigningRequest", False
)

# network
ENDPOINT_SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", True)
INGRESSES = Resource("networking.k8s.io", "v1", "ingresses", "Ingress", True)
INGRESS_CLASSES = Resource("networking.k8s.io", "v1", "ingressclasses", "IngressClass", False)
IP_ADDRESSES = Resource("networking.k8s.io", "v1", "ipaddresses", "IPAddress", False)
NETWORK_POLICIES = Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", True)
SERVICE_CIDRS = Resource("networking.k8s.io", "v1", "servicecidrs", "ServiceCIDR", False)

# storage
CSI_DRIVERS = Resource("storage.k8s.io", "v1", "csidrivers", "CSIDriver", False)
CSI_NODES = Resource("storage.k8s.io", "v1", "csinodes", "CSINode", False)
STORAGE_CLASSES = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", False)
VOLUME_SNAPSHOTS = Resource("snapshot.storage.k8s.io", "v1", "volumesnapshots", "VolumeSnapshot", True)
VOLUME_SNAPSHOT_CLASSES = Resource("snapshot.storage.k8s.io", "v1", "volumesnapshotclasses", "VolumeSnapshotClass", False)
VOLUME_ATTACHMENTS = Resource("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", False)

# scheduling, policy, coordination
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", True)
POD_DISRUPTION_BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", True)
POD_GROUPS = Resource("scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup", True)
PRIORITY_CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False)
RUNTIME_CLASSES = Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", False)
EVENTS_V1 = Resource("events.k8s.io", "v1", "events", "Event", True)
RESOURCE_CLAIMS = Resource("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", True)
RESOURCE_SLICES = Resource("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", False)
DEVICE_CLASSES = Resource("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", False)

# what extension servers serve
POD_METRICS = Resource("metrics.k8s.io", "v1beta1", "pods", "PodMetrics", True)

# the API's own extension points
API_SERVICES = Resource("apiregistration.k8s.io", "v1", "apiservices", "APIService", False)
CUSTOM_RESOURCE_DEFINITIONS = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False
)
MUTATING_WEBHOOKS = Resource(
    "admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", False
)
VALIDATING_WEBHOOKS = Resource(
    "admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", False
)
VALIDATING_ADMISSION_POLICIES = Resource(
    "admissionregistration.k8s.io", "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", False
)
VALIDATING_ADMISSION_POLICY_BINDINGS = Resource(
    "admissionregistration.k8s.io", "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", False
)

# our own
TENANTS = Resource("bulkhead.dev", "v1alpha1", "tenants", "Tenant", False)
TENANT_CLASSES = Resource("bulkhead.dev", "v1alpha1", "tenantclasses", "TenantClass", False)

_ALL: tuple[Resource, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Resource))
_BY_KIND: dict[tuple[str, str], Resource] = {(each.api_version, each.kind): each for each in _ALL}


def resource_of(api_version: str, kind: str) -> Resource:
    """Return the constant for an object's `apiVersion` and `kind`; unknown kinds are a KeyError."""
    return _BY_KIND[(api_version, kind)]


def all_resources() -> tuple[Resource, ...]:
    """Every constant of this module."""
    return _ALL
