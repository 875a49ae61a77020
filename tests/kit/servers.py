"""Real API servers without root: etcd and kube-apiserver as plain processes on free loopback ports.

    start_pair(folder) ──> host: etcd + kube-apiserver      the syncer's topology: two planes, own etcd each,
                       └─> plane: etcd + kube-apiserver     real RBAC, real admission, no controllers, no kubelet

Every server starts on a copy of the data of a first one with the same options (`prepared`), unless it should have an empty
etcd.

There is no controller manager: nothing collects garbage, adds default service accounts or finishes the deletion of namespaces.
ServiceAccount admission is off by default, so that pods can be created, and priority and fairness because it costs a tenth of
each request. Every process dies with its parent.
"""

import base64
import contextlib
import ctypes
import json
import os
import secrets
import signal
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path

from bulkhead.kube.kubeconfig import KubeConfig
from tests.kit import definitions, prepared
from tests.kit.kubeconfigs import to_yaml
from tests.kit.pki import Authority, signing_key
from tests.kit.ports import free_port
from tests.kit.strain import slow_disk
from workstation.hostcluster import binaries

_READY_SECONDS = 240.0
_STOP_SECONDS = 60.0
_PR_SET_PDEATHSIG = 1
_SPACES = "/api/v1/namespaces"
_OWN_SPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
# Go's collector runs seldom, and regularly only above a size. With the usual GOGC of 100 an API server computes a fifth more at
# its start, with a limit of 200 MiB a quarter more in tests of many policies. The limits keep a run of four processes, with two
# or three servers each, near 4 GiB; a test of large objects asks for more.
_COLLECTOR = {
    "kube-apiserver": {"GOGC": "200"},
    "etcd": {"GOMEMLIMIT": "80MiB"},
}
_GANGS = "GenericWorkload=true,GangScheduling=true,TopologyAwareWorkloadScheduling=true"
_TOKENS: dict[bytes | None, str] = {}  # an admin's certificate -> the token of the same admin
# The Kubernetes version of hosts in tests, such as "1.34"; by default that of planes, which Bulkhead ships.
HOST_KUBERNETES = os.environ.get("BULKHEAD_TEST_HOST_KUBERNETES", "")


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """The options of one API server."""

    service_range: str = "10.0.0.0/24"
    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    runtime_config: Mapping[str, bool] = field(default_factory=dict)  # alpha APIs, which older hosts do not have
    service_account_admission: bool = False
    # Priority and fairness, as every cluster has it: a tenth of what a request costs. Its objects are served without it too.
    fairness: bool = False
    issuer: str = "https://kubernetes.default.svc"
    flags: tuple[str, ...] = ()
    # Without it, watches of quiet kinds get no bookmarks, of which an API server sends one a minute. With the 5 s of kubeadm,
    # an idle API server and its etcd compute a fifth more.
    etcd_flags: tuple[str, ...] = ("--watch-progress-notify-interval=15s",)
    empty: bool = False  # whether etcd starts empty, so that the API server creates its initial objects
    # Whether it has our definitions from its start: to check and install them costs an API server as much as to start.
    defined: bool = False
    memory_mib: int = 240


