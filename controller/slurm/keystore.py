"""Keeps the keys of Slurm clusters in a Secret of the plane's host namespace: generated once, rotated and revoked there.

    annotation bulkhead.dev/revoke-tokens has a new value ──> a new JWT key: all tokens become invalid
    annotation bulkhead.dev/rotate-keys has a new value
      ──> a fresh key is staged: every daemon learns to verify it ──> a while later it is promoted: it signs
      ──> the older ones still verify for as long as a job's credential may live, then they are dropped

That Secret is the original; the one inside the plane is a copy, which is applied again if it is deleted. Once Slurm is switched
off and removed, the Secret is marked, but the keys stay. So does the name that the cluster was created with: its volumes stay
too and contain it, and slurmctld does not start under another one.
"""

import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from bulkhead.api import labels
from bulkhead.api.moments import moment_of
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists, NotFound
from bulkhead.work.clock import Clock
from controller.plane.spec import PlaneSpec
from controller.slurm.keygen import make_auth_key, make_jwt_key, make_keys
from controller.slurm.spec import KEYS
from controller.slurm.spec.keys import BadKeysError, SlurmKeys, from_data, promoted, retired, staged, to_data, waiting

_log = logging.getLogger(__name__)
ROTATE: Final = "bulkhead.dev/rotate-keys"
REVOKE: Final = "bulkhead.dev/revoke-tokens"
REVOKED: Final = "bulkhead.dev/revoked-tokens"
ROTATED: Final = "bulkhead.dev/rotated-keys"
STAGED_AT: Final = "bulkhead.dev/keys-staged-at"
OFF: Final = "bulkhead.dev/slurm-off"
CLUSTER_NAME: Final = "bulkhead.dev/slurm-cluster-name"
# A changed Secret reaches the files of a running pod within about a minute and a half.
SPREAD: Final = timedelta(minutes=3)
OVERLAP: Final = timedelta(hours=12)
REQUEST_CHARACTERS: Final = 256


class KeyStore:
    """Reads and writes the Secrets."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock

    async def current(
        self, plane: PlaneSpec, tenant: Obj, secret: Obj | None, spread: Mapping[str, datetime], *, name: str
    ) -> tuple[SlurmKeys, str]:
        """The keys to use now, after the next step of the rotation or revocation that the Tenant's annotations request.

        `spread` says since when the plane has had each key: none signs before every daemon can verify with it. The second
        part is the cluster's name, which is `name` only if it has had no other one.
        """
        kept, keys = await self._kept(plane, secret, name)
        if CLUSTER_NAME not in _annotations(kept):
            kept = await self._annotate(plane, {CLUSTER_NAME: name})
        return await self._rotate(plane, tenant, kept, keys, spread), _annotations(kept)[CLUSTER_NAME]

    def of(self, secret: Obj) -> SlurmKeys:
        """The keys of a cluster that is being removed: if they cannot be used, fresh ones that nothing else knows."""
        try:
            return from_data(secret.get("data") or {})
        except BadKeysError:
            # Workers can still be released: without an answer from Slurm their deadline decides.
            return make_keys()

    async def mark_off(self, plane: PlaneSpec) -> None:
        """Mark the Secret: the cluster is switched off and removed."""
        await self._annotate(plane, {OFF: "true"})

    async def _kept(self, plane: PlaneSpec, secret: Obj | None, name: str) -> tuple[Obj, SlurmKeys]:
        if secret is None:
            # The informer may not show it yet: read it, so that it is not replaced by other keys.
            secret = await self._read(plane)
        if secret is not None:
            try:
                keys = from_data(secret.get("data") or {})
            except BadKeysError as error:
                _log.error("%s: new keys are generated", error, extra={"tenant": plane.tenant})
                keys = make_keys()
                secret = await self._write(plane, keys, {})
            if is_off(secret):
                secret = await self._annotate(plane, {OFF: None})
            return secret, keys
        keys = make_keys()
        _log.info("keys of the Slurm cluster generated", extra={"tenant": plane.tenant})
        try:
            return await self._client.create(kinds.SECRETS, _secret(plane, keys, name)), keys
        except AlreadyExists:
            found = await self._client.get(kinds.SECRETS, KEYS, plane.namespace)
            return found, from_data(found.get("data") or {})

    async def _rotate(
        self, plane: PlaneSpec, tenant: Obj, secret: Obj, keys: SlurmKeys, spread: Mapping[str, datetime]
    ) -> SlurmKeys:
        now, annotations = self._clock.now(), _annotations(secret)
        asked = (_annotations(tenant).get(ROTATE) or "")[:REQUEST_CHARACTERS]
        revoke = (_annotations(tenant).get(REVOKE) or "")[:REQUEST_CHARACTERS]
        if revoke and annotations.get(REVOKED) != revoke:
            keys = replace(keys, jwt=make_jwt_key())
            _log.info("all tokens are revoked", extra={"tenant": plane.tenant})
            await self._write(plane, keys, {REVOKED: revoke})
            return keys
        fresh = waiting(keys)
        if fresh is not None:
            since = moment_of(annotations.get(STAGED_AT)) or now
            if now - since < SPREAD and STAGED_AT in annotations:
                return keys
            known = spread.get(fresh.kid)
            if known is None or now - known < SPREAD:
                # The plane was away, or this process has just begun.
                return keys
            keys = promoted(keys, now=int(now.timestamp()), overlap=int(OVERLAP.total_seconds()))
            _log.info("the staged key signs from now on", extra={"tenant": plane.tenant})
            await self._write(plane, keys, {STAGED_AT: None})
            return keys
        if asked and annotations.get(ROTATED) != asked:
            keys = staged(keys, make_auth_key())
            _log.info("a fresh key is staged", extra={"tenant": plane.tenant})
            await self._write(plane, keys, {ROTATED: asked, STAGED_AT: now.isoformat(timespec="seconds")})
            return keys
        fewer = retired(keys, now=int(now.timestamp()))
        if fewer != keys:
            await self._write(plane, fewer, {})
        return fewer

    async def _read(self, plane: PlaneSpec) -> Obj | None:
        try:
            return await self._client.get(kinds.SECRETS, KEYS, plane.namespace)
        except NotFound:
            return None

    async def _write(self, plane: PlaneSpec, keys: SlurmKeys, annotations: Mapping[str, str | None]) -> Obj:
        body = {"data": to_data(keys), "metadata": {"annotations": dict(annotations)}}
        return await self._client.patch(kinds.SECRETS, KEYS, body, plane.namespace)

    async def _annotate(self, plane: PlaneSpec, annotations: Mapping[str, str | None]) -> Obj:
        return await self._client.patch(kinds.SECRETS, KEYS, {"metadata": {"annotations": dict(annotations)}}, plane.namespace)


def _secret(plane: PlaneSpec, keys: SlurmKeys, name: str) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": KEYS,
            "namespace": plane.namespace,
            "labels": labels.made_for(plane.tenant, "slurm"),
            "annotations": {CLUSTER_NAME: name},
        },
        "type": "Opaque",
        "data": to_data(keys),
    }


def is_off(secret: Obj) -> bool:
    """Whether the cluster of these keys is switched off and removed."""
    return OFF in _annotations(secret)


def _annotations(obj: Obj) -> dict[str, str]:
    return obj["metadata"].get("annotations") or {}
