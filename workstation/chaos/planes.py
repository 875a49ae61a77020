"""How a run reaches a tenant's API: the command line decides it, because it knows certificates and tunnels."""

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client


class Unreached(Exception):  # noqa: N818 - reads as a sentence: except Unreached
    """A tenant's API is not reached from here; the text says why."""


class Planes(Protocol):
    """Opens a client of a tenant's plane, as one of its admins. A plane is not trusted: answers and waits are bounded."""

    def open(self, tenant: Obj) -> AbstractAsyncContextManager[Client]:
        """A client for the duration of a block. Raises KubeError, or Unreached if there is no way to the plane."""
        ...
