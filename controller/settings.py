"""The controller's settings: read once from `BULKHEAD_*` environment variables, which the chart sets from its values.

Only this module reads the environment. An invalid value stops the controller at its start, with an error that names the
variable; the controller never guesses.
"""

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from ipaddress import IPv4Network, ip_network
from typing import Any, Final, TypeVar

import bulkhead
from bulkhead.api import names
from bulkhead.snapshots.namedtargets import NamedTarget
from bulkhead.snapshots.namedtargets import read as read_targets
from bulkhead.snapshots.place import Place, check_recipient, parse
from controller.plane.addresses import ALWAYS, LISTED, PODS, REGISTRY, SLICES, STORAGE, Reserved
from controller.plane.addresses import network as network_of
from controller.plane.network import peers
from controller.plane.placement import ANYWHERE, Placement
from controller.plane.placement import read as read_placement
from controller.plane.sections import CLUSTER_DNS, Tracing
from controller.plane.spec import GPU_METRICS, GPU_METRICS_SOURCE_PORT

T = TypeVar("T")
# How policies permit traffic to the host's API server: by addresses, also by an entity of Cilium, or by ports only.
HOST_API_BY: Final = ("Address", "CiliumEntity", "Port")
_PROXY = re.compile(r"(https?://([A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\])(:[0-9]{1,5})?/?)?")
# A qualified name of Kubernetes, such as the key of an annotation or the class of a load balancer.
_KEY = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_NAME = re.compile(r"[.]?[A-Za-z0-9][-A-Za-z0-9_.]{0,252}")
_MAX_ANNOTATIONS_BYTES: Final = 64 * 1024
_DIGEST = re.compile(r"[^=\s]+=sha256:[0-9a-f]{64}")


class SettingsError(ValueError):
    """A setting is invalid; the text names its environment variable."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that an admin may set for the whole installation."""

    system_namespace: str = names.SYSTEM_NAMESPACE
    service_range: str = "10.112.0.0/12"
    slice_prefix: int = 22
    kubernetes_versions: tuple[str, ...] = ("v1.36.3",)
    image_bulkhead: str = f"docker.io/bulkhead/bulkhead:{bulkhead.__version__}"
    image_kubernetes: str = "docker.io/bulkhead/kubernetes:{version}"
    image_etcd: str = "docker.io/bulkhead/etcd:v3.6.16"
    image_coredns: str = "docker.io/bulkhead/coredns:v1.15.0"
    slurm_versions: tuple[str, ...] = ("26.05.5",)
    image_slurm: str = "docker.io/bulkhead/slurm:{version}"
    image_mariadb: str = "docker.io/bulkhead/mariadb:11.8"
    image_digests: tuple[str, ...] = ()  # IMAGE=sha256:…, for images whose tag is a version
    image_pull_policy: str = "IfNotPresent"
    pull_secrets: tuple[str, ...] = ()  # Secrets in the system namespace
    plane_priority_class: str = ""
    plane_placement: Placement = ANYWHERE
    workload_priority_class: str = ""
    cluster_domain: str = "cluster.local"
    dns_upstreams: tuple[str, ...] = ("/etc/resolv.conf",)
    plane_client_cidrs: tuple[str, ...] = ()
    pod_networks: tuple[str, ...] = ()
    reserved_cidrs: tuple[str, ...] = ()
    server_addresses: tuple[str, ...] = ()  # NAME=CIDR, for servers that the host's storage refers to by name
    host_api_by: str = HOST_API_BY[0]
    cluster_dns: tuple[dict[str, Any], ...] = CLUSTER_DNS
    metrics_from: tuple[dict[str, Any], ...] = ()
    gpu_metrics: int = 0  # whether program gpumetrics runs
    node_figures: int = 0  # whether it asks kubelets too
    traces_namespace: str = ""  # of the collector that traces are sent to; empty: they are off
    traces_service: str = ""
    traces_port: int = 4318
    trace_one_pod_in: int = 100
    storage_class: str = ""
    shared_namespace: str = ""
    shared_volume_types: tuple[str, ...] = ()
    exposure_domains: tuple[str, ...] = ()
    exposure_proxy: int = 0
    exposure_proxy_address: str = ""
    exposure_proxy_port: int = 443
    exposure_load_balancer_annotations: str = "{}"
    exposure_load_balancer_class: str = ""
    exposure_load_balancer_sources: tuple[str, ...] = ()
    exposure_gateway: str = ""
    exposure_gateway_port: int = 443
    backup_target: str = ""  # where snapshots of planes are stored: s3://BUCKET/PREFIX or file:///DIRECTORY
    backup_endpoint: str = ""
    backup_region: str = ""
    backup_plain_http: int = 0
    backup_recipients: tuple[str, ...] = ()  # age public keys that snapshots are encrypted to
    backup_targets: str = "{}"  # further places by name, as JSON (`bulkhead.snapshots.namedtargets`)
    backup_credentials: str = "/var/run/secrets/bulkhead/backup"  # a folder with one for each of them
    issuer_proxy: str = ""  # the proxy through which identity providers are contacted
    workers: int = 8
    resync_seconds: int = 120
    http_port: int = 8080
    log_level: str = "INFO"
    identity: str = ""

    def image(self, template: str, version: str) -> str:
        """The image of one version, with its digest if that is known."""
        name = template.replace("{version}", version)
        digest = dict(entry.rpartition("=")[::2] for entry in self.image_digests).get(name)
        return f"{name}@{digest}" if digest else name

    @property
    def gpu_metrics_source(self) -> str:
        """The address of program gpumetrics."""
        return f"http://{GPU_METRICS}.{self.system_namespace}.svc.{self.cluster_domain}:{GPU_METRICS_SOURCE_PORT}"

    @property
    def tracing(self) -> Tracing | None:
        """Where traces go; None while they are off."""
        if not self.traces_namespace:
            return None
        return Tracing(self.traces_namespace, self.traces_service, self.traces_port, self.trace_one_pod_in)

    @property
    def slurm_images(self) -> tuple[str, ...]:
        """The images that the platform runs in the tenants' work namespaces."""
        return (*(self.image(self.image_slurm, version) for version in self.slurm_versions), self.image_mariadb)

    @property
    def reserved(self) -> tuple[Reserved, ...]:
        """The address ranges that no tenant may open, as far as the settings give them."""
        pods = (Reserved(cidr, PODS) for cidr in self.pod_networks)
        listed = (Reserved(cidr, LISTED) for cidr in self.reserved_cidrs)
        named = (Reserved(cidr, STORAGE) for _, cidr in self._servers)
        return (*ALWAYS, Reserved(self.service_range, SLICES), *pods, *listed, *named, *self._registries)

    @property
    def named_servers(self) -> tuple[str, ...]:
        """Names, or ends of names, of servers whose addresses are known, because they are Services of the host."""
        services = (".svc", ".svc.cluster.local", f".svc.{self.cluster_domain}")
        return (*(name for name, _ in self._servers), *services)

    @property
    def backup_place(self) -> Place:
        """Where snapshots are stored, if `backup_target` says it. Raises ValueError if it does not."""
        return parse(
            self.backup_target,
            endpoint=self.backup_endpoint,
            region=self.backup_region,
            plain_http=bool(self.backup_plain_http),
        )

    @property
    def named_targets(self) -> tuple[NamedTarget, ...]:
        """The places for snapshots that classes may name. Raises ValueError."""
        return read_targets(self.backup_targets, self.backup_recipients)

    @property
    def _servers(self) -> tuple[tuple[str, str], ...]:
        parts = (entry.partition("=") for entry in self.server_addresses)
        return tuple((name.lower().rstrip("."), cidr) for name, _, cidr in parts)

    @property
    def _registries(self) -> tuple[Reserved, ...]:
        """The address of the registry of the platform's images, if it is an address; public registries have names."""
        images = (self.image_bulkhead, self.image_kubernetes, self.image_etcd, self.image_coredns, self.image_slurm)
        hosts = {_without_port(image.partition("/")[0]) for image in (*images, self.image_mariadb)}
        return tuple(Reserved(host, REGISTRY) for host in sorted(hosts) if network_of(host) is not None)

    @property
    def load_balancer_annotations(self) -> dict[str, str]:
        """The annotations of the tenants' load balancer Services."""
        return {str(key): str(value) for key, value in json.loads(self.exposure_load_balancer_annotations).items()}


