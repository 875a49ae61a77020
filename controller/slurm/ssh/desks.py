"""Answers requests for ssh certificates: a task for each tenant whose Slurm users have identities; only while leading.

    CertificateSigningRequests of our signer in the plane ──> their metadata, every two seconds
        ──> one that is not answered: read by itself, within bounds ──> its Tenant on the host, read afresh
        ──> decide.ssh.judge ──> certificate, or why not, as an annotation ──> deleted ten minutes after it was made

A request holds its answer as an annotation, because a CertificateSigningRequest's own field takes X.509 alone. A plane is
hostile: what is too large to be read is deleted unread, all of our signer's at once where not even their list can be read. The
key of a CA is read for each signature and kept nowhere.
"""

import asyncio
import base64
import binascii
import logging
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

import msgspec

from bulkhead.api import names
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import Conflict, KubeError, NotFound, ProtocolError, TooLarge
from bulkhead.work.backoff import Backoff
from bulkhead.work.clock import Clock
from bulkhead.work.supervise import ended
from controller import metrics
from controller.inside.budget import Budget, Turn
from controller.inside.calls import Plane
from controller.inside.counted import Counted, Page
from controller.pki import people
from controller.slurm.decide import ssh
from controller.slurm.decide.ssh import Issue, Refuse
from controller.slurm.spec import Forwarding
from controller.slurm.ssh.authorities import Authorities
from controller.slurm.ssh.certify import certify

_log = logging.getLogger(__name__)
ROUND_PERIOD_SECONDS: Final = 2.0
ROUND_DEADLINE_SECONDS: Final = 30.0
REQUEST_KEPT_FOR: Final = timedelta(minutes=10)
# More requests than this wait only if a client floods the plane: then all are deleted, and honest clients repeat theirs.
MOST_REQUESTS_WAITING: Final = 200
MOST_REQUESTS_A_ROUND: Final = 30
_OURS: Final = f"spec.signerName={names.SSH_SIGNER}"


class _Answers(msgspec.Struct, gc=False, omit_defaults=True):
    """Whether a request is answered."""

    certificate: str | None = msgspec.field(default=None, name=names.SSH_CERTIFICATE)
    refused: str | None = msgspec.field(default=None, name=names.SSH_REFUSED)


class _Meta(msgspec.Struct, gc=False, rename="camel", omit_defaults=True):
    """Which request it is."""

    name: str
    uid: str
    creation_timestamp: datetime
    resource_version: str = ""
    annotations: _Answers | None = None


class _Listed(Counted, frozen=True):
    """A request of which only the metadata is read."""

    metadata: _Meta


class _Spec(msgspec.Struct, gc=False, rename="camel", omit_defaults=True):
    """The fields that the plane's API server vouches for, and the request itself, which the requester wrote."""

    request: str
    signer_name: str
    username: str = ""
    groups: list[str] = []
    extra: dict[str, list[str]] = {}


class _Request(msgspec.Struct, gc=False):
    """A request."""

    metadata: _Meta
    spec: _Spec


_LIST: Final = msgspec.json.Decoder(Page[_Listed])
_ONE: Final = msgspec.json.Decoder(_Request)


@dataclass(slots=True)
class _Desk:
    """One tenant's: what its certificates allow, and how many each identity got within the last minute."""

    tenant: str
    forwarding: Forwarding
    task: asyncio.Task[None] | None = None
    recent: defaultdict[str, deque[datetime]] = field(default_factory=lambda: defaultdict(deque))


