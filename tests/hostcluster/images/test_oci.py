"""Layers and images as files: deterministic, complete, safe to interrupt."""

import hashlib
import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from workstation.hostcluster.images.layercache import cached_layer, drop_unused_blobs, key_of
from workstation.hostcluster.images.oci import Entry, ImageSpec, Layer, blob_path, image_key, write_image, write_layer

ENTRIES = [Entry("usr/bin/tool", "file", b"tool", 0o755), Entry("bin", "link", "usr/bin"), Entry("tmp", "dir", mode=0o1777)]


def members(data: bytes) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return {one.name: one for one in tar.getmembers()}


def test_a_layer_holds_its_entries_and_the_folders_above(tmp_path: Path) -> None:
    layer = write_layer(tmp_path, ENTRIES)
    data = blob_path(tmp_path, layer.digest).read_bytes()
    assert hashlib.sha256(data).hexdigest() == layer.digest
    assert len(data) == layer.size
    found = members(data)
    assert sorted(found) == ["bin", "tmp", "usr", "usr/bin", "usr/bin/tool"]
    assert (found["usr/bin/tool"].mode, found["tmp"].mode, found["bin"].linkname) == (0o755, 0o1777, "usr/bin")
    assert {(one.mtime, one.uid, one.gid) for one in found.values()} == {(0, 0, 0)}


def test_equal_inputs_give_equal_bytes_in_any_order(tmp_path: Path) -> None:
    assert write_layer(tmp_path / "a", ENTRIES) == write_layer(tmp_path / "b", reversed(ENTRIES))


def test_an_image_is_a_layout_that_names_itself(tmp_path: Path) -> None:
    spec = ImageSpec(
        "docker.io/bulkhead/tool:1", (write_layer(tmp_path, ENTRIES),), entrypoint=("tool",), environment={"A": "b"}
    )
    write_image(tmp_path, spec, tmp_path / "image.tar")
    with tarfile.open(tmp_path / "image.tar") as tar:
        files = {one.name: tar.extractfile(one).read() for one in tar.getmembers() if one.isfile()}  # type: ignore[union-attr]
    manifest_digest = json.loads(files["index.json"])["manifests"][0]
    assert manifest_digest["annotations"]["io.containerd.image.name"] == spec.name
    manifest = json.loads(files["blobs/sha256/" + manifest_digest["digest"].removeprefix("sha256:")])
    config = json.loads(files["blobs/sha256/" + manifest["config"]["digest"].removeprefix("sha256:")])
    assert config["config"]["Env"] == ["A=b"]
    assert config["rootfs"]["diff_ids"] == [one["digest"] for one in manifest["layers"]]
    for name, content in files.items():
        if name.startswith("blobs/"):
            assert hashlib.sha256(content).hexdigest() == name.rpartition("/")[2]


def test_the_key_follows_every_field() -> None:
    layers = (Layer("0" * 64, 1),)
    first = ImageSpec("a:1", layers)
    assert image_key(first) == image_key(ImageSpec("a:1", layers))
    others = [
        ImageSpec("b:1", layers),
        ImageSpec("a:1", ()),
        ImageSpec("a:1", layers, user="0"),
        ImageSpec("a:1", layers, ("x",)),
    ]
    assert len({image_key(one) for one in [first, *others]}) == 5


def test_a_layer_is_built_once_until_its_blob_is_lost(tmp_path: Path) -> None:
    built = []

    def build() -> list[Entry]:
        built.append(1)
        return ENTRIES

    layer = cached_layer(tmp_path, "tool", key_of(["1"]), build)
    assert cached_layer(tmp_path, "tool", key_of(["1"]), build) == layer
    assert len(built) == 1
    drop_unused_blobs(tmp_path)
    assert blob_path(tmp_path, layer.digest).exists()
    blob_path(tmp_path, layer.digest).unlink()
    assert cached_layer(tmp_path, "tool", key_of(["1"]), build) == layer
    assert len(built) == 2


@pytest.mark.parametrize("record", [b"", b"{", b"{}", b"[]"])
def test_a_record_that_a_power_cut_left_is_not_in_the_way(tmp_path: Path, record: bytes) -> None:
    layer = cached_layer(tmp_path, "tool", key_of(["1"]), lambda: ENTRIES)
    (broken,) = (tmp_path / "layers").glob("*.json")
    kept = broken.read_bytes()
    (tmp_path / "layers" / "other.json").write_bytes(kept)
    broken.write_bytes(record)
    drop_unused_blobs(tmp_path)
    assert not broken.exists()
    assert blob_path(tmp_path, layer.digest).exists()
    broken.write_bytes(record)
    assert cached_layer(tmp_path, "tool", key_of(["1"]), lambda: ENTRIES) == layer


def test_an_interrupted_build_leaves_nothing(tmp_path: Path) -> None:
    def build() -> Iterator[Entry]:
        yield ENTRIES[0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cached_layer(tmp_path, "tool", "k", build)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_keys_do_not_run_together() -> None:
    assert key_of(["ab", "c"]) != key_of(["a", "bc"])
