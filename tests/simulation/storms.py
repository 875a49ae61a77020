"""Storms: everything that the tenant, the host and the faults can do, drawn from one seed, some hundred steps long.

A storm is replayed by its seed (and PYTHONHASHSEED=0): `python -m tests.simulation.storms 4711`.
"""

import contextlib
import random
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from bulkhead.api.ledger import ADMITTED
from bulkhead.kube.resources import CONFIG_MAPS, NAMESPACES, NETWORK_POLICIES, PERSISTENT_VOLUME_CLAIMS, PODS, SECRETS, SERVICES
from tests.simulation import virtualtime
from tests.simulation.api import Api, Refused
from tests.simulation.faults import HONEST, CallFault, Faults, WatchFault
from tests.simulation.ledgeractor import SETTINGS
from tests.simulation.world import PATIENCE_SECONDS, WORK, World

STEPS = 120
_CORDONS = 0.05
_SPACES = 0.05
_SIZES = 0.1
_DISKS = 0.1
_ENDS = 0.08
_POLICIES = 0.06
_TAINTS = 0.05
_LEDGER = 0.15
_LIFTS = 0.1
_BINDS = 0.3
_NAMES = ("a", "b", "c", "d")
_CLAIMS = ("data", "logs")
_GATES = ("", "", "", "example.com/mine")
_KINDS = ("pods", "configmaps", "secrets", "services", "nodes")


