"""Answers requests for people's certificates: the host's CertificateSigningRequests for Bulkhead's signer; only while leading.

    informer (this signer only) ──> the requester's line ──> the request, read from the API server
        ├─ Tenant, the requester's right ──> decide.logins.judge
        └─ Sign ──> approved ──> the CA of people, read from the API server ──> certificate

Several requests are answered at once, but only one of each requester (`lines`). Of a request only its requester and its state
are kept, so that many requests take little memory; the chart's policy bulkhead-login-requests limits their size.

Each step looks at the present state, so after a crash between two steps the next process continues. After a revocation of all
certificates, the old CA signs nothing while it waits for its replacement. A CA's key is read for each signature and never kept.
"""

import asyncio
import base64
import binascii
import logging
from collections import defaultdict, deque
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
from msgspec import structs

from bulkhead.api import names
from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping
from bulkhead.kube import codec
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.codec import compact
from bulkhead.kube.errors import ApiError, Conflict, KubeError, NotFound
from bulkhead.kube.informer import Change, Informer
from bulkhead.kube.objects import Meta
from bulkhead.work.backoff import PerKeyBackoff
from bulkhead.work.clock import Clock
from bulkhead.work.queue import Lane
from bulkhead.work.supervise import supervise
from controller import metrics
from controller.decide import logins
from controller.decide.logins import Answer, Deny, Later, Request, Sign
from controller.host.lines import Lines
from controller.pki import people
from controller.plane.pki import USERS, Pair, authority_secret
from controller.plane.secrets import REVOKED_FILE

_log = logging.getLogger(__name__)
_WORKERS: Final = 4
_MIB: Final = 1024 * 1024
_LOOK_AGAIN_SECONDS: Final = 1.0
_PATROL_PERIOD_SECONDS: Final = 60.0
_REQUEST_BYTES: Final = 64 * 1024


def facts(raw: bytes | msgspec.Raw, meta: Meta | None) -> tuple[Meta, bytes]:
    """The kept part of a request; nothing of a request that is too large to be signed, which the host removes in time."""
    found, body = compact(raw, meta)
    if len(body) > _REQUEST_BYTES:
        return found, b""
    try:
        request = logins.request_of(codec.decode_obj(body))
    except (KeyError, TypeError, ValueError):
        return found, b""
    kept = {
        "metadata": {"name": request.name, "uid": found.uid, "creationTimestamp": request.created.isoformat()},
        "spec": {"username": request.requester},
        "status": {
            "conditions": [{"type": "Denied"}] if request.denied else [],
            "certificate": "kept elsewhere" if request.answered else "",
        },
    }
    bare = structs.replace(found, labels=None, annotations=None, finalizers=None, owner_references=None)
    return bare, codec.encode(kept)


