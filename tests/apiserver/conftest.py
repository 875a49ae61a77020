"""What several files of this folder need; the API servers' own fixtures live in tests/conftest.py."""

import contextlib
from collections.abc import AsyncIterator, Iterator

import pytest

from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists
from bulkhead.kube.resources import VOLUME_SNAPSHOT_CLASSES
from tests.kit import membersbed
from tests.kit.etcdmembers import EtcdMembers
from tests.kit.ledgerhost import LedgerHost
from tests.kit.order import LONE, SCHEDULED, unit_of
from tests.kit.servers import ApiServer, by_token, running, with_pod_groups
from tests.kit.snapshotting import KIND, serve_snapshots, snapshot_class
from tests.kit.syncerbed import SyncerBed

_SHARED = pytest.StashKey[dict[str, ApiServer]]()  # by the unit of tests that share it


@pytest.fixture
async def bed(host_client: Client, plane_client: Client) -> AsyncIterator[SyncerBed]:
    """One tenant with its session; a file whose tenant is offered more has a fixture of its own."""
    async with SyncerBed.open(host_client, plane_client) as opened:
        yield opened


@pytest.fixture
async def snapshot_sides(host_client: Client, plane_client: Client) -> tuple[Client, Client]:
    """Host and plane with the snapshot API, the host with two classes."""
    await serve_snapshots(host_client, plane_client)
    for name in ("daily", "of-the-host"):
        body = snapshot_class(name, parameters={"secret": "of-the-host"})
        body |= {"apiVersion": KIND["apiVersion"], "kind": "VolumeSnapshotClass"}
        with contextlib.suppress(AlreadyExists):
            await host_client.create(VOLUME_SNAPSHOT_CLASSES, body)
    return host_client, plane_client


@pytest.fixture(scope="package")
def scheduled_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """An API server with a kube-scheduler, and kwok for kubelets, for the files of this folder; nothing stays of a test."""
    with running("scheduled", tmp_path_factory.mktemp("scheduled"), with_pod_groups("10.96.0.0/16", defined=True)) as server:
        server.start_scheduler()
        server.start_kwok()
        request.session.stash.setdefault(_SHARED, {})[SCHEDULED] = server
        yield server


@pytest.fixture(scope="package")
def lone_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """An API server for files whose policies hold in every namespace, or which redefine kinds, but not for each other."""
    with running("plane-alone", tmp_path_factory.mktemp("alone")) as server:
        request.session.stash.setdefault(_SHARED, {})[LONE] = server
        yield server


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """End such a server after the last of its tests, which are one unit: the folder's other tests last for minutes more."""
    unit, shared = unit_of(item.nodeid), item.session.stash.get(_SHARED, {})
    if unit in shared and nextitem is not None and unit_of(nextitem.nodeid) != unit:
        shared.pop(unit).stop()


@pytest.fixture
async def ledger_host(scheduled_server: ApiServer) -> AsyncIterator[LedgerHost]:
    """A host for the ledger, empty but for one tenant in a cohort."""
    async with (
        Client(by_token(scheduled_server.admin), user_agent="tests", field_manager="tests") as client,
        LedgerHost.open(client) as made,
    ):
        yield made


@pytest.fixture
def members(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdMembers]:
    """The etcds of a plane of three, none of which runs yet."""
    processes = EtcdMembers(tmp_path_factory.mktemp("members"), membersbed.SPEC)
    try:
        yield processes
    finally:
        processes.kill()
