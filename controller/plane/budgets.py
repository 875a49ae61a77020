"""What each component of a plane requests and may use: CPU, memory, threads. Pure."""

import contextlib
import math
from dataclasses import dataclass, replace
from typing import Final

from bulkhead.api.objects import Obj
from bulkhead.api.quantity import InvalidQuantityError, parse
from controller.plane.sizing import needed_mib

_MAX_THREADS: Final = 256


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

    def resources(self) -> Obj:
        """The container's `resources`. CPU is limited only if the class says so: throttling an API server helps no one."""
        limits = {"memory": f"{self.memory_limit_mib}Mi"} | ({"cpu": self.cpu_limit} if self.cpu_limit else {})
        return {"requests": {"cpu": self.cpu, "memory": self.memory}, "limits": limits}

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


BUDGETS: Final = {
    "etcd": Budget("20m", "40Mi", needed_mib("etcd"), cores=1),
    "apiserver": Budget("50m", "180Mi", needed_mib("apiserver")),
    "controller_manager": Budget("10m", "48Mi", needed_mib("controller_manager"), cores=1),
    "syncer": Budget("20m", "56Mi", 256),
    "dns": Budget("5m", "24Mi", 128, cores=1),
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
