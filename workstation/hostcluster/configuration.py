"""Configuration files of the host's components, rendered from the context. Pure except for the final writes.

A setting that differs from upstream's default has the reason next to it.
"""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from workstation.hostcluster.component import (
    CLUSTER_DNS,
    CLUSTER_DOMAIN,
    POD_RANGE,
    HostContext,
)
from workstation.hostcluster.files import write_file
from workstation.hostcluster.node import Node, nodes_of

SANDBOX_IMAGE = "registry.k8s.io/pause:3.10"
NETWORK = "bulkhead"  # the CNI plugins write it into the comment of each rule
# The second has the resolvers behind systemd-resolved, where /etc/resolv.conf names its stub at 127.0.0.53.
RESOLV_CONFS = (Path("/etc/resolv.conf"), Path("/run/systemd/resolve/resolv.conf"))
NO_RESOLVER = "nameserver 127.0.0.1"
CNI_PLUGINS = ("/usr/lib/cni", "/opt/cni/bin")  # of Debian's package, and of upstream's own archive


def containerd(node: Node) -> str:
    """The configuration of containerd. Strings are JSON strings, which are also valid TOML."""
    ctx = node.ctx

    def text(value: object) -> str:
        return json.dumps(str(value))

    runtime = "plugins.'io.containerd.cri.v1.runtime'"
    return f"""version = 3
root = {text(node.data_dir / "containerd")}
state = {text(node.run_dir / "containerd")}
disabled_plugins = ["io.containerd.nri.v1.nri", "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing",
  "io.containerd.snapshotter.v1.erofs", "io.containerd.snapshotter.v1.blockfile", "io.containerd.differ.v1.erofs",
  "io.containerd.mount-handler.v1.erofs"]
imports = []

[grpc]
address = {text(node.containerd_socket)}

[plugins.'io.containerd.internal.v1.opt']
path = {text(node.data_dir / "containerd" / "opt")}

[plugins.'io.containerd.shim.v1.manager']
socket_dir = {text(node.run_dir / "containerd" / "s")}

[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = {text(SANDBOX_IMAGE)}

[plugins.'io.containerd.cri.v1.images'.registry]
config_path = {text(ctx.registries_dir)}

[{runtime}]
# Without CAP_SYS_RESOURCE a score below our own cannot be set, and every sandbox would fail in `runc create`.
restrict_oom_score_adj = true
# Network namespaces are in our own run folder, so that `down` finds them all.
netns_mounts_under_state_dir = true
enable_unprivileged_ports = true
enable_unprivileged_icmp = true
# Devices of drivers on this host only; `down` removes them.
cdi_spec_dirs = [{text(node.run_dir / "cdi")}]
# By default containerd reads each container's usage every second, for kubelets that take their figures from the runtime. Ours
# reads cgroups itself, and the default caused a fifth of the cost of ten idle planes.
stats_collect_period = "1m"

[{runtime}.containerd]
default_runtime_name = "runc"

[{runtime}.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
runtime_path = {text(ctx.binaries["containerd-shim-runc-v2"])}

[{runtime}.containerd.runtimes.runc.options]
BinaryName = {text(ctx.binaries["runc"])}
Root = {text(node.run_dir / "runc")}
SystemdCgroup = false

[{runtime}.cni]
bin_dirs = [{", ".join(text(folder) for folder in CNI_PLUGINS)}]
conf_dir = {text(node.config_dir / "cni")}
max_conf_num = 1
"""


