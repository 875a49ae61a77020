"""The names of the chart's values, to find misspelt ones before an installation. Pure.

The chart's schema is the source, and a test compares: the command is installed without the chart. An empty mapping stands for
a value whose inner names the schema leaves open.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from bulkhead.api.untrusted import mapping

KNOWN: Final[Mapping[str, Any]] = {
    "global": {},
    "images": {
        "registry": {},
        "bulkhead": {},
        "kubernetes": {},
        "etcd": {},
        "coredns": {},
        "slurm": {},
        "mariadb": {},
        "digests": {},
        "proxy": {},
        "pullPolicy": {},
        "pullSecrets": {},
    },
    "kubernetesVersions": {},
    "slurmVersions": {},
    "services": {
        "range": {},
        "slicePrefix": {},
    },
    "podNetworks": {},
    "clusterDomain": {},
    "dnsUpstreams": {},
    "reservedCIDRs": {},
    "serverAddresses": {},
    "planeClientCIDRs": {},
    "exposure": {
        "domains": {},
        "proxy": {
            "enabled": {},
            "replicas": {},
            "address": {},
            "port": {},
            "service": {
                "type": {},
                "annotations": {},
                "nodePort": {},
                "loadBalancerClass": {},
                "sourceRanges": {},
                "externalTrafficPolicy": {},
            },
            "limits": {
                "connections": {},
                "tenantConnections": {},
                "tenantRate": {},
                "sourceConnections": {},
                "sourceRate": {},
            },
            "threads": {},
            "resources": {},
            "nodeSelector": {},
            "tolerations": {},
        },
        "loadBalancer": {
            "annotations": {},
            "className": {},
            "sourceRanges": {},
        },
        "gateway": {
            "namespace": {},
            "name": {},
            "sectionName": {},
            "port": {},
        },
    },
    "gpuMetrics": {
        "enabled": {},
        "exporter": {
            "namespace": {},
            "service": {},
            "port": {},
            "cidrs": {},
        },
        "interval": {},
        "kubelets": {
            "enabled": {},
            "verify": {},
            "interval": {},
            "port": {},
            "cidrs": {},
        },
        "settle": {},
        "resources": {},
    },
    "tracing": {
        "enabled": {},
        "collector": {
            "namespace": {},
            "service": {},
            "port": {},
        },
        "onePodIn": {},
    },
    "storageClass": {},
    "deviceClasses": {},
    "snapshotClasses": {},
    "ingressDomains": {},
    "extendedResources": {},
    "hostMetadataDomains": {},
    "gpuResources": {},
    "planes": {
        "nodeSelector": {},
        "tolerations": {},
        "spread": {},
    },
    "priorityClasses": {
        "plane": {
            "name": {},
            "value": {},
        },
        "workload": {
            "name": {},
            "value": {},
        },
    },
    "shares": {
        "namespace": {},
        "create": {},
        "volumeTypes": {},
    },
    "networkPolicy": {
        "enabled": {},
        "hostAPI": {},
        "hostAPIBy": {},
        "dns": {},
        "issuers": {},
        "backup": {},
        "metricsFrom": {},
    },
    "apiPriority": {
        "enabled": {},
        "shares": {
            "lease": {},
            "controller": {},
        },
    },
    "monitoring": {
        "enabled": {},
        "interval": {},
        "labels": {},
        "alerts": {},
        "dashboards": {
            "enabled": {},
            "label": {},
            "labelValue": {},
            "namespace": {},
            "folderAnnotation": {},
            "folder": {},
        },
    },
    "backup": {
        "target": {},
        "endpoint": {},
        "region": {},
        "plainHTTP": {},
        "credentialsSecret": {},
        "volumeClaim": {},
        "recipients": {},
        "targets": {},
    },
    "controller": {
        "replicas": {},
        "workers": {},
        "resyncSeconds": {},
        "issuerProxy": {},
        "logLevel": {},
        "resources": {},
        "nodeSelector": {},
        "tolerations": {},
        "affinity": {
            "nodeAffinity": {},
            "podAffinity": {},
            "podAntiAffinity": {},
        },
    },
}


def unknown(document: Mapping[str, Any], known: Mapping[str, Any] = KNOWN, path: str = "") -> Iterator[tuple[str, list[str]]]:
    """The path of each value that the chart does not have, with the names that it has in that place."""
    for name, value in document.items():
        if name not in known:
            yield f"{path}{name}", sorted(known)
        elif known[name]:
            yield from unknown(mapping(value), known[name], f"{path}{name}.")
