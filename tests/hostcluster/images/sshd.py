"""The login node's own sshd, from the image's Debian packages with the image's own files, in a mount namespace of its own.

    with login_node(folder) as node: node.users("alice"); node.trust({"alice": [...]}, keys); node.ssh(key, "alice", "id -un")

It needs root, as the image does, and unpacked packages; a machine without either skips.
"""

import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.kit import machine
from tests.kit.ports import free_port
from workstation.hostcluster import binaries
from workstation.hostcluster.images import slurm_root
from workstation.hostcluster.images.build import PROJECT

_SECONDS = 20.0
_OWN = PROJECT / "images/slurm/rootfs"
# All tests share the tree, and it stays as it is: writes go to a layer in memory, which ends with the process.
_INSIDE = """set -eu
mount --make-rprivate /
mount -t tmpfs tmpfs "$ABOVE"
mkdir "$ABOVE/upper" "$ABOVE/work"
mount -t overlay -o "lowerdir=$TREE,upperdir=$ABOVE/upper,workdir=$ABOVE/work" overlay "$ROOT"
mkdir -p "$ROOT/dev" "$ROOT/home" "$ROOT/usr/local"
mount --rbind /dev "$ROOT/dev"
mkdir -p "$ROOT/run/sshd" "$ROOT/etc/slurm-ssh-trust" "$ROOT/etc/slurm-authorized-keys" "$ROOT/etc/slurm-users"
rm -rf "$ROOT/var/lib/extrausers"
cp -a "$OWN/." "$ROOT/"
chown -R 0:0 "$ROOT/etc" "$ROOT/usr/local"
cp "$FILES/host" "$ROOT/run/sshd/ssh_host_ed25519_key"
chmod 600 "$ROOT/run/sshd/ssh_host_ed25519_key"
chmod 755 "$ROOT" "$ROOT/run" "$ROOT/etc" "$ROOT/home"
mount --bind "$FILES/trust" "$ROOT/etc/slurm-ssh-trust"
mount --bind "$FILES/keys" "$ROOT/etc/slurm-authorized-keys"
mount --bind "$FILES/users" "$ROOT/etc/slurm-users"
for user in alice bob; do mkdir -p "$ROOT/home/$user"; done
exec chroot "$ROOT" /usr/sbin/sshd -D -e -p "$PORT" -o ListenAddress=127.0.0.1
"""


@dataclass
class LoginNode:
    """A running sshd."""

    files: Path
    port: int
    process: "subprocess.Popen[bytes]"

    def trust(self, identities: Mapping[str, Sequence[str]], authorities: Sequence[str]) -> None:
        """What ConfigMap `slurm-ssh-trust` holds from now on."""
        for path in (self.files / "trust").iterdir():
            path.unlink()
        wanted = {"user-ca.pub": authorities} | dict(identities)
        for name, lines in wanted.items():
            (self.files / "trust" / name).write_text("".join(f"{line}\n" for line in lines))

    def ssh(self, key: Path, user: str, command: str = "id -un", *options: str) -> "subprocess.CompletedProcess[str]":
        """One connection; the certificate lies beside the key."""
        known = f"UserKnownHostsFile={self.files / 'known_hosts'}"
        flags = ["BatchMode=yes", "IdentitiesOnly=yes", "IdentityAgent=none", "StrictHostKeyChecking=yes", known, *options]
        flags += ["HostKeyAlias=login", "ConnectTimeout=10", "LogLevel=ERROR"]
        words = ["ssh", "-F", "none", *(word for each in flags for word in ("-o", each)), "-i", str(key), "-p", str(self.port)]
        return subprocess.run(
            [*words, f"{user}@127.0.0.1", command], capture_output=True, text=True, timeout=30, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip

    @property
    def log(self) -> str:
        """The log of sshd."""
        return (self.files / "log").read_text()


@contextmanager
def login_node(folder: Path) -> Iterator[LoginNode]:
    """Start it, and wait until it takes connections."""
    machine.root("the image's sshd", instead="it becomes who logs in; run it as root")
    machine.programs("the image's sshd", "mmdebstrap", "unshare", "ssh", "ssh-keygen")
    tree = slurm_root.debian_tree(binaries.cache_dir() / "images", slurm_root.SLURM_TREE)
    for name in ("root", "above", "trust", "keys", "users"):
        (folder / name).mkdir()
    folder.chmod(0o755)
    uids = {"alice": 10001, "bob": 10002}
    passwd = "".join(f"{name}:*:{uid}:{uid}::/home/{name}:/bin/bash\n" for name, uid in uids.items())
    (folder / "users" / "passwd").write_text(passwd)
    (folder / "users" / "group").write_text("".join(f"{name}:*:{uid}:\n" for name, uid in uids.items()))
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "host")], check=True, timeout=30)
    (folder / "known_hosts").write_text(f"login {(folder / 'host.pub').read_text()}")
    port = free_port()
    places = {"TREE": tree, "ROOT": folder / "root", "ABOVE": folder / "above", "OWN": _OWN, "FILES": folder, "PORT": port}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", _INSIDE],
            env={"PATH": os.environ["PATH"]} | {name: str(value) for name, value in places.items()},
            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
    node = LoginNode(folder, port, process)
    try:
        _await(node)
        yield node
    finally:
        process.kill()
        process.wait()


def _await(node: LoginNode) -> None:
    deadline = time.monotonic() + _SECONDS
    while "Server listening" not in node.log:
        if node.process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"sshd does not start: {node.log[-1500:]}")
        time.sleep(0.05)
