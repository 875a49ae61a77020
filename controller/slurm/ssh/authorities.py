"""Keeps the CA of each cluster's ssh certificates in a Secret of the plane's host namespace, which no pod mounts.

It is written as a whole in one request, together with the request that it fulfils, so a crash repeats or skips a step. A Secret
that cannot be read is replaced: only certificates with a life of 15 minutes are lost.
"""

import base64
import logging
from collections.abc import Mapping
from datetime import datetime

from bulkhead.api import labels
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists, NotFound
from bulkhead.work.clock import Clock
from controller.plane.spec import PlaneSpec
from controller.sections import section_of
from controller.slurm.keygen import make_ssh_key
from controller.slurm.keystore import REQUEST_CHARACTERS, ROTATE
from controller.slurm.spec import AUTHORITY, KEYS
from controller.slurm.spec.authority import Authority, from_data, stepped, to_data
from controller.slurm.spec.keys import BadKeysError

_log = logging.getLogger(__name__)


class Authorities:
    """Reads and writes the Secrets."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock

    async def current(self, plane: PlaneSpec, tenant: Obj, spread: Mapping[str, datetime]) -> Authority:
        """The CA to use now, after the next step of what the Tenant asks for.

        `spread` says since when the plane has had each public key.
        """
        rotate = str((tenant["metadata"].get("annotations") or {}).get(ROTATE) or "")[:REQUEST_CHARACTERS]
        revoke = str(section_of(section_of(tenant, "spec"), "access").get("certificatesRevoked") or "")
        secret = await self._read(plane.namespace)
        if secret is None:
            return await self._make(plane, Authority(make_ssh_key(), rotated=rotate, revoked=revoke))
        try:
            kept = from_data(secret.get("data") or {})
        except BadKeysError as error:
            _log.error("%s: making another", error, extra={"tenant": plane.tenant})
            kept = None
        now = self._clock.now()
        found = (
            stepped(kept, rotate=rotate, revoke=revoke, now=now, draw=make_ssh_key, spread=spread)
            if kept is not None
            else Authority(make_ssh_key(), rotated=rotate, revoked=revoke)
        )
        if found != kept:
            _log.info("CA of ssh certificates: next step", extra={"tenant": plane.tenant, "keys": len(found.trusted)})
            # Another process may have written in between: the write then fails as a conflict.
            meta = {"resourceVersion": secret["metadata"]["resourceVersion"]}
            await self._client.patch(kinds.SECRETS, AUTHORITY, {"metadata": meta, "data": to_data(found)}, plane.namespace)
        return found

    async def signing(self, namespace: str) -> tuple[Authority, str] | None:
        """The CA as it is now, and the host key of the login nodes; None where one of them is missing."""
        try:
            secret = await self._client.get(kinds.SECRETS, AUTHORITY, namespace)
            return from_data(secret.get("data") or {}), await self._host_key(namespace)
        except (NotFound, BadKeysError, KeyError, ValueError):
            return None

    async def _host_key(self, namespace: str) -> str:
        secret = await self._client.get(kinds.SECRETS, KEYS, namespace)
        return base64.b64decode(secret["data"]["ssh_host_ed25519_key.pub"]).decode("ascii").strip()

    async def _make(self, plane: PlaneSpec, drawn: Authority) -> Authority:
        _log.info("CA of ssh certificates made", extra={"tenant": plane.tenant})
        meta = {"name": AUTHORITY, "namespace": plane.namespace, "labels": labels.made_for(plane.tenant, "slurm")}
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": "Opaque", "data": to_data(drawn)}
        try:
            await self._client.create(kinds.SECRETS, body)
        except AlreadyExists:
            found = await self._client.get(kinds.SECRETS, AUTHORITY, plane.namespace)
            return from_data(found.get("data") or {})
        return drawn

    async def _read(self, namespace: str) -> Obj | None:
        try:
            return await self._client.get(kinds.SECRETS, AUTHORITY, namespace)
        except NotFound:
            return None
