"""Fixtures: a host whose controller stores snapshots on a volume, a tenant, and a plane of three members."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyrage
import pytest

from e2e import install, machine, names, tenants
from e2e.api import Api
from e2e.poll import NotYetError, until
from e2e.tenants import Tenant
from e2e.threemembers import of_three
from workstation.hostcluster.storage.volumes import IMMEDIATE_CLASS

CLAIM = "e2e-backups"
NAME = "e2e-durable"
CLASS = "e2e-durable"
THREE = "e2e-three"


@dataclass(frozen=True, slots=True)
class Backups:
    """Where snapshots are, as this machine sees them, and the private key that opens them."""

    folder: Path
    key: Path


def _note(text: str) -> None:
    print(text, flush=True)


def _folder(host: Api) -> Path:
    claim = host.get("PersistentVolumeClaim", CLAIM, names.SYSTEM_NAMESPACE)
    volume = str(claim["spec"].get("volumeName") or "")
    if not volume:
        raise NotYetError("the claim has no volume yet")
    return Path(str(host.get("PersistentVolume", volume)["spec"]["local"]["path"]))


@pytest.fixture(scope="session")
def backups(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backups]:
    """The embedded host with a place for snapshots, which it has no longer at the end."""
    machine.bring_up(_note)
    host = machine.host_api()
    host.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": names.SYSTEM_NAMESPACE}})
    spec = {
        "storageClassName": IMMEDIATE_CLASS,
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    meta = {"name": CLAIM, "namespace": names.SYSTEM_NAMESPACE}
    host.apply({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec})
    key = pyrage.x25519.Identity.generate()
    file = tmp_path_factory.mktemp("keys") / "backup-key.txt"
    file.write_text(f"{key}\n")
    values = {"backup.volumeClaim": CLAIM, "backup.recipients": f"{{{key.to_public()}}}"}
    install.ensure_installed(_note, **values)
    yield Backups(until("the claim to have a volume", lambda: _folder(host), seconds=60), file)
    install.install_chart(_note)
    host.delete("PersistentVolumeClaim", CLAIM, names.SYSTEM_NAMESPACE)


@pytest.fixture(scope="session")
def host(backups: Backups) -> Api:
    """The host of that installation."""
    assert backups.folder
    return machine.host_api()


@pytest.fixture
def red(host: Api) -> Iterator[Tenant]:
    """A tenant of a test's own."""
    tenants.remove(host, NAME)
    yield tenants.create(host, NAME, gpus=0)
    tenants.remove(host, NAME)


@pytest.fixture(scope="session")
def three(host: Api) -> Iterator[Tenant]:
    """A tenant whose plane has three members."""
    with of_three(host, THREE, CLASS) as tenant:
        yield tenant
