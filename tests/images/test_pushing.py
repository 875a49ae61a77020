"""Pushes into a registry: whole, once, on from where they were, and nothing that is damaged."""

import json
import socket
import ssl
from pathlib import Path

import pytest

from tests.images.fakeregistry import FakeRegistry, Handler, serving
from tests.images.samples import archive, digest
from workstation.hostcluster.progress import Silent
from workstation.images import place
from workstation.images.archive import Archive, ArchiveError
from workstation.images.credentials import Credentials
from workstation.images.pushing import Push, Pushed
from workstation.images.registry import Registry, RegistryRefusedError
from workstation.images.transport import BrokenError, RegistryError, Transport
from workstation.images.uploads import Uploads

WHO = Credentials("bulkhead", "w0rd")


def push(fake: FakeRegistry, path: Path, *, who: Credentials | None = WHO, chunk: int = 64) -> Pushed:
    where = place.parse(f"{fake.address}/base", plain=True)
    with Transport(ssl.create_default_context(), seconds=5) as transport, Archive(path) as found:
        registry = Registry(where, transport, who, pause=lambda _: None)
        registry.check()
        return Push(registry, Uploads(path.with_name("uploads.json")), Silent(), chunk=chunk).image(found)


def test_everything_arrives_and_the_tag_names_it(tmp_path: Path) -> None:
    path = archive(tmp_path)
    with serving(FakeRegistry(authorization=WHO.basic())) as fake:
        pushed = push(fake, path)
    index = json.loads(fake.manifests["base/etcd:v1"])
    manifest = json.loads(fake.manifests[f"base/etcd:{index['manifests'][0]['digest']}"])
    assert {each["digest"] for each in (manifest["config"], *manifest["layers"])} <= fake.blobs.keys()
    assert pushed.digest == digest(fake.manifests["base/etcd:v1"])
    assert manifest["annotations"]["org.opencontainers.image.title"] == "etcd"


@pytest.mark.parametrize("referrers", [True, False])
def test_the_sbom_refers_to_the_manifest_that_it_is_of(tmp_path: Path, *, referrers: bool) -> None:
    path = archive(tmp_path)
    with serving(FakeRegistry(referrers=referrers)) as fake:
        push(fake, path)
        push(fake, path)
    subject = json.loads(fake.manifests["base/etcd:v1"])["manifests"][0]["digest"]
    (attached,) = {text for text in fake.manifests.values() if b'"subject"' in text}
    document = json.loads(attached)
    assert document["subject"]["digest"] == subject
    assert json.loads(fake.blobs[document["layers"][0]["digest"]])["spdxVersion"] == "SPDX-2.3"
    listed = fake.manifests.get(f"base/etcd:{subject.replace(':', '-')}")
    assert (listed is None) == referrers
    assert listed is None or len(json.loads(listed)["manifests"]) == 1


def test_what_is_there_is_not_sent_again(tmp_path: Path) -> None:
    path = archive(tmp_path)
    with serving() as fake:
        first = push(fake, path)
        before = len(fake.asked)
        second = push(fake, path)
    assert (first.there, second.sent, second.bytes_sent) == (0, 0, 0)
    assert second.there == first.sent == 5
    assert {method for method, _, _ in fake.asked[before:]} == {"GET", "HEAD"}


def test_a_broken_transfer_goes_on_where_it_was(tmp_path: Path) -> None:
    path = archive(tmp_path)
    broken = []

    def cut(handler: Handler) -> bool:
        if handler.command == "PATCH" and len(handler.fake.uploads.get("u1", b"")) == 192 and not broken:
            broken.append(handler.path)
            handler.close_connection = True
            handler.connection.shutdown(socket.SHUT_RDWR)
            return True
        return False

    with serving(FakeRegistry(twist=cut)) as fake:
        pushed = push(fake, path)
    assert broken
    assert max(map(len, fake.blobs.values())) >= 1000
    # The first three chunks were not sent again.
    assert fake.count("PATCH", "/upload/u1") == 1000 // 64 + 1
    assert pushed.sent == 5


