"""Storage: a default class that provides volumes, a class for shared homes, snapshots. Pure."""

from bulkhead.api.untrusted import mapping, text
from workstation.preflight.facts import NotSeenError, Obj, Observed, need
from workstation.preflight.findings import Finding, failed, ok, skipped, warning
from workstation.preflight.values import Values

_DEFAULT = "storageclass.kubernetes.io/is-default-class"
_DEFAULTS = (_DEFAULT, "storageclass.beta.kubernetes.io/is-default-class")  # either counts for the API server
PLANE = "plane"
SHARED = "shared:"
# Provisioners of file systems that many nodes can mount. Others may do so too; `--rwx-class` tests them.
_FILES = (
    "nfs",
    "cephfs",
    "efs.csi",
    "azurefile",
    "filestore",
    "fsx",
    "lustre",
    "weka",
    "beegfs",
    "gpfs",
    "vast",
    "juicefs",
    "cifs",
)
_ATTEMPTS = 2


def chosen(classes: tuple[Obj, ...], name: str) -> list[Obj]:
    """The class of the planes' volumes: the named one, or else the defaults."""
    if name:
        return [storage_class for storage_class in classes if _name(storage_class) == name]
    return [storage_class for storage_class in classes if _is_default(storage_class)]


def _is_default(storage_class: Obj) -> bool:
    annotations = mapping(_meta(storage_class).get("annotations"))
    return any(text(annotations.get(name)) == "true" for name in _DEFAULTS)


def shareable(classes: tuple[Obj, ...], named: tuple[str, ...]) -> list[Obj]:
    """The classes to test with ReadWriteMany: the named ones, or else those that look like shared file systems."""
    if named:
        return [storage_class for storage_class in classes if _name(storage_class) in named]
    return [
        storage_class
        for storage_class in classes
        if any(word in text(storage_class.get("provisioner")).lower() for word in _FILES)
    ][:_ATTEMPTS]


def disposable(found: Obj) -> bool:
    """Whether the volume is deleted with its claim; otherwise the test would leave one behind."""
    return (text(found.get("reclaimPolicy")) or "Delete") == "Delete"


def storage_class(observed: Observed, values: Values) -> Finding:
    """Whether there is exactly one class."""
    classes = need(observed, "storageclasses")
    found = chosen(classes, values.storage_class)
    there = ", ".join(_name(storage_class) for storage_class in classes[:20]) or "none"
    if values.storage_class:
        if found:
            return ok(f"storageClass {values.storage_class} exists")
        return failed(f"storageClass {values.storage_class} does not exist", f"name one of the cluster's: {there}")
    if not found:
        cure = f'mark one as default (annotation {_DEFAULT}: "true") or set storageClass; the classes are: {there}'
        return failed("the cluster has no default StorageClass", cure)
    if len(found) > 1:
        shown = ", ".join(_name(storage_class) for storage_class in found)
        return warning(f"{len(found)} StorageClasses are default: {shown}", "leave one as default, or set storageClass")
    return ok(f"{_name(found[0])} ({text(found[0].get('provisioner'))}) is the default")


def provisioning(observed: Observed, values: Values) -> Finding:
    """Whether a pod could write to a small claim."""
    found = chosen(need(observed, "storageclasses"), values.storage_class)
    if not found:
        return skipped("there is no class to test", "see storage.class")
    if not disposable(found[0]):
        return skipped(
            f"{_name(found[0])} keeps volumes (reclaimPolicy {text(found[0].get('reclaimPolicy'))}), so none was created",
            "test a claim by hand, or give planes a class with reclaimPolicy Delete: volumes of deleted tenants would remain",
        )
    probed = observed.claims.get(PLANE)
    if probed is None:
        raise NotSeenError("no claim was tested")
    if probed.ran and any(line.get("wrote") is True for line in probed.said):
        return ok(f"a claim of {_name(found[0])} was provisioned, mounted and written on node {probed.node}")
    cure = f"check why claims of {_name(found[0])} get no volume: kubectl describe pvc, and the provisioner's log"
    if probed.pending:
        return warning(f"a claim of {_name(found[0])} was not usable in time: {probed.trouble or 'no event tells why'}", cure)
    return failed(f"a claim of {_name(found[0])} did not become usable: {probed.trouble}", cure)


def shared(observed: Observed, values: Values) -> Finding:
    """Whether a pod could write to a claim that many nodes may mount."""
    if not values.with_slurm:
        return skipped("slurmVersions is empty: Slurm is not offered")
    need(observed, "storageclasses")
    tried = {name.removeprefix(SHARED): probed for name, probed in observed.claims.items() if name.startswith(SHARED)}
    if not tried:
        return warning(
            "no StorageClass is known to offer ReadWriteMany",
            "Slurm's shared home directories need one: test it with --rwx-class, or offer Slurm without shared homes",
        )
    works = [name for name, probed in tried.items() if any(line.get("wrote") is True for line in probed.said)]
    told = [f"{name}: {probed.trouble or 'not in time'}" for name, probed in tried.items() if name not in works]
    if works:
        return ok(f"ReadWriteMany works with {', '.join(sorted(works))}", *told)
    return warning("ReadWriteMany did not work", "Slurm's shared home directories need a class that offers it", told)


def snapshots(observed: Observed, values: Values) -> Finding:
    """Whether the classes of snapshotClasses exist."""
    if not values.snapshot_classes:
        return skipped("snapshotClasses is empty: tenants cannot create snapshots")
    there = {_name(snapshot_class) for snapshot_class in need(observed, "volumesnapshotclasses")}
    lacking = [name for name in values.snapshot_classes if name not in there]
    if lacking:
        return failed(
            f"VolumeSnapshotClasses do not exist: {', '.join(lacking)}",
            "create them, or remove them from snapshotClasses",
        )
    return ok(", ".join(values.snapshot_classes))


def _meta(obj: Obj) -> Obj:
    return mapping(obj.get("metadata"))


def _name(obj: Obj) -> str:
    return text(_meta(obj).get("name"))
