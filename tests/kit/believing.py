"""A kube-apiserver that is told which issuers to trust, as a plane's is: rendered, served by the syncer, read again on change.

    provider in a class ── asked as the controller asks ──> keys ──> rendered ──> ConfigMap and file ──> token accepted or not

The API server is also the host from which the syncer reads the ConfigMap. A running server needs ten seconds to load a changed
configuration. A test that does not care how the server learns of the change restarts it (`anew`).
"""

import asyncio
import contextlib
import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

from bulkhead.api.objects import Obj
from bulkhead.api.providers import Provider, providers
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError, Unauthorized
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.kube.objects import Resource
from bulkhead.kube.resources import CONFIG_MAPS, NAMESPACES
from bulkhead.work.clock import SystemClock
from controller.decide.keysets import keys_address, read_keys
from controller.host.issuers import over_https
from controller.plane import authentication
from controller.plane.spec import ISSUERS_PORT, PlaneSpec
from controller.plane.ways import Revoked, Trusted
from syncer.issuers import Issuers, tls_context
from tests.kit.dex import Dex
from tests.kit.ports import free_port
from tests.kit.servers import ApiServer, ServerOptions
from tests.kit.syncerbed import until
from tests.kit.tenantsamples import plane_spec

OURS, THEIRS = "bulkhead-team-a", "bulkhead-team-b"
# Texts that would end a literal of CEL, or mean something inside one.
NASTY = ("corp:'||true||'", 'corp:"])||(true', "corp:\\", "corp:\N{SNOWMAN}\U0001f600", "corp:{tenant}", "corp:\\u0041")
_SECONDS = 180.0
_REVIEWS = Resource("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", False)


def issuer_of(dex: Dex, **more: Any) -> dict[str, Any]:
    """A provider in the form of a class."""
    made = {"name": "corp", "url": dex.url, "certificateAuthority": dex.ca, "audiences": ["bulkhead-{tenant}"]}
    return made | {"claims": {"username": "email", "groups": "groups"}} | more


def resolved(tenant: str, *issuers: Mapping[str, Any], **asked: Any) -> tuple[Provider, ...]:
    """The providers of a tenant that names all of its class's."""
    chosen = [{"issuer": issuer["name"]} | asked for issuer in issuers]
    return providers(tenant, {"oidc": chosen}, {"issuers": list(issuers)})


async def keys_of(provider: Provider) -> str:
    """The provider's keys, requested as the controller does."""
    source = provider.source
    address = keys_address(await over_https(source.discovery, source.certificate_authority), source)
    return read_keys(await over_https(address, source.certificate_authority))


class Believer:
    """The API server, with the syncer's server of keys."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "authentication.json"
        self._file.write_text(json.dumps(authentication.untouched()))
        self.server = ApiServer("plane", folder, ServerOptions(flags=(f"--authentication-config={self._file}",)))
        self._port = free_port()
        cert, key = self.server.authority.issue("shim", addresses=("127.0.0.1",))
        (folder / "shim.crt").write_bytes(cert)
        (folder / "shim.key").write_bytes(key)
        self._folder = folder

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self.server.start)
        await asyncio.to_thread(self.server.wait)
        self.admin = await Client(self.server.admin, user_agent="tests", field_manager="tests").__aenter__()
        space = plane_spec().namespace
        await self.admin.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}})
        self.speak()
        return self

    def speak(self) -> None:
        """Start the syncer's server."""
        self._issuers = Issuers(self.admin, plane_spec().namespace, SystemClock(), fresh_seconds=0)
        self._serving = asyncio.create_task(self._issuers.serve("127.0.0.1", self._port, tls_context(self._folder)))

    async def silence(self) -> None:
        """Stop the syncer's server."""
        self._serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._serving

    async def __aexit__(self, *_: object) -> None:
        await self.silence()
        await self.admin.__aexit__(None, None, None)
        self.server.stop()

    async def believe(self, *known: tuple[Provider, str], revoked: Iterable[Revoked] = ()) -> None:
        """Trust these providers with these keys, and wait until the API server has loaded that."""
        told = await self.tell(*known, revoked=revoked)
        wanted = f"sha256:{hashlib.sha256(told.encode()).hexdigest()}"

        async def taken() -> bool:
            await asyncio.sleep(0.2)
            return wanted in await self._metrics()

        await until(taken, "the configuration read again", _SECONDS)

    async def anew(self, *known: tuple[Provider, str], revoked: Iterable[Revoked] = ()) -> None:
        """Restart the API server with these providers.

        It trusts each some moments later, so first check a token that it accepts.
        """
        await self.tell(*known, revoked=revoked)
        # The syncer's server answers with what it knows while the host, which is this API server, is away.
        await self._issuers.respond("GET", "/")
        await self.restart()

    async def tell(self, *known: tuple[Provider, str], revoked: Iterable[Revoked] = ()) -> str:
        """Write all that the controller renders. Returns the API server's file."""
        spec = await self.serve(*known, revoked=revoked)
        told = json.dumps(self._here(spec, authentication.configuration(spec, self.server.authority.pem.decode())))
        beside = self._file.with_suffix(".new")
        beside.write_text(told)
        beside.replace(self._file)
        return told

    async def serve(self, *known: tuple[Provider, str], revoked: Iterable[Revoked] = ()) -> PlaneSpec:
        """Write only these providers' keys, which the syncer's server then serves."""
        spec = plane_spec(
            access={"issuers": tuple(Trusted(provider, keys) for provider, keys in known), "revoked": tuple(revoked)}
        )
        for obj in authentication.config_maps(spec):
            await self.admin.apply(CONFIG_MAPS, self._here(spec, obj))
        return spec

    async def restart(self) -> None:
        """Kill the API server and start it again."""
        await asyncio.to_thread(self.server.kill)
        await asyncio.to_thread(self.server.start_apiserver)
        await asyncio.to_thread(self.server.wait)

    async def who(self, token: str) -> dict[str, Any] | None:
        """The user that the API server sees in a token; None if it refuses the token."""
        config = KubeConfig(server=self.server.url, ca=self.server.authority.pem, token=token)
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview", "metadata": {}}
        async with Client(config, user_agent="tests", field_manager="tests") as client:
            try:
                answer = await client.create(_REVIEWS, review)
            except Unauthorized:
                return None
        return dict(answer["status"]["userInfo"])

    async def becomes(self, token: str, name: str | None) -> None:
        """Wait until the API server accepts a token as this user, or as none: it caches its verdicts for some seconds."""

        async def it() -> bool:
            return ((await self.who(token)) or {}).get("username") == name

        await until(it, f"the token is of {name}", _SECONDS)

    async def _metrics(self) -> str:
        try:
            return (await self.admin.get_raw("/metrics", timeout=5.0)).decode()
        except KubeError:
            return ""

    def _here(self, spec: PlaneSpec, obj: Obj) -> Any:
        """With the address of the syncer's server in this test."""
        text = json.dumps(obj).replace(f"{spec.shim_address}:{ISSUERS_PORT}", f"127.0.0.1:{self._port}")
        return json.loads(text)
