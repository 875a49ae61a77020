"""Anything in any order: pods and gangs come and end, quotas change, nodes go, the shell dies after any write."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from bulkhead.ledger.books import OVERDUE_SECONDS
from bulkhead.ledger.model import Flavor, Gang, Pod, Rules, Share, Stage, Tenant, Topology
from tests.ledger import oracle
from tests.ledger.world import COHORT, GPU, KIND, RACK, World, nodes

TENANTS = ("ada", "bob", "cyd")
NOMINAL = st.sampled_from((0, 2, 4, 8, 16))
BORROWING = st.sampled_from((None, None, None, 0, 4))
LENDING = st.sampled_from((None, None, None, 0, 2))
GPUS = st.sampled_from((1, 1, 2, 4, 8))
PICK = st.integers(0, 30)
# What a reclaim may take beyond its deadline, and what the rounds of `World.settle` add, in seconds.
LATE = 90.0
_Thing = TypeVar("_Thing")


def _one(things: Sequence[_Thing], pick: int) -> Sequence[_Thing]:
    """One of some things, or none of none."""
    return things and [things[pick % len(things)]]


class Machine(RuleBasedStateMachine):
    """The ledger's rules under random events; after every write the oracle checks that nothing is given twice."""

    @initialize(
        count=st.integers(1, 4),
        nominal=st.tuples(NOMINAL, NOMINAL, NOMINAL),
        flavored=st.sampled_from((False, False, True)),
        fair=st.booleans(),
        over=st.sampled_from(("Keep", "Reclaim")),
        weights=st.sampled_from(((1, 1, 1), (1, 3, 1))),
        moves=st.sampled_from((0, 1, 4)),
        pieces=st.sampled_from((0, 0, 2, 4)),
    )
    def begin(  # noqa: PLR0917
        self,
        count: int,
        nominal: tuple[int, ...],
        flavored: bool,
        fair: bool,
        over: str,
        weights: tuple[int, ...],
        moves: int,
        pieces: int,
    ) -> None:
        kinds = ("h100", "a100") if flavored else ()
        self.world = World(nodes=nodes(count, kinds=kinds), after_write=oracle.after_write)
        self.world.before_writes = oracle.before_writes
        self.nodes = dict(self.world.nodes)
        flavors = tuple(Flavor(kind, GPU, {KIND: kind}) for kind in kinds)
        self.world.rules = Rules(fair_preemption=fair, over_quota=over, flavors=flavors, max_moves=moves)  # type: ignore[arg-type]
        lines = [(kind, GPU) for kind in kinds] or [("", GPU)]
        for name, amount, weight in zip(TENANTS, nominal, weights, strict=True):
            shares = {line: Share(amount, None) for line in lines}
            self.world.tenants[name] = Tenant(name, COHORT, weight, shares, {GPU: kinds} if kinds else {})
        if pieces:
            self._break(pieces)

    def _break(self, pieces: int) -> None:
        """What is free lies in pieces: on each node something runs for long already."""
        for number, node in enumerate(sorted(self.world.nodes)):
            runs = {"stage": Stage.BOUND, "node": node, "created": 0.0, "admitted": 0.0, "maker": f"p{number}"}
            self.world.add(TENANTS[number % 2], f"p{number}", pieces, **runs)

    @rule(
        name=st.sampled_from(TENANTS),
        gpus=GPUS,
        priority=st.sampled_from((0, 0, 0, 10)),
        lasts=st.sampled_from((None, None, 30.0, 600.0)),
        plain=st.sampled_from((True, True, True, False)),
        maker=st.sampled_from(("a job", "another", "a job", "")),
    )
    def single(  # noqa: PLR0917
        self, name: str, gpus: int, priority: int, lasts: float | None, plain: bool, maker: str
    ) -> None:
        self.world.create(name, gpus, priority=priority, own_priority=priority, lasts=lasts, plain=plain, maker=maker)

    @rule(
        name=st.sampled_from(TENANTS),
        gpus=GPUS,
        pods=st.integers(2, 4),
        more=st.sampled_from((0, 0, 0, 1, -1)),
        topology=st.sampled_from((None, None, Topology(RACK, required=True), Topology(RACK, required=False))),
        lasts=st.sampled_from((None, 300.0)),
    )
    def gang(  # noqa: PLR0917
        self, name: str, gpus: int, pods: int, more: int, topology: Topology | None, lasts: float | None
    ) -> None:
        self.world.create(name, gpus, pods, max(1, pods + more), topology=topology, lasts=lasts)

    @rule(pick=PICK)
    def complete(self, pick: int) -> None:
        for pod in _one(self.incomplete(), pick):
            self.world.add(pod.tenant, pod.virtual_name, pod.asks[GPU], pod.gang)
            self.world.happens()

    def incomplete(self) -> list[Pod]:
        gangs: dict[Gang, list[Pod]] = {}
        for pod in self.world.pods.values():
            if pod.gang is not None:
                gangs.setdefault(pod.gang, []).append(pod)
        fewer = [pods for gang, pods in gangs.items() if len(pods) < gang.size]
        return [pods[0] for pods in fewer if all(pod.stage is Stage.WAITING for pod in pods)]

    @rule(pick=PICK)
    def end(self, pick: int) -> None:
        for pod in _one(self.heard(), pick):
            self.world.end(pod)
            self.world.restarted.add(pod.virtual_name)

    @rule(gpus=st.sampled_from((4, 8)), name=st.sampled_from(TENANTS), pods=st.sampled_from((1, 1, 2)))
    def break_up(self, gpus: int, name: str, pods: int) -> None:
        """Of each node's pods the smallest is left, so that what is free lies in pieces; then something large comes."""
        for node in self.world.nodes:
            there = sorted((pod for pod in self.heard() if pod.node == node), key=lambda pod: (pod.asks[GPU], pod.uid))
            for pod in there[1:]:
                self.world.end(pod)
                self.world.restarted.add(pod.virtual_name)
        self.world.step(130.0)
        self.world.create(name, gpus, pods)

    @rule(pick=PICK)
    def restart(self, pick: int) -> None:
        """A pod of a gang fails, and its Job makes another one."""
        for pod in _one([each for each in self.heard() if each.gang is not None and not each.ending], pick):
            self.world.end(pod)
            self.world.add(pod.tenant, pod.virtual_name, pod.asks[GPU], pod.gang)
            self.world.restarted.add(pod.virtual_name)

    # A tenant who tries to hold what is another's by pods of gangs that were admitted already.

    def of_gangs(self) -> list[Pod]:
        return [pod for pod in self.heard() if pod.gang is not None and not pod.ending]

    @rule(pick=PICK, gpus=st.sampled_from((0, 1, 8)))
    def make_again_larger(self, pick: int, gpus: int) -> None:
        for pod in _one(self.of_gangs(), pick):
            self.world.end(pod)
            self._joins(pod, gpus, pod.gang)

    @rule(pick=PICK, size=st.sampled_from((1, 3, 64)), topology=st.sampled_from((None, Topology(RACK, required=True))))
    def contradict(self, pick: int, size: int, topology: Topology | None) -> None:
        for pod in _one(self.of_gangs(), pick):
            self._joins(pod, 0, Gang(pod.gang.name, size, topology) if pod.gang else None)

    @rule(pick=PICK, seconds=st.sampled_from((50.0, 119.0)), times=st.integers(1, 4))
    def stay_young(self, pick: int, seconds: float, times: int) -> None:
        for _ in range(times):
            for pod in _one(self.of_gangs(), pick):
                self._joins(pod, 0, pod.gang)
            self.world.apply(self.world.decide())
            self.world.step(seconds)

    def _joins(self, pod: Pod, gpus: int, gang: Gang | None) -> None:
        self.world.add(pod.tenant, pod.virtual_name, gpus, gang)
        self.world.restarted.add(pod.virtual_name)
        self.world.larger.add(pod.virtual_name)
        self.world.happens()

    @rule(pick=PICK)
    def protect(self, pick: int) -> None:
        for pod in _one(self.running(), pick):
            self.world.stubborn.add(pod.uid)

    def running(self) -> list[Pod]:
        return sorted((pod for pod in self.world.pods.values() if pod.stage is Stage.BOUND), key=lambda pod: pod.uid)

    def heard(self) -> list[Pod]:
        """What runs where the kubelet can end it."""
        return [pod for pod in self.running() if pod.node not in self.world.silent]

    @rule(name=st.sampled_from(TENANTS), nominal=NOMINAL, borrowing=BORROWING, lending=LENDING)
    def change_quota(self, name: str, nominal: int, borrowing: int | None, lending: int | None) -> None:
        tenant = self.world.tenants[name]
        shares = {line: Share(nominal, borrowing, lending) for line in tenant.shares}
        self.world.tenants[name] = replace(tenant, shares=shares)
        self.world.happens()

    @rule(pick=PICK)
    def lose_or_mend_a_node(self, pick: int) -> None:
        heard = [node for name, node in sorted(self.world.nodes.items()) if name not in self.world.silent]
        for node in _one(heard, pick):
            self.world.nodes[node.name] = replace(node, usable=not node.usable)
            for pod in [each for each in self.world.pods.values() if each.node == node.name and node.usable]:
                self.world.end(pod)
            self.world.happens()

    # Kubelets that fall silent. Their pods never end, so a lender would wait for ever.

    @rule(pick=PICK, noticed=st.sampled_from((True, True, False)))
    def silence(self, pick: int, noticed: bool) -> None:
        for node in _one(sorted(set(self.world.nodes) - self.world.silent), pick):
            self.world.silence(node, noticed=noticed)

    @rule(owner=st.sampled_from(TENANTS), thief=st.sampled_from(TENANTS), noticed=st.booleans(), asked=st.booleans())
    def lose_what_is_lent(self, owner: str, thief: str, noticed: bool, asked: bool) -> None:
        """A tenant runs on all that another one owns, and a node of it falls silent. Then the owner wants a node.

        Each node that is lost costs the owner one reclaim that brings nothing back, and no more.
        """
        for pod in self.heard():
            self.world.end(pod)
            self.world.restarted.add(pod.virtual_name)
        for name in TENANTS:
            self.change_quota(name, 8 * len(self.world.nodes) if name == owner else 0, None, None)
        for _ in self.world.nodes:
            self.world.create(thief, 8)
        for _ in range(3):
            self.world.apply(self.world.decide())
            self.world.step(50.0)
        self.silence(len(self.world.nodes) - 1, noticed)
        if asked:
            self.ask_the_lost_to_end(0, 30.0)
        wants, asked_at = self.world.create(owner, 8), self.world.now
        self.settle()
        lost, within = len(self.world.silent), self.world.rules.reclaim_within
        most = (lost + 1) * within + lost * OVERDUE_SECONDS + LATE
        took = [pod.admitted - asked_at for pod in self.world.pods.values() if pod.virtual_name == wants and pod.admitted]
        assert all(each <= most for each in took), f"{owner} waited {took} seconds for what is its own, with {lost} nodes lost"

    @rule()
    def notice(self) -> None:
        for node in sorted(self.world.silent):
            self.world.silence(node)

    @rule(pick=PICK)
    def speak_again(self, pick: int) -> None:
        for name in _one(sorted(self.world.silent), pick):
            self.world.speak(self.nodes[name])

    @rule(pick=PICK, grace=st.sampled_from((0.0, 30.0, 900.0)))
    def ask_the_lost_to_end(self, pick: int, grace: float) -> None:
        """The host's taint manager deletes what does not tolerate a lost node; or its tenant does, with a grace of its own."""
        for pod in _one([pod for pod in self.running() if pod.node in self.world.silent and not pod.ending], pick):
            self.world.delete(pod, grace)
            self.world.restarted.add(pod.virtual_name)

    @rule(pick=PICK, collected=st.booleans())
    def delete_a_silent_node(self, pick: int, collected: bool) -> None:
        """Its pods stay until the host collects them; a node of the same name may speak before that."""
        for name in _one(sorted(self.world.silent), pick):
            self.world.nodes.pop(name, None)
            self.world.happens()
            for pod in [each for each in self.running() if each.node == name and collected]:
                self.world.end(pod)
                self.world.restarted.add(pod.virtual_name)

    @rule(seconds=st.sampled_from((1.0, 20.0, 130.0, 200.0)))
    def time_passes(self, seconds: float) -> None:
        self.world.step(seconds)

    @rule(writes=st.sampled_from((None, None, 0, 1, 2, 3, 5)))
    def decide(self, writes: int | None) -> None:
        self.world.apply(self.world.decide(), writes)

    @rule()
    def settle(self) -> None:
        oracle.at_rest(self.world, self.world.settle())

    @invariant()
    def nothing_is_placed_twice(self) -> None:
        if hasattr(self, "world"):
            oracle.placed_once(self.world)

    def teardown(self) -> None:
        if hasattr(self, "world"):
            oracle.at_rest(self.world, self.world.settle())
            for name in sorted(self.world.silent):
                self.world.speak(self.nodes[name])
            oracle.drain(self.world)
