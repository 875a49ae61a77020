"""How much a pod says about where it may run: the terms, expressions and values of all that it says, as one number. Pure.

Each requirement is read by the host's scheduler for each node and kept by the ledger, which costs all tenants. Lists bound each
part, and their product was 5,406 requirements in 220 kB. So they are counted together, alike by the syncer, which refuses what
is more, by the host's admission policy, and by the ledger, for which such a pod fits nowhere.

Terms about other pods are counted once more by themselves: of every pod that runs, the host's scheduler compares them with each
pod that it places, whosever it is.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from bulkhead.api.untrusted import mapping, mappings, sequence

# A thousand nodes by name, each in a term of its own: what a tenant's own marks on nodes may come to.
MOST: Final = 3072
# 400 pods with 1,000 terms each cost the scheduler 42 ms for each pod of any tenant, 0.1 microseconds a term. 2,000 pods with
# 32 terms cost 7 ms.
MOST_POD_TERMS: Final = 32
# Labels, expressions and values by which a disruption budget selects pods: for each pod that changes, the host's controller
# manager reads the selectors of all budgets beside it, whosever they are.
MOST_OF_BUDGET: Final = 100
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def counted(spec: Mapping[str, Any]) -> int:
    """Terms, expressions and values of a pod's spec, the virtual one's or the host's."""
    affinity = mapping(spec.get("affinity"))
    count = len(mapping(spec.get("nodeSelector"))) + len(sequence(spec.get("tolerations")))
    nodes = mapping(affinity.get("nodeAffinity"))
    count += sum(map(of_node_term, mappings(mapping(nodes.get(_REQUIRED)).get("nodeSelectorTerms"))))
    count += sum(of_node_term(mapping(term.get("preference"))) for term in mappings(nodes.get(_PREFERRED)))
    count += sum(map(_of_pod_term, _pod_terms(spec)))
    return count + sum(map(_of_pod_term, mappings(spec.get("topologySpreadConstraints"))))


def of_selector(selector: Mapping[str, Any]) -> int:
    """Labels, expressions and values of a label selector."""
    return len(mapping(selector.get("matchLabels"))) + _expressions(mappings(selector.get("matchExpressions")))


def pod_terms(spec: Mapping[str, Any]) -> int:
    """Terms about other pods, affinity and anti-affinity together; spreading is not among them."""
    return sum(1 for _ in _pod_terms(spec))


def _pod_terms(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for part in ("podAffinity", "podAntiAffinity"):
        pods = mapping(mapping(spec.get("affinity")).get(part))
        yield from mappings(pods.get(_REQUIRED))
        yield from (mapping(term.get("podAffinityTerm")) for term in mappings(pods.get(_PREFERRED)))


def of_node_term(term: Mapping[str, Any]) -> int:
    """Of one term about nodes."""
    return 1 + _expressions(mappings(term.get("matchExpressions"))) + _expressions(mappings(term.get("matchFields")))


def _of_pod_term(term: Mapping[str, Any]) -> int:
    lists = ("namespaces", "matchLabelKeys", "mismatchLabelKeys")
    selectors = (mapping(term.get(field)) for field in ("labelSelector", "namespaceSelector"))
    return 1 + sum(len(sequence(term.get(field))) for field in lists) + sum(map(of_selector, selectors))


def _expressions(listed: Iterable[Mapping[str, Any]]) -> int:
    return sum(1 + len(sequence(expression.get("values"))) for expression in listed)
