"""The programs of a plane as the node's kernel sees them."""

import contextlib
import platform
from pathlib import Path

import pytest

from e2e import machine
from e2e.api import Api
from e2e.tenants import Tenant

# The value that docs/decisions/0009-plane.md promises; the kernel's default if there is no launcher.
EXPECTED_NS = 5_000_000 if platform.machine() == "x86_64" else 50_000


@pytest.mark.parametrize("program", ["etcd", "kube-apiserver", "kube-controller-manager"])
def test_timers_are_coarse_in_every_thread(program: str, host: Api, alice: Tenant) -> None:
    plane = host.get("Pod", "plane-0", alice.plane)["metadata"]["uid"]
    (process,) = machine.processes_of_pod(plane, program)
    # Each thread in /proc has this file only under its own number.
    threads = [Path("/proc", task.name) for task in Path(f"/proc/{process.pid}/task").iterdir()]
    assert len(threads) > 1
    found: set[int] = set()
    for thread in threads:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread may end meanwhile
            found.add(int((thread / "timerslack_ns").read_text()))
    assert found == {EXPECTED_NS}
