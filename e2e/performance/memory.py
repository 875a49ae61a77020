"""What a tenant's processes use, read from /proc: proportional and resident memory, and CPU time over a window.

The proportional set size divides shared pages among the processes that share them, so the sum over tenants is their total use.
"""

import os
from collections import defaultdict
from dataclasses import dataclass

from e2e import machine, names
from e2e.api import Api
from e2e.chaos.faults.parts import component_processes
from e2e.machine import Process

MIB = 1024.0
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Footprint:
    """One tenant's processes and their use at one moment."""

    tenant: str
    processes: tuple[Process, ...]
    pss_mib: float
    parts_mib: dict[str, float]  # by program
    syncer_rss_mib: float
    parts_cpu_s: dict[str, float]  # since their start


def footprint(host: Api, tenant: str) -> Footprint:
    """Everything in the pods of the tenant's plane namespace."""
    processes: list[Process] = []
    parts: dict[str, float] = defaultdict(float)
    cpu: dict[str, float] = defaultdict(float)
    syncer_rss = 0.0
    for pod in host.list("Pod", names.plane_namespace(tenant)):
        for process in machine.processes_of_pod(pod["metadata"]["uid"]):
            try:
                pss, rss, ticks = machine.pss_kib(process.pid), machine.rss_kib(process.pid), machine.cpu_ticks(process.pid)
            except ProcessLookupError:  # a probe's program comes and goes
                continue
            processes.append(process)
            part = "syncer" if pod["metadata"]["name"].startswith("syncer") else process.program.split(" ")[0]
            parts[part] += pss / MIB
            cpu[part] += ticks / _TICKS
            if part == "syncer" and process.program.startswith("python"):
                syncer_rss = max(syncer_rss, rss / MIB)
    if not processes:
        raise RuntimeError(f"tenant {tenant}: no process found in its plane's pods")
    if not syncer_rss:
        raise RuntimeError(f"tenant {tenant}: no syncer found among the processes of its plane's pods")
    rounded = {name: round(value, 1) for name, value in sorted(parts.items())}
    return Footprint(tenant, tuple(processes), sum(parts.values()), rounded, syncer_rss, dict(cpu))


def controller_rss_mib(host: Api) -> float:
    found = component_processes(host, names.SYSTEM_NAMESPACE, "bulkhead-controller", "controller")
    if not found:
        raise RuntimeError("controller: no process found")
    return max(machine.rss_kib(process.pid) for process in found) / MIB


def idle_percent(before: Footprint, after: Footprint, seconds: float) -> dict[str, float]:
    """CPU time of each part between two moments, in percent of one core; a process that was replaced meanwhile is an error."""
    if {process.pid for process in before.processes} != {process.pid for process in after.processes}:
        raise RuntimeError(f"tenant {before.tenant}: a process of its plane was replaced while it should be idle")
    return {part: 100.0 * (spent - before.parts_cpu_s[part]) / seconds for part, spent in sorted(after.parts_cpu_s.items())}