class ApiServer:
    """An etcd and a kube-apiserver, of a plane by its name or of a host. Tests can kill, freeze and restart it."""

    def __init__(self, name: str, folder: Path, options: ServerOptions | None = None) -> None:
        self.name = name
        self.folder = folder
        self.options = options or ServerOptions()
        self.kubernetes = "" if name.startswith("plane") else HOST_KUBERNETES
        self.authority = Authority(f"{name}-ca")
        self.port, self.etcd_port, self._peer_port = (free_port() for _ in range(3))
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._has_definitions = self.options.defined and not self.options.empty
        folder.mkdir(parents=True, exist_ok=True)
        self.admin = self.config_for("admin", "system:masters")
        token = _TOKENS[self.admin.client_cert] = secrets.token_hex(16)
        self._write_files(token)

    @property
    def url(self) -> str:
        """Address of the API server."""
        return f"https://127.0.0.1:{self.port}"

    def config_for(self, user: str, *groups: str) -> KubeConfig:
        """Return a client configuration with a certificate for a user in groups."""
        cert, key = self.authority.issue(user, groups=groups)
        return KubeConfig(server=self.url, ca=self.authority.pem, client_cert=cert, client_key=key)

    def start(self) -> None:
        """Start the programs that do not run."""
        self.start_etcd()
        self.start_apiserver()

    def start_etcd(self) -> None:
        """Start etcd on its data; the first time on the data that a server with these options creates."""
        if not self.options.empty and not (self.folder / "etcd").exists():
            prepared.copy(self._key(), self.folder / "etcd", self._prepare)
        client, peer = f"http://127.0.0.1:{self.etcd_port}", f"http://127.0.0.1:{self._peer_port}"
        self._spawn(
            "etcd",
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            # Tests lose nothing by a power cut.
            "--unsafe-no-fsync",
            # By default ten thousand writes stay in memory for members that lag behind; there are none.
            "--snapshot-count=1000",
            "--snapshot-catchup-entries=100",
            "--log-level=warn",
            *self.options.etcd_flags,
        )

    def _key(self) -> str:
        """What decides the initial objects of an API server."""
        options = self.options
        programs = (binary("etcd"), binary("kube-apiserver", self.kubernetes))
        asked = [options.service_range, sorted(options.feature_gates.items()), sorted(options.runtime_config.items())]
        if options.defined:
            asked.append(definitions.digest())
        return prepared.key_of(*((str(program), program.stat().st_mtime_ns) for program in programs), *asked)

    def _prepare(self, folder: Path) -> None:
        """Leave in a folder what a server with these options writes to an empty etcd, without anything of its own identity."""
        plain = replace(self.options, flags=(), etcd_flags=(), empty=True)
        first = ApiServer(self.name, folder, plain)
        try:
            first.start()
            first.wait()
            if plain.defined:
                definitions.define(first.ask)
            first.end("kube-apiserver")
            for key in prepared.OF_ONE_SERVER:
                first.forget(key)
            first.end("etcd")
        finally:
            first.stop()

    def start_apiserver(self) -> None:
        """Start kube-apiserver; `wait` returns when it serves."""
        options, folder = self.options, self.folder
        disabled = [] if options.service_account_admission else ["ServiceAccount"]
        flags = [
            f"--etcd-servers=http://127.0.0.1:{self.etcd_port}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={self.port}",
            f"--tls-cert-file={folder / 'serving.crt'}",
            f"--tls-private-key-file={folder / 'serving.key'}",
            f"--client-ca-file={folder / 'ca.crt'}",
            f"--token-auth-file={folder / 'tokens.csv'}",
            f"--service-account-issuer={options.issuer}",
            f"--service-account-key-file={folder / 'sa.key'}",
            f"--service-account-signing-key-file={folder / 'sa.key'}",
            f"--service-cluster-ip-range={options.service_range}",
            "--authorization-mode=Node,RBAC",
            "--allow-privileged=true",
            "--kubelet-preferred-address-types=InternalIP",
            "--shutdown-delay-duration=0s",
            "--endpoint-reconciler-type=none",
            f"--enable-priority-and-fairness={str(options.fairness).lower()}",
            *(f"--disable-admission-plugins={item}" for item in disabled),
            *_pairs("--feature-gates", self._known(options.feature_gates)),
            *_pairs("--runtime-config", {} if self.kubernetes else options.runtime_config),
            *options.flags,
        ]
        self._spawn("kube-apiserver", *flags)

    def _known(self, gates: Mapping[str, bool]) -> Mapping[str, bool]:
        """The features that this version has: an unknown one would end it at its start."""
        if not self.kubernetes or not gates:
            return gates
        command = [str(binary("kube-apiserver", self.kubernetes)), "--help"]
        text = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
        return {name: on for name, on in gates.items() if f":{name}=true|false" in text}

    def start_scheduler(self, config: Path | None = None) -> None:
        """Start a kube-scheduler that knows gangs, or a stock one with a configuration; `kill` ends it."""
        flags = self._client_flags()
        if config is not None:
            # It names the kubeconfig that is written together with the flags.
            self._spawn("kube-scheduler", f"--config={config}", "--secure-port=0")
            return
        self._spawn("kube-scheduler", *flags, f"--feature-gates={_GANGS}")

    def start_own_scheduler(self, scheduler: str) -> None:
        """Start a kube-scheduler that knows gangs for the pods that name it; `kill` ends it."""
        config = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"kubeconfig": str(self._kubeconfig())},
            "profiles": [{"schedulerName": scheduler}],
        }
        path = self.folder / "own-scheduler.json"
        path.write_text(json.dumps(config))
        self._spawn("kube-scheduler", f"--config={path}", "--secure-port=0", f"--feature-gates={_GANGS}")

    def start_kwok(self) -> None:
        """Start kwok, which plays the kubelet of every node that is annotated for it; `kill` ends it."""
        stages = Path(str(resources.files("workstation.hostcluster.kwok") / "stages.yaml"))
        flags = (
            f"--kubeconfig={self._kubeconfig()}",
            f"--config={stages}",
            "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
            "--node-lease-duration-seconds=0",
            "--v=WARN",
        )
        self._spawn("kwok", *flags)

    def start_controllers(self, *names: str, flags: Sequence[str] = ("--feature-gates=GenericWorkload=true",)) -> None:
        """Start a kube-controller-manager with a few controllers, by default with pod groups known; `kill` ends it."""
        self._spawn("kube-controller-manager", *self._client_flags(), f"--controllers={','.join(names)}", *flags)

    def _client_flags(self) -> tuple[str, ...]:
        return (f"--kubeconfig={self._kubeconfig()}", "--leader-elect=false", "--secure-port=0")

    def _kubeconfig(self) -> Path:
        config = self.folder / "components.kubeconfig"
        config.write_bytes(to_yaml(self.admin))
        return config

    def wait(self, seconds: float = _READY_SECONDS) -> None:
        """Return once the server is ready. Raises with the failed process and its log."""
        deadline = time.monotonic() + seconds
        context = by_token(self.admin).ssl_context()
        while time.monotonic() < deadline:
            for name, process in self._processes.items():
                if process.poll() is not None:
                    raise RuntimeError(f"{self.name}: {name} ended with {process.returncode}: {self.log_tail(name)}")
            with contextlib.suppress(urllib.error.URLError, TimeoutError, ConnectionError, ssl.SSLError):
                if self.ask("/readyz", context) and self._begun(context):
                    if self._has_definitions:
                        definitions.note(self.url, self.ask)
                        # Later, tests have changed them perhaps.
                        self._has_definitions = False
                    return
            time.sleep(0.1)
        raise RuntimeError(f"{self.name}: not ready after {seconds:g} s: {self.log_tail('kube-apiserver')}")

    def _begun(self, context: ssl.SSLContext | None) -> bool:
        """Whether its own namespaces exist: it is ready some moments earlier."""
        there = {item["metadata"]["name"] for item in json.loads(self.ask(_SPACES, context))["items"]}
        return there.issuperset(_OWN_SPACES)

    def ask(self, path: str, context: ssl.SSLContext | None = None, *, patch: bytes | None = None, accept: str = "*/*") -> str:
        """One request of the admin: a GET, or a server-side apply. Raises what urllib raises."""
        admin = by_token(self.admin)
        handler = urllib.request.HTTPSHandler(context=context or admin.ssl_context())
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), handler)
        headers = {"Accept": accept, "Authorization": f"Bearer {admin.token}", "Content-Type": "application/apply-patch+yaml"}
        method = "GET" if patch is None else "PATCH"
        request = urllib.request.Request(f"{self.url}{path}", data=patch, headers=headers, method=method)  # noqa: S310
        with opener.open(request, timeout=5 if patch is None else 240) as answer:
            return str(answer.read(), "utf-8")

    def kill(self, name: str = "kube-apiserver") -> None:
        """Kill a process, as a crash does."""
        process = self._processes.pop(name)
        process.kill()
        process.wait()

    def end(self, name: str) -> None:
        """End a process as an orderly shutdown does."""
        process = self._processes.pop(name)
        process.terminate()
        process.wait(_STOP_SECONDS)

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send a signal: SIGSTOP freezes, SIGCONT thaws."""
        self._processes[name].send_signal(number)

    def pid(self, name: str) -> int:
        """The process ID of a running program."""
        return self._processes[name].pid

    def stop(self) -> None:
        """End both processes."""
        for name in list(self._processes):
            with contextlib.suppress(ProcessLookupError):
                self.signal(name, signal.SIGCONT)
            self.kill(name)

    def compact(self) -> None:
        """Make etcd forget its history, so that older resource versions are gone."""
        revision = self._etcdctl_range()
        self.etcd_call("kv/compaction", f'{{"revision": "{revision}", "physical": true}}')

    def _etcdctl_range(self) -> str:
        answer = json.loads(self.etcd_call("kv/range", '{"key": "AA==", "limit": 1}'))
        return str(answer["header"]["revision"])

    def forget(self, prefix: str) -> None:
        """Delete everything below a key in etcd, bypassing the API server."""
        first, last = (base64.b64encode(item.encode()).decode() for item in (prefix, prefix[:-1] + chr(ord(prefix[-1]) + 1)))
        self.etcd_call("kv/deleterange", json.dumps({"key": first, "range_end": last}))

    def etcd_call(self, path: str, body: str) -> bytes:
        """One request to etcd by its JSON gateway, past the API server."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.etcd_port}/v3/{path}", data=body.encode(), method="POST")
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=10) as answer:
            data: bytes = answer.read()
            return data

    def log_tail(self, name: str, size: int = 2000) -> str:
        """Return the end of a component's log."""
        path = self.folder / f"{name}.log"
        return f"{path}\n{path.read_text(errors='replace')[-size:]}" if path.exists() else f"{path}: no log"

    def _write_files(self, token: str) -> None:
        cert, key = self.authority.issue(
            "kube-apiserver", addresses=("127.0.0.1", "localhost", "kubernetes", "kubernetes.default.svc")
        )
        files = {"ca.crt": self.authority.pem, "serving.crt": cert, "serving.key": key, "sa.key": signing_key()}
        files["tokens.csv"] = f"{token},admin,admin,system:masters\n".encode()
        for name, data in files.items():
            (self.folder / name).write_bytes(data)

    def _spawn(self, name: str, *flags: str) -> None:
        running = self._processes.get(name)
        if running is not None and running.poll() is None:
            return
        command = [str(binary(name, self.kubernetes if name == "kube-apiserver" else "")), *flags]
        with (self.folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                slow_disk(command) if name == "etcd" else command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={"HOME": str(self.folder), "PATH": os.environ.get("PATH", ""), "GOMAXPROCS": "2"}
                | ({"GOMEMLIMIT": f"{self.options.memory_mib}MiB"} if name == "kube-apiserver" else {})
                | _COLLECTOR.get(name, {}),
                preexec_fn=die_with_parent,  # noqa: PLW1509 -- the fixture starts before any thread
            )


