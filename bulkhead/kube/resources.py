"""The kinds that Bulkhead reads or writes, as constants. Adding a kind is one line here."""

from bulkhead.kube.objects import Resource as Resource  # noqa: PLC0414 -- exported with the constants on purpose

# core
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap", True)
EVENTS = Resource("", "v1", "events", "Event", True)
LIMIT_RANGES = Resource("", "v1", "limitranges", "LimitRange", True)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", False)
NODES = Resource("", "v1", "nodes", "Node", False)
PERSISTENT_VOLUMES = Resource("", "v1", "persistentvolumes", "PersistentVolume", False)
PERSISTENT_VOLUME_CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", True)
PODS = Resource("", "v1", "pods", "Pod", True)
RESOURCE_QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota", True)
SECRETS = Resource("", "v1", "secrets", "Secret", True)
SERVICES = Resource("", "v1", "services", "Service", True)
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount", True)

# workloads
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", True)
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet", True)
JOBS = Resource("batch", "v1", "jobs", "Job", True)
HORIZONTAL_POD_AUTOSCALERS = Resource("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", True)

# access
CLUSTER_ROLES = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", False)
CLUSTER_ROLE_BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", False)
ROLES = Resource("rbac.authorization.k8s.io", "v1", "roles", "Role", True)
ROLE_BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", True)

CERTIFICATE_SIGNING_REQUESTS = Resource(
    "certificates.k8s.io", "v1", "certificatesigningrequests", "CertificateSigningRequest", False
)
TOKEN_REVIEWS = Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", False)
SUBJECT_ACCESS_REVIEWS = Resource("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", False)

# network
ENDPOINT_SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", True)
INGRESSES = Resource("networking.k8s.io", "v1", "ingresses", "Ingress", True)
INGRESS_CLASSES = Resource("networking.k8s.io", "v1", "ingressclasses", "IngressClass", False)
IP_ADDRESSES = Resource("networking.k8s.io", "v1", "ipaddresses", "IPAddress", False)
NETWORK_POLICIES = Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", True)
SERVICE_CIDRS = Resource("networking.k8s.io", "v1", "servicecidrs", "ServiceCIDR", False)

# the Gateway API, in the versions in which hosts serve this kind, the newest first
GATEWAYS = Resource("gateway.networking.k8s.io", "v1", "gateways", "Gateway", True)
TLS_ROUTES = Resource("gateway.networking.k8s.io", "v1", "tlsroutes", "TLSRoute", True)
TLS_ROUTES_V1ALPHA3 = Resource("gateway.networking.k8s.io", "v1alpha3", "tlsroutes", "TLSRoute", True)
TLS_ROUTES_V1ALPHA2 = Resource("gateway.networking.k8s.io", "v1alpha2", "tlsroutes", "TLSRoute", True)

# storage
STORAGE_CLASSES = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", False)
VOLUME_SNAPSHOTS = Resource("snapshot.storage.k8s.io", "v1", "volumesnapshots", "VolumeSnapshot", True)
VOLUME_SNAPSHOT_CLASSES = Resource("snapshot.storage.k8s.io", "v1", "volumesnapshotclasses", "VolumeSnapshotClass", False)

# scheduling, policy, coordination
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", True)
FLOW_SCHEMAS = Resource("flowcontrol.apiserver.k8s.io", "v1", "flowschemas", "FlowSchema", False)
PRIORITY_LEVELS = Resource(
    "flowcontrol.apiserver.k8s.io", "v1", "prioritylevelconfigurations", "PriorityLevelConfiguration", False
)
POD_DISRUPTION_BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", True)
POD_GROUPS = Resource("scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup", True)
# Of the coscheduling plugin, where a tenant has put its definition into its plane.
COSCHEDULING_GROUPS = Resource("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup", True)
PRIORITY_CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False)
RUNTIME_CLASSES = Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", False)
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
VALIDATING_WEBHOOKS = Resource(
    "admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", False
)
VALIDATING_ADMISSION_POLICIES = Resource(
    "admissionregistration.k8s.io", "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", False
)
VALIDATING_ADMISSION_POLICY_BINDINGS = Resource(
    "admissionregistration.k8s.io", "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", False
)
MUTATING_ADMISSION_POLICIES = Resource(
    "admissionregistration.k8s.io", "v1", "mutatingadmissionpolicies", "MutatingAdmissionPolicy", False
)
MUTATING_ADMISSION_POLICY_BINDINGS = Resource(
    "admissionregistration.k8s.io", "v1", "mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding", False
)

# our own
TENANTS = Resource("bulkhead.dev", "v1alpha1", "tenants", "Tenant", False)
COHORTS = Resource("bulkhead.dev", "v1alpha1", "cohorts", "Cohort", False)
SHARED_VOLUMES = Resource("bulkhead.dev", "v1alpha1", "sharedvolumes", "SharedVolume", False)
TENANT_SNAPSHOTS = Resource("bulkhead.dev", "v1alpha1", "tenantsnapshots", "TenantSnapshot", False)
TENANT_RESTORES = Resource("bulkhead.dev", "v1alpha1", "tenantrestores", "TenantRestore", False)
TENANT_CLASSES = Resource("bulkhead.dev", "v1alpha1", "tenantclasses", "TenantClass", False)

_ALL: tuple[Resource, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Resource))
_BY_KIND: dict[tuple[str, str], Resource] = {(resource.api_version, resource.kind): resource for resource in _ALL}


def resource_of(api_version: str, kind: str) -> Resource:
    """Return the constant for an object's `apiVersion` and `kind`; unknown kinds are a KeyError."""
    return _BY_KIND[(api_version, kind)]


def all_resources() -> tuple[Resource, ...]:
    """Every constant of this module."""
    return _ALL
