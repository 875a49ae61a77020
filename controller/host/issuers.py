"""Fetches the keys of the identity providers of all classes, so that no plane has to contact one.

    reconcile of a tenant ── look(sources) ──> what is known now
    every 30 s: each source that a tenant uses ──> discovery ──> keys ── a different answer ──> its tenants again

Only a class names the providers. Each provider is asked once for all its tenants, whatever tokens they receive. Answers are
bounded in size and time, redirects are not followed, and only public keys are kept (`controller.decide.keysets`). A provider
that does not answer keeps its last keys.
"""

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Final

from bulkhead.api.providers import Source
from bulkhead.exchange import ExchangeError, LateError, TooLongError, UnknownNameError, UntrustedError, asked, body
from bulkhead.work.clock import Clock
from bulkhead.work.supervise import apart
from controller import metrics
from controller.decide.keysets import KEY_SET_BYTES, Answer, Fault, keys_address, read_keys

_log = logging.getLogger(__name__)

_REQUEST_DEADLINE_SECONDS: Final = 10.0
_LOOK_PERIOD_SECONDS: Final = 30.0
_REQUESTS_AT_ONCE: Final = 8
_PLAIN: Final = {"Accept": "application/json", "User-Agent": "bulkhead-controller"}

Fetch = Callable[[str, str], Awaitable[bytes]]


class Issuers:
    """What is known about each source, and which tenants use it."""

    def __init__(self, clock: Clock, on_change: Callable[[str], object], fetch: Fetch) -> None:
        self._clock = clock
        self._on_change = on_change
        self._fetch = fetch
        self._looked: dict[str, frozenset[Source]] = {}
        self._known: dict[Source, Answer] = {}
        self._wanted = asyncio.Event()

    def look(self, tenant: str, sources: Iterable[Source]) -> Mapping[Source, Answer]:
        """What is known about a tenant's sources; the tenant is reconciled again when that changes."""
        wanted = frozenset(sources)
        if not wanted:
            self._looked.pop(tenant, None)
            return {}
        self._looked[tenant] = wanted
        if not wanted <= self._known.keys():
            self._wanted.set()
        return {source: self._known[source] for source in wanted if source in self._known}

    def forget(self, tenant: str) -> None:
        """Drop a deleted tenant."""
        self._looked.pop(tenant, None)

    async def run(self) -> None:
        """Fetch keys until cancelled."""
        # A process that leads again does not know what happened meanwhile: an earlier term's keys may be withdrawn. Until a
        # provider has answered, its tenants keep the keys in their ConfigMaps, which the other leader has kept up to date.
        self._known.clear()
        while True:
            self._wanted.clear()
            sources = {source for asked in self._looked.values() for source in asked}
            self._known = {source: answer for source, answer in self._known.items() if source in sources}
            room = asyncio.Semaphore(_REQUESTS_AT_ONCE)
            asks = (apart("asking an identity provider", partial(self._ask, one, room), issuer=one.url) for one in sources)
            await asyncio.gather(*asks)
            metrics.issuers_silent.set(sum(bool(answer.trouble) for answer in self._known.values()))
            await self._pause()

    async def _pause(self) -> None:
        """Wait for 30 s, or until there is a new source."""
        pausing = asyncio.create_task(self._clock.sleep(_LOOK_PERIOD_SECONDS))
        waking = asyncio.create_task(self._wanted.wait())
        try:
            await asyncio.wait({pausing, waking}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            pausing.cancel()
            waking.cancel()

    async def _ask(self, source: Source, room: asyncio.Semaphore) -> None:
        before = self._known.get(source)
        async with room:
            try:
                address = keys_address(await self._fetch(source.discovery, source.certificate_authority), source)
                answer = Answer(read_keys(await self._fetch(address, source.certificate_authority)))
            except Fault as error:
                answer = Answer(before.keys if before is not None else "", str(error))
        self._known[source] = answer
        if answer == before:
            return
        _log.info("identity provider's answer changed", extra={"issuer": source.url, "trouble": answer.trouble})
        for tenant, looked in list(self._looked.items()):
            if source in looked:
                self._on_change(tenant)


async def over_https(address: str, authorities: str, *, proxy: str = "", seconds: float = _REQUEST_DEADLINE_SECONDS) -> bytes:
    """A document from a provider. Raises `Fault` with cause and remedy if it cannot be fetched.

    `authorities` is PEM; empty for the CAs of this machine. `proxy` is a URL; empty for none. The environment's proxies are
    ignored.
    """
    tls = _tls(authorities)
    try:
        async with asked("GET", address, tls=tls, seconds=seconds, headers=_PLAIN, proxy=proxy) as answer:
            if answer.status_code != 200:
                raise Fault(f"{address} answers {answer.status_code}; check the issuer's url and discoveryURL in the class")
            return await body(answer, most=KEY_SET_BYTES)
    except UntrustedError as error:
        raise Fault(f"its certificate is not trusted ({error}); set certificateAuthority of the issuer") from error
    except UnknownNameError as error:
        raise Fault(f"the name of {address} cannot be resolved; check the name, and that the controller may use DNS") from error
    except LateError as error:
        hint = "start it, or let the controller reach it (networkPolicy.issuers of the chart)"
        raise Fault(f"{address} does not answer within {seconds:.0f} s; {hint}") from error
    except TooLongError as error:
        raise Fault(f"{address} is not an identity provider: it answers with {error}") from error
    except ExchangeError as error:
        raise Fault(f"{address} cannot be reached ({error}); start it, or correct the class") from error


def _tls(authorities: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cadata=authorities or None)
    except (ssl.SSLError, ValueError, TypeError) as error:  # TypeError: not ASCII
        raise Fault("certificateAuthority of the issuer has no certificate that can be read; correct it") from error