@dataclass(frozen=True, slots=True)
class Pair:
    """Host and plane, as the syncer sees them."""

    host: ApiServer
    plane: ApiServer

    def stop(self) -> None:
        """End all four processes."""
        self.host.stop()
        self.plane.stop()


def with_pod_groups(service_range: str, *, defined: bool = False) -> ServerOptions:
    """What a class that offers PodGroups needs on both sides; other tests do not notice it."""
    return ServerOptions(
        defined=defined,
        service_range=service_range,
        feature_gates={"GenericWorkload": True, "TopologyAwareWorkloadScheduling": True},
        runtime_config={"scheduling.k8s.io/v1alpha2": True},
    )


def start_pair(folder: Path, host: ServerOptions | None = None, plane: ServerOptions | None = None) -> Pair:
    """Start host and plane at the same time and wait until both serve."""
    pair = Pair(
        ApiServer("host", folder / "host", host or with_pod_groups("10.96.0.0/16", defined=True)),
        ApiServer("plane", folder / "plane", plane or with_pod_groups("10.112.0.0/22")),
    )
    try:
        for server in (pair.host, pair.plane):
            server.start()
        for server in (pair.host, pair.plane):
            server.wait()
    except BaseException:
        pair.stop()
        raise
    return pair


def by_token(config: KubeConfig) -> KubeConfig:
    """The same admin by a token, if this is one: a certificate is verified with each request, and on each connection."""
    token = _TOKENS.get(config.client_cert)
    return config if token is None else replace(config, client_cert=None, client_key=None, token=token)


def binary(name: str, kubernetes: str = "") -> Path:
    """An executable as the tree pins it, or of another Kubernetes; fetched or built once if the cache lacks it."""
    component = name if name in {"etcd", "etcdutl", "kwok"} else f"kubernetes-{kubernetes}" if kubernetes else "kubernetes"
    path: Path = binaries.ensure(component)[name]
    return path


def _pairs(flag: str, values: Mapping[str, bool]) -> list[str]:
    joined = ",".join(f"{name}={'true' if value else 'false'}" for name, value in sorted(values.items()))
    return [f"{flag}={joined}"] if joined else []


def die_with_parent() -> None:
    """For a new process: end it when its parent ends."""
    # A killed test run leaves nothing behind. Only Linux has this; elsewhere only the fixture's end stops the process.
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


@contextlib.contextmanager
def running(name: str, folder: Path, options: ServerOptions | None = None) -> Iterator[ApiServer]:
    """An API server that serves until the end of the block."""
    server = ApiServer(name, folder, options)
    try:
        server.start()
        server.wait()
        yield server
    finally:
        server.stop()
