"""Tenants behind a real Gateway: Contour and Envoy carry TLS by its name to real API servers, which end it themselves."""

import asyncio
import contextlib
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Self

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError, NotFound, Unauthorized
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.kube.objects import Resource
from controller.settings import Settings
from tests.kit.controllerhost import ControllerHost, ask, take_down
from tests.kit.crds import served
from tests.kit.kubeconfigs import to_yaml
from tests.kit.ports import free_port
from tests.kit.servers import ApiServer, binary
from tests.kit.syncerbed import until
from tests.ways.asking import exposed, settles
from tests.ways.implementations import contour, gateway_api, manifests
from tests.ways.planes import answers, plane, through

GROUP = "gateway.networking.k8s.io"
CLASSES = Resource(GROUP, "v1", "gatewayclasses", "GatewayClass", False)
DOMAIN = "k8s.example.org"
# The last release that serves TLSRoutes in alpha versions alone, and one that serves v1.
OLDER, NEWER = "v1.4.1", "v1.6.3"
ALLOWED: Obj = {"namespaces": {"from": "Selector", "selector": {"matchLabels": {"app.kubernetes.io/managed-by": "bulkhead"}}}}
ABOVE = 8000
SECONDS = 90.0


async def serve(client: Client, version: str) -> None:
    """Install a release of Gateway API, or upgrade to it."""
    for each in gateway_api(version):
        await client.apply(kinds.CUSTOM_RESOURCE_DEFINITIONS, each)
    await served(client, CLASSES, kinds.GATEWAYS, kinds.TLS_ROUTES_V1ALPHA3 if version == OLDER else kinds.TLS_ROUTES)


def listening(port: int, hostname: str = f"*.{DOMAIN}", allowed: Obj = ALLOWED) -> Obj:
    """The Gateway of the installation, with one listener that passes TLS through."""
    # Contour's Envoy listens this much higher; elsewhere a Service leads there.
    listener = {"name": "tls", "port": port - ABOVE, "protocol": "TLS", "hostname": hostname, "tls": {"mode": "Passthrough"}}
    spec = {"gatewayClassName": "contour", "listeners": [listener | {"allowedRoutes": allowed}]}
    return {"metadata": {"name": "public", "namespace": "infra"}, "spec": spec}


@pytest.fixture
def port() -> int:
    """Where the Gateway listens."""
    return free_port()


@pytest.fixture
async def carried(client: Client, server: ApiServer, port: int, tmp_path: Path) -> AsyncIterator[Client]:
    """A host with Gateway API, its older release to begin with, and a Gateway."""
    if not await has_routes(client):
        await serve(client, OLDER)
    for each in manifests("contour", "examples/contour/01-crds.yaml"):
        await client.apply(kinds.CUSTOM_RESOURCE_DEFINITIONS, each)
    await client.apply(kinds.NAMESPACES, {"metadata": {"name": "infra"}})
    controller = {"controllerName": "projectcontour.io/gateway-controller"}
    await client.apply(CLASSES, {"metadata": {"name": "contour"}, "spec": controller})
    await client.apply(kinds.GATEWAYS, listening(port))
    with contour(server, tmp_path / "contour", "infra", "public"):
        yield client


async def has_routes(client: Client) -> bool:
    """Whether a test before has installed them."""
    with contextlib.suppress(NotFound):
        await client.list(kinds.TLS_ROUTES)
        return True
    return False


def installed(port: int, gateway: str = "infra/public/tls") -> Settings:
    return Settings(exposure_domains=(DOMAIN,), exposure_gateway=gateway, exposure_gateway_port=port)


async def behind(world: ControllerHost, name: str) -> Obj:
    """A tenant whose route the Gateway takes."""
    await ask(world.client, name, exposure={"type": "Gateway"})
    found: Obj = await until(lambda: settles(world, name, "True", "Applied"), f"the route of {name} taken", SECONDS)
    return found


class Watched:
    """A watch of ConfigMaps that is never opened again."""

    def __init__(self, client: Client) -> None:
        self.names: list[str] = []
        self._client = client

    async def __aenter__(self) -> Self:
        listed = await self._client.list(kinds.CONFIG_MAPS, "default")
        self._task = asyncio.create_task(self._run(listed.resource_version))
        return self

    async def _run(self, version: str) -> None:
        async for event in self._client.watch(kinds.CONFIG_MAPS, "default", resource_version=version):
            if event.type == "ADDED":
                self.names.append(event.key.name)

    async def has(self, name: str) -> bool:
        """Whether the object was seen; raises what ended the watch."""
        if self._task.done():
            await self._task
            raise AssertionError("the watch ended")
        return name in self.names

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])


def talking(config: KubeConfig) -> Client:
    return Client(config, user_agent="tests", field_manager="tests")


async def make(client: Client, name: str) -> None:
    await client.create(kinds.CONFIG_MAPS, {"metadata": {"name": name}}, "default")


async def kubectl(config: KubeConfig, folder: Path, *words: str) -> str:
    file = folder / "tenant.kubeconfig"
    file.write_bytes(to_yaml(config))
    command = [str(binary("kubectl")), f"--kubeconfig={file}", "--request-timeout=20s", *words]
    made = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=True, timeout=60)
    return str(made.stdout)


