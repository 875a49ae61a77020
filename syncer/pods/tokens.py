"""Service account tokens of pods: asked of the tenant's API, kept in one host Secret per pod, renewed at 80 % of their life.

Each token is bound to the virtual pod's UID, so it dies with the pod. It is asked for once the pod is bound to its node, which
the plane then writes into it, so a pod that waits for room costs no token; the Secret, owned by the host pod (so both go
together, and one write does), is what the kubelet waits for. No token is in an annotation, a log or the plane. An annotation of
the Secret has the time of renewal, so that a restarted syncer neither requests new tokens nor forgets to.

A pod's tokens are a key of their own in the queue, so that neither waits for the other: the status is reported meanwhile.
A pod that has ended stays for as long as the tenant keeps it, and needs no tokens: they are deleted at once.

    virtual pod bound, ended ─> queue ┐
    Secret came, went ────────────────┼──> Item(PodToken, pod) ──> fresh? ──> again when they have to be renewed
    renewal due ──────────────────────┘          │                  └─ no ──> TokenRequest of each ──> one Secret
                                                 └─ ended ──> delete the Secret
"""

import logging
from collections.abc import Iterable
from typing import Final, NamedTuple

from bulkhead.api.objects import Obj
from bulkhead.api.podphase import has_ended, placed_on
from bulkhead.kube.client import Client
from bulkhead.kube.errors import ApiError, KubeError
from bulkhead.kube.informer import Change
from bulkhead.kube.objects import Key, Meta, key_of, uid_of
from bulkhead.kube.resources import SECRETS, SERVICE_ACCOUNTS
from bulkhead.work.clock import Clock
from syncer import metrics
from syncer.events import Recorder
from syncer.logs import about
from syncer.translate import othersmarks
from syncer.translate import tokens as token_translation
from syncer.translate.origin import virtual_uid
from syncer.watch.informers import Caches, Subscription
from syncer.work import Again, Item, Queue, Stale
from syncer.write import refusals
from syncer.write.host import HostWriter

_log = logging.getLogger(__name__)

RENEW_AT: Final = "bulkhead.dev/renew-at"
KEYS: Final = "bulkhead.dev/token-keys"
_SHARE: Final = 0.8
_RETRY_SECONDS: Final = 15.0
_LATER_SECONDS: Final = 2.0
_NEVER: Final = float("inf")


class Minted(NamedTuple):
    """Tokens by their key in the Secret, and the seconds after which the first of them has to be renewed."""

    values: dict[str, str]
    left: float


