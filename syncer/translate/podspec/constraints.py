"""Refuses pods that say too much about where they may run (`bulkhead.api.requirements`). Pure.

Counted is the pod as its tenant wrote it, before it grows by their namespaces and nodes, and the host pod.
"""

from collections.abc import Mapping
from typing import Any

from bulkhead.api import requirements
from syncer.translate.reasons import Reason, Untranslatable


def check(spec: Mapping[str, Any], *, on_host: bool) -> None:
    """Refuse a pod that says too much."""
    terms = requirements.pod_terms(spec)
    if terms > requirements.MOST_POD_TERMS:
        raise Untranslatable(
            Reason.TOO_LARGE,
            f"podAffinity and podAntiAffinity have {terms} terms, and {requirements.MOST_POD_TERMS} together are the most; "
            "select more pods by one term",
            "spec.affinity",
        )
    count = requirements.counted(spec)
    if count > requirements.MOST:
        where = ", with the namespaces and nodes of this cluster that it chooses," if on_host else ""
        raise Untranslatable(
            Reason.TOO_LARGE,
            f"affinity, spreading, node selector and tolerations{where} have {count} terms, expressions and values, "
            f"and {requirements.MOST} together are the most; name fewer",
            "spec.affinity",
        )
