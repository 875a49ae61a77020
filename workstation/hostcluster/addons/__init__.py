"""What the embedded host adds to the upstream components: the supervised processes and the objects they need."""

from workstation.hostcluster.addons.objects import apply, grant
from workstation.hostcluster.addons.processes import components

__all__ = ["apply", "components", "grant"]
