"""Fixtures of the core suite: the host with the chart, two tenants that exist during the whole run, and tenants created ahead.

The suite runs in several processes over one host (`-n`). Each has its own alice, and all have the same bob. The first process
installs, the others wait for it. `order` says which tests may run at the same time, and `turns` enforces it.
"""

import fcntl
import sys
import uuid
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from e2e import install, machine, names, tenants
from e2e.api import Api, Obj
from e2e.companions import Companions
from e2e.fleet import Ahead, Fleet
from e2e.poll import NotYetError, until
from e2e.scenarios.core.order import group_of, place_of, runs_alone
from e2e.scenarios.turns import Turns
from e2e.tenants import Tenant

QUOTA = 6  # GPUs of each of the two standing tenants
SHARED = Path("build/e2e/core")  # shared by the processes of a run
STANDING = {"alice", "bob"}
EVERYBODYS = "bob"  # of the standing tenants, the one that all processes use
AHEAD = 4  # number of tests whose tenants are created while one runs: a plane takes as long as three or four short tests
HERE = Path(__file__).parent
PREFIX = "e2e-"
SWEPT = ("Tenant", "Namespace")

_TURNS = pytest.StashKey[Turns]()
_NAME = pytest.StashKey[str]()
_NOW = pytest.StashKey[pytest.Item]()
_NEXT = pytest.StashKey[pytest.Item | None]()
_FLEET = pytest.StashKey[Fleet]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "fresh(**spec): has a tenant of its own with this spec, made while the test before runs")
    config.addinivalue_line("markers", "quota(**quota): has a tenant with this quota")
    config.stash[_TURNS] = Turns(SHARED, lambda text: _say(config, text))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of a group follow each other."""
    own = sorted((item for item in items if item.path.parent == HERE), key=lambda item: place_of(item.nodeid))
    items[:] = [*(item for item in items if item.path.parent != HERE), *own]


class Groups(LoadScopeScheduling):  # type: ignore[misc]
    """Gives whole groups to each process, in the order of their tests."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)

    def _reschedule(self, node: Any) -> None:
        """Give a process its next group when its last test begins; before that, another process may be free sooner."""
        if node.shutting_down or not self.workqueue or self._pending_of(self.assigned_work[node]) <= 1:
            super()._reschedule(node)


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Groups:
    config.option.loadscopereorder = False
    return Groups(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """A group keeps its turn from its first test to the end of its last one, because its fixtures exist that long."""
    turns, group = item.config.stash[_TURNS], group_of(item.nodeid)
    item.stash[_NEXT] = nextitem
    item.config.stash[_NOW] = item
    turns.take(group, alone=runs_alone(item.nodeid))
    ends = nextitem is None or group_of(nextitem.nodeid) != group
    if ends and nextitem is not None and not runs_alone(nextitem.nodeid):
        turns.expect(group_of(nextitem.nodeid))
    try:
        return (yield)
    finally:
        _leave(item)
        if ends:
            turns.give()


def _leave(item: pytest.Item) -> None:
    """Delete the tenants of a file's function `ahead` after the last test of the group whose file has it."""
    begin, items = _ahead_of(item), item.session.items
    later = items[items.index(item) + 1 :]
    used_again = any(_ahead_of(test) is begin and group_of(test.nodeid) == group_of(item.nodeid) for test in later)
    fleet = item.config.stash.get(_FLEET, None)
    if begin is not None and fleet is not None and not used_again:
        fleet.leave_all(begin)


def _ahead_of(item: pytest.Item) -> Ahead | None:
    return getattr(getattr(item, "module", None), "ahead", None)


def _say(config: pytest.Config, text: str) -> None:
    """Print a line on the terminal now, from any process and whatever pytest captures."""
    with config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print(f"[{getattr(config, 'workerinput', {}).get('workerid', 'run')}] {text}", file=sys.stderr, flush=True)


@pytest.fixture(scope="session")
def host(request: pytest.FixtureRequest, testrun_uid: str) -> Api:
    """The embedded host, on which the first process of this run has installed Bulkhead; a running host is used as it is."""
    SHARED.mkdir(parents=True, exist_ok=True)
    with (SHARED / "installed").open("a+") as installed:
        fcntl.flock(installed, fcntl.LOCK_EX)
        installed.seek(0)
        if installed.read() == testrun_uid:
            return machine.host_api()
        found = install.ensure_installed(lambda text: _say(request.config, text))
        _sweep(found)
        _expect_free(request.config, found)
        installed.truncate(0)
        installed.write(testrun_uid)
        return found


def _sweep(host: Api) -> None:
    """Remove what an interrupted run left: tenants, which hold GPUs and memory, and namespaces with outdated objects."""
    left = {kind: [name for item in host.list(kind) if (name := item["metadata"]["name"]).startswith(PREFIX)] for kind in SWEPT}
    for kind, there in left.items():
        for name in there:
            host.delete(kind, name)
    for name in left["Tenant"]:
        tenants.wait_gone(host, name)
    for name in left["Namespace"]:
        until(f"namespace {name} to be gone", lambda name=name: _no_namespace(host, name), seconds=60)  # type: ignore[misc]


def _expect_free(config: pytest.Config, host: Api) -> None:
    """End the run where other tenants hold simulated GPUs: the suite counts on all of them, and would wait in vain."""
    simulated = {node["metadata"]["name"] for node in host.list("Node", labels="bulkhead.dev/simulated=true")}
    pods = [pod for pod in host.list("Pod", labels=names.TENANT) if pod["spec"].get("nodeName") in simulated]
    if holders := sorted({pod["metadata"]["labels"][names.TENANT] for pod in pods}):
        _say(config, f"pods of {', '.join(holders)} run on the simulated nodes, which the core suite needs; next: make down")
        pytest.exit("the simulated GPUs are not free", returncode=1)


def _no_namespace(host: Api, name: str) -> None:
    if host.find("Namespace", name) is not None:
        raise NotYetError("still there")


@pytest.fixture(scope="session")
def fleet(request: pytest.FixtureRequest, host: Api, worker_id: str, testrun_uid: str) -> Iterator[Fleet]:
    """All tenants of this process. At its end all of them are gone, so that the next run on this host measures no deletions."""
    companions = Companions(SHARED, testrun_uid, f"{PREFIX}{EVERYBODYS}")
    made = request.config.stash[_FLEET] = Fleet(host, companions)
    # Before the first test asks for alice, or bob would be created after that.
    for item in _upcoming(request.config.stash[_NOW]):
        _order_standing(made, item, worker_id)
    yield made
    made.close()


def _order_standing(fleet: Fleet, item: pytest.Item, worker_id: str) -> None:
    """Begin to create the standing tenants that a test uses, and no other: each plane that starts delays all the others."""
    for name in sorted(STANDING.intersection(getattr(item, "fixturenames", ()))):
        fleet.order(_standing(name, worker_id))


def _standing(name: str, worker_id: str) -> Obj:
    own = "" if worker_id == "master" or name == EVERYBODYS else f"-{worker_id}"
    return tenants.manifest(f"{PREFIX}{name}{own}", gpus=QUOTA)


@pytest.fixture(scope="session")
def alice(fleet: Fleet, worker_id: str) -> Tenant:
    """A Ready tenant."""
    return fleet.take(_standing("alice", worker_id))


@pytest.fixture(scope="session")
def bob(fleet: Fleet, worker_id: str) -> Tenant:
    """Another Ready tenant, the neighbour of all tests. Other processes use it, too: only the group `gpus` uses its GPUs."""
    return fleet.take(_standing("bob", worker_id))


@pytest.fixture
def space(alice: Tenant) -> Iterator[str]:
    """A namespace in alice's plane for one test, with its default ServiceAccount; removed after the test."""
    with tenants.namespace_for_a_test(alice.api) as name:
        yield name


@pytest.fixture
def fresh_name(request: pytest.FixtureRequest, fleet: Fleet) -> Iterator[str]:
    """The name of a tenant that a test creates itself; nothing of it may be left at the end of the run."""
    name = _name_of(request.node)
    yield name
    fleet.leave(name)


@pytest.fixture
def tenant(request: pytest.FixtureRequest, fleet: Fleet, fresh_name: str) -> Tenant:
    """A tenant of this test only, with the spec from its mark `fresh`; its name is `fresh_name`."""
    return fleet.take(_manifest(request.node, fresh_name))


@pytest.fixture(autouse=True)
def _ahead(request: pytest.FixtureRequest, fleet: Fleet, worker_id: str) -> None:
    """While a test runs, the tenants of the next ones are created; a file orders its own in its function `ahead`."""
    for item in _upcoming(request.node):
        _order_standing(fleet, item, worker_id)
        if item.get_closest_marker("fresh") is not None:
            fleet.order(_manifest(item, _name_of(item)))
        if begin := _ahead_of(item):
            fleet.begin(begin)


def _upcoming(item: pytest.Item) -> list[pytest.Item]:
    """The current test and the next ones of this process, as far as they are known."""
    items, following = item.session.items, item.stash[_NEXT]
    at = items.index(item)
    near = [each for each in items[at : at + 1 + AHEAD] if group_of(each.nodeid) == group_of(item.nodeid)]
    return near if following is None or following in near else [*near, following]


def _manifest(item: pytest.Item, name: str) -> Obj:
    mark = item.get_closest_marker("fresh")
    assert mark is not None, f"{item.name}: a test with a fresh tenant says by @pytest.mark.fresh(…) which spec it has"
    return tenants.manifest(name, **mark.kwargs)


def _name_of(item: pytest.Item) -> str:
    return item.stash.setdefault(_NAME, f"{PREFIX}{uuid.uuid4().hex[:8]}")