async def test_each_name_leads_to_its_own_plane_and_changes_of_others_are_not_noticed(
    carried: Client, port: int, tmp_path: Path
) -> None:
    client = carried
    async with contextlib.AsyncExitStack() as stack:
        world = await stack.enter_async_context(ControllerHost(client, settings=installed(port)))
        one, two = await behind(world, "one"), await behind(world, "two")
        assert one["status"]["endpoint"] == f"https://one.{DOMAIN}:{port}"
        first = await stack.enter_async_context(plane(client, "one", tmp_path / "one"))
        second = await stack.enter_async_context(plane(client, "two", tmp_path / "two"))
        mine, theirs = through(one, first), through(two, second)

        async def led() -> bool:
            return await answers(port, f"one.{DOMAIN}", mine.ca) and await answers(port, f"two.{DOMAIN}", theirs.ca)

        await until(led, "both planes answer under their names, each with its own certificate", SECONDS)
        assert "default" in await kubectl(mine, tmp_path, "get", "namespaces", "-o", "name")

        # Another tenant's name leads to that tenant, whose plane has no certificate of this one; an unknown name leads nowhere.
        assert not await answers(port, f"two.{DOMAIN}", mine.ca)
        for name in (f"nobody.{DOMAIN}", DOMAIN, f"one.{DOMAIN}.evil.example", "evil.example", None):
            for authority in (mine.ca, theirs.ca):
                assert not await answers(port, name, authority), name
        foreign = KubeConfig(theirs.server, theirs.ca, mine.client_cert, mine.client_key, tls_server_name=f"two.{DOMAIN}")
        with pytest.raises(Unauthorized):
            async with talking(foreign) as stranger:
                await stranger.list(kinds.CONFIG_MAPS, "default")

        direct = await stack.enter_async_context(talking(first.admin))
        watched = await stack.enter_async_context(Watched(await stack.enter_async_context(talking(mine))))
        await make(direct, "before")
        await until(lambda: watched.has("before"), "the watch at work", SECONDS)
        await behind(world, "three")
        await client.patch(kinds.TENANTS, "two", {"spec": {"exposure": {"type": "None"}}})
        await world.settle("two")

        async def closed() -> bool:
            return not await answers(port, f"two.{DOMAIN}", theirs.ca)

        await until(closed, "the other's way closed", SECONDS)
        await make(direct, "after")
        await until(lambda: watched.has("after"), "the same watch at work", SECONDS)

        # The host's admin upgrades Gateway API: the route is written in the newer version, and the way stays open.
        await serve(client, NEWER)
        await until(lambda: written(client, world, "one", f"{GROUP}/v1"), "the route written as v1", SECONDS)
        assert exposed(await world.settle("one"))[:2] == ("True", "Applied")
        await make(direct, "upgraded")
        await until(lambda: watched.has("upgraded"), "the same watch at work", SECONDS)
        assert await answers(port, f"one.{DOMAIN}", mine.ca)
        for name in ("one", "two", "three"):
            await take_down(world, name)


async def written(client: Client, world: ControllerHost, name: str, version: str) -> bool:
    """In which version our controller last wrote the route."""
    await world.settle(name)
    try:
        found = await client.get(kinds.TLS_ROUTES, "plane", f"bh-{name}")
    except KubeError:
        return False
    fields: list[dict[str, Any]] = found["metadata"]["managedFields"]
    return any(each["manager"] == "tests" and each["apiVersion"] == version for each in fields)


FROM_SAME: Obj = {"namespaces": {"from": "Same"}}
# What keeps a route out: the Gateway that tenants name, what is changed of it, what their status says, and the cure.
REFUSALS: tuple[tuple[str, Obj, str, str], ...] = (
    ("infra/public/tls", {"allowed": FROM_SAME}, "NotAllowedByListeners", "let a listener of Gateway infra/public accept"),
    ("infra/public/tls", {"hostname": "*.else.example"}, "NoMatchingListenerHostname", f"hostname *.{DOMAIN}, or none"),
    ("infra/public/other", {}, "NoMatchingParent", "name a listener that Gateway infra/public has"),
    ("infra/absent", {}, "Gateway infra/absent does not exist", "next: create it, or name another"),
)


@pytest.mark.parametrize("refusal", REFUSALS, ids=[each[2].replace(" ", "-") for each in REFUSALS])
async def test_a_route_that_is_not_taken_is_told_with_cause_and_cure(
    carried: Client, port: int, refusal: tuple[str, Obj, str, str]
) -> None:
    gateway, changed, cause, cure = refusal
    await carried.apply(kinds.GATEWAYS, listening(port, **changed))
    async with ControllerHost(carried, settings=installed(port, gateway)) as world:
        await ask(carried, "refused", exposure={"type": "Gateway"})
        tenant = await until(lambda: settles(world, "refused", "False", cause), f"it says {cause}", SECONDS)
        assert exposed(tenant)[1] == "RouteRefused"
        assert cure in exposed(tenant)[2]
    await carried.apply(kinds.GATEWAYS, listening(port))
    async with ControllerHost(carried, settings=installed(port)) as world:
        await until(lambda: settles(world, "refused", "True", "Applied"), "taken, once it is mended", SECONDS)
        # Contour leaves the route's status as it is.
        await carried.delete(kinds.GATEWAYS, "public", "infra")
        await until(lambda: settles(world, "refused", "False", "infra/public, listener tls, does not exist"), "gone", SECONDS)
        await take_down(world, "refused")
