"""The upstream components of the embedded host as supervised processes, in the order in which they start."""

import os

from workstation.hostcluster.component import (
    API_PORT,
    NODE_ADDRESS,
    POD_RANGE,
    SERVICE_RANGE,
    CommandHealth,
    Component,
    HostContext,
    HttpHealth,
)
from workstation.hostcluster.files import read_at_start
from workstation.hostcluster.node import Node, nodes_of

FEATURE_GATES = "GenericWorkload=true,GangScheduling=true,TopologyAwareWorkloadScheduling=true"
RUNTIME_CONFIG = "scheduling.k8s.io/v1alpha2=true"
_ETCD_URL = "https://127.0.0.1:2379"


def _etcd(ctx: HostContext) -> Component:
    pki = ctx.pki_dir
    argv = (
        str(ctx.binaries["etcd"]),
        "--name=host",
        f"--data-dir={ctx.data_dir / 'etcd'}",
        f"--listen-client-urls={_ETCD_URL}",
        f"--advertise-client-urls={_ETCD_URL}",
        "--listen-peer-urls=http://127.0.0.1:2380",
        "--initial-advertise-peer-urls=http://127.0.0.1:2380",
        "--initial-cluster=host=http://127.0.0.1:2380",
        "--listen-metrics-urls=http://127.0.0.1:2381",
        f"--cert-file={pki / 'etcd-server.crt'}",
        f"--key-file={pki / 'etcd-server.key'}",
        f"--trusted-ca-file={pki / 'etcd-ca.crt'}",
        "--client-cert-auth=true",
        "--auto-compaction-retention=8",
        "--quota-backend-bytes=8589934592",
        "--log-level=warn",
    )
    env = read_at_start(pki / "etcd-server.crt", pki / "etcd-ca.crt")
    return Component("etcd", argv, HttpHealth("http://127.0.0.1:2381/readyz"), env=env, grace=15)


def _apiserver(ctx: HostContext) -> Component:
    pki = ctx.pki_dir
    argv = (
        str(ctx.binaries["kube-apiserver"]),
        f"--advertise-address={NODE_ADDRESS}",
        f"--bind-address={NODE_ADDRESS}",  # not on the machine's external addresses
        f"--secure-port={API_PORT}",
        f"--etcd-servers={_ETCD_URL}",
        f"--etcd-cafile={pki / 'etcd-ca.crt'}",
        f"--etcd-certfile={pki / 'etcd-client.crt'}",
        f"--etcd-keyfile={pki / 'etcd-client.key'}",
        f"--tls-cert-file={pki / 'apiserver.crt'}",
        f"--tls-private-key-file={pki / 'apiserver.key'}",
        f"--client-ca-file={pki / 'ca.crt'}",
        f"--kubelet-certificate-authority={pki / 'ca.crt'}",
        f"--kubelet-client-certificate={pki / 'apiserver-kubelet-client.crt'}",
        f"--kubelet-client-key={pki / 'apiserver-kubelet-client.key'}",
        "--kubelet-preferred-address-types=InternalIP",
        f"--proxy-client-cert-file={pki / 'front-proxy-client.crt'}",
        f"--proxy-client-key-file={pki / 'front-proxy-client.key'}",
        f"--requestheader-client-ca-file={pki / 'front-proxy-ca.crt'}",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-username-headers=X-Remote-User",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={pki / 'sa.pub'}",
        f"--service-account-signing-key-file={pki / 'sa.key'}",
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        f"--feature-gates={FEATURE_GATES}",
        f"--runtime-config={RUNTIME_CONFIG}",
        "--profiling=false",
        "--enable-aggregator-routing=true",  # extension servers are reached without kube-proxy
    )
    health = HttpHealth(f"{ctx.api_url}/readyz", pki / "ca.crt", pki / "admin.crt", pki / "admin.key")
    used = ("ca", "etcd-ca", "front-proxy-ca", "etcd-client", "apiserver", "apiserver-kubelet-client", "front-proxy-client")
    env = read_at_start(*(pki / f"{name}.crt" for name in used))
    return Component("kube-apiserver", argv, health, env=env, depends_on=("etcd",), start_deadline=90, grace=4)


