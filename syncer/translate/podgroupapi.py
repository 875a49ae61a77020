"""The upstream API of pod groups: the one place that knows how its versions differ. Pure.

    1.35  Workload v1alpha1 lists its groups, a pod names them in `spec.workloadRef`   neither served here nor taken from a pod
    1.36  PodGroup v1alpha2, named in `spec.schedulingGroup.podGroupName`              what planes serve, and hosts get
    1.37  PodGroup v1beta1 and v1alpha3, of the same fields as far as they are read here; v1alpha2 is gone

So a host of 1.35 or 1.37 serves no group that could be mirrored, and there the ledger alone holds gangs together. Another
version is another constant here, and a group that is read the same.
"""

from collections.abc import Mapping
from typing import Any, Final

from bulkhead.api.untrusted import mapping, sequence, text

GROUP: Final = "scheduling.k8s.io"
VERSION: Final = "v1alpha2"
PLURAL: Final = "podgroups"
API_VERSION: Final = f"{GROUP}/{VERSION}"
# The field of a pod's spec that names its group.
NAMED_IN: Final = "schedulingGroup"


def named(pod: Mapping[str, Any]) -> str:
    """The name of a pod's group; empty for a pod of none."""
    return text(mapping(mapping(pod.get("spec")).get(NAMED_IN)).get("podGroupName"))


def minimum(group: Mapping[str, Any]) -> Any:
    """How many pods of a group start together, as it says; None for one whose pods start one by one."""
    return mapping(mapping(mapping(group.get("spec")).get("schedulingPolicy")).get("gang")).get("minCount")


def topology(group: Mapping[str, Any]) -> list[Any]:
    """The labels of which all nodes of a group have to share the value."""
    constraints = mapping(mapping(group.get("spec")).get("schedulingConstraints"))
    return [mapping(constraint).get("key") for constraint in sequence(constraints.get("topology"))]