class Desks:
    """The tasks; close it at the end, and whenever the lease is lost."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        plane: Callable[[Turn], Plane | None],
        authorities: Authorities,
        *,
        budget: Budget,
        period: float = ROUND_PERIOD_SECONDS,
    ) -> None:
        self._client = client
        self._clock = clock
        self._plane = plane
        self._authorities = authorities
        self._budget = budget
        self._period = period
        self._desks: dict[str, _Desk] = {}

    def open(self, tenant: str, forwarding: Forwarding) -> None:
        """Answer the requests in a tenant's plane from now on."""
        desk = self._desks.setdefault(tenant, _Desk(tenant, forwarding))
        desk.forwarding = forwarding
        if desk.task is None or desk.task.done():
            desk.task = asyncio.create_task(self._run(desk), name=f"ssh certificates of {tenant}")

    async def forget(self, tenant: str) -> None:
        """End a tenant's task."""
        desk = self._desks.pop(tenant, None)
        if desk is not None:
            await ended(desk.task)

    async def close(self) -> None:
        """End every task."""
        await asyncio.gather(*(self.forget(tenant) for tenant in list(self._desks)))

    async def _run(self, desk: _Desk) -> None:
        backoff = Backoff(self._period, 10 * self._period)
        while True:
            try:
                await self._round(desk)
            except (KubeError, TimeoutError) as error:
                _log.warning("requests for ssh certificates not read: %s", error or "late", extra={"tenant": desk.tenant})
                await self._clock.sleep(backoff.next())
            except Exception:  # noqa: BLE001 - logged with its trace; the next round starts from what is there
                _log.exception("requests for ssh certificates not answered", extra={"tenant": desk.tenant})
                await self._clock.sleep(backoff.next())
            else:
                backoff.reset()
                await self._clock.sleep(self._period)

    async def _round(self, desk: _Desk) -> None:
        turn = self._budget.turn(desk.tenant, ROUND_DEADLINE_SECONDS)
        plane = self._plane(turn)
        if plane is None:
            return
        async with turn:
            try:
                listed = await plane.list(
                    kinds.CERTIFICATE_SIGNING_REQUESTS,
                    shape=_LIST,
                    field_selector=_OURS,
                    metadata_only=True,
                    most=MOST_REQUESTS_WAITING,
                )
            except (TooLarge, ProtocolError) as error:
                _log.warning("requests for ssh certificates are deleted unread: %s", error, extra={"tenant": desk.tenant})
                metrics.ssh_certificates.labels("unread").inc()
                await plane.delete_all(kinds.CERTIFICATE_SIGNING_REQUESTS, field_selector=_OURS)
                return
            found = [msgspec.convert(obj["metadata"], _Meta) for obj in listed]
            waiting = [meta for meta in found if not await self._is_over(plane, meta)]
            if waiting:
                tenant = await self._client.get(kinds.TENANTS, desk.tenant)
                for meta in sorted(waiting, key=lambda meta: meta.creation_timestamp)[:MOST_REQUESTS_A_ROUND]:
                    await self._answer(desk, plane, tenant, meta)

    async def _is_over(self, plane: Plane, meta: _Meta) -> bool:
        """Whether nothing is left to do for a request; one that has been there for long is deleted, whatever became of it."""
        if self._clock.now() >= meta.creation_timestamp + REQUEST_KEPT_FOR:
            await plane.delete(kinds.CERTIFICATE_SIGNING_REQUESTS, meta.name, uid=meta.uid)
            return True
        return meta.annotations is not None and bool(meta.annotations.certificate or meta.annotations.refused)

    async def _answer(self, desk: _Desk, plane: Plane, tenant: Obj, meta: _Meta) -> None:
        extra = {"tenant": desk.tenant, "request": meta.name}
        try:
            asked = await plane.get(kinds.CERTIFICATE_SIGNING_REQUESTS, meta.name, shape=_ONE)
        except NotFound:
            return
        except (TooLarge, ProtocolError) as error:
            _log.warning("a request for an ssh certificate is deleted unread: %s", error, extra=extra)
            metrics.ssh_certificates.labels("unread").inc()
            await plane.delete(kinds.CERTIFICATE_SIGNING_REQUESTS, meta.name, uid=meta.uid)
            return
        answer = await self._decide(desk, tenant, asked)
        if answer is None:
            return
        extra["identity"] = asked.spec.username
        if isinstance(answer, Refuse):
            _log.info("ssh certificate refused: %s", answer.why, extra=extra)
            metrics.ssh_certificates.labels("denied").inc()
            written: dict[str, str] = {names.SSH_REFUSED: answer.why[:1000]}
        else:
            written = answer
            metrics.ssh_certificates.labels("signed").inc()
        # If another client deleted or changed it in between, the next round reads it again.
        where = {"uid": asked.metadata.uid, "resourceVersion": asked.metadata.resource_version, "annotations": written}
        try:
            await plane.patch(kinds.CERTIFICATE_SIGNING_REQUESTS, meta.name, {"metadata": where})
        except (Conflict, NotFound) as error:
            _log.info("overtaken: %s", error, extra=extra)

    async def _decide(self, desk: _Desk, tenant: Obj, asked: _Request) -> dict[str, str] | Refuse | None:
        request, now = ssh.request_of(asked.spec.username, asked.spec.groups, asked.spec.extra), self._clock.now()
        signing = await self._authorities.signing(names.plane_namespace(desk.tenant))
        if signing is None or asked.spec.signer_name != names.SSH_SIGNER:
            return None
        authority, host_key = signing
        recent = self._recent(desk, request.identity, now)
        answer = ssh.judge(request, tenant, drawn_for=authority.revoked, recent=len(recent), now=now)
        if not isinstance(answer, Issue):
            return answer
        key = _key_of(asked.spec.request)
        if isinstance(key, Refuse):
            return key
        recent.append(now)
        made, serial = certify(
            key,
            identity=request.identity,
            principals=answer.principals,
            forwarding=desk.forwarding,
            authority=authority.signing,
            now=now,
            ends=answer.ends,
        )
        extra = {"tenant": desk.tenant, "identity": request.identity, "users": " ".join(answer.principals), "serial": serial}
        _log.info("ssh certificate issued", extra=extra)
        return {names.SSH_CERTIFICATE: made, names.SSH_HOST_KEY: host_key}

    def _recent(self, desk: _Desk, identity: str, now: datetime) -> deque[datetime]:
        """When an identity got its certificates of the last minute; forgets identities that got none."""
        for requester, moments in list(desk.recent.items()):
            while moments and moments[0] < now - timedelta(minutes=1):
                moments.popleft()
            if not moments and requester != identity:
                del desk.recent[requester]
        return desk.recent[identity]


def _key_of(encoded: str) -> people.PublicKey | Refuse:
    """The public key of a request, or why it is not signed."""
    if len(encoded) > 2 * people.REQUEST_BYTES:
        return Refuse(f"the request is larger than {people.REQUEST_BYTES} bytes")
    try:
        return people.public_key(base64.b64decode(encoded, validate=True))
    except people.UnfitRequestError as error:
        return Refuse(str(error))
    except (binascii.Error, ValueError):
        return Refuse("the request is not in base64")
