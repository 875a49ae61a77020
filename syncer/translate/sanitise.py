"""Texts from the host as a tenant may read them: host names replaced by the virtual ones, leftovers hidden."""

import re
from collections.abc import Iterator
from typing import Final

from bulkhead.api import labels as marks
from syncer.translate import references, tokens
from syncer.translate.metadata import identity
from syncer.translate.reasons import Untranslatable
from syncer.translate.view import Obj, TenantView

# Of our making, and the contents of snapshots, which are named after the host's UIDs.
_HOST_NAME: Final = re.compile(
    r"\b(?:[a-z0-9](?:[-a-z0-9]{0,29})-[0-9a-f]{32}|snapcontent-[0-9a-f]{8}(?:-[0-9a-f]{4,12}){4})\b"
)
# A scheduler names the taint that keeps a pod from a node, and that of a dedicated one names whose it is.
_TENANT_MARK: Final = re.compile(rf"({re.escape(marks.TENANT)}[:=] ?)[A-Za-z0-9][-A-Za-z0-9_.]*")
_LIMIT: Final = 4096
_HIDDEN: Final = "(hidden)"


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
        who = identity(kind, virtual)
    except Untranslatable:
        return
    yield view.host_name(kind, who.namespace, who.name), who.name
    for needed in sorted(references.named_in_texts(virtual | {"kind": kind})):
        yield view.host_name(needed.kind, needed.namespace, needed.name), needed.name
    if kind == "Pod":
        yield tokens.secret_name(virtual, view), "(service account token)"
    yield view.work_namespace, who.namespace
    yield view.plane_namespace, _HIDDEN
