"""What an edit of a Tenant cannot change: the transition rules of its definition. Constants only.

    spec was accepted, or is not judged yet ──> every rule here holds against the present spec
    spec is refused, none of it is applied ───> (`status.refusedGeneration`) what was never accepted may be taken back

While a spec is refused, the controller holds the next one against the last accepted one (`controller.decide.irreversible`). So
nothing that was accepted is taken back by way of a refused edit.
"""

from typing import Final

from bulkhead.api.fields import Rule

# Volumes of the plane and of the Slurm cluster, by the path of their size below `spec`; a volume grows and never shrinks.
VOLUME_SIZES: Final = (
    ("controlPlane", "storage", "size"),
    ("scheduling", "slurm", "controller", "storage", "size"),
    ("scheduling", "slurm", "accounting", "storage", "size"),
    ("scheduling", "slurm", "homeStorage", "size"),
)
REPLICAS: Final = ("controlPlane", "replicas")
STORAGE_CLASS: Final = ("controlPlane", "storage", "className")
CLUSTER_NAME: Final = ("scheduling", "slurm", "clusterName")

# Both are of one write. A controller of an earlier release writes only `observedGeneration`: then the rules hold.
_REFUSED: Final = (
    "(oldSelf.?status.?refusedGeneration.hasValue() && "
    "oldSelf.?status.?refusedGeneration == oldSelf.?status.?observedGeneration)"
)
_HAS_SLURM: Final = (
    "has(self.spec.scheduling) && (has(self.spec.scheduling.slurm) || "
    "(has(self.spec.scheduling.mode) && self.spec.scheduling.mode == 'Slurm'))"
)
_NO_TEXT: Final = "''"


def _has(side: str, path: tuple[str, ...]) -> str:
    """Whether a field is there. The API server estimates that texts of optionals (`.?`) are endless, and refuses the rule."""
    return " && ".join(f"has({side}.spec.{'.'.join(path[:length])})" for length in range(1, len(path) + 1))


def _value(side: str, path: tuple[str, ...], otherwise: str) -> str:
    return f"({_has(side, path)} ? {side}.spec.{'.'.join(path)} : {otherwise})"


def _both(path: tuple[str, ...]) -> str:
    return f"({_has('self', path)} && {_has('oldSelf', path)})"


def _never_shrinks(path: tuple[str, ...]) -> Rule:
    # A size that is left out is the class's, of which this rule knows nothing.
    field = f"spec.{'.'.join(path)}"
    larger = f"quantity(self.{field}).compareTo(quantity(oldSelf.{field})) >= 0"
    return {
        "rule": f"{_REFUSED} || !{_both(path)} || {larger}",
        "message": "the volume may grow but never shrink",
        "fieldPath": f".{field}",
    }


def _name(side: str) -> str:
    return _value(side, CLUSTER_NAME, f"{side}.metadata.name")


EDITS: Final[tuple[Rule, ...]] = (
    {
        "rule": f"{_REFUSED} || {_value('self', REPLICAS, '0')} >= {_value('oldSelf', REPLICAS, '0')}",
        "message": "controlPlane.replicas may grow from 1 to 3 but never shrink; for fewer, make another Tenant",
        "fieldPath": ".spec.controlPlane",
    },
    {
        "rule": f"{_REFUSED} || {_value('self', STORAGE_CLASS, _NO_TEXT)} == {_value('oldSelf', STORAGE_CLASS, _NO_TEXT)}",
        "message": "controlPlane.storage.className cannot change after creation: the volume exists",
        "fieldPath": ".spec.controlPlane",
    },
    *map(_never_shrinks, VOLUME_SIZES),
    # Held against what runs and not against the old spec: a class or version that cannot be had may be corrected.
    {
        "rule": "!has(oldSelf.status) || !has(oldSelf.status.class) || self.spec.class == oldSelf.spec.class",
        "message": "the class cannot change once it has been applied",
        "fieldPath": ".spec.class",
    },
    {
        "rule": "!has(self.spec.kubernetesVersion) || !has(oldSelf.status) || !has(oldSelf.status.versions) || "
        "!has(oldSelf.status.versions.kubernetes) || int(self.spec.kubernetesVersion.split('.')[1]) >= "
        "int(oldSelf.status.versions.kubernetes.split('.')[1])",
        "message": "the minor version cannot go back: etcd holds what the newer one wrote",
        "fieldPath": ".spec.kubernetesVersion",
    },
    {
        "rule": f"{_REFUSED} || !{_both(CLUSTER_NAME)} || {_name('self')} == {_name('oldSelf')}",
        "message": "the cluster's name cannot change once it is given",
        "fieldPath": ".spec.scheduling.slurm.clusterName",
    },
    # By default it is the tenant's: giving a name later, or taking it away, changes it as well.
    {
        "rule": "!has(oldSelf.status) || !has(oldSelf.status.slurm) || !has(oldSelf.status.slurm.clusterName) || "
        f"!({_HAS_SLURM}) || {_name('self')} in [oldSelf.status.slurm.clusterName, {_name('oldSelf')}]",
        "message": "the cluster's name cannot change: its state and its accounts contain it",
        "fieldPath": ".spec.scheduling",
    },
    {
        "rule": "!has(self.spec.adopt) || !has(oldSelf.status) || !has(oldSelf.status.planeIdentity) || "
        "self.spec.adopt == oldSelf.status.planeIdentity",
        "message": "the tenant has a plane already: a retained one is taken up by a new Tenant",
        "fieldPath": ".spec.adopt",
    },
)
