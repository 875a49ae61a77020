"""What program gpumetrics costs on a large host: `python -m e2e.performance.gpumetrics`.

It needs neither root, a host nor an API server. Its process gets pods and nodes of real size as its watches would, and pages of
real size from memory instead of nodes; what fetching a page over TLS costs is measured with a server of its own and added. So
CPU time is that of the program alone, and does not depend on what else runs.

    copy_mib            resident memory after 5,000 nodes and 20,000 pods were listed, above that of the idle program
    gpu_cpu_s           CPU time of a round over 5,000 exporters of 8 GPUs, without fetching
    kubelet_cpu_s       the same over 5,000 kubelets whose page has 100 containers, without fetching
    fetch_gpu_ms, fetch_kubelet_ms   CPU time for each page fetched, the kubelet's over TLS
    cores               of these, with a round every 30 s of exporters and every 60 s of kubelets
    tenant_cpu_ms       CPU time of a syncer's answer: the GPU page of a tenant of 200 pods
    rss_mib             the highest resident memory of all
"""

import argparse
import asyncio
import resource
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import aiohttp
import msgspec

from bulkhead.api import labels, names
from bulkhead.gpus.exposition import Sample, render
from bulkhead.gpus.fields import ABOUT
from bulkhead.kube.client import Client
from bulkhead.kube.informer import Informer
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.work.clock import SystemClock
from e2e.performance import judgement, report
from gpumetrics import kubelets, rounds
from gpumetrics.exporters import Exporter
from gpumetrics.hostview import HostView
from gpumetrics.kubelets import Kubelets
from gpumetrics.pages import fed
from gpumetrics.rounds import Rounds, page_of
from gpumetrics.settings import Settings
from tests.kit.pki import Authority
from tests.kit.ports import free_port

LIMITS: Final = Path(__file__).with_name("limits-gpumetrics.yaml")
TENANTS: Final = 100
PODS_OF_A_NODE: Final = 4
GPUS: Final = 8
_FETCHED: Final = 50
# On a busy machine a connection takes long, and CPU time is measured.
_PATIENCE: Final = aiohttp.ClientTimeout(total=600, sock_connect=600)
_OTHERS: Final = 92  # containers of a node that are not tenants'
# cAdvisor's families of a container, and the length of one of its lines.
_FAMILIES: Final = 62
_SERVER: Final = """
import ssl, sys
from aiohttp import web
pem, port, *files = sys.argv[1:]
async def page(request):
    return web.Response(body=pages[request.match_info["page"]])
pages = {str(number): open(file, "rb").read() for number, file in enumerate(files)}
app = web.Application()
app.add_routes([web.get("/{page}", page)])
tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
tls.load_cert_chain(pem)
web.run_app(app, host="127.0.0.1", port=int(port), ssl_context=tls, print=None)
"""


def uid_of(number: int) -> str:
    return str(UUID(int=(1 << 100) + number))


def space_of(number: int) -> str:
    return names.work_namespace(f"team-{number % TENANTS:03}")


def node_name(number: int) -> str:
    return f"gpu-node-{number:05}"


