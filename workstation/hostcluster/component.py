"""The types that the parts of the embedded host share: options, addresses, and one supervised process.

Data only: this module starts nothing and reads nothing, so every other module of the host may import it.

The command line fills in `HostOptions`, from which the cluster makes a `HostContext`. Builders of components (control plane,
node, add-ons) read the context and return `Component`s, which the supervisor runs.
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
    """Receives the progress of long work. Implementations never raise, and never block for long."""

    def step(self, text: str) -> None:
        """A new step begins, and the previous step is done."""

    def detail(self, text: str) -> None:
        """Progress within the step. It may be hidden, and the next one overwrites it."""

    def warn(self, text: str) -> None:
        """A line that remains on the screen."""


@dataclass(frozen=True, slots=True)
class HostOptions:
    """The options of the embedded host."""

    data_dir: Path = DATA_DIR
    nodes: int = 1  # real nodes: the machine itself, and further ones in namespaces
    simulated_nodes: int = 4
    gpus_per_node: int = 8
    nvlink_domain_size: int = 2  # simulated nodes per NVLink domain
    registry: bool = False  # whether to run a registry
    imports: bool = True  # whether to import Bulkhead's images; otherwise nodes pull them


@dataclass(frozen=True, slots=True)
class HostContext:
    """Where everything of one embedded host is. Builders of components and the add-ons get it."""

    options: HostOptions
    binaries: Mapping[str, Path]  # by file name: "kubectl", "containerd", "coredns", "kwok", …
    cache_dir: Path  # $XDG_CACHE_HOME/bulkhead; survives `down`
    run_dir: Path = RUN_DIR
    lost: Mapping[str, str] = field(default_factory=dict)  # nodes that were broken on purpose ──> how
    python: str = "python3"  # the interpreter that add-on processes run under: (ctx.python, "-m", "workstation.hostcluster.…")

    @property
    def data_dir(self) -> Path:
        """The data of this host; `down` removes it unless asked to keep it."""
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
        """One folder for each registry, `<host>:<port>/hosts.toml`; every node's containerd reads it at each pull."""
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
    """Healthy if a GET answers 200. `cert`, `key` and `ca` make it a TLS request with a client certificate."""

    url: str
    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None


@dataclass(frozen=True, slots=True)
class CommandHealth:
    """Healthy if the command ends with status 0."""

    argv: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SocketHealth:
    """Healthy if the unix socket accepts a connection."""

    path: Path


@dataclass(frozen=True, slots=True)
class AliveHealth:
    """Healthy once the process has lived for this many seconds, for processes without any probe."""

    seconds: float = 1.0


Health = HttpHealth | CommandHealth | SocketHealth | AliveHealth


@dataclass(frozen=True, slots=True)
class Component:
    """One process under the supervisor. Its output goes to `HostContext.log(name)`."""

    name: str
    argv: tuple[str, ...]
    health: Health
    env: Mapping[str, str] = field(default_factory=dict)  # added to a small clean environment (PATH, HOME)
    node: str = NODE_NAME  # the node on which it runs; it stops while that node is lost
    depends_on: tuple[str, ...] = ()  # it starts only once these are healthy
    start_deadline: float = 60.0  # the start fails if it is not healthy within this many seconds
    grace: float = 10.0  # seconds between SIGTERM and SIGKILL
