"""Fixtures for all tests: two real API servers, started once a session, and clients of them.

`apiservers` is the pair. A test that uses it, even through another fixture, gets the marker `apiserver`.
"""

import asyncio
import gc
import os
import secrets
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator, Sequence

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

from bulkhead.kube.client import Client
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.kube.resources import NAMESPACES
from tests.kit.order import PAIRED, TRANSLATED, phase_of, place_of, unit_of
from tests.kit.reports import report_less
from tests.kit.servers import ApiServer, Pair, by_token, running, start_pair
from tests.kit.syncerbed import empty
from tests.kit.workers import fork_workers

# gRPC's fork handlers abort a child that is forked (as test API servers are) while one of its threads polls; nothing here
# uses gRPC in a child. The variable is read when the first channel is created.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "false"

_PAIR = pytest.StashKey[Pair]()
# The fixtures that start API servers.
_SERVERS = {
    "apiservers", "own_server", "file_server", "scheduled_server", "quiet_server", "guarded_server", "lone_server",
    "translated_server",
}  # fmt: skip
_PAST_PAIR = pytest.StashKey[set[str]]()  # units of tests
_TRANSLATED = pytest.StashKey[ApiServer]()

# A shell's background job starts with SIGINT ignored, and so would every command that a test interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# `steady` draws the same examples in every run and checks no time; HYPOTHESIS_PROFILE=search looks for new ones, and longer.
settings.register_profile("steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("search", deadline=None, max_examples=2000, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))


def pytest_sessionstart(session: pytest.Session) -> None:
    """Have a worker report what counts."""
    report_less(session.config)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage in what stays for the whole run: ten thousand tests are many objects to look through each time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(session: pytest.Session, items: list[pytest.Item]) -> None:
    """Mark the tests that need API servers, so that `-m 'not apiserver'` deselects them; order the files."""
    for item in items:
        if _SERVERS & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.apiserver)
    served = {unit_of(item.nodeid) for item in items if item.get_closest_marker("apiserver")}
    paired = {unit_of(item.nodeid) for item in items if "apiservers" in getattr(item, "fixturenames", ())}
    items.sort(key=lambda item: place_of(item.nodeid, paired, served))
    session.stash[_PAST_PAIR] = {
        unit for item in items if phase_of(unit := unit_of(item.nodeid), paired, served) > PAIRED
    }  # fmt: skip


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """End the shared pair before the first test of a phase that does not use it: idle, it would hold most of a GiB."""
    pair = item.session.stash.get(_PAIR, None)
    if pair is not None and nextitem is not None and unit_of(nextitem.nodeid) in item.session.stash[_PAST_PAIR]:
        del item.session.stash[_PAIR]
        pair.stop()
    translated = item.session.stash.get(_TRANSLATED, None)
    if translated is not None and nextitem is not None and unit_of(nextitem.nodeid) != TRANSLATED:
        del item.session.stash[_TRANSLATED]
        translated.stop()


class Units(LoadScopeScheduling):  # type: ignore[misc]
    """Gives whole units to each process in the order of the tests, not by the number of their tests."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)


def pytest_xdist_setupnodes(config: pytest.Config, specs: Sequence[object]) -> None:
    """Import the tests once for all processes."""
    fork_workers(config, specs)


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Units | None:
    config.option.loadscopereorder = False
    return Units(config, log) if config.option.dist == "loadfile" else None


@pytest.fixture(scope="session")
def apiservers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """The host's and the plane's API server. They are shared, so tests use namespaces of their own and kill nothing."""
    pair = request.session.stash[_PAIR] = start_pair(tmp_path_factory.mktemp("apiservers"))
    yield pair
    pair.stop()


@pytest.fixture
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """One API server for one test, which may kill, freeze and restart it."""
    with running("own", tmp_path_factory.mktemp("own")) as server:
        yield server


@pytest.fixture(scope="module")
def file_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """One API server for one file. Its tests kill nothing, but change what other tests would rely on."""
    with running("file", tmp_path_factory.mktemp("file")) as server:
        yield server


@pytest.fixture(scope="session")
def translated_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """A host with the chart's policies for what is translated; each test has a tenant of its own or of its case."""
    from tests.chart.policed import OPTIONS

    with running("translated", tmp_path_factory.mktemp("translated"), OPTIONS) as server:
        request.session.stash[_TRANSLATED] = server
        yield server


@pytest.fixture
def host_config(apiservers: Pair) -> KubeConfig:
    """Client configuration of an admin of the host."""
    return apiservers.host.admin


@pytest.fixture
def plane_config(apiservers: Pair) -> KubeConfig:
    """Client configuration of an admin of the plane."""
    return apiservers.plane.admin


@pytest.fixture
async def host_client(host_config: KubeConfig) -> AsyncIterator[Client]:
    """Client of the host as admin."""
    async with Client(by_token(host_config), user_agent="tests", field_manager="tests") as client:
        yield client


@pytest.fixture
async def plane_client(plane_config: KubeConfig) -> AsyncIterator[Client]:
    """Client of the plane as admin."""
    async with Client(by_token(plane_config), user_agent="tests", field_manager="tests") as client:
        yield client


@pytest.fixture
async def namespace(host_client: Client, plane_client: Client) -> AsyncIterator[str]:
    """A new namespace of the same name on both sides.

    At the end it holds nothing in the plane that a later test's syncer would mirror.
    """
    name = f"test-{secrets.token_hex(4)}"
    for client in (host_client, plane_client):
        await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield name
    await empty(plane_client, name)


@pytest.fixture
def eventually() -> Callable[[Callable[[], object]], Awaitable[None]]:
    """Poll a condition until it holds; fail after a minute."""

    async def poll(condition: Callable[[], object], seconds: float = 60.0) -> None:
        deadline = asyncio.get_running_loop().time() + seconds
        while not condition():
            if asyncio.get_running_loop().time() > deadline:
                raise AssertionError("condition did not come true in time")
            await asyncio.sleep(0.02)

    return poll
