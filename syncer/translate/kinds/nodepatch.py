"""What to patch on a virtual node so that it is as it should be, and what the tenant put there stays. Pure.

virtual node, desired node ──┬──> object_patch   labels, taints and cordon, and whose these are (`nodemarks`)
└──> status_patch
"""

from bulkhead.api import labels as marks
from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping, mappings
from syncer.translate import mergepatch
from syncer.translate.kinds import nodemarks, podstatus


def object_patch(virtual: Obj, desired: Obj) -> Obj:
    """Labels, taints and cordon; empty where nothing differs. Labels that the tenant added stay."""
    meta = _labels(virtual, desired)
    spec, annotations = _marks(virtual, desired)
    if not spec:
        return {"metadata": meta} if meta else {}
    # What the tenant did meanwhile must not be taken for the host's doing: that is a conflict, and the key comes again.
    seen = {"annotations": annotations, "resourceVersion": str(virtual["metadata"].get("resourceVersion", ""))}
    return {"metadata": meta | seen, "spec": spec}


def _labels(virtual: Obj, desired: Obj) -> Obj:
    changes = mergepatch.between(virtual["metadata"].get("labels") or {}, desired["metadata"]["labels"])
    ours = {key: value for key, value in changes.items() if value is not None}
    return {"labels": ours} if ours else {}


def _marks(virtual: Obj, desired: Obj) -> tuple[Obj, Obj]:
    """Taints and cordon that differ, with the annotations that say whose they are."""
    wanted, held = mapping(desired.get("spec")), mapping(virtual.get("spec"))
    spec: Obj = {}
    annotations: Obj = {}
    taints = nodemarks.decide_taints(virtual, wanted.get("taints") or ())
    if (_plain(taints.taints), taints.annotation) != (_plain(held.get("taints")), nodemarks.annotated_taints(virtual)):
        spec["taints"] = taints.taints or None
        annotations[marks.HOST_TAINTS] = taints.annotation
    cordon = nodemarks.decide_cordon(virtual, by_host=wanted.get("unschedulable") is True)
    if (cordon.unschedulable, cordon.annotation) != (held.get("unschedulable") is True, nodemarks.annotated_cordon(virtual)):
        spec["unschedulable"] = cordon.unschedulable or None
        annotations[marks.CORDONED_BY] = cordon.annotation
    return spec, annotations


def status_patch(virtual: Obj, desired: Obj) -> Obj:
    """The parts of the status that are ours, where they differ; empty where none does."""
    held = virtual.get("status") or {}
    status = mergepatch.between({key: held.get(key) for key in desired["status"]}, desired["status"])
    return status if status and not podstatus.same(held, held | desired["status"]) else {}


def _plain(taints: object) -> list[Obj]:
    """Taints without the time at which they were added, in one order."""
    plain = [{part: taint[part] for part in ("key", "value", "effect") if taint.get(part)} for taint in mappings(taints)]
    return sorted(plain, key=lambda taint: (taint.get("key", ""), taint.get("effect", "")))
