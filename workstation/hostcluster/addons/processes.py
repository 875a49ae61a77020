"""The add-on processes of the embedded host: fake GPUs and their exporters, simulated nodes, network policy, storage, metrics.

They start once the API server is healthy, and except for exporters do not depend on each other. This module starts nothing.
"""

from importlib import resources

from workstation.hostcluster import registry
from workstation.hostcluster.addons import gpus, metrics
from workstation.hostcluster.component import (
    NODE_ADDRESS,
    SIMULATED_POD_RANGE,
    AliveHealth,
    CommandHealth,
    Component,
    HostContext,
    HttpHealth,
)
from workstation.hostcluster.files import read_at_start
from workstation.hostcluster.gpu.plugin import PLUGIN_FOLDER
from workstation.hostcluster.kwok.nodes import SIMULATED_LABEL, TAINT_KEY
from workstation.hostcluster.netpol.render import TABLE
from workstation.hostcluster.node import Node, nodes_of

KWOK_ADDRESS = "127.0.0.1:10447"
METRICS_ADDRESS = f"{NODE_ADDRESS}:{metrics.PORT}"
MOST_GPUS = 64  # of a node: the next node's device numbers begin after these
_LEASE_SECONDS = 40


def _gpu(node: Node) -> Component:
    argv = (node.ctx.python, "-m", "workstation.hostcluster.gpu.plugin", f"--count={node.ctx.options.gpus_per_node}")
    more: tuple[str, ...] = (f"--nodes={node.data_dir / 'gpu'}", f"--plugin-folder={PLUGIN_FOLDER}")
    if not node.is_machine:
        more += (f"--first-minor={MOST_GPUS * (node.index - 1)}",)
    needs = (node.component("kubelet"),)
    return Component(node.component("gpu"), node.enter + argv + more, AliveHealth(), node=node.name, depends_on=needs)


def _gpu_exporter(node: Node) -> Component:
    more = () if node.is_machine else (f"--first-minor={MOST_GPUS * (node.index - 1)}",)
    argv = (
        node.ctx.python,
        "-m",
        "workstation.hostcluster.gpu.exporter",
        f"--host={node.name}",
        f"--address={node.address}",  # not on the machine's external addresses
        f"--socket={node.kubelet_dir / 'pod-resources' / 'kubelet.sock'}",
        f"--count={node.ctx.options.gpus_per_node}",
        f"--nodes={node.data_dir / 'gpu'}",
    )
    # Healthy by its own answer, not by a page, which needs the kubelet's.
    health = HttpHealth(f"http://{node.address}:{gpus.PORT}/healthz")
    needs = (node.component("gpu"),)
    return Component(node.component("gpu-exporter"), node.enter + argv + more, health, node=node.name, depends_on=needs)


def _kwok(ctx: HostContext) -> Component:
    stages = resources.files("workstation.hostcluster.kwok") / "stages.yaml"
    argv = (
        str(ctx.binaries["kwok"]),
        f"--kubeconfig={ctx.kubeconfig}",
        f"--config={stages}",
        f"--manage-nodes-with-annotation-selector={TAINT_KEY}=fake",
        f"--cidr={SIMULATED_POD_RANGE}",
        f"--node-lease-duration-seconds={_LEASE_SECONDS}",
        f"--server-address={KWOK_ADDRESS}",
        "--v=WARN",
    )
    health = HttpHealth(f"http://{KWOK_ADDRESS}/healthz")
    return Component("kwok", argv, health, env=read_at_start(ctx.kubeconfig), depends_on=("kube-apiserver",))


def _netpol(node: Node) -> Component:
    ctx = node.ctx
    argv = (
        ctx.python,
        "-m",
        "workstation.hostcluster.netpol.enforcer",
        f"--kubeconfig={ctx.kubeconfig}",
        f"--node={node.name}",
    )
    more = (f"--pod-range={node.pod_range}", *(("--alone",) if ctx.options.nodes == 1 else ()))
    # Healthy means that the rules are in the kernel; if another program removes them, the restart restores them.
    health = CommandHealth((*node.enter, "nft", "list", "chain", *TABLE.split(), "forward"))
    env, needs = read_at_start(ctx.kubeconfig), ("kube-apiserver",)
    return Component(node.component("netpol"), node.enter + argv + more, health, env=env, node=node.name, depends_on=needs)


def _storage(ctx: HostContext) -> Component:
    argv = (ctx.python, "-m", "workstation.hostcluster.storage.provisioner", f"--kubeconfig={ctx.kubeconfig}")
    folders = tuple(f"--folder={node.name}={node.volume_dir}" for node in nodes_of(ctx))
    env = read_at_start(ctx.kubeconfig)
    return Component("storage", argv + folders, AliveHealth(), env=env, depends_on=("kube-apiserver",))


def _metrics(ctx: HostContext) -> Component:
    pki, config = ctx.pki_dir, ctx.config_dir / "metrics-server.kubeconfig"
    argv = (
        str(ctx.binaries["metrics-server"]),
        f"--kubeconfig={config}",
        f"--bind-address={NODE_ADDRESS}",  # not on the machine's external addresses
        f"--secure-port={metrics.PORT}",
        f"--tls-cert-file={pki / 'metrics-server-serving.crt'}",
        f"--tls-private-key-file={pki / 'metrics-server-serving.key'}",
        f"--authentication-kubeconfig={config}",
        f"--authorization-kubeconfig={config}",
        # Without these files it would read the CAs from the cluster, and exit if that is refused: a new host grants its rights
        # only after it has started.
        "--authentication-skip-lookup=true",
        f"--client-ca-file={pki / 'ca.crt'}",
        f"--requestheader-client-ca-file={pki / 'front-proxy-ca.crt'}",
        "--requestheader-allowed-names=front-proxy-client",
        f"--kubelet-certificate-authority={pki / 'ca.crt'}",
        "--kubelet-preferred-address-types=InternalIP",
        f"--node-selector={SIMULATED_LABEL}!=true",  # simulated nodes have no kubelet
        "--metric-resolution=15s",
    )
    # It listens only once it has read nodes and pods, for which it needs its rights, so no probe can wait for it. It starts
    # last, after the kubelet, so that it is rarely refused before it has them.
    used = (config, *(pki / f"{name}.crt" for name in ("metrics-server-serving", "ca", "front-proxy-ca")))
    env = {"GOGC": "50", "GOMEMLIMIT": "96MiB"} | read_at_start(*used)
    return Component("metrics-server", argv, AliveHealth(), env=env, depends_on=("kubelet",))


def components(ctx: HostContext) -> list[Component]:
    """All add-on processes."""
    nodes = nodes_of(ctx)
    chosen = [*map(_netpol, nodes), _storage(ctx), _metrics(ctx)]
    if ctx.options.gpus_per_node > 0:
        chosen += [*map(_gpu, nodes), *map(_gpu_exporter, nodes)]
    if ctx.options.simulated_nodes > 0:
        chosen.append(_kwok(ctx))
    if ctx.options.registry:
        chosen.append(registry.component(ctx))
    return chosen
