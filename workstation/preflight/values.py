"""The values that the admin would give to the chart, as far as preflight uses them. Pure.

    the chart's own defaults <── merged with ── --values FILE …, the last one wins ──> Values

The defaults are repeated here because the command is installed without the chart; a test keeps both equal. The chart's schema
judges whether values are well-formed: here, a value of the wrong type counts as the default.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import bulkhead
from bulkhead.api.untrusted import mapping, mappings, sequence, text

_MAX_IMAGES: Final = 24
_MAX_ITEMS: Final = 256

DEFAULTS: Final[Mapping[str, Any]] = {
    "images": {
        "registry": "docker.io/bulkhead",
        "bulkhead": f"bulkhead:{bulkhead.__version__}",
        "kubernetes": "kubernetes:{version}",
        "etcd": "etcd:v3.6.16",
        "coredns": "coredns:v1.15.0",
        "slurm": "slurm:{version}",
        "mariadb": "mariadb:11.8",
        "proxy": "proxy:3.0",
        "digests": {},
        "pullPolicy": "IfNotPresent",
        "pullSecrets": [],
    },
    "kubernetesVersions": ["v1.36.3"],
    "slurmVersions": ["26.05.5"],
    "services": {"range": "10.112.0.0/12", "slicePrefix": 22},
    "podNetworks": [],
    "reservedCIDRs": [],
    "planeClientCIDRs": [],
    "storageClass": "",
    "gpuResources": ["nvidia.com/gpu"],
    "deviceClasses": [],
    "snapshotClasses": [],
    "networkPolicy": {
        "enabled": True,
        "hostAPI": [{"cidr": "0.0.0.0/0", "port": 443}, {"cidr": "0.0.0.0/0", "port": 6443}],
        "hostAPIBy": "Address",
        "dns": [
            {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
                "podSelector": {
                    "matchExpressions": [{"key": "k8s-app", "operator": "In", "values": ["kube-dns", "node-local-dns"]}],
                },
            },
            {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "openshift-dns"}},
                "podSelector": {"matchLabels": {"dns.operator.openshift.io/daemonset-dns": "default"}},
            },
            {"ipBlock": {"cidr": "169.254.20.10/32"}},
        ],
    },
    "exposure": {"domains": []},
    "backup": {"target": "", "volumeClaim": "", "recipients": [], "targets": {}},
    "controller": {"nodeSelector": {}, "tolerations": []},
    "planes": {"nodeSelector": {}},
}


@dataclass(frozen=True, slots=True)
class Values:
    """What would be installed."""

    service_range: str
    slice_prefix: int
    images: Mapping[str, str]  # purpose ──> reference
    pull_policy: str
    pull_secrets: tuple[str, ...]
    storage_class: str
    pod_networks: tuple[str, ...]
    reserved: tuple[str, ...]
    clients: tuple[str, ...]
    gpu_resources: tuple[str, ...]
    device_classes: tuple[str, ...]
    snapshot_classes: tuple[str, ...]
    host_api: tuple[tuple[str, int], ...]  # network and port
    host_api_by: str  # Address, CiliumEntity or Port
    dns: tuple[Mapping[str, Any], ...]  # peers of a NetworkPolicy
    node_selector: Mapping[str, str]
    tolerations: tuple[Mapping[str, Any], ...]
    planes_selector: Mapping[str, str]  # the nodes of planes
    with_slurm: bool
    backup_target: str
    backup_recipients: tuple[str, ...]
    backup_targets: tuple[str, ...]  # the names of further places


def merged(documents: Iterable[Any]) -> Mapping[str, Any]:
    """The defaults, overridden by each document in order; lists are replaced, as Helm does."""
    found = dict(DEFAULTS)
    for document in documents:
        found = _over(found, mapping(document))
    return found


def parse(tree: Mapping[str, Any], *, reserved: Iterable[str] = ()) -> Values:
    """The values of a merged tree; `reserved` are the networks that the admin named in addition."""
    services, images, policy = (mapping(tree.get(section)) for section in ("services", "images", "networkPolicy"))
    controller = mapping(tree.get("controller"))
    prefix = services.get("slicePrefix")
    domains = _texts(mapping(tree.get("exposure")), "domains")
    found = _images(images, _texts(tree, "kubernetesVersions"), _texts(tree, "slurmVersions"), proxy=bool(domains))
    return Values(
        service_range=text(services.get("range")),
        slice_prefix=prefix if isinstance(prefix, int) else 22,
        images=dict(list(found)[:_MAX_IMAGES]),
        pull_policy=text(images.get("pullPolicy")) or "IfNotPresent",
        pull_secrets=tuple(_texts(images, "pullSecrets")[:16]),
        storage_class=text(tree.get("storageClass")),
        pod_networks=tuple(_texts(tree, "podNetworks")),
        reserved=(*_texts(tree, "reservedCIDRs"), *reserved),
        clients=tuple(_texts(tree, "planeClientCIDRs")),
        gpu_resources=tuple(_texts(tree, "gpuResources")),
        device_classes=tuple(_texts(tree, "deviceClasses")),
        snapshot_classes=tuple(_texts(tree, "snapshotClasses")),
        host_api=tuple(
            (text(each.get("cidr")), each["port"])
            for each in mappings(policy.get("hostAPI"), 32)
            if isinstance(each.get("port"), int)
        ),
        dns=tuple(mappings(policy.get("dns"), 16)),
        host_api_by=text(policy.get("hostAPIBy")) or "Address",
        node_selector={str(key): str(value) for key, value in mapping(controller.get("nodeSelector")).items()},
        tolerations=tuple(mappings(controller.get("tolerations"), 32)),
        planes_selector={str(k): str(v) for k, v in mapping(mapping(tree.get("planes")).get("nodeSelector")).items()},
        with_slurm=bool(_texts(tree, "slurmVersions")),
        backup_target=_backup_target(mapping(tree.get("backup"))),
        backup_recipients=tuple(_texts(mapping(tree.get("backup")), "recipients")),
        backup_targets=tuple(sorted(str(name) for name in mapping(mapping(tree.get("backup")).get("targets")))),
    )


def _backup_target(backup: Mapping[str, Any]) -> str:
    claim = text(backup.get("volumeClaim"))
    return text(backup.get("target")) or (f"volume claim {claim}" if claim else "")


def _images(images: Mapping[str, Any], kubernetes: list[str], slurm: list[str], *, proxy: bool) -> Iterable[tuple[str, str]]:
    """Every reference that a pod would name, by the chart's rule: a name with a slash is used unchanged."""
    for name, versions in (
        ("bulkhead", []), ("etcd", []), ("coredns", []), ("kubernetes", kubernetes), ("slurm", slurm), ("mariadb", []),
        ("proxy", []),
    ):  # fmt: skip
        if (name in {"slurm", "mariadb"} and not slurm) or (name == "proxy" and not proxy):
            continue
        given = text(images.get(name))
        if "{version}" not in given:
            yield name, _reference(images, given)
            continue
        yield from ((f"{name} {version}", _reference(images, given.replace("{version}", version))) for version in versions)


def _reference(images: Mapping[str, Any], given: str) -> str:
    """A name in the registry, with its digest if it is known; a name with a slash is used unchanged."""
    if "/" in given:
        return given
    digest = text(mapping(images.get("digests")).get(given))
    return f"{text(images.get('registry'))}/{given}" + (f"@{digest}" if digest else "")


def _over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(below)
    for key, value in above.items():
        under = result.get(key)
        result[key] = _over(under, value) if isinstance(under, Mapping) and isinstance(value, Mapping) else value
    return result


def _texts(tree: Mapping[str, Any], key: str) -> list[str]:
    return [item for item in sequence(tree.get(key))[:_MAX_ITEMS] if isinstance(item, str)]
