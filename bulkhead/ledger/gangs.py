"""Puts the pods of a gang together: which held pods are one gang, and which waiting pods belong to it.

    held pods of one name ──> by the admission time in their annotation ──> groups: gangs, and single pods
    a group, waiting pods ──> those of a shape that the group lacks ──> its rest; all others queue by themselves

A gang is fixed when it is admitted. Its tenant may delete pods and create others with the same names. A pod that requests more,
or has other needs, does not count as a returning member and queues like any other pod. For the same reason Kueue decides about
Workloads, whose podSets cannot be changed. Pure.
"""

import functools
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from bulkhead.ledger.model import Admission, AdmittedGang, Expression, Needs, Pod, Topology


@dataclass(frozen=True, slots=True)
class Generation:
    """Pods of one gang that were admitted together, or later as returning members."""

    pods: tuple[Pod, ...]
    # None if an older ledger admitted them, which recorded nothing.
    gang: AdmittedGang | None

    @property
    def since(self) -> float | None:
        """When the gang was admitted, which distinguishes it from other gangs of its name; None if not recorded."""
        return None if self.gang is None else self.gang.since

    @property
    def staying(self) -> tuple[Pod, ...]:
        """The pods that are not on their way out."""
        return tuple(pod for pod in self.pods if is_staying(pod))


@dataclass(frozen=True, slots=True)
class Fixed:
    """The rules for the pods that a gang lacks."""

    size: int
    topology: Topology | None
    flavor: str
    # As recorded at admission; None if nothing was recorded.
    gang: AdmittedGang | None

    @property
    def since(self) -> float | None:
        """When the gang was admitted, which distinguishes it from other gangs of its name; None if not recorded."""
        return None if self.gang is None else self.gang.since

    @property
    def borrowed(self) -> tuple[tuple[str, int], ...]:
        """How much more than nominal its tenant held once it was admitted, by resource."""
        return () if self.gang is None else self.gang.borrowed


def is_staying(pod: Pod) -> bool:
    """Whether a pod is neither ending nor being reclaimed."""
    return not pod.ending and pod.reclaim_by is None


def generations(held: Iterable[Pod]) -> list[Generation]:
    """The gangs of one name, the oldest first; without pods that were admitted by themselves."""
    found: dict[float | None, list[Pod]] = {}
    gangs: dict[float | None, AdmittedGang | None] = {}
    for pod in held:
        if not pod.alone:
            since = None if pod.admitted_gang is None else pod.admitted_gang.since
            found.setdefault(since, []).append(pod)
            gangs[since] = pod.admitted_gang
    return [Generation(tuple(found[since]), gangs[since]) for since in sorted(found, key=lambda since: since or 0.0)]


def lacking(generation: Generation, waiting: Sequence[Pod], size: int) -> Iterator[Pod]:
    """The waiting pods that the gang lacks, in their order; `size`, as its pods state it, counts if nothing was recorded."""
    staying = generation.staying
    if generation.gang is not None:
        missing = Counter(dict(generation.gang.members))
        missing.subtract(pod.shape for pod in staying)
        for pod in waiting:
            shape = shape_of(pod)
            if missing[shape] > 0:
                missing[shape] -= 1
                yield pod
        return
    # An older ledger recorded no members: a returning pod must look like one that is still there.
    known, left = {shape_of(pod) for pod in staying}, size - len(staying)
    for pod in waiting:
        if left > 0 and shape_of(pod) in known:
            left -= 1
            yield pod


def fixed(generation: Generation, size: int, topology: Topology | None) -> Fixed:
    """The rules for the gang's later pods; `size` and `topology`, as its pods state them, count if nothing was recorded."""
    flavor = next((pod.flavor for pod in generation.staying if pod.flavor), "")
    gang = generation.gang
    if gang is None:
        return Fixed(size, topology, flavor, None)
    return Fixed(gang.size, gang.topology, flavor, gang)


def members(pods: Iterable[Pod]) -> tuple[tuple[str, int], ...]:
    """How many pods there are of each shape."""
    return tuple(sorted(Counter(map(shape_of, pods)).items()))


def as_admitted(admission: Admission) -> Pod:
    """The pod after its admission, with the record of its gang; `alone` if it names a gang and is admitted by itself."""
    pod, gang = admission.pod, admission.gang
    shape = "" if gang is None else shape_of(pod)
    return replace(pod, admitted_gang=gang, shape=shape, alone=gang is None and pod.gang is not None)


def shape_of(pod: Pod) -> str:
    """A digest of what a pod requests and where it may go. No tenant can construct two different pods with the same digest."""
    return _digest(tuple(sorted(pod.asks.items())), pod.needs)


@functools.lru_cache(maxsize=4096)
def _digest(asks: tuple[tuple[str, int], ...], needs: Needs) -> str:
    terms = [
        [[expression.key, expression.operator, expression.values, expression.of_name] for expression in term]
        for term in _lasting(needs.terms)
    ]
    tolerations = [[toleration.key, toleration.value, toleration.effect, toleration.exists] for toleration in needs.tolerations]
    written = json.dumps([asks, needs.selector, terms, tolerations], separators=(",", ":"))
    return hashlib.sha256(written.encode()).hexdigest()[:32]


def _lasting(terms: tuple[tuple[Expression, ...], ...]) -> list[list[Expression]]:
    """The terms without the nodes that a pod avoids: those are the ones that its tenant had cordoned when it was created."""
    left = [
        ([expression for expression in term if not (expression.of_name and expression.operator == "NotIn")], bool(term))
        for term in terms
    ]
    # A term that had only such expressions now matches every node. A term that was empty from the start matches none.
    return [] if any(had_some and not kept for kept, had_some in left) else [kept for kept, _ in left]
