"""What a pod may have beyond an ordinary one, and whose pods ask for more by habit: shared by both halves.

Words and lists only; other modules decide what is refused and what is removed.
"""

from collections.abc import Mapping
from typing import Any, Final

from bulkhead.api.untrusted import mapping, mappings

# What Pod Security baseline lets a container add.
BASELINE_CAPABILITIES: Final = frozenset({
    "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP", "SETGID",
    "SETPCAP", "SETUID", "SYS_CHROOT",
})  # fmt: skip

# Values of `isolation.dropPrivileges`.
NEVER: Final = "Never"
SLINKY_WORKERS: Final = "SlinkyWorkers"
# The owner of the pods of SLINKY_WORKERS.
SLINKY_GROUP: Final = "slinky.slurm.net"
SLINKY_KIND: Final = "NodeSet"


def is_slinky_worker(pod: Mapping[str, Any]) -> bool:
    """Whether a pod is controlled by a NodeSet of Slinky's operator."""
    owners = mappings(mapping(pod.get("metadata")).get("ownerReferences"))
    return any(
        owner.get("controller") is True
        and owner.get("kind") == SLINKY_KIND
        and str(owner.get("apiVersion")).startswith(f"{SLINKY_GROUP}/")
        for owner in owners
    )
