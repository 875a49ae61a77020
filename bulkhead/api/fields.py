"""Building blocks of the API types: the model that all of them share, bounded strings, and CEL rules.

What is declared here ends up in the CRD schema, so every string, list and map carries its bound where it is defined. Nothing
here reads a cluster or a file.
"""

from datetime import datetime
from typing import Annotated, Any, Final, Literal, TypedDict

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema
from pydantic.alias_generators import to_camel

from bulkhead.api.podresources import MOST_DEVICES

RULES: Final = "x-kubernetes-validations"

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_PREFIX = r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?"
_QUANTITY = r"^[0-9]{1,12}(\.[0-9]{1,3})?(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?$"
_AMOUNT = r"^[0-9]{1,12}(\.[0-9]{1,3})?(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi|[eE][0-9]{1,2})?$"


class ApiModel(BaseModel):
    """An immutable object of the API; fields are camelCase on the wire and unknown ones are refused."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True)


class Rule(TypedDict, total=False):
    """One CEL rule as the CRD carries it."""

    rule: str
    message: str
    messageExpression: str
    fieldPath: str
    reason: str


def rules(*items: Rule) -> dict[str, Any]:
    """CEL rules, to be put on a field or a model as `json_schema_extra`."""
    return {RULES: [dict(item) for item in items]}


def model_rules(*items: Rule) -> ConfigDict:
    """The configuration of an `ApiModel` that carries rules of its own."""
    return ConfigDict(json_schema_extra=rules(*items))


def text(limit: int, pattern: str | None = None) -> Any:
    """The bounds of a string."""
    return Field(min_length=1, max_length=limit, pattern=pattern)


DnsLabel = Annotated[str, text(63, rf"^{_LABEL}$")]
DnsName = Annotated[str, text(253, rf"^{_LABEL}(\.{_LABEL})*$")]
KubernetesVersion = Annotated[str, text(16, r"^v1\.[0-9]{1,2}\.[0-9]{1,3}$")]
ResourceName = Annotated[str, text(253)]
LabelKey = Annotated[str, text(317)]
TaintKey = Annotated[str, text(317, rf"^({_LABEL}(\.{_LABEL})*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?$")]
LabelValue = Annotated[str, Field(max_length=63, pattern=r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$")]
Cidr = Annotated[str, text(43)]
Subject = Annotated[str, text(253)]
StorageSize = Annotated[str, text(20, r"^[1-9][0-9]{0,5}(Mi|Gi|Ti)$")]
StoreQuota = Annotated[str, text(12, r"^([1-9][0-9]{2,4}Mi|[1-8]Gi)$")]
StreamRate = Annotated[str, text(8, r"^([1-9][0-9]{0,4}Mi|[1-9][0-9]?Gi)$")]
PodBytes = Annotated[str, text(5, r"^([1-9][0-9]?|1[0-8][0-9]|19[0-2])Mi$")]
Moment = Annotated[datetime, WithJsonSchema({"type": "string", "format": "date-time"})]
# Values of `bulkhead.api.privileges`; of tenant and class alike.
DropPrivileges = Literal["Never", "SlinkyWorkers"]
DROPS: Final = (
    "Pods from which the plane removes what the host would refuse, `privileged` and added capabilities, when they are created. "
    "SlinkyWorkers: pods of the NodeSets of Slinky's operator, which requests both. None by default; needs Kubernetes 1.36."
)
MOST_COUNTED: Final = 1_000_000
Count = Annotated[int, Field(ge=0, le=MOST_COUNTED)]
Quantity = Annotated[
    int | str,
    WithJsonSchema(
        {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "x-kubernetes-int-or-string": True,
            "maxLength": 20,
            "pattern": _QUANTITY,
        }
    ),
]
# Of a resource: 512Gi of memory, 16 GPUs. Rules compare it as `quantity(string(self.…))`, since it may be a number or a string.
Amount = Annotated[
    int | str,
    WithJsonSchema(
        {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "x-kubernetes-int-or-string": True,
            "maxLength": 20,
            "minimum": 0,
            "pattern": _AMOUNT,
        }
    ),
]

# Keys of maps are out of reach of a structural schema; a rule on the map says what they may be.
RESOURCE_KEYS: Final[Rule] = {
    "rule": f"self.all(key, size(key) <= 253 && key.matches('^({_PREFIX}/)?[a-z0-9]([-a-zA-Z0-9_.]*[a-zA-Z0-9])?$'))",
    "message": "every key must be a resource name such as nvidia.com/gpu",
}


_DEVICE: Final = (
    "(key.contains('/') && !key.startsWith('requests.') && !key.startsWith('limits.') && !key.startsWith('count/') && "
    "!key.startsWith('kubernetes.io/') && !key.contains('k8s.io/') && !key.endsWith('/requests.storage'))"
)
# A quota is named after what it counts, and by one name alone: the controller puts `requests.` before it for the host.
QUOTA_KEYS: Final[Rule] = {
    "rule": "self.all(key, key in ['cpu', 'memory', 'ephemeral-storage', 'requests.storage', 'limits.cpu', 'limits.memory', "
    "'limits.ephemeral-storage'] || key.startsWith('hugepages-') || "
    f"key.endsWith('.storageclass.storage.k8s.io/requests.storage') || {_DEVICE})",
    "message": "a quota is of cpu, memory, ephemeral-storage, requests.storage, limits.cpu, limits.memory, "
    "limits.ephemeral-storage, huge pages, or devices such as nvidia.com/gpu; numbers of objects are in objects",
}
DEVICE_NAMES: Final[Rule] = {
    "rule": f"self.all(key, key.startsWith('hugepages-') || {_DEVICE})",
    "message": "the name by which containers ask for a device, such as nvidia.com/gpu",
}
OBJECT_KEYS: Final[Rule] = {
    "rule": "self.all(key, key in ['pods', 'services', 'services.nodeports', 'services.loadbalancers', 'configmaps', "
    "'secrets', 'persistentvolumeclaims', 'replicationcontrollers', 'resourcequotas'] || key.startsWith('count/') || "
    "key.endsWith('.storageclass.storage.k8s.io/persistentvolumeclaims'))",
    "message": "objects are counted as pods, services, secrets, configmaps, persistentvolumeclaims, or by kind as "
    "count/ingresses.networking.k8s.io",
}


def whole_devices(*fields: str) -> tuple[Rule, ...]:
    """Devices of a vendor, which a map of resources has under names such as `nvidia.com/gpu`, can only be had whole."""
    return tuple(
        {
            "rule": f"self.all(key, !key.contains('/') || key.endsWith('/requests.storage') || !has(self[key].{field}) || "
            f"(quantity(string(self[key].{field})).isInteger() && "
            f"quantity(string(self[key].{field})).asInteger() <= {MOST_DEVICES}))",
            "message": f"{field}: devices such as nvidia.com/gpu are given as a whole number of at most {MOST_DEVICES}",
        }
        for field in fields
    )


LABEL_KEYS: Final[Rule] = {
    "rule": f"self.all(key, size(key) <= 317 && key.matches('^({_PREFIX}/)?[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?$'))",
    "message": "every key must be a label key",
}
# The controller sets it on nodes that are dedicated to one tenant; no other tenant's selector may name it.
OWN_POOL: Final[Rule] = {
    "rule": "!('bulkhead.dev/tenant' in self)",
    "message": "bulkhead.dev/tenant is the platform's: it is on the nodes that a tenant has for itself alone; choose them by "
    "labels of your own, and set dedicated",
}
CERTIFICATES: Final[Rule] = {
    "rule": "self.contains('-----BEGIN CERTIFICATE-----') && !self.contains('PRIVATE KEY')",
    "message": "certificates in PEM, and no key",
}
CIDRS: Final[Rule] = {"rule": "self.all(item, isCIDR(item))", "message": "every item must be a CIDR such as 203.0.113.0/24"}


# Nothing else of a component has an effect, and a field that is accepted must have one.
CPU_AND_MEMORY: Final[Rule] = {"rule": "self.all(key, key in ['cpu', 'memory'])", "message": "only cpu and memory"}


class Component(ApiModel):
    """What one component of the plane asks for and may use."""

    requests: dict[ResourceName, Quantity] | None = Field(
        None,
        max_length=8,
        description="Requests of the container, for example cpu: 50m.",
        json_schema_extra=rules(CPU_AND_MEMORY),
    )
    limits: dict[ResourceName, Quantity] | None = Field(
        None,
        max_length=8,
        description="Limits of the container, for example memory: 1Gi.",
        json_schema_extra=rules(CPU_AND_MEMORY),
    )


class Components(ApiModel):
    """Resources of the plane's components."""

    etcd: Component | None = Field(None, description="Resources of the tenant's etcd.")
    api_server: Component | None = Field(None, description="Resources of the tenant's API server.")
    controller_manager: Component | None = Field(None, description="Resources of the tenant's controller manager.")
    syncer: Component | None = Field(None, description="Resources of the tenant's syncer.")
    dns: Component | None = Field(None, description="Resources of the tenant's DNS server.")
