"""A tenant, a host, faults and crashes in every order that Hypothesis can think of; small counterexamples when it finds one.

Safety is asked after every step: the oracle sees each commit of the syncer. At the end the faults stop, and both sides have to
agree and then to be still.
"""

import asyncio
import contextlib
import gc
import os
from typing import Any

import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test

from bulkhead.kube.resources import CONFIG_MAPS, NETWORK_POLICIES, PODS, SECRETS, SERVICES
from bulkhead.kube.resources import PERSISTENT_VOLUME_CLAIMS as CLAIM
from tests.simulation.faults import CallFault, WatchFault
from tests.simulation.virtualtime import VirtualLoop
from tests.simulation.world import PATIENCE_SECONDS, World

NAMES = st.sampled_from(["a", "b", "c"])
SIDES = st.sampled_from(["host", "plane"])
KINDS = st.sampled_from(["pods", "configmaps", "secrets", "services", "nodes", "namespaces", "persistentvolumeclaims"])
CLAIMS = st.sampled_from(["", "", "data", "logs"])
NAMED = [(CONFIG_MAPS, "config"), (SECRETS, "secret"), (SERVICES, "web"), (CLAIM, "data"), (NETWORK_POLICIES, "deny")]
SMALL = st.integers(0, 6)


class SyncerMachine(RuleBasedStateMachine):
    """Rules that change the tenant, the host and the faults around one simulated syncer."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner(loop_factory=VirtualLoop)
        self.stack = contextlib.AsyncExitStack()
        self.lied = False

    def do(self, main: Any) -> Any:
        async def whole() -> Any:
            return await main

        return self.runner.run(whole())

    def faults(self, side: str) -> Any:
        return self.world.host_faults if side == "host" else self.world.plane_faults

    @initialize(number=st.integers(0, 1 << 16))
    def begin(self, number: int) -> None:
        self.world = self.do(self.stack.enter_async_context(World.open(number)))

    # -- the tenant

    @rule(name=NAMES, gpus=st.sampled_from([0, 0, 1, 3]), refers=st.booleans(), token=st.booleans(), claim=CLAIMS)
    def pod(self, name: str, gpus: int, refers: bool, token: bool, claim: str) -> None:
        self.tenant(self.world.tenant.pod, name, gpus=gpus, refers=refers, token=token, claim=claim)

    @rule(name=st.sampled_from(["data", "logs"]))
    def claim(self, name: str) -> None:
        self.tenant(self.world.tenant.claim, name)

    @rule(name=NAMES, grace=st.sampled_from([None, 0, 5]))
    def delete_pod(self, name: str, grace: int | None) -> None:
        self.tenant(self.world.tenant.delete, PODS, name, grace)

    @rule(name=NAMES, value=st.sampled_from(["x", "y"]))
    def label(self, name: str, value: str) -> None:
        self.tenant(self.world.tenant.label, name, value)

    @rule(name=NAMES, cpu=st.sampled_from(["100m", "200m"]))
    def resize(self, name: str, cpu: str) -> None:
        self.tenant(self.world.tenant.resize, name, cpu)

    @rule(name=NAMES, container=st.sampled_from(["debug", "shell"]))
    def debug(self, name: str, container: str) -> None:
        self.tenant(self.world.tenant.debug, name, container)

    @rule(name=st.sampled_from(["node-a", "node-b"]), wish=st.booleans(), taint=st.booleans())
    def mark(self, name: str, wish: bool, taint: bool) -> None:
        self.tenant(self.world.tenant.taint if taint else self.world.tenant.cordon, name, wish)

    @rule(value=st.sampled_from(["x", "y"]))
    def label_space(self, value: str) -> None:
        self.tenant(self.world.tenant.label_space, value)

    @rule(what=st.sampled_from(["config", "secret"]), value=st.sampled_from(["1", "2"]))
    def data(self, what: str, value: str) -> None:
        self.tenant(getattr(self.world.tenant, what), value)

    @rule(port=st.sampled_from([80, 81]))
    def service(self, port: int) -> None:
        self.tenant(self.world.tenant.service, port)

    @rule(
        what=st.sampled_from(
            [(CONFIG_MAPS, "config"), (SECRETS, "secret"), (SERVICES, "web"), (CLAIM, "data"), (CLAIM, "logs")]
        )
    )
    def delete(self, what: Any) -> None:
        self.tenant(self.world.tenant.delete, *what)

    def tenant(self, call: Any, *args: Any, **more: Any) -> None:
        """Something that the plane may refuse."""

        async def whole() -> None:
            from tests.simulation.api import Refused

            with contextlib.suppress(Refused):
                call(*args, **more)

        self.do(whole())

    # -- the host

    @rule(at=SMALL, grace=st.sampled_from([None, 0]))
    def host_deletes(self, at: int, grace: int | None) -> None:
        self.on_a_pod(at, lambda pod: self.world.on_host.delete(pod, grace))

    @rule(at=SMALL, phase=st.sampled_from(["Succeeded", "Failed"]))
    def pod_ends(self, at: int, phase: str) -> None:
        self.on_a_pod(at, lambda pod: self.world.on_host.finish(pod, phase))

    def on_a_pod(self, at: int, call: Any) -> None:
        async def whole() -> None:
            pods = self.world.on_host.pods()
            if pods:
                call(pods[at % len(pods)])

        self.do(whole())

    @rule(name=st.sampled_from(["node-a", "node-b"]), there=st.booleans())
    def node(self, name: str, there: bool) -> None:
        host = self.world.on_host
        self.tenant(host.add_node if there else host.remove_node, name)

    @rule(frozen=st.booleans())
    def kubelet(self, frozen: bool) -> None:
        self.world.on_host.frozen = {"node-a"} if frozen else set()

    # -- faults

    @rule(side=SIDES, fault=st.sampled_from(CallFault), after=SMALL, writes=st.booleans())
    def call_fails(self, side: str, fault: CallFault, after: int, writes: bool) -> None:
        self.faults(side).arm(fault, after, writes=writes)

    @rule(side=SIDES, fault=st.sampled_from(WatchFault), after=SMALL)
    def watch_fails(self, side: str, fault: WatchFault, after: int) -> None:
        self.lied |= fault is WatchFault.DROP
        self.world.oracle.stale |= fault is WatchFault.REPLAY and side == "plane"
        self.faults(side).arm(fault, after)

    @rule(side=SIDES, kind=KINDS, seconds=st.sampled_from([0.5, 5.0, 20.0]))
    def watch_lags(self, side: str, kind: str, seconds: float) -> None:
        self.faults(side).lag[kind] = seconds

    @rule(side=SIDES, away=st.booleans())
    def server_away(self, side: str, away: bool) -> None:
        self.faults(side).away = away
        api = self.world.host if side == "host" else self.world.plane
        self.do(self.cut(api))

    @rule(side=SIDES, behind=st.sampled_from([0, 3, 20]))
    def lists_are_stale(self, side: str, behind: int) -> None:
        self.world.oracle.stale |= behind > 0
        self.faults(side).stale = behind

    @rule(side=SIDES)
    def compaction(self, side: str) -> None:
        (self.world.host if side == "host" else self.world.plane).store.compact()

    @rule(side=SIDES)
    def watches_break(self, side: str) -> None:
        self.do(self.cut(self.world.host if side == "host" else self.world.plane))

    async def cut(self, api: Any) -> None:
        self.world.cut(api)

    @rule(seconds=st.sampled_from([-3600.0, -600.0, 0.0, 600.0, 3600.0]))
    def clock_jumps(self, seconds: float) -> None:
        self.world.clock.skew = seconds

    @rule()
    def crash(self) -> None:
        self.do(self.world.restart())

    @rule(calls=st.integers(1, 12), when=st.sampled_from(["before", "after"]))
    @precondition(lambda self: not self.world.crashed.is_set())
    def crash_soon(self, calls: int, when: str) -> None:
        self.world.life.crash_at = (len(self.world.trace) + calls, when)

    # -- time

    @rule(seconds=st.sampled_from([0.01, 0.1, 1.0, 3.0, 10.0, 40.0]), act=st.booleans())
    def time_passes(self, seconds: float, act: bool) -> None:
        self.do(self.world.wait(seconds, act=act))
        if self.world.crashed.is_set():
            self.do(self.world.restart())

    @invariant()
    def nothing_forbidden_happened(self) -> None:
        if hasattr(self, "world"):
            self.world.oracle.raise_violations()

    def teardown(self) -> None:
        try:
            if hasattr(self, "world"):
                self.do(self.end())
        finally:
            with contextlib.suppress(Exception):
                self.do(self.stack.aclose())
            self.runner.close()

    async def end(self) -> None:
        world = self.world
        world.quiet()
        world.on_host.frozen = set()
        if world.life is not None:
            world.life.crash_at = None
        if world.crashed.is_set():
            await world.restart()
        if self.lied:
            world.relist()
        await world.check(PATIENCE_SECONDS)


def run(examples: int, steps: int, number: int) -> None:
    # Hypothesis parses this file's source; a collection that finalizes what earlier tests left, in the middle of it, breaks the
    # parser of some Python 3.11 (python/cpython#106905). So it is collected before.
    gc.collect()
    run_state_machine_as_test(
        seed(number)(SyncerMachine),
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_a_sample_of_histories() -> None:
    run(25, 25, 1)


@pytest.mark.simulation
@pytest.mark.timeout(1800)
def test_many_histories() -> None:
    """SIMULATION_EXAMPLES histories that follow from SIMULATION_SEED."""
    run(int(os.environ.get("SIMULATION_EXAMPLES", "400")), 50, int(os.environ.get("SIMULATION_SEED", "1000")))
