"""Fixtures of the end-to-end tests: the host with the chart, two tenants that live as long as the run, and artefacts."""

import uuid
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from e2e import artefacts, install, machine, tenants
from e2e.api import Api
from e2e.tenants import Tenant

HERE = Path(__file__).parent
QUOTA = 6  # GPUs of each of the two standing tenants


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests here need the host, and the first of them waits for it to come up."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.host)
            item.add_marker(pytest.mark.timeout(1200, func_only=True))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep conditions, events and logs of a failure."""
    report = yield
    lost = call.excinfo is not None and isinstance(call.excinfo.value, machine.HostDownError)
    if report.failed and call.excinfo is not None and not lost and machine.KUBECONFIG.exists():
        folder = artefacts.collect(f"{item.path.stem}-{item.name}-{report.when}", machine.host_api(), str(call.excinfo.value))
        report.sections.append(("artefacts", str(folder)))
    return report


@pytest.fixture(scope="session")
def host() -> Api:
    """The embedded host with Bulkhead installed; what runs already is used."""
    return install.ensure_installed(lambda text: print(text, flush=True))


@pytest.fixture(scope="session")
def alice(host: Api) -> Iterator[Tenant]:
    """A Ready tenant."""
    yield from _standing(host, "e2e-alice")


@pytest.fixture(scope="session")
def bob(host: Api) -> Iterator[Tenant]:
    """Another Ready tenant."""
    yield from _standing(host, "e2e-bob")


def _standing(host: Api, name: str) -> Iterator[Tenant]:
    tenants.remove(host, name)
    yield tenants.create(host, name, gpus=QUOTA)
    # What is run next on this host is measured beside nothing that is still being taken down.
    tenants.remove(host, name)


@pytest.fixture
def space(alice: Tenant) -> Iterator[str]:
    """A namespace of its own in alice's plane, with its default ServiceAccount there; removed after the test."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    tenants.make_namespace(alice.api, name)
    yield name
    alice.api.delete("Namespace", name)


@pytest.fixture
def fresh_name(host: Api) -> Iterator[str]:
    """The name of a tenant that a test creates itself; whatever it left is removed."""
    name = f"e2e-{uuid.uuid4().hex[:8]}"
    yield name
    tenants.remove(host, name)