def _controller_manager(ctx: HostContext) -> Component:
    pki = ctx.pki_dir
    config = ctx.config_dir / "controller-manager.kubeconfig"
    argv = (
        str(ctx.binaries["kube-controller-manager"]),
        "--bind-address=127.0.0.1",
        f"--kubeconfig={config}",
        f"--authentication-kubeconfig={config}",
        f"--authorization-kubeconfig={config}",
        f"--root-ca-file={pki / 'ca.crt'}",
        f"--service-account-private-key-file={pki / 'sa.key'}",
        f"--cluster-signing-cert-file={pki / 'ca.crt'}",
        f"--cluster-signing-key-file={pki / 'ca.key'}",
        "--use-service-account-credentials=true",
        "--leader-elect=false",
        f"--cluster-cidr={POD_RANGE}",
        f"--feature-gates={FEATURE_GATES}",
        "--kube-api-qps=200",
        "--kube-api-burst=400",
        "--profiling=false",
    )
    health = HttpHealth("https://127.0.0.1:10257/healthz")
    env = read_at_start(config, pki / "ca.crt")
    return Component("kube-controller-manager", argv, health, env=env, depends_on=("kube-apiserver",))


def _scheduler(ctx: HostContext) -> Component:
    config, own = ctx.config_dir / "scheduler.yaml", ctx.config_dir / "scheduler.kubeconfig"
    argv = (
        str(ctx.binaries["kube-scheduler"]),
        "--bind-address=127.0.0.1",
        f"--config={config}",
        f"--authentication-kubeconfig={own}",
        f"--authorization-kubeconfig={own}",
        f"--feature-gates={FEATURE_GATES}",
    )
    health = HttpHealth("https://127.0.0.1:10259/healthz")
    return Component("kube-scheduler", argv, health, env=read_at_start(config, own), depends_on=("kube-apiserver",))


def _containerd(node: Node) -> Component:
    binaries = node.ctx.binaries
    argv = (str(binaries["containerd"]), f"--config={node.config_dir / 'containerd.toml'}", "--log-level=info")
    health = CommandHealth((str(binaries["ctr"]), "-a", str(node.containerd_socket), "--timeout=5s", "version"))
    # The shim looks for `runc` on its path when containerd asks for its version.
    path = f"{binaries['runc'].parent}:{os.environ.get('PATH', os.defpath)}"
    env = {"PATH": path, **read_at_start(node.config_dir / "containerd.toml")}
    return Component(node.component("containerd"), node.enter_as_agent + argv, health, env=env, node=node.name)


def _kubelet(node: Node) -> Component:
    ctx = node.ctx
    own = ctx.config_dir / f"{node.identity('kubelet')}.kubeconfig"
    argv = (
        str(ctx.binaries["kubelet"]),
        f"--config={node.config_dir / 'kubelet.yaml'}",
        f"--kubeconfig={own}",
        f"--root-dir={node.kubelet_dir}",
        f"--hostname-override={node.name}",
        f"--node-ip={node.address}",
        # The kubelet's cAdvisor does not read the endpoint in the configuration file. It finds containers, and with them the
        # names and networks of pods, only at this flag.
        f"--containerd={node.containerd_socket}",
    )
    needs = (node.component("containerd"), "kube-apiserver")
    health = HttpHealth(f"http://{node.probe_address}:10248/healthz")
    serving = ctx.pki_dir / f"{node.identity('kubelet-server')}.crt"
    env = read_at_start(node.config_dir / "kubelet.yaml", own, serving, ctx.pki_dir / "ca.crt")
    return Component(node.component("kubelet"), node.enter_as_agent + argv, health, env=env, node=node.name, depends_on=needs)


def _proxy(node: Node) -> Component:
    argv = (str(node.ctx.binaries["kube-proxy"]), f"--config={node.config_dir / 'proxy.yaml'}")
    health = HttpHealth(f"http://{node.probe_address}:10256/livez")
    env = read_at_start(node.config_dir / "proxy.yaml", node.ctx.config_dir / "proxy.kubeconfig")
    return Component(
        node.component("kube-proxy"), node.enter + argv, health, env=env, node=node.name, depends_on=("kube-apiserver",)
    )


def components(ctx: HostContext) -> tuple[Component, ...]:
    """All upstream components; a later one may depend on an earlier one, never the reverse."""
    machine, *further = nodes_of(ctx)
    return (
        _etcd(ctx),
        _containerd(machine),
        _apiserver(ctx),
        _controller_manager(ctx),
        _scheduler(ctx),
        _kubelet(machine),
        _proxy(machine),
        *(make(node) for node in further for make in (_containerd, _kubelet, _proxy)),
    )