def pod(number: int) -> bytes:
    """A training pod of two GPUs, about 8 KiB."""
    container = {
        "name": "main",
        "image": "registry.example/team/train:v1",
        "env": [{"name": f"SETTING_NUMBER_{at}", "value": "v" * 120} for at in range(40)],
        "resources": {"limits": {"nvidia.com/gpu": "2", "cpu": "16", "memory": "128Gi"}},
    }
    meta = {
        "name": f"run-{number:05}-0123456789",
        "namespace": space_of(number),
        "uid": uid_of(number),
        "resourceVersion": "1",
        "labels": {labels.SYNCED: labels.SYNCED_BY_SYNCER},
        "annotations": {f"example.com/note-{at}": "x" * 100 for at in range(8)},
    }
    spec = {"nodeName": node_name(number // PODS_OF_A_NODE), "containers": [container]}
    return msgspec.json.encode({"metadata": meta, "spec": spec, "status": {"phase": "Running"}})


def node(number: int) -> bytes:
    """A node as a cloud's GPU node is, about 15 KiB."""
    meta = {
        "name": node_name(number),
        "uid": uid_of(number),
        "resourceVersion": "1",
        "labels": {f"feature.node.kubernetes.io/cpu-feature-number-{at}": "true" for at in range(40)},
    }
    images = [{"names": [f"registry.example/team/image-{at}@sha256:{at:064}"] * 2, "sizeBytes": at} for at in range(50)]
    status = {
        "allocatable": {"nvidia.com/gpu": str(GPUS)},
        "addresses": [{"type": "InternalIP", "address": f"10.{number >> 8}.{number & 255}.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "images": images,
    }
    return msgspec.json.encode({"metadata": meta, "status": status})


def exporter_page(number: int) -> bytes:
    """A page of dcgm-exporter, with all metrics that count."""
    samples = []
    for gpu in range(GPUS):
        owner = number * PODS_OF_A_NODE + gpu // 2
        about = {
            "gpu": str(gpu),
            "UUID": f"GPU-{uid_of(number * GPUS + gpu)}",
            "pci_bus_id": f"00000000:{gpu:02}:00.0",
            "device": f"nvidia{gpu}",
            "modelName": "NVIDIA H100 80GB HBM3",
            "Hostname": node_name(number),
            "DCGM_FI_DRIVER_VERSION": "580.159.04",
            "container": "main",
            "namespace": space_of(owner),
            "pod": f"run-{owner:05}-0123456789",
        }
        samples += [Sample(name, about, 71.0) for name in ABOUT]
    return render(samples, ABOUT)


def kubelet_page(number: int) -> bytes:
    """A page of a kubelet's cAdvisor: a hundred containers, of which those of four pods are tenants'."""
    return b"".join((_rest(), *(_of_pod(number * PODS_OF_A_NODE + at) for at in range(PODS_OF_A_NODE))))


def _rest(made: list[bytes] = []) -> bytes:  # noqa: B006 -- it is made once
    if not made:
        lines = []
        for container in range(_OTHERS):
            group = (
                f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{uid_of(container).replace('-', '_')}.slice"
            )
            about = f'container="agent",id="{group}/cri-containerd-{container:064}.scope"'
            about += ',image="registry.example/agent:v1",name="x"'
            about += f',namespace="kube-system",pod="agent-{container}"'
            lines += [f"container_family_number_{family}_total{{{about}}} 12345 1395066363000\n" for family in range(_FAMILIES)]
            lines += [f"container_network_receive_bytes_total{{{about}}} 12345 1395066363000\n"] * 8
        made.append("".join(lines).encode())
    return made[0]


def _of_pod(owner: int) -> bytes:
    group = f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{uid_of(owner).replace('-', '_')}.slice"
    pod_labels = f'namespace="{space_of(owner)}",pod="run-{owner:05}-0123456789"'
    network = f'container="",id="{group}",image="",interface="eth0",name="x",{pod_labels}'
    scope = f"{group}/cri-containerd-{owner:064}.scope"
    lines = []
    lines += [
        f"container_network_{way}_{what}_total{{{network}}} 123456 1395066363000\n"
        for way in ("receive", "transmit")
        for what in ("bytes", "packets", "packets_dropped", "errors")
    ]
    for device in ("nvme0n1", "nvme1n1"):
        disk = (
            f'container="main",device="/dev/{device}",id="{scope}",image="registry.example/team/train:v1",name="x",{pod_labels}'
        )
        kinds = ("reads_bytes", "reads", "writes_bytes", "writes")
        lines += [f"container_fs_{what}_total{{{disk}}} 123456 1395066363000\n" for what in kinds]
    cpu = f'container="main",id="{scope}",image="registry.example/team/train:v1",name="x",{pod_labels}'
    lines += [f"container_family_number_{family}_total{{{cpu}}} 12345 1395066363000\n" for family in range(_FAMILIES)]
    return "".join(lines).encode()


def rss_mib() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


def take(informer: Informer, raw: bytes) -> None:
    """What an informer does with one object of a list."""
    meta, body = informer._shrink(msgspec.Raw(raw), None)  # noqa: SLF001 -- there is no server to list from
    informer._put(meta, body, relist=False)  # noqa: SLF001


async def spent(work: Callable[[], Awaitable[None]]) -> float:
    """CPU seconds of this process and its threads."""
    begun = time.process_time()
    await work()
    return time.process_time() - begun


async def rounds_of(view: HostView, nodes: int) -> tuple[dict[str, float], dict[str, float]]:
    """One round over all exporters and one over all kubelets, of pages from memory; the pages' own making is taken off."""
    settings, clock = Settings(settle_seconds=0), SystemClock()
    found = {node_name(at): Exporter(node_name(at), str(at), 1) for at in range(nodes)}
    at_url = {exporter.url: int(exporter.address) for exporter in found.values()}
    at_url |= {view.kubelet(node_name(at)): at for at in range(nodes)}
    making: Callable[[int], bytes] = exporter_page

    async def from_memory(_: Any, url: str, __: int, take: Callable[[bytes], None], *___: Any) -> None:
        take(making(at_url[url]))

    gpu, kubelet = Rounds(settings, view, lambda: found, clock, lag_seconds=0), None
    for module in (rounds, kubelets):
        module.__dict__["fed"] = from_memory
    session: Any = None
    gpu_cpu = await spent(lambda: gpu.turn(session)) - await spent(lambda: made(exporter_page, nodes))
    after_gpu = rss_mib()
    making = kubelet_page
    kubelet = Kubelets(settings, view, KubeConfig(server="https://host", token="t"), clock, lag_seconds=0)
    kubelet_cpu = await spent(lambda: kubelet.turn(session)) - await spent(lambda: made(kubelet_page, nodes))
    largest = gpu.boards[space_of(0)]
    assert page_of(largest).count(b"DCGM_FI_DEV_GPU_UTIL") == nodes * GPUS // TENANTS, "samples of a tenant are missing"
    assert kubelet.boards[space_of(0)].count(b"container_network") == nodes * PODS_OF_A_NODE // TENANTS * 8
    begun = time.process_time()
    page = page_of(largest)
    tenant = (time.process_time() - begun) * 1000
    figures = {"gpu_cpu_s": gpu_cpu, "kubelet_cpu_s": kubelet_cpu, "tenant_cpu_ms": tenant, "after_gpu_round_mib": after_gpu}
    return figures, {"tenant_page_kib": len(page) / 1024, "tenant_figures_kib": len(kubelet.boards[space_of(0)]) / 1024}


async def made(making: Callable[[int], bytes], nodes: int) -> None:
    for number in range(nodes):
        making(number)


async def fetching(folder: Path) -> dict[str, float]:
    """What a page costs to fetch, over TLS; an exporter's comes without, and costs less."""
    authority = Authority("cluster")
    (folder / "pem").write_bytes(b"".join(authority.issue("kubelet", addresses=("127.0.0.1",))))
    pages = {"fetch_gpu_ms": exporter_page(0), "fetch_kubelet_ms": kubelet_page(0)}
    for name, page in pages.items():
        (folder / name).write_bytes(page)
    port = free_port()
    server = subprocess.Popen(  # noqa: ASYNC220 -- nothing else runs here
        [sys.executable, "-c", _SERVER, str(folder / "pem"), str(port), *(str(folder / n) for n in pages)]
    )
    tls = ssl.create_default_context(cadata=authority.pem.decode())
    try:
        connector = aiohttp.TCPConnector(ssl=tls, force_close=True)
        async with aiohttp.ClientSession(connector=connector, timeout=_PATIENCE) as session:
            found = {}
            for number, (name, page) in enumerate(pages.items()):
                url = f"https://127.0.0.1:{port}/{number}"
                for _ in range(600):
                    try:
                        came = bytearray()
                        await fed(session, url, 1 << 24, came.extend)
                        assert came == page
                        break
                    except aiohttp.ClientError:
                        await asyncio.sleep(0.1)
                begun = time.process_time()
                for _ in range(_FETCHED):
                    await fed(session, url, 1 << 24, bytearray().extend)
                found[name] = (time.process_time() - begun) * 1000 / _FETCHED
            return found
    finally:
        server.terminate()
        server.wait()


async def measure(nodes: int, folder: Path) -> dict[str, float]:
    """All figures."""
    client = Client(KubeConfig(server="https://host"), user_agent="bench", field_manager="bench")
    view = HostView(client)
    idle = rss_mib()
    for number in range(nodes):
        take(view._node_informer, node(number))  # noqa: SLF001
    for number in range(nodes * PODS_OF_A_NODE):
        take(view._pod_informer, pod(number))  # noqa: SLF001
    view.__class__.deaf = property(lambda _: False)  # type: ignore[assignment]
    copy = rss_mib() - idle
    figures, sizes = await rounds_of(view, nodes)
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    fetched = await fetching(folder)
    gpu = figures["gpu_cpu_s"] + nodes * fetched["fetch_gpu_ms"] / 1000
    kubelet = figures["kubelet_cpu_s"] + nodes * fetched["fetch_kubelet_ms"] / 1000
    sizes |= {"exporter_page_kib": len(exporter_page(0)) / 1024, "kubelet_page_kib": len(kubelet_page(0)) / 1024}
    found = {
        "copy_mib": copy,
        **figures,
        **fetched,
        "cores": gpu / 30 + kubelet / 60,
        "rss_mib": rss,
        "idle_mib": idle,
        **sizes,
    }
    return {name: round(value, 3) for name, value in found.items()}


def main() -> int:
    parser = argparse.ArgumentParser(prog="e2e.performance.gpumetrics", description="What gpumetrics costs on a large host.")
    parser.add_argument("--nodes", type=int, default=5000, help="with four pods each")
    chosen = parser.parse_args()
    limits = judgement.load(LIMITS)
    print(f"{chosen.nodes} nodes, {chosen.nodes * PODS_OF_A_NODE} pods, a minute or two", flush=True)
    with tempfile.TemporaryDirectory(prefix="bulkhead-bench-") as folder:
        found = asyncio.run(measure(chosen.nodes, Path(folder)))
    return report.conclude("gpumetrics", found, limits)


if __name__ == "__main__":
    sys.exit(main())
