"""The same Slurm, started plainly on this machine: the other side of every ratio that the Slurm benchmark reports.

    unpacked packages of the image + the image's own files ──overlay──> a root ──chroot──> slurmctld, sackd, one slurmd per node
    a tenant's slurm.conf ──plain_config()──> the same scheduling, with this machine's addresses

No container, no Kubernetes, no virtual network: daemons share the machine's kernel, address and hostname, and have different
ports. The tenant's configuration stays as it is, except for paths and addresses. Everything is removed when the context ends.
"""

import base64
import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from e2e import commands
from e2e.commands import Outcome
from e2e.poll import NotYetError, until
from workstation.hostcluster import binaries
from workstation.hostcluster.images import build, slurm_root

USER = "alice"
UID = 10001
CONTROLLER_PORT = 16817
FIRST_NODE_PORT = 16820
_SLURM_UID = 401
_LOGS = "var/log/daemons"
# Keys with paths and addresses, and those of parts that the plain cluster does not have.
_REPLACED = (
    "clustername", "slurmctldhost", "slurmctldport", "slurmctldaddr", "slurmdport", "statesavelocation", "slurmdspooldir",
    "slurmctldpidfile", "slurmdpidfile", "authalttypes", "authaltparameters", "maxnodecount", "nodeset", "nodename",
    "partitionname", "metricstype", "metricsauthusers", "slurmctldparameters", "topologyplugin", "srunportrange",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class PlainNode:
    """The description of each node."""

    cpus: int = 2
    memory_mib: int = 512


@dataclass(frozen=True, slots=True)
class PlainSlurm:
    """A running cluster; `run` runs a user's command on it."""

    root: Path
    nodes: tuple[str, ...]

    def run(
        self, *words: str, user: bool = True, given: str | None = None, seconds: float = 60.0, check: bool = True
    ) -> Outcome:
        """A command in the cluster's root, as the user or as root; it starts in the home that the nodes share."""
        identity = [f"--reuid={UID}", f"--regid={UID}", "--clear-groups"] if user else []
        home = f"/home/{USER}" if user else "/root"
        inside = ["env", "-i", f"HOME={home}", f"USER={USER if user else 'root'}", _PATH, *_NETWORK, *words]
        return commands.run(
            [*_chroot(self.root), "setpriv", *identity, "sh", "-c", 'cd "$0" && exec "$@"', home, *inside],
            seconds=seconds, check=check, given=given,
        )  # fmt: skip


_PATH = "PATH=/usr/local/bin:/usr/bin:/usr/sbin"
# A pod has one interface. Here MPI would try every interface of the machine, including those of all pods.
_NETWORK = ("LANG=C.UTF-8", "UCX_NET_DEVICES=lo", "HYDRA_IFACE=lo")


def plain_config(tenant_conf: str, host: str, nodes: Sequence[str], node: PlainNode) -> str:
    """A tenant's slurm.conf with the paths and addresses of this machine; scheduling and plugins stay as they are."""
    kept = [line for line in tenant_conf.splitlines() if "=" in line and line[:1] != "#" and not _replaced(line)]
    ours = [
        "ClusterName=plain", f"SlurmctldHost={host}(127.0.0.1)", f"SlurmctldPort={CONTROLLER_PORT}",
        "StateSaveLocation=/var/spool/slurmctld", "SlurmdSpoolDir=/var/spool/slurmd-%n",
        "SlurmctldPidFile=/run/slurmctld/slurmctld.pid", "SlurmdPidFile=/run/slurmd-%n.pid",
        "AccountingStorageType=accounting_storage/none",
    ]  # fmt: skip
    for index, name in enumerate(nodes):
        size = f"CPUs={node.cpus} RealMemory={node.memory_mib}"
        ours.append(f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={FIRST_NODE_PORT + index} {size}")
    ours.append("PartitionName=plain Nodes=ALL Default=YES State=UP")
    return "\n".join([*kept, *ours]) + "\n"


def _replaced(line: str) -> bool:
    key = line.partition("=")[0].strip().lower()
    return key in _REPLACED or key.startswith("accountingstorage")


def _chroot(root: Path) -> list[str]:
    return ["chroot", str(root)]


@contextlib.contextmanager
def plain_slurm(tenant_conf: str, *, nodes: int = 2, node: PlainNode | None = None) -> Iterator[PlainSlurm]:
    """The cluster, ready for jobs; needs root, as the embedded host does."""
    names = tuple(f"plain-{index}" for index in range(nodes))
    with contextlib.ExitStack() as stack:
        root = stack.enter_context(_root())
        _furnish(root, plain_config(tenant_conf, socket.gethostname(), names, node or PlainNode()), names)
        stack.enter_context(_daemon(root, "/usr/sbin/slurmctld", "-D", uid=_SLURM_UID))
        stack.enter_context(_daemon(root, "/usr/sbin/sackd", "-D"))
        for name in names:
            stack.enter_context(_daemon(root, "/usr/sbin/slurmd", "-D", "-N", name))
        cluster = PlainSlurm(root, names)
        until("the plain cluster to be idle", lambda: _idle(cluster), seconds=60)
        yield cluster


def _idle(cluster: PlainSlurm) -> None:
    found = cluster.run("sinfo", "-h", "-N", "-o", "%N %T", check=False)
    if found.out.split() != [word for name in cluster.nodes for word in (name, "idle")]:
        raise NotYetError(f"{found.text}; {_last_words(cluster.root)}")


def _last_words(root: Path) -> str:
    """The end of every daemon's log, to explain why it did not start."""
    logs = sorted((root / _LOGS).iterdir())
    return "; ".join(f"{log.name}: {' | '.join(log.read_text(errors='replace').splitlines()[-3:])}" for log in logs)


@contextlib.contextmanager
def _root() -> Iterator[Path]:
    """The image's file system, unpacked, with a scratch layer of its own and the machine's devices."""
    tree = slurm_root.debian_tree(binaries.cache_dir() / "images", slurm_root.SLURM_TREE)
    own = slurm_root.own_files(build.PROJECT, "slurm")
    work = Path(tempfile.mkdtemp(prefix="bulkhead-plain-slurm-"))
    root = work / "root"
    try:
        for folder in ("upper", "scratch", "root"):
            (work / folder).mkdir(mode=0o755)
        layers = f"lowerdir={own}:{tree},upperdir={work / 'upper'},workdir={work / 'scratch'}"
        commands.run(["mount", "-t", "overlay", "bulkhead-plain-slurm", "-o", layers, str(root)])
        for place in ("proc", "dev", "sys"):
            commands.run(["mount", "--rbind", f"/{place}", str(root / place)])
            commands.run(["mount", "--make-rslave", str(root / place)])
        yield root
    finally:
        _kill_all_in(root)
        # Recursive and lazy: it also removes what a killed step may still hold open.
        for place in ("proc", "dev", "sys", ""):
            commands.run(["umount", "--recursive", "--lazy", str(root / place)], check=False)
        if not root.is_mount():
            shutil.rmtree(work, ignore_errors=True)


def _kill_all_in(root: Path) -> None:
    """End what daemons leave behind: steps outlive their slurmd, and a command that timed out outlives its launcher."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (process / "root").readlink() == root:
                os.kill(int(process.name), signal.SIGKILL)


def _furnish(root: Path, conf: str, names: Sequence[str]) -> None:
    """Configuration, keys, users and folders, as the image's entrypoints would make them."""
    config, users, keys = root / "etc/slurm-config-mount", root / "etc/slurm-users", root / "run/keys"
    for folder in (config, users, keys, root / "run/slurm/conf", root / "root", root / "tmp"):
        folder.mkdir(parents=True, exist_ok=True)
    (root / "tmp").chmod(0o1777)
    # MPI launchers send each other the machine's name; the names of all nodes resolve to it.
    (root / "etc/hosts").write_text(f"127.0.0.1 localhost {socket.gethostname()} {' '.join(names)}\n")
    (config / "slurm.conf").write_text(conf)
    (config / "cgroup.conf").write_text("CgroupPlugin=disabled\n")
    (users / "passwd").write_text(f"{USER}:*:{UID}:{UID}::/home/{USER}:/bin/bash\n")
    (users / "group").write_text(f"{USER}:x:{UID}:\n")
    key = {
        "alg": "HS256",
        "kty": "oct",
        "kid": "plain",
        "k": base64.b64encode(secrets.token_bytes(32)).decode(),
        "use": "default",
    }
    _owned(keys / "slurm.jwks", json.dumps({"keys": [key]}))
    for place in ("run/slurmctld", "var/spool/slurmctld"):
        (root / place).mkdir(parents=True, exist_ok=True)
        os.chown(root / place, _SLURM_UID, _SLURM_UID)
    for name in names:
        (root / f"var/spool/slurmd-{name}").mkdir(parents=True, exist_ok=True)
    home = root / "home" / USER
    home.mkdir(parents=True)
    os.chown(home, UID, UID)


def _owned(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o600)
    os.chown(path, _SLURM_UID, _SLURM_UID)


@contextlib.contextmanager
def _daemon(root: Path, *words: str, uid: int = 0) -> Iterator[None]:
    """Start one daemon; its log is in the root, at /var/log/daemons/<name>."""
    log = root / _LOGS / "-".join(Path(word).name for word in words if word != "-D")
    log.parent.mkdir(parents=True, exist_ok=True)
    identity = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"] if uid else []
    environment = ["env", "-i", _PATH, "SLURM_SACK_JWKS=/run/keys/slurm.jwks"]
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [*_chroot(root), *identity, *environment, *words], stdout=stream, stderr=stream, stdin=subprocess.DEVNULL
        )
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(15)