class Logins:
    """Watches requests for people's certificates, and answers them in their requesters' lines while `run` runs."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._lines = Lines(clock)
        self._backoff: PerKeyBackoff[str] = PerKeyBackoff(0.2, 30.0, jitter=0.5)
        self._recent: defaultdict[tuple[str, str], deque[datetime]] = defaultdict(deque)
        self._requests = Informer(
            client,
            kinds.CERTIFICATE_SIGNING_REQUESTS,
            field_selector=f"spec.signerName={names.LOGIN_SIGNER}",
            on_change=self._changed,
            shrink=facts,
            max_bytes=32 * _MIB,
        )

    def _changed(self, change: Change) -> None:
        obj = self._requests.store.get(change.key)
        if obj is not None and logins.is_open(request := logins.request_of(obj)):
            self._lines.add(request.requester, request.name)

    async def run(self) -> None:
        """Answer until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(supervise("requests for certificates", self._requests.run))
            for number in range(_WORKERS):
                group.create_task(supervise(f"logins {number}", self._work))
            group.create_task(supervise("patrol of requests", self._patrol))

    async def _patrol(self) -> None:
        """Look at every request again: remove answered ones in time, and add requests for which the lines had no place."""
        while True:
            await self._clock.sleep(_PATROL_PERIOD_SECONDS)
            for key in list(self._requests.store.keys()):
                await asyncio.sleep(0)
                obj = self._requests.store.get(key)
                if obj is None:
                    continue
                request = logins.request_of(obj)
                if logins.is_open(request):
                    self._lines.add(request.requester, request.name, Lane.BACKFILL)
                elif logins.is_over(request, self._clock.now()):
                    await self._remove(obj)

    async def _remove(self, obj: Obj) -> None:
        name = str(obj["metadata"]["name"])
        try:
            await self._client.delete(kinds.CERTIFICATE_SIGNING_REQUESTS, name, uid=str(obj["metadata"]["uid"]))
        except (KubeError, TimeoutError) as error:
            _log.warning("cannot remove request: %s", error, extra={"request": name})

    async def _work(self) -> None:
        while True:
            requester, name = await self._lines.take()
            again = None
            try:
                again = await self.answer(name)
            except (KubeError, TimeoutError) as error:
                again = self._backoff.next(name)
                _log.warning("cannot answer request: %s", error, extra={"request": name, "retry_in": round(again, 2)})
            except Exception:  # noqa: BLE001 - logged with its trace; one request must not delay others
                again = self._backoff.next(name)
                _log.exception("cannot answer request", extra={"request": name, "retry_in": round(again, 2)})
            else:
                self._backoff.forget(name)
            finally:
                self._lines.done(requester, name, again)

    async def answer(self, name: str) -> float | None:
        """Take one request as far as possible; returns the seconds until the next look, None for none."""
        try:
            obj = await self._client.get(kinds.CERTIFICATE_SIGNING_REQUESTS, name)
        except NotFound:
            return None
        request, now = logins.request_of(obj), self._clock.now()
        if obj["spec"].get("signerName") != names.LOGIN_SIGNER or not logins.is_open(request):
            return None  # replaced by another of its name, or answered meanwhile; the patrol removes it in time
        found = await self._judge(obj, request, now)
        try:
            if isinstance(found, Sign):
                found = await self._sign(obj, request, found, now)
            if isinstance(found, Deny):
                await self._deny(obj, request, found)
        except (Conflict, NotFound):
            # Another client changed or deleted it: it is read again.
            return _LOOK_AGAIN_SECONDS
        return _LOOK_AGAIN_SECONDS if isinstance(found, Later) else None

    async def _judge(self, obj: Obj, request: Request, now: datetime) -> Answer:
        tenant = await self._tenant(request.tenant)
        allowed = False
        if tenant is not None:
            review = await self._client.create(kinds.SUBJECT_ACCESS_REVIEWS, logins.may_log_in(obj, request))
            allowed = mapping(review.get("status")).get("allowed") is True
        verdict = logins.judge(request, tenant, allowed=allowed, recent=self._count(request, now))
        if isinstance(verdict, Sign) and tenant is not None and await self._authority(tenant) is None:
            return logins.waits(request, now)
        return verdict

    async def _tenant(self, name: str) -> Obj | None:
        try:
            return await self._client.get(kinds.TENANTS, names.check_tenant_name(name))
        except (NotFound, names.InvalidTenantNameError):
            return None

    async def _sign(self, obj: Obj, request: Request, found: Sign, now: datetime) -> Answer:
        try:
            key = people.public_key(base64.b64decode(str(obj["spec"].get("request")), validate=True))
        except people.UnfitRequestError as error:
            return Deny(str(error))
        except (binascii.Error, ValueError):
            return Deny("the request must be base64")
        if not request.approved:
            obj = await self._condition(obj, "Approved", f"{request.requester} may {names.LOGIN_VERB} to {request.tenant}")
        tenant = await self._tenant(request.tenant)
        if tenant is None or logins.is_revoked(request, tenant):
            return Later()  # judged once more, and refused then
        authority = await self._authority(tenant)
        if authority is None:
            return Later()
        certificate = people.certify(
            key, user=found.user, group=names.ADMIN_GROUP, authority=authority, now=now, life=found.life
        )
        status = {**mapping(obj.get("status")), "certificate": base64.b64encode(certificate).decode()}
        await self._client.replace(kinds.CERTIFICATE_SIGNING_REQUESTS, obj | {"status": status}, subresource="status")
        self._recent[request.requester, request.tenant].append(now)
        metrics.logins.labels("signed").inc()
        _log.info("certificate issued", extra={"tenant": request.tenant, "user": found.user, "request": request.name})
        return found

    async def _authority(self, tenant: Obj) -> Pair | None:
        """The CA of the tenant's people; None if there is none yet, or if it is being replaced."""
        wanted = str(mapping(mapping(tenant.get("spec")).get("access")).get("certificatesRevoked") or "")
        try:
            namespace = names.plane_namespace(str(tenant["metadata"]["name"]))
            secret = await self._client.get(kinds.SECRETS, authority_secret(USERS), namespace)
            files = {key: base64.b64decode(value) for key, value in (secret.get("data") or {}).items()}
            if wanted not in {"", files.get(REVOKED_FILE, b"").decode("ascii", "replace")}:
                return None
            return Pair(files["tls.crt"], files["tls.key"])
        except (ApiError, KeyError, ValueError):
            # The namespace or the right in it does not exist yet: the tenant's own reconcile reports what is wrong.
            return None

    async def _deny(self, obj: Obj, request: Request, found: Deny) -> None:
        metrics.logins.labels("denied").inc()
        extra = {"tenant": request.tenant, "requester": request.requester, "request": request.name}
        _log.info("refused certificate: %s", found.why, extra=extra)
        await self._condition(obj, "Failed" if request.approved else "Denied", found.why)

    async def _condition(self, obj: Obj, kind: str, message: str) -> Obj:
        status: dict[str, Any] = dict(mapping(obj.get("status")))
        condition = {"type": kind, "status": "True", "reason": "Bulkhead", "message": message[:1000]}
        changed = obj | {"status": status | {"conditions": [*(status.get("conditions") or ()), condition]}}
        subresource = "status" if kind == "Failed" else "approval"
        return await self._client.replace(kinds.CERTIFICATE_SIGNING_REQUESTS, changed, subresource=subresource)

    def _count(self, request: Request, now: datetime) -> int:
        """How many of this tenant's certificates the requester got within a minute; forgets requesters without any."""
        for pair in list(self._recent):
            moments = self._recent[pair]
            while moments and moments[0] < now - timedelta(minutes=1):
                moments.popleft()
            if not moments:
                del self._recent[pair]
        return len(self._recent.get((request.requester, request.tenant), ()))
