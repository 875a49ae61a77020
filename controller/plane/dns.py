"""The tenant's DNS: one CoreDNS that sees the tenant's plane and nothing of the host.

Names outside the cluster go to the upstream resolvers of the settings, by default those of the node. They never go to the host
cluster's DNS, which knows the names of all Services.
"""

from bulkhead.api.objects import Obj
from controller.plane import parts
from controller.plane.parts import CONTAINER_SECURITY, metadata, mount, pod_spec, probe, secret_volume
from controller.plane.spec import CONFIG_PATH, COREDNS, DNS, DNS_HEALTH_PORT, DNS_PORT, DNS_READY_PORT, PKI_PATH, PlaneSpec


def corefile(spec: PlaneSpec) -> str:
    """The Corefile."""
    upstreams, domain = " ".join(spec.installation.dns_upstreams), spec.installation.cluster_domain
    forward = [f"    forward . {upstreams} {{", "        max_concurrent 500", "    }"] if upstreams else []
    lines = [
        f".:{DNS_PORT} {{",
        "    errors",
        f"    health :{DNS_HEALTH_PORT}",
        f"    ready :{DNS_READY_PORT}",
        # Readers of a token fetch the issuer's keys, and the issuer is the API server.
        f"    rewrite name exact {spec.issuer_name}.{domain} kubernetes.default.svc.{domain} answer auto",
        f"    kubernetes {domain} in-addr.arpa ip6.arpa {{",
        f"        kubeconfig {PKI_PATH}/kubeconfig",
        # As kubeadm sets it. With `verified` CoreDNS would watch and cache every pod, for names that are hardly used.
        "        pods insecure",
        "        ttl 5",
        "        fallthrough in-addr.arpa ip6.arpa",
        "    }",
        *forward,
        "    cache 30 {",
        f"        disable success {domain}",
        f"        disable denial {domain}",
        "    }",
        "    loadbalance",
        "}",
    ]
    return "\n".join(lines) + "\n"


def config_map(spec: PlaneSpec) -> Obj:
    """ConfigMap `dns` with the Corefile."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(spec, DNS, namespace=spec.namespace, component=DNS),
        "data": {"Corefile": corefile(spec)},
    }


def deployment(spec: PlaneSpec, *, leaf: str, config: str) -> Obj:
    """Deployment `dns`; `leaf` and `config` are digests of what the process reads once."""
    pod = pod_spec(
        spec,
        [_container(spec)],
        [secret_volume("pki", "pki-dns"), {"name": "config", "configMap": {"name": DNS, "defaultMode": 0o444}}],
        # The node's resolvers: the host cluster's DNS knows every tenant's Services.
        dnsPolicy="Default",
        terminationGracePeriodSeconds=5,
    )
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    return parts.deployment(spec, DNS, pod, leaf=leaf, config=config, strategy=strategy)


def _container(spec: PlaneSpec) -> Obj:
    return {
        "name": COREDNS,
        "image": spec.images.coredns,
        "imagePullPolicy": spec.images.pull_policy,
        "args": ["-conf", f"{CONFIG_PATH}/Corefile"],
        "env": spec.budgets.dns.go_env(40),
        "ports": [
            {"name": "dns", "containerPort": DNS_PORT, "protocol": "UDP"},
            {"name": "dns-tcp", "containerPort": DNS_PORT, "protocol": "TCP"},
        ],
        "resources": spec.budgets.dns.resources(),
        "securityContext": CONTAINER_SECURITY,
        "volumeMounts": [mount("pki", PKI_PATH), mount("config", CONFIG_PATH)],
        "startupProbe": probe("/ready", DNS_READY_PORT, period=1, failures=180),
        "livenessProbe": probe("/health", DNS_HEALTH_PORT, period=10, failures=6),
        "readinessProbe": probe("/ready", DNS_READY_PORT, period=10, failures=3),
    }
