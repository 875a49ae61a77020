"""A tenant's plane as plain processes: the commands, environment and files that the controller renders, without containers.

    builders of controller/plane ──> flags and Secrets, with this machine's paths and free ports in them ──> three processes

So tests see the effect of a plane's flags and memory limits on the real programs; there are no other settings than a plane's.
As root, each process may get its memory limit by a control group of its own; other tests measure its use (`Usage`).
"""

import base64
import contextlib
import os
import re
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Final, Self

from bulkhead.api.objects import Obj
from bulkhead.kube.kubeconfig import KubeConfig
from controller.pki import issue
from controller.pki.material import assemble
from controller.plane import apiserver, controller_manager, etcd
from controller.plane.audit import AUDIT_PATH
from controller.plane.pki import controller_credential
from controller.plane.secrets import KeyMaterial, leaf_secrets
from controller.plane.spec import (
    API_PORT,
    API_SERVER,
    CONFIG_PATH,
    ETCD_HTTP_PORT,
    ETCD_METRICS_PORT,
    ETCD_PEER_PORT,
    ETCD_PORT,
    KCM_PORT,
    PKI_PATH,
    PlaneSpec,
)
from tests.kit.ports import free_port
from tests.kit.servers import binary, die_with_parent

ETCD: Final = "etcd"
KCM: Final = "kube-controller-manager"
PROGRAMS: Final = (ETCD, API_SERVER, KCM)
_SECRETS: Final = {ETCD: "pki-etcd", API_SERVER: "pki-apiserver", KCM: "pki-controller-manager"}
_PORTS: Final = (ETCD_PORT, ETCD_PEER_PORT, ETCD_METRICS_PORT, ETCD_HTTP_PORT, API_PORT, KCM_PORT)
_PORT: Final = re.compile(r"(:|--secure-port=)(\d+)(?!\d)")
POD_IP: Final = "127.0.0.2"  # the address for servers that listen only at the pod's address
# The address that the API server advertises; it opens no connection there, and refuses to advertise a loopback address.
_ADVERTISED: Final = "192.0.2.1"
_SAMPLE_SECONDS: Final = 0.02
_GROUPS: Final = Path("/sys/fs/cgroup/memory")


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process uses and has used at most, in MiB: anonymous memory, and the total with mapped files."""

    own: float
    resident: float


class PlaneProcesses:
    """The plane of a spec; tests can kill it and start it again on its data."""

    def __init__(
        self, folder: Path, spec: PlaneSpec, *, limited: bool = False, secrets: Mapping[str, Obj] = MappingProxyType({})
    ) -> None:
        """`secrets` hold keys that an earlier plane had."""
        self.folder = folder
        self.spec = spec
        self.keys: KeyMaterial = assemble(spec, secrets, datetime.now(UTC)).keys
        self.ports = {number: free_port() for number in _PORTS}
        self.limited = limited and _GROUPS.is_dir() and os.geteuid() == 0
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._groups: dict[str, Path] = {}
        self.instead: dict[str, Path] = {}  # by name, what is started in the place of a program
        self.kills: list[str] = []  # programs that the kernel killed, and that were started again
        self._write_files()

    @property
    def admin(self) -> KubeConfig:
        """The controller's own access."""
        pair = issue.issue(controller_credential(), self.keys.authorities["client"], datetime.now(UTC))
        return KubeConfig(
            server=f"https://127.0.0.1:{self.ports[API_PORT]}",
            ca=self.keys.authorities["serving"].certificate,
            client_cert=pair.certificate,
            client_key=pair.key,
        )

    def start(self, *names: str) -> None:
        """Start what does not run; all programs by default."""
        containers: dict[str, Obj] = {
            ETCD: etcd.container(self.spec),
            API_SERVER: apiserver.container(self.spec),
            KCM: controller_manager.container(self.spec),
        }
        for name in names or PROGRAMS:
            if self.runs(name):
                continue
            if name in self._processes and self._processes[name].returncode == -signal.SIGKILL:
                self.kills.append(name)
            self._spawn(name, containers[name])

    def runs(self, name: str) -> bool:
        """Whether the program has not ended."""
        process = self._processes.get(name)
        return process is not None and process.poll() is None

    def ended(self, name: str) -> str:
        """How it ended, with the end of its log; empty while it runs."""
        process = self._processes.get(name)
        code = process.poll() if process is not None else None
        return "" if code is None else f"{name} ended with {code}: {self.log_tail(name)}"

    def pid(self, name: str) -> int:
        """The process ID of a running program."""
        return self._processes[name].pid

    def wait(self, seconds: float = 240.0) -> None:
        """Return once the API server is ready. Raises if a process has ended."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for name in self._processes:
                if trouble := self.ended(name):
                    raise RuntimeError(trouble)
            with contextlib.suppress(urllib.error.URLError, TimeoutError, ConnectionError, OSError):
                self.get("/readyz", timeout=5)
                return
            time.sleep(0.2)
        raise RuntimeError(f"not ready after {seconds:g} s: {self.log_tail(API_SERVER)}")

    def get(self, path: str, *, timeout: float = 60.0, accept: str = "application/json") -> int:
        """GET from the API server as its admin. Returns the number of bytes."""
        context = self.admin.ssl_context()
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
        request = urllib.request.Request(f"{self.admin.server}{path}", headers={"Accept": accept})  # noqa: S310 -- https
        total = 0
        with opener.open(request, timeout=timeout) as answer:
            while data := answer.read(1 << 20):
                total += len(data)
        return total

    def usage(self, name: str) -> Usage:
        """What a process uses now."""
        fields: dict[str, float] = {}
        for line in Path(f"/proc/{self.pid(name)}/status").read_text().splitlines():
            key, _, value = line.partition(":")
            if key in {"RssAnon", "VmRSS"}:
                fields[key] = int(value.split()[0]) / 1024
        return Usage(fields.get("RssAnon", 0.0), fields.get("VmRSS", 0.0))

    def kill(self, *names: str) -> None:
        """Kill processes, as the kernel does with those that use too much."""
        for name in names or tuple(self._processes):
            process = self._processes.pop(name, None)
            if process is not None:
                process.kill()
                process.wait()

    def end(self, *names: str) -> None:
        """End processes as a kubelet does, the store last."""
        for name in names or tuple(reversed(PROGRAMS)):
            process = self._processes.pop(name, None)
            if process is not None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()

    def stop(self) -> None:
        """End everything, and remove the control groups."""
        self.kill()
        for group in self._groups.values():
            with contextlib.suppress(OSError):
                group.rmdir()

    def log_tail(self, name: str, size: int = 1500) -> str:
        """The end of a program's log."""
        path = self.folder / f"{name}.log"
        return path.read_text(errors="replace")[-size:] if path.exists() else "no log"

    def _write_files(self) -> None:
        for secret in leaf_secrets(self.spec, self.keys):
            self._write(self.folder / secret["metadata"]["name"], secret["data"])
        shim = self.keys.authorities["kubelet"].certificate.decode()
        config = apiserver.config_files(self.spec, shim)
        self._write(self.folder / "config", {name: base64.b64encode(text.encode()).decode() for name, text in config.items()})
        (self.folder / "audit").mkdir(exist_ok=True)
        (self.folder / ETCD).mkdir(exist_ok=True, mode=0o700)

    def _write(self, folder: Path, files: Mapping[str, str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            content = base64.b64decode(data)
            if name == "kubeconfig":
                content = self._here(content.decode(), folder).encode()
            (folder / name).write_bytes(content)

    def _here(self, text: str, pki: Path) -> str:
        """A pod's text, with this machine's folders and ports."""
        moved = {
            PKI_PATH: str(pki),
            CONFIG_PATH: str(self.folder / "config"),
            AUDIT_PATH: str(self.folder / "audit"),
            etcd.DATA_PATH: str(self.folder / ETCD),
            "$(POD_NAME)": "plane-0",
            "--advertise-address=$(POD_IP)": f"--advertise-address={_ADVERTISED}",
            "$(POD_IP)": POD_IP,
            "=0.0.0.0": "=127.0.0.1",
            "//0.0.0.0": "//127.0.0.1",
            "/usr/local/bin/": "",
        }
        for before, after in moved.items():
            text = text.replace(before, after)
        # All ports at once: one that was put in may begin with the digits of another.
        return _PORT.sub(lambda found: f"{found[1]}{self.ports.get(int(found[2]), found[2])}", text)

    def _spawn(self, name: str, container: Obj) -> None:
        program, *flags = (self._here(item, self.folder / _SECRETS[name]) for item in container["command"])
        environment = {item["name"]: item["value"] for item in container["env"] if "value" in item}
        group = self._group(name, container["resources"]["limits"]["memory"]) if self.limited else None
        with (self.folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [str(self.instead.get(program) or binary(program)), *flags],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={"HOME": str(self.folder), "PATH": os.environ.get("PATH", "")} | environment,
                preexec_fn=lambda: _enter(group),  # noqa: PLW1509 -- started from the one thread there is
            )

    def _group(self, name: str, limit: str) -> Path:
        group = _GROUPS / f"bulkhead-plane-{os.getpid()}-{name}"
        group.mkdir(exist_ok=True)
        (group / "memory.limit_in_bytes").write_text(str(int(limit.removesuffix("Mi")) << 20))
        self._groups[name] = group
        return group


@contextlib.contextmanager
def answering(folder: Path, spec: PlaneSpec) -> Iterator[PlaneProcesses]:
    """A plane whose API server answers, until the end of the block."""
    processes = PlaneProcesses(folder, spec)
    try:
        processes.start(ETCD, API_SERVER)
        processes.wait()
        yield processes
    finally:
        processes.stop()


def _enter(group: Path | None) -> None:
    if group is not None:
        (group / "cgroup.procs").write_text(str(os.getpid()))
    die_with_parent()


class Watch:
    """The most anonymous memory of each program between two moments, in MiB; a thread samples it."""

    def __init__(self, plane: PlaneProcesses, names: Iterable[str] = PROGRAMS) -> None:
        self.most = dict.fromkeys(names, 0.0)
        self._plane = plane
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._done.wait(_SAMPLE_SECONDS):
            for name in self.most:
                with contextlib.suppress(OSError, KeyError):
                    self.most[name] = max(self.most[name], self._plane.usage(name).own)
