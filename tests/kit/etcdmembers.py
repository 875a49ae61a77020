"""A plane's three etcd members as plain processes, with the flags and certificates that the controller renders.

    builder of controller/plane/etcd.py ──> one member's flags, with this machine's folders and free ports ──> three processes

What the kubelet does with a member, a test does: it resolves the environment at each start, and gives a pod an empty volume. No
DNS names peers here, so each member has the name `localhost` and a port of its own.
"""

import base64
import os
import re
import shutil
import subprocess
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from controller.pki.material import assemble
from controller.plane import etcd, memberrecord
from controller.plane.memberrecord import Record
from controller.plane.secrets import KeyMaterial, leaf_secrets
from controller.plane.spec import (
    ETCD_HTTP_PORT,
    ETCD_METRICS_PORT,
    ETCD_PEER_PORT,
    ETCD_PORT,
    PEERS,
    PKI_PATH,
    PLANE,
    PlaneSpec,
)
from tests.kit.ports import free_port
from tests.kit.servers import binary, die_with_parent

PODS: Final = tuple(f"{PLANE}-{number}" for number in range(3))
ADDRESS: Final = "127.0.0.1"
_PORT: Final = re.compile(r":(\d+)$")


class EtcdMembers:
    """The members; tests can kill them, empty their volumes and start them again."""

    def __init__(self, folder: Path, spec: PlaneSpec, files: Mapping[str, str] | None = None) -> None:
        """`files`: those of a Secret `pki-etcd`; by default of keys of its own."""
        self.folder = folder
        self.spec = spec
        self.keys: KeyMaterial = assemble(spec, {}, datetime.now(UTC)).keys
        self.ports = {
            pod: {number: free_port() for number in (ETCD_PORT, ETCD_PEER_PORT, ETCD_METRICS_PORT, ETCD_HTTP_PORT)}
            for pod in PODS
        }
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        pki = folder / "pki"
        pki.mkdir()
        secret = next(secret for secret in leaf_secrets(spec, self.keys) if secret["metadata"]["name"] == "pki-etcd")
        for name, data in (files or secret["data"]).items():
            (pki / name).write_bytes(base64.b64decode(data))

    @property
    def addresses(self) -> dict[str, str]:
        """The addresses of the pods."""
        return dict.fromkeys(PODS, ADDRESS)

    @property
    def http_ports(self) -> dict[str, int]:
        """Where each member is asked."""
        return {pod: ports[ETCD_HTTP_PORT] for pod, ports in self.ports.items()}

    def peer_url(self, pod: str) -> str:
        """The URL of a member for its peers."""
        return f"https://localhost:{self.ports[pod][ETCD_PEER_PORT]}"

    def start(
        self,
        *pods: str,
        environment: Mapping[str, str] | None = None,
        command: tuple[str, ...] = (),
        spec: PlaneSpec | None = None,
    ) -> None:
        """Start members that do not run, with what their ConfigMap has now: the values by the names of its keys.

        `command` stands before etcd's own. `spec` is for flags of another plane than that of three.
        """
        recorded = environment or memberrecord.data(self.spec, Record(founding=True))
        for pod in pods or PODS:
            if not self.runs(pod):
                self._spawn(pod, recorded, command, spec or self.spec)

    def runs(self, pod: str) -> bool:
        """Whether the member has not ended."""
        process = self._processes.get(pod)
        return process is not None and process.poll() is None

    def kill(self, *pods: str) -> None:
        """Kill members."""
        for pod in pods or PODS:
            process = self._processes.pop(pod, None)
            if process is not None:
                process.kill()
                process.wait()

    def stop(self, pod: str) -> None:
        """Let a member end in order, with all of its log in its file."""
        process = self._processes.pop(pod)
        process.terminate()
        process.wait(60.0)

    def ended(self, pod: str, seconds: float = 60.0) -> str:
        """Wait until the member has ended by itself; returns what a kubelet keeps of its log."""
        process = self._processes[pod]
        process.wait(seconds)
        return self.log_tail(pod)

    def empty(self, pod: str) -> None:
        """Give the pod an empty volume."""
        shutil.rmtree(self.folder / pod, ignore_errors=True)

    def keep(self, pod: str) -> Path:
        """A copy of the pod's volume as it is now."""
        copy = self.folder / f"{pod}-{time.monotonic_ns()}"
        shutil.copytree(self.folder / pod, copy)
        return copy

    def give(self, pod: str, volume: Path) -> None:
        """Give the pod this volume."""
        self.empty(pod)
        shutil.copytree(volume, self.folder / pod)

    def log_tail(self, pod: str, size: int = 2048) -> str:
        """The end of a member's log, as long as a kubelet keeps it for a container that failed."""
        path = self.folder / f"{pod}.log"
        return path.read_text(errors="replace")[-size:] if path.exists() else "no log"

    def here(self, pod: str, text: str) -> str:
        """A pod's text, with this machine's folders, names and ports."""
        for other in PODS:
            text = text.replace(f"https://{other}.{PEERS}.{self.spec.namespace}.svc:{ETCD_PEER_PORT}", self.peer_url(other))
        moved = {
            f"https://$(POD_NAME).{PEERS}.{self.spec.namespace}.svc:{ETCD_PEER_PORT}": self.peer_url(pod),
            PKI_PATH: str(self.folder / "pki"),
            etcd.DATA_PATH: str(self.folder / pod),
            "$(POD_NAME)": pod,
            "$(POD_IP)": ADDRESS,
            "//0.0.0.0": f"//{ADDRESS}",
        }
        for before, after in moved.items():
            text = text.replace(before, after)
        # Of three members each has ports of its own; the only one is at its own.
        if text.startswith("--") and ("initial-cluster=" not in text or f"//{ADDRESS}:" in text):
            return _PORT.sub(lambda found: f":{self.ports[pod].get(int(found[1]), found[1])}", text)
        return text

    def _spawn(self, pod: str, environment: Mapping[str, str], before: tuple[str, ...], spec: PlaneSpec) -> None:
        container = etcd.container(spec)
        program, *flags = container["command"]
        of_etcd: dict[str, str] = {}
        for variable in container["env"]:
            key, name = variable.get("valueFrom", {}).get("configMapKeyRef", {}).get("key"), variable["name"]
            if key is not None:
                flags = [flag.replace(f"$({name})", environment.get(key, "")) for flag in flags]
            if key in environment and name.startswith("ETCD_"):
                of_etcd[name] = environment[key]
        # Peers reach each other at the listening address alone.
        (self.folder / pod).mkdir(exist_ok=True, mode=0o700)
        path = self.folder / f"{pod}.log"
        path.unlink(missing_ok=True)
        with path.open("ab") as log:
            self._processes[pod] = subprocess.Popen(
                [*before, str(binary(Path(program).name)), *(self.here(pod, flag) for flag in flags)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={"HOME": str(self.folder), "PATH": os.environ.get("PATH", ""), "GOMEMLIMIT": "100MiB"} | of_etcd,
                preexec_fn=die_with_parent,  # noqa: PLW1509 -- started from the one thread there is
            )