class Tokens:
    """Makes and renews the token Secret of a pod."""

    def __init__(
        self, caches: Caches, queue: Queue, host: HostWriter, plane: Client, *, recorder: Recorder, clock: Clock
    ) -> None:
        self._caches = caches
        self._queue = queue
        self._host = host
        self._plane = plane
        self._recorder = recorder
        self._clock = clock
        # Pods whose tokens were reconciled: their UID, and when they must be renewed. The cache may not show the Secret yet.
        self._known: dict[Key, tuple[str, float]] = {}
        # Token Secrets that no pod owns, because something else on the host wrote on them. Pod -> Secrets.
        self._strays: dict[Key, dict[str, str]] = {}

    def queue(self, virtual: Obj, host: Obj) -> None:
        """Queue the tokens of a pod that is bound or has ended, once; later events and timers queue them again."""
        key = key_of(virtual)
        if has_ended(host):
            if self._held(virtual) is not None or self._made(key):
                self._queue.add(Item(token_translation.KIND, key))
        elif self._known.get(key, ("", 0.0))[0] != uid_of(virtual):
            self._queue.add(Item(token_translation.KIND, key))

    def forget(self, key: Key) -> None:
        """Forget a pod that is gone on both sides; its Secret, which it owned, goes with it."""
        self._known.pop(key, None)
        if key in self._strays:
            self._queue.add(Item(token_translation.KIND, key))

    def subscriptions(self) -> Iterable[Subscription]:
        """The host's Secrets."""
        return (Subscription("host", "Secret", self.secret_changed),)

    def secret_changed(self, change: Change) -> None:
        """Forget the tokens of a host Secret that is gone or that no pod owns."""
        if change.kind != "deleted" and change.meta.owner_references and not self._strays:
            return
        item = self._caches.work_of("Secret", change.meta)
        if item is None or item.kind != token_translation.KIND:
            return
        stray = self._strays.setdefault(item.key, {})
        if change.kind == "deleted" or change.meta.owner_references:
            stray.pop(change.key.name, None)
        else:
            stray[change.key.name] = change.meta.uid
        if not stray:
            del self._strays[item.key]
        if change.kind == "deleted" or stray:
            self._known.pop(item.key, None)

    async def reconcile(self, key: Key) -> float | None:
        """Make sure that a bound pod has fresh tokens; returns seconds until they have to be renewed."""
        virtual, pod = self._caches.virtual_pod(key), self._caches.host_pod(key)
        if virtual is None and pod is None:
            await self._sweep(key)
            return None
        if virtual is None or pod is None or virtual_uid(pod) != uid_of(virtual):
            return None
        if has_ended(pod):
            return await self._delete_tokens(virtual)
        if not _may_have(virtual):
            return None
        needs = token_translation.token_requests(virtual, self._caches.view().max_token_seconds)
        if not needs:
            self._known[key] = (uid_of(virtual), _NEVER)
            return None
        held = self._held(virtual)
        left = self._renew_at(virtual, held) - self._clock.now().timestamp()
        if left <= 0 or (held is not None and not held.owner_references):
            left = await self._renew(virtual, pod, needs, new=held is None)
        return left

    def _held(self, virtual: Obj) -> Meta | None:
        """The Secret of a pod's tokens as the cache has it."""
        name = token_translation.secret_name(virtual, self._caches.view())
        return self._caches.host["Secret"].store.meta(Key(self._caches.settings.work_namespace, name))

    def _made(self, key: Key) -> bool:
        """Whether this process made tokens of a pod, or meant to, and has not observed their end."""
        return self._known.get(key, ("", _NEVER))[1] < _NEVER

    async def _delete_tokens(self, virtual: Obj) -> float | None:
        """Delete the tokens of a pod that has ended; seconds until the next reconcile where they may be on their way."""
        held = self._held(virtual)
        if held is not None:
            key = Key(self._caches.settings.work_namespace, held.name)
            await self._host.delete(SECRETS, key, held.uid, grace=None, why="its pod has ended")
        made = self._made(key_of(virtual))
        self._known[key_of(virtual)] = (uid_of(virtual), _NEVER)
        return _LATER_SECONDS if made and held is None else None

    async def _renew(self, virtual: Obj, pod: Obj, needs: tuple[token_translation.TokenNeed, ...], *, new: bool) -> float:
        try:
            return await self._store(virtual, pod, await self._request_all(virtual, needs), new=new)
        except KubeError as error:
            metrics.TOKENS.labels("failed").inc()
            self._tell(virtual, error)
            if new:
                raise
            # The pod runs on with what it has; only the renewal is late.
            _log.warning("token not renewed", extra=about("Pod", key_of(virtual)))
            return _RETRY_SECONDS

    def _tell(self, virtual: Obj, error: KubeError) -> None:
        """Warn of a lack of quota: the kubelet says no more of it than that a Secret is missing."""
        hope = "The pod's tokens are made when enough is free."
        refused = refusals.explain(error, key_of(virtual).name, hope) if isinstance(error, ApiError) else None
        if refused is not None and refusals.is_quota(refused):
            self._recorder.warn(virtual, str(refused.reason), str(refused))

    def _renew_at(self, virtual: Obj, held: Meta | None) -> float:
        """When the present tokens have to be renewed; 0 without tokens."""
        uid, renew_at = self._known.get(key_of(virtual), ("", 0.0))
        noted = _number(held.annotation(RENEW_AT)) if held is not None else 0.0
        renew_at = max(noted, renew_at if uid == uid_of(virtual) else 0.0)
        if renew_at - self._clock.now().timestamp() > self._caches.settings.token_seconds:
            # No token lives that long: the clock was wrong when this was noted, or is now. A new token does no harm.
            return 0.0
        self._known[key_of(virtual)] = (uid_of(virtual), renew_at)
        return renew_at

    async def _request_all(self, virtual: Obj, needs: tuple[token_translation.TokenNeed, ...]) -> Minted:
        values: dict[str, str] = {}
        shortest = float("inf")
        for need in needs:
            if need.key not in values:
                values[need.key], life = await self._request(virtual, need)
                shortest = min(shortest, life)
        return Minted(values, shortest * _SHARE)

    async def _store(self, virtual: Obj, pod: Obj, minted: Minted, *, new: bool) -> float:
        renew_at = self._clock.now().timestamp() + minted.left
        secret = token_translation.secret(virtual, self._caches.view(), minted.values, pod)
        secret["metadata"]["annotations"] |= {RENEW_AT: str(int(renew_at)), KEYS: ",".join(sorted(minted.values))}
        await self._write(secret, new=new)
        self._known[key_of(virtual)] = (uid_of(virtual), renew_at)
        return minted.left

    async def _request(self, virtual: Obj, need: token_translation.TokenNeed) -> tuple[str, float]:
        meta = virtual["metadata"]
        spec: Obj = {
            "expirationSeconds": need.expiration_seconds,
            "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": uid_of(virtual)},
        }
        if need.audience:
            spec["audiences"] = [need.audience]
        body: Obj = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        account = token_translation.service_account(virtual)
        answer = await self._plane.create_subresource(SERVICE_ACCOUNTS, account, "token", body, meta["namespace"])
        status = answer.get("status")
        token = status.get("token") if isinstance(status, dict) else None
        if not isinstance(token, str) or not token:
            raise Again(_RETRY_SECONDS, "the plane answered a token request without a token")
        if len(token.encode(errors="replace")) > token_translation.MOST_TOKEN_BYTES:
            raise Again(_RETRY_SECONDS, f"the plane made a token of {len(token)} characters")
        granted = (answer.get("spec") or {}).get("expirationSeconds")
        metrics.TOKENS.labels("issued").inc()
        # Never believe a longer life than was asked for.
        return token, float(min(granted, need.expiration_seconds)) if isinstance(granted, int) and granted > 0 else 600.0

    async def _write(self, secret: Obj, *, new: bool) -> None:
        meta = secret["metadata"]
        found = None if new else await self._host.read(SECRETS, Key(meta["namespace"], meta["name"]))
        if found is None:
            try:
                found = await self._host.create(SECRETS, secret, self._caches.view())
            except Stale as stale:
                raise Again(1.0, "a token secret of another pod has this name") from stale
            if (found["metadata"].get("annotations") or {}).get(RENEW_AT) == meta["annotations"][RENEW_AT]:
                return
        await self._host.replace(SECRETS, othersmarks.kept(secret, found["metadata"]), uid_of(found))

    async def _sweep(self, pod: Key) -> None:
        """Delete token Secrets of a pod that is gone and that owned none; the others go by themselves."""
        for name, uid in tuple(self._strays.get(pod, {}).items()):
            key = Key(self._caches.settings.work_namespace, name)
            await self._host.delete(SECRETS, key, uid, grace=None, why="its pod is gone")


def _may_have(virtual: Obj) -> bool:
    """Whether a pod should have tokens: it is bound in the plane, which writes the node into them, and is not ending."""
    bound, dying = bool(placed_on(virtual)), bool(virtual["metadata"].get("deletionTimestamp"))
    return bound and not dying and not has_ended(virtual)


def _number(text: str | None) -> float:
    return float(text) if text and text.isascii() and text.isdigit() else 0.0
