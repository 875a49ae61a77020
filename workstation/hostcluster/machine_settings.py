"""The settings that the embedded host changes on the machine: bridge, forwarding, masquerading, kernel settings, one link.

Earlier values are kept in `<data>/machine.json`, valid for the boot in which they were read; `restore` restores them.
"""

import json
import shutil
import socket
from pathlib import Path

from workstation.hostcluster import programs
from workstation.hostcluster.component import BRIDGE, NODE_ADDRESS, POD_RANGE, HostContext
from workstation.hostcluster.files import write_file
from workstation.hostcluster.node import NODE_RANGE

# The kubelet expects device plugins here, whatever its root directory is.
DEVICE_PLUGINS = Path("/var/lib/kubelet/device-plugins")
_SECONDS = 30.0
_SYSCTLS = Path("/proc/sys")
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_SET = {"net/ipv4/ip_forward": 1}
_AT_LEAST = {
    "fs/inotify/max_user_instances": 8192,  # each kubelet, containerd and API server of a tenant uses several
    "fs/inotify/max_user_watches": 1048576,
}
_KUBELET_SETS = (
    "vm/overcommit_memory",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)
_TABLE = f"""table ip bulkhead
delete table ip bulkhead
table ip bulkhead {{
  chain postrouting {{
    type nat hook postrouting priority srcnat; policy accept;
    ip saddr {POD_RANGE} ip daddr != {{ {POD_RANGE}, {NODE_RANGE} }} masquerade
  }}
}}
"""


def run(*argv: str, stdin: str | None = None) -> str:
    """Run a short system command. Raises with its error text."""
    done = programs.ended(argv, _SECONDS, stdin=stdin)
    if done.returncode != 0:
        raise RuntimeError(f"`{' '.join(argv)}` failed: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def _read(name: str) -> str | None:
    path = _SYSCTLS / name
    return path.read_text().strip() if path.exists() else None


def _remember(ctx: HostContext) -> None:
    path = ctx.data_dir / "machine.json"
    boot = _BOOT_ID.read_text().strip()
    if path.exists() and json.loads(path.read_text()).get("boot") == boot:
        return  # a host that died without `down` left the file: it has the true earlier values
    values = {name: _read(name) for name in (*_SET, *_AT_LEAST, *_KUBELET_SETS)}
    write_file(path, json.dumps({"boot": boot, "sysctls": values}, indent=2).encode())


def _answers(path: Path) -> bool:
    """Whether a process listens on the socket."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(2)
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True


def has_other_kubelet() -> bool:
    """Whether the kubelet of another installation runs on this machine."""
    return not DEVICE_PLUGINS.is_symlink() and _answers(DEVICE_PLUGINS / "kubelet.sock")


def refuse_other_kubelet() -> None:
    """Raises if there is one: both would use the same rules, chains and folders. Called before anything is changed."""
    if has_other_kubelet():
        raise RuntimeError(
            f"{DEVICE_PLUGINS} is in use by another kubelet on this machine; the embedded host needs a machine without one"
        )


def _link_device_plugins(ctx: HostContext) -> None:
    target = ctx.kubelet_dir / "device-plugins"
    target.mkdir(parents=True, exist_ok=True)
    if DEVICE_PLUGINS.is_symlink():
        if DEVICE_PLUGINS.readlink() == target:
            return
        DEVICE_PLUGINS.unlink()
    refuse_other_kubelet()
    if DEVICE_PLUGINS.is_dir():
        shutil.rmtree(DEVICE_PLUGINS)  # left by a kubelet that is gone
    DEVICE_PLUGINS.parent.mkdir(parents=True, exist_ok=True)
    DEVICE_PLUGINS.symlink_to(target)


def prepare(ctx: HostContext) -> None:
    """Set what the host needs; safe to repeat."""
    _remember(ctx)
    for name, value in _SET.items():
        (_SYSCTLS / name).write_text(str(value))
    for name, value in _AT_LEAST.items():
        if int(_read(name) or value) < value:
            (_SYSCTLS / name).write_text(str(value))
    if not Path(f"/sys/class/net/{BRIDGE}").exists():
        run("ip", "link", "add", BRIDGE, "type", "bridge")
    run("ip", "addr", "replace", f"{NODE_ADDRESS}/32", "dev", BRIDGE)
    run("ip", "link", "set", BRIDGE, "up")
    run("nft", "-f", "-", stdin=_TABLE)
    _link_device_plugins(ctx)


def restore(ctx: HostContext) -> None:
    """Restore the earlier values and remove the link. `remains` removes devices and tables."""
    if DEVICE_PLUGINS.is_symlink():
        DEVICE_PLUGINS.unlink()
        parent = DEVICE_PLUGINS.parent
        if not any(parent.iterdir()):
            parent.rmdir()
    path = ctx.data_dir / "machine.json"
    if not path.exists():
        return
    kept = json.loads(path.read_text())
    if kept.get("boot") == _BOOT_ID.read_text().strip():
        for name, value in kept["sysctls"].items():
            if value is not None and _read(name) != value:
                (_SYSCTLS / name).write_text(value)
    path.unlink()
