"""Whose a host object is, as its annotations say; read here without the syncer's own code, which is what is being watched."""

from bulkhead.api import labels as marks
from bulkhead.kube.objects import Key, Obj


def virtual_uid(host: Obj) -> str:
    """The UID of the virtual object; empty where it names none."""
    return str((host["metadata"].get("annotations") or {}).get(marks.VIRTUAL_UID, ""))


def origin_of(host: Obj) -> Key:
    """Namespace and name of the virtual object."""
    notes = host["metadata"]["annotations"]
    return Key(notes[marks.VIRTUAL_NAMESPACE], notes[marks.VIRTUAL_NAME])
