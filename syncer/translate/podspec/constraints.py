"""How much a pod may say about where it may run: affinity, spreading, node selector and tolerations together. Pure.

Each requirement is read by the host's scheduler for each node and kept by the ledger, which costs all tenants. Lists bound each
part, and their product was 5,406 requirements in 220 kB. So terms, expressions and values are counted together: of the pod as
its tenant wrote it, before it grows by their namespaces and nodes, and of the host pod. The host's admission policy counts the
same.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from bulkhead.api.untrusted import mapping, mappings, sequence
from syncer.translate.reasons import Reason, Untranslatable

# A thousand nodes by name, each in a term of its own: what a tenant's own marks on nodes may come to (`placement`).
MOST: Final = 3072
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def check(spec: Mapping[str, Any], *, on_host: bool) -> None:
    """Refuse a pod that says too much."""
    count = counted(spec)
    if count > MOST:
        where = ", with the namespaces and nodes of this cluster that it chooses," if on_host else ""
        raise Untranslatable(
            Reason.TOO_LARGE,
            f"affinity, spreading, node selector and tolerations{where} have {count} terms, expressions and values, "
            f"and {MOST} together are the most; name fewer",
            "spec.affinity",
        )


def counted(spec: Mapping[str, Any]) -> int:
    """Terms, expressions and values of a pod's spec, the virtual one's or the host's."""
    affinity = mapping(spec.get("affinity"))
    count = len(mapping(spec.get("nodeSelector"))) + len(sequence(spec.get("tolerations")))
    nodes = mapping(affinity.get("nodeAffinity"))
    count += sum(map(_node_term, mappings(mapping(nodes.get(_REQUIRED)).get("nodeSelectorTerms"))))
    count += sum(_node_term(mapping(each.get("preference"))) for each in mappings(nodes.get(_PREFERRED)))
    for part in ("podAffinity", "podAntiAffinity"):
        pods = mapping(affinity.get(part))
        count += sum(map(_pod_term, mappings(pods.get(_REQUIRED))))
        count += sum(_pod_term(mapping(each.get("podAffinityTerm"))) for each in mappings(pods.get(_PREFERRED)))
    return count + sum(map(_pod_term, mappings(spec.get("topologySpreadConstraints"))))


def _node_term(term: Mapping[str, Any]) -> int:
    return 1 + _expressions(mappings(term.get("matchExpressions"))) + _expressions(mappings(term.get("matchFields")))


def _pod_term(term: Mapping[str, Any]) -> int:
    lists = ("namespaces", "matchLabelKeys", "mismatchLabelKeys")
    selectors = (mapping(term.get(field)) for field in ("labelSelector", "namespaceSelector"))
    return 1 + sum(len(sequence(term.get(field))) for field in lists) + sum(map(_selector, selectors))


def _selector(selector: Mapping[str, Any]) -> int:
    return len(mapping(selector.get("matchLabels"))) + _expressions(mappings(selector.get("matchExpressions")))


def _expressions(listed: Iterable[Mapping[str, Any]]) -> int:
    return sum(1 + len(sequence(each.get("values"))) for each in listed)
