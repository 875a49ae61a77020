"""The embedded host's additions to the upstream components: supervised processes, and the objects that they need."""

from workstation.hostcluster.addons.objects import apply, grant
from workstation.hostcluster.addons.processes import components

__all__ = ["apply", "components", "grant"]
