"""Whose request it is, a tenant's syncer's or the controller's: the host's API reviews its token, made out to this program."""

import hashlib
from collections import OrderedDict
from typing import Final

from bulkhead.api import names
from bulkhead.api.syncersettings import GPU_AUDIENCE
from bulkhead.api.untrusted import mapping, sequence, text
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.work.clock import Clock

_REMEMBERED_SECONDS: Final = 60.0
_MAX_REMEMBERED: Final = 4096
_MAX_TOKEN_CHARACTERS: Final = 8192
_ACCOUNT: Final = "system:serviceaccount:"
CONTROLLER: Final = "bulkhead-controller"


class Callers:
    """Remembers tokens for a minute, by their digests."""

    def __init__(self, client: Client, clock: Clock, namespace: str = names.SYSTEM_NAMESPACE) -> None:
        """`namespace` is the installation's own."""
        self._namespace = namespace
        self._client = client
        self._clock = clock
        self._known: OrderedDict[bytes, tuple[float, str]] = OrderedDict()

    async def namespace_of(self, header: str) -> str:
        """The namespace of work of the tenant whose syncer calls; empty for any other caller. Raises KubeError."""
        return _work_of(await self._account_of(header))

    async def is_controller(self, header: str) -> bool:
        """Whether the controller of this installation calls. Raises KubeError."""
        return await self._account_of(header) == f"{_ACCOUNT}{self._namespace}:{CONTROLLER}"

    async def _account_of(self, header: str) -> str:
        """The user whose token was made out to this program; empty for none."""
        scheme, _, token = header.partition(" ")
        if scheme.lower() != "bearer" or not token or len(token) > _MAX_TOKEN_CHARACTERS or not token.isascii():
            return ""
        digest, now = hashlib.sha256(token.encode()).digest(), self._clock.monotonic()
        known = self._known.get(digest)
        if known is not None and now - known[0] < _REMEMBERED_SECONDS:
            return known[1]
        spec = {"token": token, "audiences": [GPU_AUDIENCE]}
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
        account = _account(mapping((await self._client.create(kinds.TOKEN_REVIEWS, review)).get("status")))
        self._known[digest] = (now, account)
        self._known.move_to_end(digest)
        while len(self._known) > _MAX_REMEMBERED:
            self._known.popitem(last=False)
        return account


def _account(status: object) -> str:
    reviewed = mapping(status)
    if reviewed.get("authenticated") is not True or GPU_AUDIENCE not in sequence(reviewed.get("audiences")):
        return ""
    return text(mapping(reviewed.get("user")).get("username"))


def _work_of(user: str) -> str:
    plane, _, account = user.removeprefix(_ACCOUNT).partition(":")
    work = f"{plane}{names.WORK_SUFFIX}"
    return work if user.startswith(_ACCOUNT) and account == "syncer" and names.tenant_of_work(work) else ""