def _without_port(host: str) -> str:
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]


def _proxy(text: str) -> str:
    if not _PROXY.fullmatch(text):
        raise ValueError("must be http://HOST:PORT")
    return text


# Settings that need parsing.
_READERS: Final[Mapping[str, Callable[[str], object]]] = {
    "plane_placement": read_placement,
    "cluster_dns": peers,
    "metrics_from": peers,
    "issuer_proxy": _proxy,
}


def load(environment: Mapping[str, str] = os.environ) -> Settings:
    """Read the settings; unset variables keep their defaults."""
    chosen: dict[str, object] = {}
    for field in fields(Settings):
        variable = f"BULKHEAD_{field.name.upper()}"
        text = environment.get(variable)
        if text is None:
            continue
        if field.name in _READERS:
            chosen[field.name] = _parse(variable, text, _READERS[field.name])
        elif isinstance(field.default, int):
            chosen[field.name] = _parse(variable, text, int)
        elif isinstance(field.default, tuple):
            chosen[field.name] = tuple(part for part in text.replace(",", " ").split() if part)
        else:
            chosen[field.name] = text
    settings = Settings(**chosen)  # type: ignore[arg-type]
    network = _parse("BULKHEAD_SERVICE_RANGE", settings.service_range, IPv4Network)
    if not network.prefixlen <= settings.slice_prefix <= 27:
        raise SettingsError(f"BULKHEAD_SLICE_PREFIX: /{settings.slice_prefix} does not fit between {network} and /27")
    _check_networks(settings)
    if settings.host_api_by not in HOST_API_BY:
        raise SettingsError(f"BULKHEAD_HOST_API_BY: {settings.host_api_by} must be one of {', '.join(HOST_API_BY)}")
    _check_digests(settings.image_digests)
    _check_exposure(settings)
    _check_backup(settings)
    _check_tracing(settings)
    if settings.workers < 1 or settings.resync_seconds < 1:
        raise SettingsError("BULKHEAD_WORKERS, BULKHEAD_RESYNC_SECONDS: must be at least 1")
    return settings


