"""Service account tokens of pods: asked of the tenant's API, kept in one host Secret per pod, renewed at 80 % of their life.

Each token is bound to the virtual pod's UID, so it dies with the pod. It is asked for once the pod is bound to its node, which
the plane then writes into it, so a pod that waits for room costs no token; the Secret, owned by the host pod (so both go
together, and one write does), is what the kubelet waits for. No token lies in an annotation, a log or the plane. When it must
be renewed is an annotation of the Secret, so that a restarted syncer neither mints anew nor forgets.
"""

import logging
from typing import Final, NamedTuple

from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError, NotFound
from bulkhead.kube.informer import Change
from bulkhead.kube.objects import Key, Meta, Obj, uid_of
from bulkhead.kube.resources import SECRETS, SERVICE_ACCOUNTS
from bulkhead.work.clock import Clock
from syncer import metrics
from syncer.caches import Caches
from syncer.down import Again, HostWriter, Stale
from syncer.logs import about
from syncer.translate import tokens as pure

_log = logging.getLogger(__name__)

RENEW_AT: Final = "bulkhead.dev/renew-at"
KEYS: Final = "bulkhead.dev/token-keys"
_SHARE: Final = 0.8
_RETRY_SECONDS: Final = 15.0


class Minted(NamedTuple):
    """Tokens by their key in the Secret, and the seconds after which the first of them has to be renewed."""

    values: dict[str, str]
    left: float


class Tokens:
    """Makes and renews the token Secret of a pod."""

    def __init__(self, caches: Caches, host: HostWriter, plane: Client, clock: Clock) -> None:
        self._caches = caches
        self._host = host
        self._plane = plane
        self._clock = clock
        # What was written and is perhaps not in the cache yet: Secret name -> (renew at, owned).
        self._written: dict[str, tuple[float, bool]] = {}

    async def ensure(self, virtual: Obj, pod: Obj) -> float | None:
        """Make sure that the tokens of a bound pod are there and fresh; returns seconds until they have to be renewed."""
        view = self._caches.view()
        needs = pure.token_requests(virtual, view.max_token_seconds)
        if not needs:
            return None
        name = pure.secret_name(virtual, view)
        held = self._caches.host["Secret"].store.meta(Key(self._caches.settings.work_namespace, name))
        renew_at, owned = self._known(name, held)
        left = renew_at - self._clock.now().timestamp()
        if left > 0 and owned:
            return left
        if left > 0:
            await self._own(name, pod)
            self._written[name] = (renew_at, True)
            return left
        try:
            return await self._store(name, virtual, pod, await self._request_all(virtual, needs), new=held is None)
        except KubeError:
            metrics.TOKENS.labels("failed").inc()
            if held is None:
                raise
            # The pod runs on with what it has; only the renewal is late.
            _log.warning(
                "token not renewed", extra=about("Pod", Key(virtual["metadata"]["namespace"], virtual["metadata"]["name"]))
            )
            return _RETRY_SECONDS

    def gone(self, change: Change) -> None:
        """A Secret of the host is gone: what was written of it counts no more."""
        if change.kind == "deleted":
            self._written.pop(change.key.name, None)

    def _known(self, name: str, held: Meta | None) -> tuple[float, bool]:
        renew_at, owned = self._noted(name, held)
        if renew_at - self._clock.now().timestamp() > self._caches.settings.token_seconds:
            # No token lives that long: the clock was wrong when this was noted, or is now. A new token does no harm.
            return 0.0, owned
        return renew_at, owned

    def _noted(self, name: str, held: Meta | None) -> tuple[float, bool]:
        written = self._written.get(name)
        if held is None:
            return written if written is not None else (0.0, False)
        renew_at = _number(held.annotation(RENEW_AT))
        owned = bool(held.owner_references)
        if written is not None and written[0] >= renew_at:
            return written[0], written[1] or owned
        return renew_at, owned

    async def _request_all(self, virtual: Obj, needs: tuple[pure.TokenNeed, ...]) -> Minted:
        values: dict[str, str] = {}
        shortest = float("inf")
        for need in needs:
            if need.key not in values:
                values[need.key], life = await self._request(virtual, need)
                shortest = min(shortest, life)
        return Minted(values, shortest * _SHARE)

    async def _store(self, name: str, virtual: Obj, pod: Obj, minted: Minted, *, new: bool) -> float:
        renew_at = self._clock.now().timestamp() + minted.left
        secret = pure.secret(virtual, self._caches.view(), minted.values, pod)
        secret["metadata"]["annotations"] |= {RENEW_AT: str(int(renew_at)), KEYS: ",".join(sorted(minted.values))}
        await self._write(secret, new=new)
        self._written[name] = (renew_at, True)
        return minted.left

    async def _request(self, virtual: Obj, need: pure.TokenNeed) -> tuple[str, float]:
        meta = virtual["metadata"]
        spec: Obj = {
            "expirationSeconds": need.expiration_seconds,
            "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": uid_of(virtual)},
        }
        if need.audience:
            spec["audiences"] = [need.audience]
        body: Obj = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        account = pure.service_account(virtual)
        answer = await self._plane.create_subresource(SERVICE_ACCOUNTS, account, "token", body, meta["namespace"])
        status = answer.get("status")
        token = status.get("token") if isinstance(status, dict) else None
        if not isinstance(token, str) or not token:
            raise Again(_RETRY_SECONDS, "the plane answered a token request without a token")
        granted = (answer.get("spec") or {}).get("expirationSeconds")
        metrics.TOKENS.labels("issued").inc()
        # Never believe a longer life than was asked for.
        return token, float(min(granted, need.expiration_seconds)) if isinstance(granted, int) and granted > 0 else 600.0

    async def _write(self, secret: Obj, *, new: bool) -> None:
        meta = secret["metadata"]
        found = None if new else await self._host.look(SECRETS, Key(meta["namespace"], meta["name"]))
        if found is None:
            try:
                found = await self._host.create(SECRETS, secret, self._caches.view())
            except Stale as stale:
                raise Again(1.0, "a token secret of another pod has this name") from stale
            if (found["metadata"].get("annotations") or {}).get(RENEW_AT) == meta["annotations"][RENEW_AT]:
                return
        await self._host.replace(SECRETS, secret, uid_of(found))

    async def _own(self, name: str, pod: Obj) -> None:
        owner = {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": uid_of(pod)}
        key = Key(self._caches.settings.work_namespace, name)
        try:
            await self._host.patch(SECRETS, key, {"metadata": {"ownerReferences": [owner]}})
        except NotFound as error:
            self._written.pop(name, None)
            raise Again(0.1, "token secret is gone") from error

    async def clean(self, pod: Key) -> None:
        """Delete token Secrets of a pod that is gone on both sides; owned ones go by themselves."""
        store = self._caches.host["Secret"].store
        for key in store.keys():  # noqa: SIM118 -- a store, not a dict
            meta = store.meta(key)
            who = self._caches.origin(meta) if meta is not None and not meta.owner_references else None
            if meta is None or who is None or who.kind != pure.KIND:
                continue
            if Key(who.namespace, who.name.rpartition(".")[0]) == pod:
                self._written.pop(key.name, None)
                await self._host.delete(SECRETS, key, meta.uid, grace=None, why="its pod is gone")
        # Names of Secrets that went with their pods.
        for name in [name for name, (_, owned) in self._written.items() if owned]:
            if Key(self._caches.settings.work_namespace, name) not in store:
                del self._written[name]


def _number(text: str | None) -> float:
    return float(text) if text and text.isdigit() else 0.0
