"""Texts from the host as a tenant may read them: host names replaced by the virtual ones, leftovers hidden."""

import re
from collections.abc import Callable, Iterator
from typing import Final

from bulkhead.api import labels as marks
from bulkhead.api.objects import Obj
from syncer.translate import references, tokens
from syncer.translate.metadata import identity
from syncer.translate.reasons import Untranslatable
from syncer.translate.view import TenantView

# Of our making, and the contents of snapshots, which are named after the host's UIDs.
_HOST_NAME: Final = re.compile(
    r"\b(?:[a-z0-9](?:[-a-z0-9]{0,29})-[0-9a-f]{32}|snapcontent-[0-9a-f]{8}(?:-[0-9a-f]{4,12}){4})\b"
)
# A scheduler names the taint that keeps a pod from a node, and that of a dedicated one names whose it is.
_TENANT_MARK: Final = re.compile(rf"({re.escape(marks.TENANT)}[:=] ?)[A-Za-z0-9][-A-Za-z0-9_.]*")
_LIMIT: Final = 4096
_HIDDEN: Final = "(hidden)"


# What the host's components reveal about others: taints of nodes outside the pool, which pod preempted another and where, how
# much of a node all tenants use, other tenants' namespaces.
_TAINT: Final = re.compile(r"(, )?(\d{1,9}) node\(s\) had untolerated taint(?:\(s\)| \{([^{}]*)\})")
_PREEMPTED: Final = re.compile(
    r"Preempted by (?:(?:a )?pod(?: ?group)?(?: (?!on node)[^\s]+)?|[^\s]+/[^\s]+)(?: on node ([^\s,;]+))?", re.IGNORECASE
)
_HELD: Final = re.compile(r", used: \d+, capacity: \d+")
_LEFT: Final = re.compile(r"Threshold quantity: [^\s,]+, available: [^\s,]+\. ?")
_NAMESPACE: Final = re.compile(r"\bbh-[a-z](?:[-a-z0-9]{0,38}[a-z0-9])?-work\b")
_OF_KUBERNETES: Final = "node.kubernetes.io/"


def for_tenant(message: str, virtual: Obj, view: TenantView) -> str:
    """What a component of the host says about `virtual`, without what it says about others."""
    plain = _PREEMPTED.sub(lambda found: _preempted(found[1], view), _fewer_taints(message[:_LIMIT], view))
    own = text(_LEFT.sub("", _HELD.sub("", plain)), virtual, view)
    return _NAMESPACE.sub(_HIDDEN, own)


def _preempted(node: str | None, view: TenantView) -> str:
    return "Preempted by a pod that comes before it" + (f" on node {node}" if node in view.nodes else "")


def _fewer_taints(message: str, view: TenantView) -> str:
    """Taints that the tenant knows by their names, all others as one number."""
    known = {toleration.key for toleration in (*view.enforced_tolerations, *view.allowed_tolerations)}
    known |= {str(taint.get("key")) for taints in view.node_taints.values() for taint in taints}

    def is_known(found: re.Match[str]) -> bool:
        key = (found[3] or "").partition(":")[0].strip()
        return key in known or key.startswith(_OF_KUBERNETES)

    # The scheduler counts again for preemption, so the numbers of one part are summed and not those of the whole text.
    return "preemption:".join(_counted(part, is_known) for part in message.split("preemption:"))


def _counted(part: str, is_known: Callable[[re.Match[str]], bool]) -> str:
    others = [found for found in _TAINT.finditer(part) if not is_known(found)]
    nodes = sum(int(found[2]) for found in others)

    def one(found: re.Match[str]) -> str:
        if is_known(found):
            return found[0]
        first = found.start() == others[0].start()
        return f"{found[1] or ''}{nodes} node(s) had untolerated taint(s)" if first else ""

    return _TAINT.sub(one, part)


def text(message: str, virtual: Obj, view: TenantView) -> str:
    """`message` about `virtual` (or its host object) in the tenant's words."""
    plain = message[:_LIMIT]
    for host, own in _pairs(virtual, view):
        plain = plain.replace(host, own)
    return _TENANT_MARK.sub(rf"\1{_HIDDEN}", _HOST_NAME.sub(_HIDDEN, plain))


def _pairs(virtual: Obj, view: TenantView) -> Iterator[tuple[str, str]]:
    """Host texts and what they are for the tenant, longer ones first: the work namespace begins like the plane's."""
    kind = str(virtual.get("kind") or "Pod")
    try:
        virtual_identity = identity(kind, virtual)
    except Untranslatable:
        return
    yield view.host_name(kind, virtual_identity.namespace, virtual_identity.name), virtual_identity.name
    for needed in sorted(references.named_in_texts(virtual | {"kind": kind})):
        yield view.host_name(needed.kind, needed.namespace, needed.name), needed.name
    if kind == "Pod":
        yield tokens.secret_name(virtual, view), "(service account token)"
    yield view.work_namespace, virtual_identity.namespace
    yield view.plane_namespace, _HIDDEN
