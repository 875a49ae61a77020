"""The add-on processes of the embedded host: fake GPUs, simulated nodes, network policy, local storage.

They start once the API server is healthy and know nothing of each other. This module starts nothing itself.
"""

from importlib import resources
from pathlib import Path

from bulkhead.hostcluster.component import SIMULATED_POD_RANGE, AliveHealth, CommandHealth, Component, HostContext, HttpHealth
from bulkhead.hostcluster.gpu.plugin import PLUGIN_FOLDER
from bulkhead.hostcluster.kwok.nodes import TAINT_KEY
from bulkhead.hostcluster.netpol.render import TABLE

KWOK_ADDRESS = "127.0.0.1:10447"
_LEASE_SECONDS = 40


def gpu_folder(ctx: HostContext) -> Path:
    """Where the device nodes lie."""
    return ctx.data_dir / "gpu"


def volume_folder(ctx: HostContext) -> Path:
    """Where the folders of local volumes lie."""
    return ctx.data_dir / "volumes"


def _gpu(ctx: HostContext) -> Component:
    argv = (ctx.python, "-m", "bulkhead.hostcluster.gpu.plugin", f"--count={ctx.options.gpus_per_node}")
    folders = (f"--nodes={gpu_folder(ctx)}", f"--plugin-folder={PLUGIN_FOLDER}")
    return Component("gpu", argv + folders, AliveHealth(), depends_on=("kubelet",))


def _kwok(ctx: HostContext) -> Component:
    stages = resources.files("bulkhead.hostcluster.kwok") / "stages.yaml"
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
    return Component("kwok", argv, HttpHealth(f"http://{KWOK_ADDRESS}/healthz"), depends_on=("kube-apiserver",))


def _netpol(ctx: HostContext) -> Component:
    argv = (ctx.python, "-m", "bulkhead.hostcluster.netpol.enforcer", f"--kubeconfig={ctx.kubeconfig}")
    # Healthy means that rules are in the kernel; should anything remove them, the restart brings them back.
    health = CommandHealth(("nft", "list", "chain", *TABLE.split(), "forward"))
    return Component("netpol", argv, health, depends_on=("kube-apiserver",))


def _storage(ctx: HostContext) -> Component:
    argv = (ctx.python, "-m", "bulkhead.hostcluster.storage.provisioner", f"--kubeconfig={ctx.kubeconfig}")
    return Component("storage", (*argv, f"--folder={volume_folder(ctx)}"), AliveHealth(), depends_on=("kube-apiserver",))


def components(ctx: HostContext) -> list[Component]:
    """Every add-on process."""
    chosen = [_netpol(ctx), _storage(ctx)]
    if ctx.options.gpus_per_node > 0:
        chosen.append(_gpu(ctx))
    if ctx.options.simulated_nodes > 0:
        chosen.append(_kwok(ctx))
    return chosen