def cni(node: Node) -> dict[str, Any]:
    """Point-to-point devices: every packet of a pod is routed, and so crosses the forward hook that enforces policies."""
    return {
        "cniVersion": "1.0.0",
        "name": NETWORK,
        "plugins": [
            {
                "type": "ptp",
                "ipMasq": False,
                "ipam": {
                    "type": "host-local",
                    "ranges": [[{"subnet": node.pod_range}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                    # In the run folder: addresses of pods that died with their host become free again.
                    "dataDir": str(node.run_dir / "cni"),
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": True}, "snat": True},
        ],
    }


def kubelet(node: Node) -> dict[str, Any]:
    """The kubelet's configuration."""
    pki = node.ctx.pki_dir
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": node.address,
        "healthzBindAddress": node.probe_address,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(pki / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(pki / f"{node.identity('kubelet-server')}.crt"),
        "tlsPrivateKeyFile": str(pki / f"{node.identity('kubelet-server')}.key"),
        "containerRuntimeEndpoint": f"unix://{node.containerd_socket}",
        "clusterDNS": [CLUSTER_DNS],
        "clusterDomain": CLUSTER_DOMAIN,
        "resolvConf": str(node.ctx.config_dir / "resolv.conf"),
        "podLogsDir": str(node.data_dir / "logs" / "pods"),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{node.cgroup}",  # a subtree of our own, which `down` removes completely
        "failCgroupV1": False,
        "failSwapOn": False,
        "oomScoreAdj": 0,  # lower ones need CAP_SYS_RESOURCE
        "makeIPTablesUtilChains": False,  # nothing here uses them, and `down` does not have to remove them
        "maxPods": 250,
        # Upstream limits neither, so that one fork bomb would use up the process IDs of the whole node. Slurm's workers and an
        # API server's threads stay well below the limit, and some IDs remain reserved for the machine itself.
        "podPidsLimit": 4096,
        "systemReserved": {"pid": "1024"},
        # containerd's default profile filters the system calls of pods that name no profile, the platform's included.
        "seccompDefault": True,
        "serializeImagePulls": False,
        "syncFrequency": "20s",
        "nodeStatusUpdateFrequency": "5s",
        "nodeStatusReportFrequency": "1m0s",
        "nodeLeaseDurationSeconds": 40,
        # Images come from files, not from a registry: a garbage-collected image could not be pulled again.
        "imageMinimumGCAge": "87600h0m0s",
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "evictionHard": {
            "memory.available": "200Mi",
            "nodefs.available": "2%",
            "nodefs.inodesFree": "1%",
            "imagefs.available": "2%",
        },
        "kubeAPIQPS": 200,
        "kubeAPIBurst": 400,
        "eventRecordQPS": 100,
        "eventBurst": 200,
        "shutdownGracePeriod": "0s",
        "volumePluginDir": str(node.kubelet_dir / "volume-plugins"),
        "logging": {"flushFrequency": "5s"},
    }


def scheduler(ctx: HostContext) -> dict[str, Any]:
    """The scheduler's configuration: at the default of 50 requests a second it would slow down every gang."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(ctx.config_dir / "scheduler.kubeconfig"), "qps": 1000, "burst": 2000},
        "leaderElection": {"leaderElect": False},  # there is only one scheduler
    }


def proxy(node: Node, mode: str) -> dict[str, Any]:
    """kube-proxy's configuration. It leaves conntrack settings as the machine has them: some machines refuse the write."""
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": str(node.ctx.config_dir / "proxy.kubeconfig"), "qps": 100, "burst": 200},
        "mode": mode,
        "clusterCIDR": POD_RANGE,
        "hostnameOverride": node.name,
        "bindAddress": node.address,
        "healthzBindAddress": f"{node.probe_address}:10256",
        "metricsBindAddress": "127.0.0.1:10249",
        "nodePortAddresses": ["primary"],
        "oomScoreAdj": 0,
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        mode: {"syncPeriod": "30s", "minSyncPeriod": "100ms"},
    }


def resolv_conf(*texts: str) -> str:
    """What the first of these files that names one has of resolvers that pods reach too: a loopback is another one in a pod.

    Without any, the one of the pod's own loopback is named: CoreDNS ends where it finds none, and so would cluster names.
    """
    files = [[line for line in text.splitlines() if not _names_loopback(line)] for text in texts]
    for lines in files:
        if has_resolvers("\n".join(lines)):
            return "\n".join(lines) + "\n"
    return "\n".join([*(files[0] if files else []), NO_RESOLVER]) + "\n"


def has_resolvers(text: str) -> bool:
    """Whether a resolv.conf names a resolver that pods reach."""
    return any(line.split()[:1] == ["nameserver"] and not _names_loopback(line) for line in text.splitlines())


def _names_loopback(line: str) -> bool:
    match line.split():
        case ["nameserver", address, *_]:
            return address.startswith("127.") or address == "::1"
    return False


def proxy_mode() -> str:
    """Mode nftables if the `nft` program exists; kube-proxy itself checks the kernel."""
    return "nftables" if shutil.which("nft") else "iptables"


def _files_of(node: Node) -> dict[Path, str]:
    documents: Mapping[str, dict[str, Any]] = {"kubelet.yaml": kubelet(node), "proxy.yaml": proxy(node, proxy_mode())}
    files = {name: yaml.safe_dump(document, sort_keys=False) for name, document in documents.items()}
    files["containerd.toml"] = containerd(node)
    files["cni/10-bulkhead.conflist"] = json.dumps(cni(node), indent=2)
    return {node.config_dir / name: content for name, content in files.items()}


def write_configuration(ctx: HostContext) -> bool:
    """Render all files. Returns whether any of them changed."""
    resolvers = [path.read_text() for path in RESOLV_CONFS if path.exists()]
    files = {
        ctx.config_dir / "scheduler.yaml": yaml.safe_dump(scheduler(ctx), sort_keys=False),
        ctx.config_dir / "resolv.conf": resolv_conf(*resolvers),
    }
    for node in nodes_of(ctx):
        files |= _files_of(node)
    written = [write_file(path, content.encode()) for path, content in files.items()]
    return any(written)
