"""What a tenant is told about what it cannot have, and what to do instead: one sentence, in one form. Pure.

    <what> is not allowed: <why>; <what to do instead>

Each sentence is the same whenever an object is judged, so that its event is written once and counted from there on.
"""

from typing import Final

from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping, text
from syncer.translate.view import TenantView

HOST_NETWORK: Final = (
    "hostNetwork is not allowed: pods do not share the network of a node; "
    "use a Service to be reached by other pods, and kubectl port-forward to reach the pod yourself"
)
HOST_PID: Final = (
    "hostPID is not allowed: pods do not see the processes of a node; "
    "use shareProcessNamespace for the containers of one pod, and kubectl debug POD --target CONTAINER to look into one"
)
HOST_IPC: Final = (
    "hostIPC is not allowed: pods do not share memory with a node; "
    "use an emptyDir with medium Memory at /dev/shm for the containers of one pod"
)
HOST_PATH: Final = (
    "hostPath is not allowed: pods do not mount the files of a node; "
    "use a PersistentVolumeClaim for data, an emptyDir for scratch space, and a container's limits for devices"
)
HOST_PORT: Final = (
    "hostPort is not allowed: pods take no port of a node; use a Service, and kubectl port-forward to reach the pod yourself"
)
PRIVILEGED: Final = (
    "privileged is not allowed: containers have no rights on their node; leave it out, devices come with a container's limits"
)
DEBUGS_NODE: Final = (
    "kubectl debug node/NAME is not allowed: nodes are not the tenant's; "
    "use kubectl debug POD for a pod of yours, and ask your admin about a node"
)

# What `kubectl debug` labels the pods with that it makes on nodes.
_MADE_BY: Final = "app.kubernetes.io/managed-by"
_KUBECTL_DEBUG: Final = "kubectl-debug"
# The fields by which a pod shares what is a node's.
SHARED_WITH_A_NODE: Final = {"hostNetwork": HOST_NETWORK, "hostPID": HOST_PID, "hostIPC": HOST_IPC}


def debugs_node(virtual: Obj) -> bool:
    """Whether a pod is the one by which `kubectl debug node/NAME` enters a node."""
    labels = mapping(mapping(virtual.get("metadata")).get("labels"))
    spec = mapping(virtual.get("spec"))
    return labels.get(_MADE_BY) == _KUBECTL_DEBUG and any(spec.get(field) is True for field in SHARED_WITH_A_NODE)


def of_service(virtual: Obj, view: TenantView) -> list[str]:
    """What a tenant is told about a Service that would be public on other clusters, and works within this one only."""
    kind = text(mapping(virtual.get("spec")).get("type"))
    if kind == "LoadBalancer":
        what = "a load balancer is not allowed: Services get no address from outside, and EXTERNAL-IP stays pending"
    elif kind == "NodePort":
        what = "a node port from outside is not allowed: no port of a node is opened, and only your own pods reach this one"
    else:
        return []
    return [f"spec.type: {what}; {_published(view)}"]


def _published(view: TenantView) -> str:
    hosts, classes = view.ingress_hosts, ", ".join(sorted(view.ingress_classes))
    if hosts and classes:
        return f"publish it by an Ingress of class {classes} with a host below {hosts[0]}, or use kubectl port-forward"
    return "use kubectl port-forward, and ask your admin for a class with Ingresses to publish it"
