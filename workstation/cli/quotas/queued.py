"""The workloads that wait, as commands print them. Pure; `bulkhead.ledger.waiting` has their order."""

from collections.abc import Iterable, Mapping
from typing import Any

from bulkhead.api.ledger import moment
from bulkhead.ledger.model import Pod
from bulkhead.ledger.waiting import Waiting as Waiting  # noqa: PLC0414 -- what commands print, with how they print it
from bulkhead.ledger.waiting import waiting as waiting  # noqa: PLC0414
from workstation.cli.quotas.summary import number


def devices(asks: Mapping[str, int]) -> str:
    """The requested amounts as text; only devices if there are any."""
    named = {name: amount for name, amount in asks.items() if "/" in name} or asks
    return ", ".join(f"{number(('', name), amount)} {name}" for name, amount in named.items()) or "nothing"


def as_json(each: Waiting) -> dict[str, Any]:
    """A workload that waits, in base units."""
    pod, starts = each.first, each.verdict.starts_by
    return {
        "place": each.place,
        "tenant": pod.tenant,
        "namespace": pod.virtual_namespace,
        "gang": pod.gang.name if pod.gang else "",
        "pods": names(each.pods),
        "asks": each.asks,
        "priority": min(member.priority for member in each.pods),
        "since": moment(each.since),
        "reason": str(each.verdict.why),
        "message": each.verdict.message,
        "startsBy": None if starts is None else moment(starts),
    }


def names(pods: Iterable[Pod]) -> list[str]:
    """The tenant's names of the pods."""
    return [pod.virtual_name or pod.name for pod in pods]
