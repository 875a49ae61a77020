"""The settings that the controller gives to the syncer: one JSON file, read at the start; some of it is taken over later too.

Unknown fields are refused, so a typo never becomes a silent default, and every number has bounds. Nothing here comes from
the tenant. A file that does not fit raises `SettingsFileError`, whose text names the field.
"""

from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from bulkhead.api.syncersettings import (
    GRACE_SECONDS,
    LOG_BYTES_PER_SECOND,
    MAX_POD_BYTES,
    MAX_SERVICE_ENDPOINTS,
    POD_BYTES,
    READ_AGAIN,
    SERVICE_ENDPOINTS,
    SESSION_BYTES_PER_SECOND,
)

DEFAULT_PATH: Final = Path("/etc/bulkhead/settings.json")
_SIZE_LIMIT: Final = 1 << 20

_Label = Annotated[str, msgspec.Meta(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
_CONFIG_MAP: Final = r"^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)?$"
_Address = Annotated[str, msgspec.Meta(max_length=45, pattern=r"^[0-9a-fA-F.:]*$")]
_Text = Annotated[str, msgspec.Meta(max_length=253)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000)]
# The least keeps sessions whole (`syncer/kubelet/pace.py`).
_Rate = Annotated[int, msgspec.Meta(ge=1 << 20, le=1 << 40)]
_Map = dict[Annotated[str, msgspec.Meta(max_length=317)], _Text]


# Names in the file that do not follow from the field's.
_NAMES: Final = {
    "tenant_uid": "tenantUID",
    "kubelet_address": "shimAddress",
    "kubelet_port": "shimPort",
    "allowed_apparmor_profiles": "allowedAppArmorProfiles",
}


def _json_name(field: str) -> str:
    first, *rest = field.split("_")
    return _NAMES.get(field) or first + "".join(part.capitalize() for part in rest)


class SettingsFileError(Exception):
    """The settings file cannot be used."""


class NodeSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which host nodes the tenant sees; an empty selector means all."""

    selector: _Map = {}


class ContainerDefaults(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the host gives a container that names none, as quantities by resource."""

    requests: dict[_Text, _Text] = {}
    limits: dict[_Text, _Text] = {}


class Settings(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    rename=_json_name,
):
    """The whole file; the controller writes it into ConfigMap `syncer` (`controller/plane/syncer.py`).

    `bulkhead/api/syncersettings.py` lists the fields that a running syncer takes over; code must read those fields again each
    time it uses them.
    """

    tenant: _Label
    tenant_uid: Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
    plane_namespace: _Label
    work_namespace: _Label
    cluster_domain: _Text = "cluster.local"
    dns_address: _Address = ""
    api_address: _Address = ""
    # ConfigMap of the work namespace with `KUBERNETES_*`; empty: each container lists the variables.
    api_environment: Annotated[str, msgspec.Meta(pattern=_CONFIG_MAP)] = ""
    # ConfigMap that closes the variables of devices, with `-<vendor>` behind it for a vendor's devices; empty: the same.
    device_environment: Annotated[str, msgspec.Meta(pattern=_CONFIG_MAP)] = ""
    kubelet_address: _Address = ""
    public_address: _Address = ""  # kept free for the Service of the tenant's load balancer
    kubelet_port: Annotated[int, msgspec.Meta(ge=1, le=65535)] = 10250
    # Where the plane's API server finds the keys of identity providers; 0: nowhere.
    issuers_port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 0
    # Where pods of the plane read the metrics of their GPUs, and where those come from; 0 and empty: nowhere.
    gpu_metrics_port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 0
    gpu_metrics_source: Annotated[str, msgspec.Meta(max_length=300, pattern=r"^(http://[-a-z0-9.]+:[0-9]{1,5})?$")] = ""
    node_figures: bool = False  # the same source has network and disk of pods
    # Where traces of pods go, and that one pod in how many has one; empty: nowhere.
    traces_collector: Annotated[str, msgspec.Meta(max_length=300, pattern=r"^(http://[-a-z0-9.]+:[0-9]{1,5})?$")] = ""
    trace_one_pod_in: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 100
    service_slice: Annotated[str, msgspec.Meta(max_length=64)] = ""
    nodes: NodeSettings = NodeSettings()
    gpu_resources: tuple[_Text, ...] = ("nvidia.com/gpu",)
    extended_resources: tuple[_Text, ...] = ()  # network devices, huge pages
    # By GPU resource, and by device class for those that stand for no resource. The host's quota wins where it names one;
    # what neither limits is limited to nothing.
    limits: dict[_Text, _Count] = {}
    device_class_resources: dict[_Text, _Text] = {}  # the resource that a device class stands for
    most_per_pod: dict[_Text, _Text] = {}  # quantities by resource; absent: no bound
    most_limit_request_ratio: dict[_Text, _Text] = {}
    container_defaults: ContainerDefaults = ContainerDefaults()
    most_per_claim: _Text = ""  # a quantity; empty: any size
    # What all pods, and all Services, may take on the host together (`syncer/quota/extent.py`).
    most_pod_bytes: Annotated[int, msgspec.Meta(ge=1 << 20, le=MAX_POD_BYTES)] = POD_BYTES
    most_service_endpoints: Annotated[int, msgspec.Meta(ge=1, le=MAX_SERVICE_ENDPOINTS)] = SERVICE_ENDPOINTS
    enforced_node_selector: _Map = {}
    enforced_tolerations: tuple[dict[str, Any], ...] = ()
    allowed_tolerations: tuple[dict[str, Any], ...] = ()  # what pods may ask for besides
    pod_security: Annotated[str, msgspec.Meta(pattern=r"^(privileged|baseline|restricted)$")] = "baseline"
    user_namespaces: bool = False
    prefer_user_namespaces: bool = False
    allowed_seccomp_profiles: tuple[_Text, ...] = ()  # empty, as of the next: the runtime's own alone
    allowed_apparmor_profiles: tuple[_Text, ...] = ()
    runtime_class_name: _Text | None = None
    priority_class_name: _Text | None = None
    allowed_priority_classes: tuple[_Text, ...] = ()
    allowed_runtime_classes: tuple[_Text, ...] = ()
    allowed_storage_classes: tuple[_Text, ...] = ()  # empty: the host's default one
    allowed_device_classes: tuple[_Text, ...] = ()  # empty: no claims for devices
    allowed_ingress_classes: tuple[_Text, ...] = ()  # empty, or no domains: Ingresses stay in the plane
    ingress_domains: tuple[_Text, ...] = ()
    pod_groups: bool = False
    # Resources whose pods wait at the ledger's gate (`bulkhead.api.ledger`), and whether pods of gangs do.
    gated_resources: tuple[_Text, ...] = ()
    gated_gangs: bool = False
    allowed_snapshot_classes: tuple[_Text, ...] = ()  # empty: no snapshots of claims, and no API for them
    # The Secret of the work namespace with which the platform's own images are pulled, and those images.
    pull_secret: _Text = ""
    own_images: tuple[Annotated[str, msgspec.Meta(max_length=512)], ...] = ()
    # For how long disruption budgets hold up the drain of a node; below 0: for ever.
    drain_seconds: Annotated[int, msgspec.Meta(ge=-1, le=99_999 * 3600)] = 3600
    max_grace_seconds: Annotated[int, msgspec.Meta(ge=1, le=GRACE_SECONDS)] = GRACE_SECONDS
    patrol_seconds: Annotated[float, msgspec.Meta(ge=1, le=86_400)] = 300.0
    mass_delete_limit: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 100
    token_seconds: Annotated[int, msgspec.Meta(ge=600, le=86_400)] = 3600
    log_bytes_per_second: _Rate = LOG_BYTES_PER_SECOND
    session_bytes_per_second: _Rate = SESSION_BYTES_PER_SECOND


def load(path: Path) -> Settings:
    """Read the settings file."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise SettingsFileError(f"settings file {path}: {error.strerror or error}") from error
    return parse(raw)


def parse(raw: bytes) -> Settings:
    """Decode and check settings."""
    if len(raw) > _SIZE_LIMIT:
        raise SettingsFileError(f"settings: {len(raw)} bytes, at most {_SIZE_LIMIT} are read")
    try:
        return msgspec.json.decode(raw, type=Settings)
    except msgspec.MsgspecError as error:
        raise SettingsFileError(f"settings: {error}") from error


def taken_over(running: Settings, told: Settings) -> Settings:
    """The settings of a running syncer after it was told others: what is read once stays what it was."""
    fields = [name for name in Settings.__struct_fields__ if _json_name(name) in READ_AGAIN]
    return msgspec.structs.replace(running, **{name: getattr(told, name) for name in fields})
