"""A scheduled snapshot that is deleted: what its manifest has to be for what is stored to go with it."""

import logging
from pathlib import Path
from typing import Any

import pytest

from bulkhead.api import labels
from bulkhead.api.objects import Obj
from bulkhead.snapshots.layout import MANIFEST, folder
from bulkhead.snapshots.place import Place
from bulkhead.snapshots.target import Target
from controller.snapshots.places import Places
from controller.snapshots.removal import SnapshotRemovals
from controller.snapshots.take import Means
from tests.snapshots.samples import ID, RING, made, signed

SLOT = f"red-20260601-120000-{ID[:8]}"
REQUEST: Obj = {
    "metadata": {"name": SLOT, "uid": "one", "labels": {labels.SCHEDULED: ID}},
    "spec": {"tenant": "red"},
}


async def remove(folder_: Path, envelope: str) -> None:
    """Remove the snapshot that has parts and a manifest like this."""
    anything: Any = None
    target = Target(Place("file", str(folder_)))
    found = made(snapshot=SLOT)
    for part in found.parts:
        await target.put_small(f"{folder(ID, SLOT)}/{found.attempt}/{part}", b"sealed")
    await target.put_small(f"{folder(ID, SLOT)}/{MANIFEST}", envelope.encode())

    async def ring() -> Any:
        return RING

    means = Means(anything, lambda: target, (), ring)
    await SnapshotRemovals(anything, anything, Places(means), anything)._remove(REQUEST)


def files(folder_: Path) -> list[str]:
    return sorted(path.name for path in folder_.rglob("*") if path.is_file())


async def test_a_snapshot_goes_with_all_that_is_stored_of_it(tmp_path: Path) -> None:
    await remove(tmp_path, signed(made(snapshot=SLOT)))
    assert files(tmp_path) == []


@pytest.mark.parametrize(
    ("envelope", "why"),
    [
        ("{}", "does not count"),
        (signed(made(snapshot="another")), "moved here"),
        ("x" * (300 * 1024), "larger than"),
    ],
    ids=["garbage", "moved", "large"],
)
async def test_what_counts_for_nothing_stays_and_holds_no_object(
    tmp_path: Path, envelope: str, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    """An object that could not be read was tried again for ever: the finalizer stayed, and with it the Tenant's slot."""
    with caplog.at_level(logging.WARNING):
        await remove(tmp_path, envelope)
    assert files(tmp_path) == sorted([*made().parts, MANIFEST])
    assert why in caplog.text
