"""Defines a host pod as the ledger keeps it: the fields for decisions, and the fields that only its writes need. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from sys import intern
from types import MappingProxyType
from typing import Any

from bulkhead.api import ledger
from bulkhead.api.ledger import Reclaimed
from bulkhead.api.untrusted import mapping, mappings
from bulkhead.ledger import read
from bulkhead.ledger.model import GATED, Amounts, Pod


@dataclass(frozen=True, slots=True)
class Seen:
    """A host pod that has not ended, with the fields that only the ledger's writes need."""

    pod: Pod
    version: str
    # When it was first seen, on the monotonic clock.
    since: float
    # The present annotations of its verdict and of its reclaim.
    verdict: str = ""
    reclaim: Reclaimed | None = None
    # It has the condition DisruptionTarget.
    disrupted: bool = False
    grace: int = read.DEFAULT_GRACE_SECONDS

    def same(self, other: "Seen | None") -> bool:
        """Whether both are equal for every decision and every write."""
        return other is not None and replace(self, version="", since=0.0) == replace(other, version="", since=0.0)


def decoded(obj: Mapping[str, Any], since: float, before: Seen | None = None) -> Seen | None:
    """A host pod; None if it has ended. `before` is the pod when it was last observed."""
    # Once its gates are gone, the API server allows no change of its node selector and affinity.
    fixed = before is not None and before.pod.stage not in GATED
    pod = read.pod_of(obj, before.pod.needs if before is not None and fixed else None)
    if pod is None:
        return None
    pod = replace(
        pod,
        # Of ten thousand pods most share their requests, nodes and namespaces, so equal texts are kept once.
        asks=_shared(tuple(sorted(pod.asks.items()))),
        namespace=intern(pod.namespace),
        tenant=intern(pod.tenant),
        node=intern(pod.node),
        virtual_namespace=intern(pod.virtual_namespace),
        pinned=intern(pod.pinned),
    )
    meta, spec, status = mapping(obj.get("metadata")), mapping(obj.get("spec")), mapping(obj.get("status"))
    noted = mapping(meta.get("annotations"))
    return Seen(
        pod,
        version=str(meta.get("resourceVersion") or ""),
        since=since,
        verdict=str(noted.get(ledger.VERDICT) or ""),
        reclaim=ledger.read_reclaim(noted),
        disrupted=_disrupted(status),
        grace=read.grace_of(spec),
    )


@lru_cache(maxsize=4096)
def _shared(asks: tuple[tuple[str, int], ...]) -> Amounts:
    return MappingProxyType(dict(asks))


def _disrupted(status: Mapping[str, Any]) -> bool:
    conditions = mappings(status.get("conditions"))
    return any(condition.get("type") == "DisruptionTarget" and condition.get("status") == "True" for condition in conditions)
