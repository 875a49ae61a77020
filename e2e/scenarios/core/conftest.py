"""Fixtures of the end-to-end tests: the host with the chart, two tenants that live as long as the run, and artefacts."""

import uuid
from collections.abc import Iterator

import pytest

from e2e import install, tenants
from e2e.api import Api
from e2e.tenants import Tenant

QUOTA = 6  # GPUs of each of the two standing tenants


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
