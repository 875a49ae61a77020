"""`bulkhead tenant restore --all`: which snapshot of a tenant is the newest. Signed manifests in a directory; no server."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

import pytest

from bulkhead.snapshots.layout import MANIFEST
from bulkhead.snapshots.place import Place
from bulkhead.snapshots.target import AbsentError, DeniedError, Target, TargetError, TooLargeError
from tests.snapshots.samples import ID, OTHER, RECORD, RING, made, record, signed
from workstation.cli.failures import CliError
from workstation.cli.tenant import restoreall
from workstation.cli.tenant.restoreall import Everything

OLD: Final = "2026-06-01T12:00:00Z"
NEW: Final = "2026-06-02T12:00:00Z"


class Shelf(Target):
    """A directory, some of whose objects are not read: each raises what is listed for its path."""

    def __init__(self, folder: Path) -> None:
        super().__init__(Place("file", str(folder)))
        self.errors: dict[str, TargetError] = {}
        self._folder = folder

    async def small(self, path: str, most: int = 1 << 20) -> bytes:
        if path in self.errors:
            raise self.errors[path]
        return await super().small(path, most)

    def take(self, snapshot: str, created: str, identity: str = ID) -> str:
        """Store the manifest of a snapshot of tenant red; its path."""
        of_plane = record(replace(RECORD, id=identity))
        path = f"{identity}/{snapshot}/{MANIFEST}"
        file = self._folder / path
        file.parent.mkdir(parents=True)
        file.write_text(signed(made(identity=identity, snapshot=snapshot, created=created, record=of_plane)))
        return path


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path)


async def restore_all(shelf: Shelf) -> int:
    """The command, on a host that must not be asked."""
    asked = Everything(shelf, RING, [], None, 1.0, dry_run=False)
    return await restoreall.restore_all(cast("Any", None), asked)


@pytest.mark.parametrize("kind", [DeniedError, TargetError])
async def test_a_manifest_that_cannot_be_read_ends_the_command_before_anything_is_changed(
    shelf: Shelf, kind: type[TargetError]
) -> None:
    """It may be the newest snapshot, and an older one would come back in its place."""
    shelf.take("old", OLD)
    path = shelf.take("new", NEW)
    shelf.errors[path] = kind(f"cannot read {path} at s3://backups: 403")
    with pytest.raises(CliError, match=f"cannot read {path}.*nothing was changed.*a newer snapshot") as refused:
        await restore_all(shelf)
    assert "the same command again" in refused.value.next_step
    assert "credentials" in refused.value.next_step


@pytest.mark.parametrize("kind", [AbsentError, TooLargeError])
async def test_an_object_that_was_deleted_meanwhile_or_is_not_a_manifest_is_left_out(
    shelf: Shelf, kind: type[TargetError]
) -> None:
    shelf.take("old", OLD)
    path = shelf.take("new", NEW)
    shelf.errors[path] = kind("of that kind")
    found = await restoreall._newest(shelf, RING)
    assert [manifest.snapshot for manifest in found.newest] == ["old"]
    assert found.left == (f"{path}: of that kind",)


async def test_a_large_object_is_left_out_as_a_forged_one_is(shelf: Shelf, tmp_path: Path) -> None:
    shelf.take("old", OLD)
    large, forged = tmp_path / shelf.take("large", NEW), tmp_path / shelf.take("forged", NEW)
    large.write_bytes(b"x" * (300 << 10))
    forged.write_text('{"text": "x", "key": "y", "signature": ""}')
    found = await restoreall._newest(shelf, RING)
    assert [manifest.snapshot for manifest in found.newest] == ["old"]
    assert sorted(line.partition("/manifest.json: ")[0] for line in found.left) == [f"{ID}/forged", f"{ID}/large"]


async def test_planes_of_one_tenant_name_are_told_apart(shelf: Shelf, capsys: pytest.CaptureFixture[str]) -> None:
    shelf.take("red-one", OLD)
    shelf.take("red-two", NEW, identity=OTHER)
    found = await restoreall._newest(shelf, RING)
    assert [manifest.snapshot for manifest in found.newest] == ["red-two"]
    assert found.planes == {"red": {ID, OTHER}}
    restoreall._say(found, set())
    shown = capsys.readouterr().err.splitlines()
    assert shown[0].split() == ["TENANT", "PLANE", "NEWEST", "SNAPSHOT", "AGE", "TENANT", "IS"]
    assert shown[1].split()[:3] == ["red", OTHER[:8], "red-two"]
    assert shown[2] == f"tenant red: there are snapshots of 2 planes; the newest is of plane {OTHER}, others are of {ID}"


async def test_snapshots_of_one_plane_need_no_such_line(shelf: Shelf, capsys: pytest.CaptureFixture[str]) -> None:
    shelf.take("red-one", OLD)
    shelf.take("red-two", NEW)
    restoreall._say(await restoreall._newest(shelf, RING), {"red"})
    shown = capsys.readouterr().err.splitlines()
    assert (len(shown), shown[1].split()[:3], shown[1].endswith("here")) == (2, ["red", ID[:8], "red-two"], True)