def _check_networks(settings: Settings) -> None:
    for cidr in settings.plane_client_cidrs:
        _parse("BULKHEAD_PLANE_CLIENT_CIDRS", cidr, IPv4Network)
    for variable, listed in (("POD_NETWORKS", settings.pod_networks), ("RESERVED_CIDRS", settings.reserved_cidrs)):
        for cidr in listed:
            _parse(f"BULKHEAD_{variable}", cidr, ip_network)
    for entry in settings.server_addresses:
        name, _, cidr = entry.partition("=")
        if not _NAME.fullmatch(name):
            raise SettingsError(f"BULKHEAD_SERVER_ADDRESSES: must be NAME=CIDR, not {entry[:100]!r}")
        _parse("BULKHEAD_SERVER_ADDRESSES", cidr, ip_network)


def _check_tracing(settings: Settings) -> None:
    for variable, name in (("NAMESPACE", settings.traces_namespace), ("SERVICE", settings.traces_service)):
        if settings.traces_namespace and not _LABEL.fullmatch(name):
            raise SettingsError(f"BULKHEAD_TRACES_{variable}: must be a name such as otel-collector, not {name[:100]!r}")
    if not 1 <= settings.traces_port <= 65535:
        raise SettingsError(f"BULKHEAD_TRACES_PORT: must be between 1 and 65535, not {settings.traces_port}")
    if not 1 <= settings.trace_one_pod_in <= 1_000_000:
        raise SettingsError(f"BULKHEAD_TRACE_ONE_POD_IN: must be between 1 and 1000000, not {settings.trace_one_pod_in}")


def _check_backup(settings: Settings) -> None:
    for text in settings.backup_recipients:
        _parse("BULKHEAD_BACKUP_RECIPIENTS", text, check_recipient)
    _parse("BULKHEAD_BACKUP_TARGETS", settings.backup_targets, lambda _: settings.named_targets)
    if not settings.backup_target:
        return
    _parse("BULKHEAD_BACKUP_TARGET", settings.backup_target, lambda _: settings.backup_place)
    if not settings.backup_recipients:
        raise SettingsError(
            "BULKHEAD_BACKUP_RECIPIENTS: a target for snapshots needs at least one age public key to encrypt to: they hold the "
            "keys of planes"
        )


def _check_digests(entries: tuple[str, ...]) -> None:
    if wrong := [entry for entry in entries if not _DIGEST.fullmatch(entry)]:
        raise SettingsError(f"BULKHEAD_IMAGE_DIGESTS: must be IMAGE=sha256:DIGEST, not {wrong[0][:100]!r}")


def _check_exposure(settings: Settings) -> None:
    domains = settings.exposure_domains
    below = next((one for one in domains for other in domains if one.endswith(f".{other}")), None)
    if below is not None:
        raise SettingsError(f"BULKHEAD_EXPOSURE_DOMAINS: {below} must not be a subdomain of another listed domain")
    for cidr in settings.exposure_load_balancer_sources:
        _parse("BULKHEAD_EXPOSURE_LOAD_BALANCER_SOURCES", cidr, IPv4Network)
    if not (settings.exposure_load_balancer_class == "" or _KEY.fullmatch(settings.exposure_load_balancer_class)):
        raise SettingsError(
            "BULKHEAD_EXPOSURE_LOAD_BALANCER_CLASS: must be a name such as example.com/internal, "
            f"not {settings.exposure_load_balancer_class[:100]!r}"
        )
    try:
        annotations = settings.load_balancer_annotations
    except (ValueError, AttributeError, RecursionError) as error:
        raise SettingsError(f"BULKHEAD_EXPOSURE_LOAD_BALANCER_ANNOTATIONS: must be a JSON object: {error}") from error
    _check_annotations("BULKHEAD_EXPOSURE_LOAD_BALANCER_ANNOTATIONS", annotations)


def _check_annotations(variable: str, annotations: Mapping[str, str]) -> None:
    """Check the annotations at the start: the API server would reject each tenant's Service much later."""
    for key in annotations:
        if not _KEY.fullmatch(key) or len(key.partition("/")[0]) > 253:
            raise SettingsError(f"{variable}: keys must be such as example.com/scheme, not {key[:100]!r}")
        if key.startswith(names.GROUP + "/"):
            raise SettingsError(f"{variable}: {key[:100]!r} is not allowed: {names.GROUP}/ is reserved for Bulkhead")
    if sum(len(key) + len(value.encode()) for key, value in annotations.items()) > _MAX_ANNOTATIONS_BYTES:
        raise SettingsError(f"{variable}: must be at most {_MAX_ANNOTATIONS_BYTES} bytes together")


def _parse(variable: str, text: str, kind: Callable[[str], T]) -> T:
    try:
        return kind(text)
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{variable}: {error}") from error
