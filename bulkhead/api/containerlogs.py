"""How much of a node's disk the output of one container of the platform may take.

The chart and the controller give every container this limit, and preflight holds the kubelets' rotation of logs against it. A
kubelet evicts a pod whose containers take more than their limits together.
"""

from typing import Final

# Twenty times what a kubelet keeps by default: five files of 10 MiB.
LIMIT_MIB: Final = 1024
