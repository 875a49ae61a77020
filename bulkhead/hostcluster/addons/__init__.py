"""What the embedded host adds to the upstream components: the supervised processes and the objects they need."""

from bulkhead.hostcluster.addons.objects import apply, grant
from bulkhead.hostcluster.addons.processes import components

__all__ = ["apply", "components", "grant"]
