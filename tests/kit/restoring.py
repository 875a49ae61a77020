"""A plane from a snapshot, as plain processes: what `etcdutl` makes of the store, with the keys of the bundle."""

import base64
import subprocess
from pathlib import Path
from typing import Final

from bulkhead.api.objects import Obj
from bulkhead.snapshots.bundle import Bundle
from controller.plane.spec import ETCD_PEER_PORT, PlaneSpec
from tests.kit.planeprocess import ETCD, PlaneProcesses
from tests.kit.servers import binary

BUMPED: Final = 1_000_000_000


def restored(folder: Path, spec: PlaneSpec, store: bytes, keys: Bundle) -> PlaneProcesses:
    """A plane of the same identity, elsewhere; its processes are not started."""
    secrets: dict[str, Obj] = {
        name: {"metadata": {"name": name}, "data": {file: base64.b64encode(data).decode() for file, data in files.items()}}
        for name, files in keys.secrets.items()
    }
    made = PlaneProcesses(folder, spec, secrets=secrets)
    file = folder / "etcd.db"
    file.write_bytes(store)
    peer = f"https://127.0.0.1:{made.ports[ETCD_PEER_PORT]}"
    command = [
        str(binary("etcdutl")),
        "snapshot",
        "restore",
        str(file),
        f"--data-dir={folder / ETCD / 'data'}",
        "--name=plane-0",
    ]
    command += [f"--initial-cluster=plane-0={peer}", f"--initial-advertise-peer-urls={peer}"]
    command += [f"--initial-cluster-token={spec.identity}", f"--bump-revision={BUMPED}", "--mark-compacted"]
    subprocess.run(command, check=True, capture_output=True)
    return made
