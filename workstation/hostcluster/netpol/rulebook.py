"""The rules of all pods of a node, updated in slices. Pure state, no I/O.

    the present cluster ──> namespaces whose rules would change ──> a few steps of each in turn ──> their rules replaced

While a namespace is being compiled, those of its pods that still exist keep its previous rules. A pod without rules is unknown,
and so blocked. What a tenant writes while its namespace is being compiled is compiled afterwards: a tenant that keeps writing
delays neither others nor itself.
"""

from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Any

from workstation.hostcluster.netpol.cluster import Cluster, Pod
from workstation.hostcluster.netpol.compiler import PodRules, Sources, compile_namespace, policies_by_namespace
from workstation.hostcluster.netpol.index import ClusterIndex


@dataclass(frozen=True, slots=True)
class _Done:
    """A namespace's rules and their inputs."""

    sources: Sources
    rules: Mapping[tuple[str, IPv4Address], PodRules]


@dataclass(frozen=True, slots=True)
class _Running:
    """A namespace that is being compiled."""

    sources: Sources
    pods: tuple[Pod, ...]
    steps: Generator[None, None, tuple[PodRules, ...]]


class Rulebook:
    """The packet rules of one node's pods: compiles namespaces step by step, and returns the rules that hold meanwhile."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._index = ClusterIndex((), {})
        self._policies: dict[str, tuple[Mapping[str, Any], ...]] = {}
        self._done: dict[str, _Done] = {}
        self._running: dict[str, _Running] = {}

    @property
    def busy(self) -> bool:
        """Whether any namespace is being compiled."""
        return bool(self._running)

    def update(self, cluster: Cluster) -> None:
        """Set the present cluster; namespaces whose rules are still valid are not compiled again."""
        self._index = ClusterIndex(cluster.pods, cluster.namespaces, self._index)
        self._policies = policies_by_namespace(cluster)
        here = self._index.spaces
        self._done = {name: rules for name, rules in self._done.items() if name in here}
        self._running = {name: run for name, run in self._running.items() if name in here}
        for name in here:
            self._check(name)

    def work(self, steps: int) -> bool:
        """Run so many steps of each namespace that is being compiled; returns whether one was finished."""
        finished = [name for name, running in list(self._running.items()) if self._advance(name, running, steps)]
        for name in finished:
            self._check(name)
        return bool(finished)

    def rules(self) -> tuple[PodRules, ...]:
        """The rules of every pod that has some, in the order of their addresses."""
        return tuple(sorted(self._standing(), key=lambda rules: rules.address))

    def _standing(self) -> Iterator[PodRules]:
        for name, done in self._done.items():
            for pod in self._index.space(name).pods:
                rules = done.rules.get((pod.name, pod.address))
                if rules is not None:
                    yield rules

    def _check(self, name: str) -> None:
        policies = self._policies.get(name, ())
        done = self._done.get(name)
        if name in self._running or (done is not None and done.sources.hold(self._index, policies)):
            return
        sources = Sources(policies)
        pods = tuple(pod for pod in self._index.space(name).pods if pod.node == self._node)
        self._running[name] = _Running(sources, pods, compile_namespace(self._index, name, sources, self._node))

    def _advance(self, name: str, running: _Running, steps: int) -> bool:
        try:
            for _ in range(steps):
                next(running.steps)
        except StopIteration as stop:
            made: tuple[PodRules, ...] = stop.value
            found = {(pod.name, pod.address): rules for pod, rules in zip(running.pods, made, strict=True)}
            self._done[name] = _Done(running.sources, found)
            del self._running[name]
            return True
        return False
