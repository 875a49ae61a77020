"""Names of the annotations that Kubernetes' volume controllers and the scheduler write on PersistentVolumeClaims. Pure."""

from typing import Final

# By the host's persistent-volume controller, once the claim has its volume; a claim that was created with a volume has it too.
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
# By the scheduler, for a class that waits for the first pod: the node that it has chosen.
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
