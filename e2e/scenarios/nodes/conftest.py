"""Fixtures: a host of three real nodes with a registry, and two tenants with planes on the third and the second of them.

A running host on the machine is taken down before, and the three nodes afterwards, so that other tests begin with a host of
their own.
"""

from collections.abc import Iterator

import pytest

from e2e import commands, install, tenants
from e2e.api import Api
from e2e.scenarios.nodes.places import FLAGS, REAL, SECOND, THIRD, only
from e2e.tenants import Tenant
from workstation.hostcluster.component import NODE_ADDRESS

GPUS = 32  # more than three nodes have
VALUES = {"storageClass": "local", "planeClientCIDRs": f"{{{NODE_ADDRESS}/32}}"}  # values of the chart


@pytest.fixture(scope="session")
def host() -> Iterator[Api]:
    """The host, with the settings that several nodes need.

    Volumes of planes wait for the scheduler's choice of a node. For planes on other nodes the machine, from which the tests
    connect, is an address like any other, so it is listed as one of their clients.
    """
    commands.bulkhead("host", "down", seconds=180)
    flags = ("--nodes", str(len(REAL)), *FLAGS)
    yield install.ensure_installed(lambda text: print(text, flush=True), *flags, **VALUES)
    commands.bulkhead("host", "down", seconds=180)


@pytest.fixture(scope="session")
def alice(host: Api) -> Tenant:
    """A tenant whose plane is on the third node."""
    return _with_plane_on(host, "e2e-nodes-alice", THIRD)


@pytest.fixture(scope="session")
def bob(host: Api) -> Tenant:
    """A tenant whose plane is on the second node."""
    return _with_plane_on(host, "e2e-nodes-bob", SECOND)


def _with_plane_on(host: Api, name: str, node: str) -> Tenant:
    with only(host, node):
        tenant = tenants.create(host, name, gpus=GPUS)
    assert {pod["spec"]["nodeName"] for pod in host.list("Pod", tenant.plane)} == {node}
    return tenant
