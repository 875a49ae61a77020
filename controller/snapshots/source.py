"""Which member of a plane's etcd a snapshot is taken from: the first that has everything that the plane has acknowledged.

    each member ──> a read that a quorum confirms ──> not named as corrupt ──> its stream
                └─ silent, apart from its peers, without a vote, corrupt ──> the next member

A member that is cut off from its peers, and one that has just joined, send the store of an earlier moment, and nothing in the
stream says so: the snapshot would count as whole, and older ones would be deleted for it.
"""

import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Final

from bulkhead.kube.client import Client
from bulkhead.kube.connection import Stream
from controller.inside.etcdaccess import Etcd
from controller.plane import corruption
from controller.plane.secrets import KeyMaterial
from controller.snapshots.spec import Order

_log = logging.getLogger(__name__)
_PATH: Final = "/v3/maintenance/snapshot"
# Opens the store of a plane, at an address.
EtcdOpened = Callable[[KeyMaterial, str], AbstractAsyncContextManager[Client]]


class NoMemberError(Exception):
    """No member can give a snapshot now; the text says why."""


@contextlib.asynccontextmanager
async def stream(order: Order, opened: EtcdOpened) -> AsyncIterator[Stream]:
    """The stream of a snapshot, for the duration of a block. Raises NoMemberError."""
    async with contextlib.AsyncExitStack() as stack:
        yield await _first(order, opened, stack)


async def _first(order: Order, opened: EtcdOpened, stack: contextlib.AsyncExitStack) -> Stream:
    refused: list[str] = []
    for pod, address in sorted(order.addresses.items()):
        try:
            client = await stack.enter_async_context(opened(order.keys, address))
            await _has_all(Etcd(client), pod)
            return await stack.enter_async_context(client.transport.stream(_PATH, body=b"{}"))
        except Exception as error:  # noqa: BLE001 - another member may give it; all of them are in the text at the end
            _log.info("etcd of %s gives no snapshot: %s", pod, error, extra={"tenant": order.spec.tenant})
            refused.append(f"{pod}: {error or type(error).__name__}")
    if not refused:
        raise NoMemberError("the plane has no pod with an address: it is not running")
    raise NoMemberError(f"no member of the plane's etcd can give a snapshot: {'; '.join(refused)}")


async def _has_all(etcd: Etcd, pod: str) -> None:
    """Return if a member has all that was acknowledged until now. Raises NoMemberError and KubeError."""
    # It answers once a quorum has confirmed its leader and it has caught up with that; a member without a vote refuses.
    await etcd.members()
    member = await etcd.status(pod)
    if member.corrupt and not {member.id, corruption.UNKNOWN}.isdisjoint(member.corrupt):
        raise NoMemberError("it has other data than its peers, or one of them has, and etcd cannot tell which")