def test_an_interrupted_push_goes_on_in_the_next_process(tmp_path: Path) -> None:
    path = archive(tmp_path)

    def stop(handler: Handler) -> bool:
        if handler.command == "PATCH" and len(handler.fake.uploads.get("u1", b"")) == 192:
            refused.append(handler.path)
            handler.body()
            handler.answer(404)
            return True
        return False

    refused: list[str] = []
    with serving(FakeRegistry(twist=stop)) as fake:
        with pytest.raises(BrokenError, match="404"):
            push(fake, path)
        fake.twist = lambda _: False
        sent = fake.count("PATCH", "/upload/u1") - len(refused)
        push(fake, path)
    assert sent == 3
    assert fake.count("PATCH", "/upload/u1") - len(refused) == 1000 // 64
    assert fake.count("POST") == 5


def test_an_upload_that_the_registry_has_forgotten_begins_again(tmp_path: Path) -> None:
    path = archive(tmp_path)
    with serving() as fake:
        with Archive(path) as found:
            largest = max(found.blobs(found.manifests()[0]), key=lambda each: each.size)
        uploads = Uploads(tmp_path / "uploads.json")
        uploads.remember(f"http://{fake.address}/base/etcd@{largest.digest}", f"http://{fake.address}/upload/gone")
        push(fake, path)
    assert largest.digest in fake.blobs
    assert Uploads(tmp_path / "uploads.json").location(f"http://{fake.address}/base/etcd@{largest.digest}") == ""


def test_a_damaged_archive_never_becomes_an_image(tmp_path: Path) -> None:
    path = archive(tmp_path, damage=b"c" * 1000)
    with serving() as fake, pytest.raises(ArchiveError, match="other content"):
        push(fake, path)
    assert not fake.manifests
    assert digest(b"a" * 1000) not in fake.blobs
    assert digest(b"c" * 1000) not in fake.blobs


def test_a_wrong_password_is_named_before_anything_is_sent(tmp_path: Path) -> None:
    path = archive(tmp_path)
    with (
        serving(FakeRegistry(authorization="Basic other")) as fake,
        pytest.raises(RegistryRefusedError, match="'bulkhead'") as refused,
    ):
        push(fake, path)
    assert "w0rd" not in str(refused.value)
    assert len(fake.asked) == 2  # without credentials, then once with them: no loop


def test_a_registry_that_stores_something_else_is_named(tmp_path: Path) -> None:
    path = archive(tmp_path)

    def lie(handler: Handler) -> bool:
        if handler.command == "PUT":
            handler.body()
            handler.answer(201, {"Docker-Content-Digest": "sha256:" + "0" * 64})
            return True
        return False

    with serving(FakeRegistry(twist=lie)) as fake, pytest.raises(RegistryError, match="stored something else"):
        push(fake, path)


def test_a_malformed_list_of_referrers_is_not_written_over(tmp_path: Path) -> None:
    path = archive(tmp_path)
    with serving() as fake:
        with Archive(path) as found:
            subject = found.manifests()[0].digest
        fake.manifests[f"base/etcd:{subject.replace(':', '-')}"] = b'{"manifests":"all of them"}'
        with pytest.raises(RegistryError, match="referrers"):
            push(fake, path)
    assert "base/etcd:v1" not in fake.manifests


def test_a_location_on_another_host_gets_no_password(tmp_path: Path) -> None:
    path = archive(tmp_path)
    with serving() as store, serving(FakeRegistry(authorization=WHO.basic())) as fake:
        store.uploads["u0"] = b""

        def elsewhere(handler: Handler) -> bool:
            if handler.command == "POST":
                store.uploads["u0"] = b""
                handler.answer(202, {"Location": f"http://{store.address}/upload/u0"})
                return True
            return False

        fake.twist = elsewhere
        push(fake, path)
    assert store.blobs
    assert {authorization for _, _, authorization in store.asked} == {""}
