"""What the parts of the embedded host share: options, addresses, and the shape of one supervised process.

Data only: this module starts nothing and reads nothing, so every other module of the host may import it.

The flow of data: the command line fills in `HostOptions`; the cluster makes a `HostContext` from it; builders of components
(control plane, node, add-ons) read the context and return `Component`s; the supervisor runs those.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

NODE_NAME = "bulkhead-host"
NODE_ADDRESS = "172.31.255.1"
BRIDGE = "bulkhead0"
API_PORT = 6443
POD_RANGE = "10.244.0.0/16"
REAL_POD_RANGE = "10.244.0.0/17"  # pods on the real node; the other half is for simulated pods
SIMULATED_POD_RANGE = "10.244.128.0/17"
SERVICE_RANGE = "10.96.0.0/16"
CLUSTER_DNS = "10.96.0.10"
CLUSTER_DOMAIN = "cluster.local"
CGROUP = "bulkhead"
RUN_DIR = Path("/run/bulkhead")
DATA_DIR = Path("/var/lib/bulkhead")


class Progress(Protocol):
    """Where long work reports its progress. Implementations never raise and never block for long."""

    def step(self, text: str) -> None:
        """A new step began; the step before it is done."""

    def detail(self, text: str) -> None:
        """The progress within the step; may be shown or not, and is overwritten by the next."""

    def warn(self, text: str) -> None:
        """A line that stays on the screen."""


@dataclass(frozen=True, slots=True)
class HostOptions:
    """The options of the embedded host."""

    data_dir: Path = DATA_DIR
    nodes: int = 1  # real ones: the machine itself, and the others in namespaces of it
    simulated_nodes: int = 4
    gpus_per_node: int = 8
    nvlink_domain_size: int = 2  # simulated nodes per NVLink domain
    registry: bool = False  # whether a registry stands beside the host
    imports: bool = True  # whether Bulkhead's images are imported; otherwise they are pulled


@dataclass(frozen=True, slots=True)
class HostContext:
    """Where everything of one embedded host is. Given to builders of components and to the add-ons."""

    options: HostOptions
    binaries: Mapping[str, Path]  # by file name: "kubectl", "containerd", "coredns", "kwok", …
    cache_dir: Path  # $XDG_CACHE_HOME/bulkhead; survives `down`
    run_dir: Path = RUN_DIR
    lost: Mapping[str, str] = field(default_factory=dict)  # nodes that are away on purpose, and how
    python: str = "python3"  # the interpreter that add-on processes run under: (ctx.python, "-m", "workstation.hostcluster.…")

    @property
    def data_dir(self) -> Path:
        """The data of this host; removed by `down` unless it is to be kept."""
        return self.options.data_dir

    @property
    def pki_dir(self) -> Path:
        """Certificates and keys: ca.crt, ca.key, <identity>.crt, <identity>.key."""
        return self.data_dir / "pki"

    @property
    def config_dir(self) -> Path:
        """Rendered configuration files and kubeconfigs of components."""
        return self.data_dir / "config"

    @property
    def registries_dir(self) -> Path:
        """One folder for each registry, `<host>:<port>/hosts.toml`; containerd of every node reads it at each pull."""
        return self.config_dir / "certs.d"

    @property
    def kubeconfig(self) -> Path:
        """The admin's kubeconfig."""
        return self.data_dir / "kubeconfig"

    @property
    def api_url(self) -> str:
        """The host API server as pods, add-ons and users reach it."""
        return f"https://{NODE_ADDRESS}:{API_PORT}"

    @property
    def kubelet_dir(self) -> Path:
        """The kubelet's root directory; the device plugin sockets are in its `device-plugins`."""
        return self.data_dir / "kubelet"

    @property
    def containerd_socket(self) -> Path:
        """For `ctr -a` and the kubelet."""
        return self.run_dir / "containerd" / "containerd.sock"

    def log(self, component: str) -> Path:
        """The log file of a component."""
        return self.data_dir / "logs" / f"{component}.log"


@dataclass(frozen=True, slots=True)
class HttpHealth:
    """Healthy when a GET answers 200. `cert`/`key`/`ca` make it a TLS request with a client certificate."""

    url: str
    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None


@dataclass(frozen=True, slots=True)
class CommandHealth:
    """Healthy when the command ends with status 0."""

    argv: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SocketHealth:
    """Healthy when the unix socket accepts a connection."""

    path: Path


@dataclass(frozen=True, slots=True)
class AliveHealth:
    """Healthy when the process has lived for this many seconds: for processes without any probe."""

    seconds: float = 1.0


Health = HttpHealth | CommandHealth | SocketHealth | AliveHealth


@dataclass(frozen=True, slots=True)
class Component:
    """One process under the supervisor. Its output goes to `HostContext.log(name)`."""

    name: str
    argv: tuple[str, ...]
    health: Health
    env: Mapping[str, str] = field(default_factory=dict)  # added to a small clean environment (PATH, HOME)
    node: str = NODE_NAME  # the node that it is lost with
    depends_on: tuple[str, ...] = ()  # started only when these are healthy
    start_deadline: float = 60.0  # healthy within this many seconds, or the start failed
    grace: float = 10.0  # seconds between SIGTERM and SIGKILL
