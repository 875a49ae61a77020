"""The programs of a plane as the node's kernel sees them."""

import contextlib
import platform
from pathlib import Path

import pytest

from e2e import machine
from e2e.api import Api
from e2e.tenants import Tenant

COARSE_NS, DEFAULT_NS = 5_000_000, 50_000
# The timer slack that docs/decisions/0009-plane.md promises. Without the launcher a program has the kernel's default.
BY_MACHINE_CODE = COARSE_NS if platform.machine() == "x86_64" else DEFAULT_NS
EXPECTED_NS = {"etcd": BY_MACHINE_CODE, "kube-apiserver": BY_MACHINE_CODE, "kube-controller-manager": COARSE_NS}


@pytest.mark.parametrize("program", EXPECTED_NS)
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
    assert found == {EXPECTED_NS[program]}
