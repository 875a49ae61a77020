"""Back from a host object to the virtual one: believed only where the object's own name proves it.

Annotations can be copied from one object to another, names cannot: an object is ours when its marker label is there, its
tenant UID is ours, and the name computed from its annotations is the name it has.
"""

from collections.abc import Mapping

from bulkhead.api import labels as marks
from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import text
from syncer.translate.metadata import Identity
from syncer.translate.view import TenantView


def of_host(host: Obj, view: TenantView) -> Identity | None:
    """The virtual object that `host` mirrors, or None where it mirrors none of this tenant's."""
    meta = host.get("metadata")
    if not isinstance(meta, Mapping) or not marks.is_mirrored(host):
        return None
    annotations = meta.get("annotations")
    if not isinstance(annotations, Mapping) or annotations.get(marks.TENANT_UID) != view.tenant_uid:
        return None
    parts = [
        annotations.get(key) for key in (marks.VIRTUAL_KIND, marks.VIRTUAL_NAMESPACE, marks.VIRTUAL_NAME, marks.VIRTUAL_UID)
    ]
    kind, namespace, name, uid = (text(part) for part in parts)
    if not (kind and name and uid) or meta.get("name") != view.host_name(kind, namespace, name):
        return None
    return Identity(kind, namespace, name, uid)


def virtual_uid(host: Obj) -> str:
    """The UID of the virtual object that `host` names as its origin, empty where it names none; `of_host` proves it."""
    return str((host["metadata"].get("annotations") or {}).get(marks.VIRTUAL_UID, ""))
