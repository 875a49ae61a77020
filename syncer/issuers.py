"""Serves the plane's API server the keys of identity providers, so that it need not reach one.

The controller has asked for them and writes them into ConfigMap `issuers` (`controller/plane/authentication.py`); here they are
answered over TLS, and nothing else is. They are public: callers show no certificate, and the network policy lets in the plane.

    GET /<provider>/<version>/.well-known/openid-configuration | keys ──> ConfigMap of the host, at most once a second ──> text
"""

import logging
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError
from bulkhead.kube.resources import CONFIG_MAPS
from bulkhead.work.bucket import Bucket
from bulkhead.work.clock import Clock
from syncer import http1
from syncer.onerequest import OneRequestServer

_log = logging.getLogger(__name__)

CONFIG_MAP: Final = "issuers"
_FRESH_SECONDS: Final = 1.0
# Versions that are asked for and not here are looked for at once, so many times; then once a second.
_LOOKS_AT_ONCE: Final = 8
_DOCUMENTS: Final = {".well-known/openid-configuration": "discovery", "keys": "keys"}


def tls_context(folder: Path) -> ssl.SSLContext:
    """TLS with the kubelet's certificate, which the API server knows; callers need none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(folder / "shim.crt", folder / "shim.key")
    return context


class Issuers:
    """The server."""

    def __init__(self, host: Client, namespace: str, clock: Clock, *, fresh_seconds: float = _FRESH_SECONDS) -> None:
        self._host = host
        self._namespace = namespace
        self._clock = clock
        self._fresh = fresh_seconds
        self._documents: Mapping[str, str] = {}
        self._read_at: float | None = None
        # The last version that was asked for and is not the one here: it is looked for once.
        self._missed = ""
        self._failed = False
        # Beyond what is due: for versions that are missed, and after a failure.
        self._looks = Bucket(clock, most=_LOOKS_AT_ONCE, seconds_each=fresh_seconds)

    async def serve(self, address: str, port: int, tls: ssl.SSLContext) -> None:
        """Serve until cancelled."""
        await OneRequestServer(lambda request: self.respond(request.method, request.path)).serve(address, port, tls)

    async def respond(self, method: str, path: str) -> bytes:
        """The answer to one request."""
        if method != "GET":
            return http1.response(405, b"only GET\n")
        # What is answered is what there is now, whatever version is asked for. The API server may ask for new keys within the
        # second in which they were written, and would keep older ones until they change again.
        provider, _, rest = path.removeprefix("/").partition("/")
        version, _, document = rest.partition("/")
        kind = _DOCUMENTS.get(document)
        found = (await self._current(provider, version)).get(f"{provider}.{kind}") if kind else None
        if found is None:
            return http1.response(404, b"not found\n")
        return http1.response(200, found.encode(), "application/json")

    async def _current(self, provider: str, version: str) -> Mapping[str, str]:
        """The documents; as they were, while the host does not answer."""
        now, place = self._clock.monotonic(), f"/{provider}/{version}/"
        missed = place != self._missed and place not in self._documents.get(f"{provider}.discovery", "")
        self._missed = place if missed else self._missed
        due = self._read_at is None or now - self._read_at >= self._fresh
        # By its plane's proxy to nodes a tenant asks for as many versions as it likes, also while the host does not answer.
        if (due and not self._failed) or ((due or missed) and self._looks.take()):
            try:
                found = await self._host.get(CONFIG_MAPS, CONFIG_MAP, self._namespace)
                self._documents = {str(key): str(text) for key, text in (found.get("data") or {}).items()}
                self._read_at, self._failed = now, False
            except (KubeError, TimeoutError) as error:
                self._failed = True
                _log.warning("keys of identity providers not read: %s", error)
        return self._documents
