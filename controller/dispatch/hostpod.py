"""A host pod as the ledger keeps it: what decisions are made from, and what only its writes need. Pure."""

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
    """A host pod that has not ended, and what of it only the ledger's writes need."""

    pod: Pod
    version: str
    # When it was first seen, on the monotonic clock.
    since: float
    # The verdict as it stands there, and the note that it is taken back.
    verdict: str = ""
    reclaim: Reclaimed | None = None
    # It bears the condition of a pod that is about to be taken from its node.
    disrupted: bool = False
    grace: int = read.DEFAULT_GRACE_SECONDS

    def same(self, other: "Seen | None") -> bool:
        """Whether both are the same to every decision and every write."""
        return other is not None and replace(self, version="", since=0.0) == replace(other, version="", since=0.0)


def decoded(obj: Mapping[str, Any], since: float, before: Seen | None = None) -> Seen | None:
    """A host pod, and nothing of one that has ended; `before` is what it was when it was seen last."""
    # Once its gates are gone, no API server lets it ask for other nodes.
    fixed = before is not None and before.pod.stage not in GATED
    pod = read.pod_of(obj, before.pod.needs if before is not None and fixed else None)
    if pod is None:
        return None
    pod = replace(
        pod,
        # Of ten thousand pods most ask for the same, on the same nodes, in few namespaces.
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