class Storm:
    """One storm over one world."""

    def __init__(self, world: World, seed: int, *, gated: bool = False, binds: bool = False) -> None:
        self.world = world
        self.rng = random.Random(seed)
        # Draws of its own, so that a seed's storm is otherwise what it was before the later ones.
        self._aside = random.Random(seed + 1)
        self._sizes = random.Random(seed + 2)
        self._disks = random.Random(seed + 3)
        self._ends = random.Random(seed + 4)
        self._policies = random.Random(seed + 5)
        self._taints = random.Random(seed + 6)
        self._ledger = random.Random(seed + 7) if gated else None
        self._holds = random.Random(seed + 8)
        self._binds = random.Random(seed + 9)
        self.log: list[str] = []
        self._steps: list[tuple[int, Callable[[], str]]] = [
            (8, self.pod), (5, self.delete_pod), (3, self.label), (4, self.data), (2, self.service), (2, self.delete),
            (3, self.host_deletes), (2, self.pod_ends), (1, self.node), (5, self.call_fails), (5, self.watch_fails),
            (2, self.lag), (1, self.away), (1, self.compaction), (1, self.cut), (1, self.outside_hand),
            (1, self.clock), (1, self.crash),
            (2, self.crash_soon), (1, self.calm),
        ]  # fmt: skip

        self._more: list[tuple[random.Random, float, Callable[[], str]]] = [
            (self._aside, _CORDONS, self.cordon), (self._aside, _SPACES, self.label_space), (self._sizes, _SIZES, self.resize),
            (self._disks, _DISKS, self.claim), (self._ends, _ENDS, self.space),
            (self._policies, _POLICIES, self.policy), (self._taints, _TAINTS, self.taint),
        ]  # fmt: skip
        if self._ledger is not None:
            self._more += [(self._ledger, _LEDGER, self.ledger), (self._holds, _LIFTS, self.lift)]
        if binds:
            world.in_plane.collects = True
            self._more.append((self._binds, _BINDS, self.bind))

    async def run(self, steps: int = STEPS) -> None:
        """Rage, and then ask for everything that must hold."""
        world, rng = self.world, self.rng
        weights = [weight for weight, _ in self._steps]
        for _ in range(steps):
            step = rng.choices(self._steps, weights)[0][1]
            with contextlib.suppress(Refused):
                self.log.append(f"{world.clock.monotonic():8.2f} {step()}")
            for draws, often, more in self._more:
                if draws.random() < often:
                    with contextlib.suppress(Refused):
                        self.log.append(f"{world.clock.monotonic():8.2f} {more()}")
            await world.wait(rng.choice((0.0, 0.01, 0.05, 0.3, 1.0, 3.0, 8.0)), act=rng.random() < 0.7)
            world.oracle.raise_violations()
            if world.crashed.is_set() or not self.alive:
                self.log.append(f"{world.clock.monotonic():8.2f} restart")
                await world.restart()
                self.alive = True
        world.quiet()
        world.on_host.ledger.idle = False
        if world.life is not None:
            world.life.crash_at = None
        if world.crashed.is_set():
            await world.restart()
        self.log.append(f"{world.clock.monotonic():8.2f} quiet")
        await world.check(PATIENCE_SECONDS)

    alive = True

    # -- tenant

    def pod(self) -> str:
        name, gpus = self.rng.choice(_NAMES), self.rng.choice((0, 0, 1, 2, 3))
        refers, token = self.rng.random() < 0.5, self.rng.random() < 0.3
        claim = self._disks.choice(("", "", *_CLAIMS))
        more: dict[str, Any] = {}
        if self._ledger is not None:
            priority, of = self._ledger.choice((0, 0, 1, 7)), self._ledger.choice((None, None, "g", "h"))
            more = {"priority": priority, "gang": (of, 2) if of else None, "gate": self._holds.choice(_GATES)}
        self.world.tenant.pod(name, gpus=gpus, refers=refers, token=token, claim=claim, **more)
        return f"pod {name} gpus={gpus} refers={refers} token={token} claim={claim} {more or ''}"

    def delete_pod(self) -> str:
        name, grace = self.rng.choice(_NAMES), self.rng.choice((None, 0, 5))
        self.world.tenant.delete(PODS, name, grace)
        return f"delete pod {name} grace={grace}"

    def label(self) -> str:
        name, value = self.rng.choice(_NAMES), self.rng.choice("xyz")
        self.world.tenant.label(name, value)
        return f"label {name} {value}"

    def data(self) -> str:
        what, value = self.rng.choice(("config", "secret")), str(self.rng.randrange(9))
        getattr(self.world.tenant, what)(value)
        return f"{what} {value}"

    def service(self) -> str:
        port = self.rng.randrange(80, 84)
        self.world.tenant.service(port)
        return f"service {port}"

    def delete(self) -> str:
        r, name = self.rng.choice(((CONFIG_MAPS, "config"), (SECRETS, "secret"), (SERVICES, "web")))
        self.world.tenant.delete(r, name)
        return f"delete {r} {name}"

    # -- host

    def host_deletes(self) -> str:
        pods = self.world.on_host.pods()
        if not pods:
            return "host has no pod"
        pod, grace = self.rng.choice(pods), self.rng.choice((None, 0))
        self.world.on_host.delete(pod, grace)
        return f"host deletes {pod['metadata']['name']} grace={grace}"

    def pod_ends(self) -> str:
        pods = self.world.on_host.pods()
        if not pods:
            return "host has no pod"
        pod = self.rng.choice(pods)
        self.world.on_host.finish(pod, self.rng.choice(("Succeeded", "Failed")))
        return f"ends {pod['metadata']['name']}"

    def node(self) -> str:
        name, there = self.rng.choice(("node-a", "node-b")), self.rng.random() < 0.6
        (self.world.on_host.add_node if there else self.world.on_host.remove_node)(name)
        return f"node {name} {'added' if there else 'removed'}"

    def cordon(self) -> str:
        name, wish = self._aside.choice(("node-a", "node-b")), self._aside.random() < 0.5
        self.world.tenant.cordon(name, wish)
        return f"tenant {'cordons' if wish else 'uncordons'} {name}"

    def label_space(self) -> str:
        self.world.tenant.label_space(value := self._aside.choice("xyz"))
        return f"label namespace {value}"

    def claim(self) -> str:
        name, wish = self._disks.choice(_CLAIMS), self._disks.random() < 0.6
        if wish:
            self.world.tenant.claim(name)
        else:
            self.world.tenant.delete(PERSISTENT_VOLUME_CLAIMS, name)
        return f"{'claim' if wish else 'delete claim'} {name}"

    def space(self) -> str:
        """The namespace goes now and then, and comes again before long."""
        tenant = self.world.tenant
        there = self.world.plane.get(NAMESPACES, tenant.space)
        if there is None:
            tenant.make_space()
            return "make namespace"
        if self._ends.random() < 0.15:
            tenant.delete_space()
            return "delete namespace"
        return "namespace stays"

    def taint(self) -> str:
        name, wish = self._taints.choice(("node-a", "node-b")), self._taints.random() < 0.5
        self.world.tenant.taint(name, wish)
        return f"tenant {'taints' if wish else 'untaints'} {name}"

    def policy(self) -> str:
        draws = self._policies
        name, app = draws.choice(("deny", "allow")), draws.choice(("", *_NAMES))
        types = draws.choice((["Ingress"], ["Egress"], ["Ingress", "Egress"]))
        if draws.random() < 0.4:
            self.world.tenant.delete(NETWORK_POLICIES, name)
            return f"delete policy {name}"
        self.world.tenant.policy(name, app, types)
        return f"policy {name} for {app or 'all'} of {types}"

    def resize(self) -> str:
        if self._sizes.random() < 0.25:
            name, container = self._sizes.choice(_NAMES), self._sizes.choice(("debug", "shell"))
            self.world.tenant.debug(name, container)
            return f"debug {name} with {container}"
        name, cpu = self._sizes.choice(_NAMES), self._sizes.choice(("100m", "150m", "200m"))
        self.world.tenant.resize(name, cpu)
        return f"resize {name} {cpu}"

    def lift(self) -> str:
        """The tenant holds a pod back no longer."""
        self.world.tenant.lift_gates(name := self._holds.choice(_NAMES))
        return f"lift gates of {name}"

    def bind(self) -> str:
        """The tenant binds a pod itself, or says of one that it is scheduled, or not."""
        draws, name = self._binds, self._binds.choice(_NAMES)
        if draws.random() < 0.3:
            self.world.tenant.claims_placed(name, status := draws.choice(("True", "False")))
            return f"tenant says PodScheduled={status} of {name}"
        self.world.tenant.bind(name, node := draws.choice(("node-a", "node-b")))
        return f"tenant binds {name} to {node}"

    def ledger(self) -> str:
        """The ledger takes back, is slow, or has more or less to give."""
        draws, ledger = self._ledger or self.rng, self.world.on_host.ledger
        pods = [each for each in self.world.on_host.pods() if ADMITTED in each["metadata"].get("annotations", {})]
        if pods and draws.random() < 0.4:
            ledger.take_back(pod := draws.choice(pods))
            return f"ledger takes back {pod['metadata']['name']}"
        ledger.gpus, ledger.idle = draws.choice((1, 2, 4)), draws.random() < 0.3
        return f"ledger has {ledger.gpus}, idle={ledger.idle}"

    def outside_hand(self) -> str:
        """A client that has no right to do so deletes a copy on the host."""
        r = self.rng.choice((CONFIG_MAPS, SECRETS, SERVICES))
        copies = self.world.host.store.all(r, WORK)
        if not copies:
            return "nothing to take away"
        name = self.rng.choice(copies)["metadata"]["name"]
        self.world.host.do("DELETE", r, {}, namespace=WORK, name=name, user="somebody")
        return f"somebody deletes {r} {name}"

    # -- faults

    def _side(self) -> tuple[str, Api, Faults]:
        world = self.world
        return self.rng.choice((("host", world.host, world.host_faults), ("plane", world.plane, world.plane_faults)))

    def call_fails(self) -> str:
        (side, _, faults), fault = self._side(), self.rng.choice(list(CallFault))
        after, writes = self.rng.randrange(6), self.rng.random() < 0.7
        faults.arm(fault, after, writes=writes)
        return f"{side}: call {fault.value} after {after} writes={writes}"

    def watch_fails(self) -> str:
        (side, _, faults), fault = self._side(), self.rng.choice(HONEST)
        faults.arm(fault, after := self.rng.randrange(6))
        self.world.oracle.stale |= fault is WatchFault.REPLAY and side == "plane"
        return f"{side}: watch {fault.value} after {after}"

    def lag(self) -> str:
        (side, _, faults), kind = self._side(), self.rng.choice(_KINDS)
        faults.lag[kind] = self.rng.choice((0.1, 1.0, 5.0, 20.0))
        if kind == "nodes" and self._disks.random() < 0.5:
            faults.lag["persistentvolumeclaims"] = faults.lag[kind]
        return f"{side}: {kind} lag {faults.lag[kind]}"

    def away(self) -> str:
        side, api, faults = self._side()
        faults.away = not faults.away
        self.world.cut(api)
        return f"{side}: away={faults.away}"

    def compaction(self) -> str:
        side, api, _ = self._side()
        api.store.compact()
        return f"{side}: compaction"

    def cut(self) -> str:
        side, api, _ = self._side()
        self.world.cut(api)
        return f"{side}: watches break"

    def clock(self) -> str:
        self.world.clock.skew = self.rng.choice((-3600.0, -60.0, 0.0, 3600.0))
        return f"clock {self.world.clock.skew}"

    def crash(self) -> str:
        self.alive = False
        return "crash"

    def crash_soon(self) -> str:
        at = (len(self.world.trace) + self.rng.randrange(1, 12), self.rng.choice(("before", "after")))
        if self.world.life is not None and not self.world.crashed.is_set():
            self.world.life.crash_at = at
        return f"crash {at[1]} call {at[0]}"

    def calm(self) -> str:
        self.world.quiet()
        return "calm"


async def rage(seed: int, steps: int = STEPS, *, gated: bool = False, binds: bool = False) -> Storm:
    """One storm from its seed. `gated`: the ledger gives the tenant's GPUs; `binds`: the tenant binds some pods itself."""
    async with World.open(seed, **(SETTINGS if gated else {})) as world:
        storm = Storm(world, seed, gated=gated, binds=binds)
        try:
            await storm.run(steps)
        except AssertionError as error:
            kind = f"{'gated ' if gated else ''}{'binding ' if binds else ''}storm"
            error.add_note(f"{kind} {seed}:\n" + "\n".join(storm.log[-60:]))
            raise
        return storm


if __name__ == "__main__":
    for number in sys.argv[1:]:
        print("\n".join(virtualtime.run(partial(rage, int(number))).log))  # noqa: T201
