"""Keeps the keys with which planes' records and snapshots are signed, in a Secret of the controller's namespace.

    empty ──> a key is drawn and written once
    annotation bulkhead.dev/rotate-keys has a new value ──> another key signs; of the older one only the public half stays

The chart creates the Secret empty, and the controller may read and patch this one alone. Every write names the version that was
read, so that two controllers never draw two keys.
"""

import base64
import logging
from collections.abc import Mapping
from typing import Final

from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists, Forbidden, NotFound
from bulkhead.signing import Ring, SignatureError
from bulkhead.work.clock import Clock
from controller.decide.identity import KEYS
from controller.pki.material import files_of
from controller.pki.signingkeys import PRIVATE, new_files, ring_of

_log = logging.getLogger(__name__)
ROTATE: Final = "bulkhead.dev/rotate-keys"
ROTATED: Final = "bulkhead.dev/rotated-keys"
_REQUEST_CHARACTERS: Final = 256
_LOOK_SECONDS: Final = 30.0


class IdentityKeys:
    """The keys of one installation."""

    def __init__(self, client: Client, namespace: str, clock: Clock) -> None:
        self._client = client
        self._namespace = namespace
        self._clock = clock
        self._ring: Ring | None = None
        self._looked = float("-inf")

    async def ring(self, *, fresh: bool = False) -> Ring:
        """The keys, read again after a while or if `fresh`. Raises KubeError, or SignatureError if they cannot be used."""
        if self._ring is None or fresh or self._clock.monotonic() - self._looked > _LOOK_SECONDS:
            self._ring = await self._read()
            self._looked = self._clock.monotonic()
        return self._ring

    async def _read(self) -> Ring:
        try:
            secret = await self._client.get(kinds.SECRETS, KEYS, self._namespace)
        except NotFound:
            secret = await self._create()
        files = files_of(secret)
        asked = str((secret["metadata"].get("annotations") or {}).get(ROTATE) or "")[:_REQUEST_CHARACTERS]
        rotated = (secret["metadata"].get("annotations") or {}).get(ROTATED) or ""
        if not files:
            secret = await self._write(secret, new_files(), asked)
            _log.info("the key that signs planes' records was drawn")
        elif PRIVATE in files and asked and asked != rotated:
            secret = await self._write(secret, new_files(), asked)
            _log.info("another key signs planes' records; what the earlier ones signed still counts")
        try:
            return ring_of(files_of(secret))
        except SignatureError as error:
            # No other key is drawn over one that has signed: every record would be in doubt.
            words = f"Secret {KEYS} in {self._namespace} cannot be used: {error}. Restore it from a backup"
            raise SignatureError(words) from error

    async def _create(self) -> Obj:
        """The chart makes it; a controller that runs without a chart may."""
        body: Obj = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": KEYS}, "type": "Opaque"}
        try:
            return await self._client.create(kinds.SECRETS, body, self._namespace)
        except AlreadyExists:
            return await self._client.get(kinds.SECRETS, KEYS, self._namespace)
        except Forbidden as error:
            raise SignatureError(
                f"Secret {KEYS} is missing in {self._namespace}. Restore it from a backup. If there is none, `helm upgrade` "
                "makes it again, with another key: then the Secret plane-record of each tenant has to be deleted"
            ) from error

    async def _write(self, secret: Obj, files: Mapping[str, bytes], asked: str) -> Obj:
        meta: Obj = {"resourceVersion": secret["metadata"]["resourceVersion"]}
        if asked:
            meta["annotations"] = {ROTATED: asked}
        data = {name: base64.b64encode(content).decode() for name, content in files.items()}
        return await self._client.patch(kinds.SECRETS, KEYS, {"metadata": meta, "data": data}, self._namespace)
