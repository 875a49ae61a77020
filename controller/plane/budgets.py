"""What each component of a plane requests and may use: CPU, memory, disk, threads. Pure."""

import contextlib
import math
from dataclasses import dataclass, replace
from typing import Final

from bulkhead.api import containerlogs
from bulkhead.api.objects import Obj
from bulkhead.api.planecpu import usual_cpu_limit
from bulkhead.api.quantity import InvalidQuantityError, parse
from controller.plane.sizing import needed_mib

_MAX_THREADS: Final = 256
# Requests of disk are small: planes write to their volume, and limits are for what goes wrong.
_DISK_REQUEST: Final = "16Mi"


@dataclass(frozen=True, slots=True)
class Budget:
    """What one container requests and may use at most.

    `cpu`, `memory` and `cpu_limit` are Kubernetes quantities; `memory_limit_mib` is in MiB. Without `cpu_limit` CPU is not
    limited. `cores` is how many threads run the container's Go code at once if no limit sets that; with None it is the
    machine's number of cores.
    """

    cpu: str
    memory: str
    memory_limit_mib: int
    cpu_limit: str | None = None
    cores: int | None = None

    def resources(self, files_mib: int = 0) -> Obj:
        """The container's `resources`; `files_mib` is what it may write to emptyDirs on disk, besides its output."""
        limits = {"memory": f"{self.memory_limit_mib}Mi", "ephemeral-storage": f"{containerlogs.LIMIT_MIB + files_mib}Mi"}
        return {
            "requests": {"cpu": self.cpu, "memory": self.memory, "ephemeral-storage": _DISK_REQUEST},
            "limits": limits | ({"cpu": self.cpu_limit} if self.cpu_limit else {}),
        }

    def go_env(self, gogc: int) -> list[Obj]:
        """Settings of the Go runtime: a small heap when idle, a soft memory limit below the hard one, and no idle threads.

        Go never uses fewer than two threads, whatever the limit. Without a limit it uses one for each core of the node: on a
        node with a hundred cores, every plane would keep a hundred for work that one of them does (docs/decisions/0009).
        """
        env = [
            {"name": "GOGC", "value": str(gogc)},
            {"name": "GOMEMLIMIT", "value": f"{self.memory_limit_mib * 9 // 10}MiB"},
        ]
        threads = self._threads()
        return [*env, {"name": "GOMAXPROCS", "value": str(threads)}] if threads else env

    def _threads(self) -> int | None:
        """The CPU limit, rounded up; None if the limit is practically unlimited or not a number."""
        with contextlib.suppress(InvalidQuantityError):
            allowed = math.ceil(parse(self.cpu_limit)) if self.cpu_limit else 0
            if 0 < allowed <= _MAX_THREADS:
                return allowed
        return self.cores


def _budget(component: str, cpu: str, memory: str, limit_mib: int, cores: int | None = None) -> Budget:
    return Budget(cpu, memory, limit_mib, usual_cpu_limit(component, cpu), cores)


BUDGETS: Final = {
    "etcd": _budget("etcd", "20m", "40Mi", needed_mib("etcd"), cores=1),
    "apiserver": _budget("apiserver", "50m", "180Mi", needed_mib("apiserver")),
    "controller_manager": _budget("controller_manager", "10m", "48Mi", needed_mib("controller_manager"), cores=1),
    "syncer": _budget("syncer", "20m", "56Mi", 256),
    "dns": _budget("dns", "5m", "24Mi", 128, cores=1),
}


def usual_budget(component: str, quota_mib: int, replicas: int) -> Budget:
    """The budget of a component for which neither class nor Tenant sets one: its limit suffices for a full store."""
    usual = BUDGETS[component]
    return replace(usual, memory_limit_mib=needed_mib(component, quota_mib, replicas) or usual.memory_limit_mib)


# The components' names in the API.
COMPONENTS: Final = {
    "etcd": "etcd",
    "apiServer": "apiserver",
    "controllerManager": "controller_manager",
    "syncer": "syncer",
    "dns": "dns",
}


@dataclass(frozen=True, slots=True)
class Budgets:
    """The budget of each component, by its name in `COMPONENTS`: one container each."""

    etcd: Budget = BUDGETS["etcd"]
    apiserver: Budget = BUDGETS["apiserver"]
    controller_manager: Budget = BUDGETS["controller_manager"]
    syncer: Budget = BUDGETS["syncer"]
    dns: Budget = BUDGETS["dns"]
