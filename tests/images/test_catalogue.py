"""Which images are published: those that the chart names, with an SBOM that says what is in them."""

import json
import tarfile
from pathlib import Path

import pytest

from tests.images.samples import archive
from tests.kit import yamlfiles
from tests.kit.helmchart import rendered
from workstation.hostcluster.images.build import PROJECT
from workstation.hostcluster.images.oci import Entry, write_layer
from workstation.hostcluster.images.python_root import PACKAGE_LIST
from workstation.images import catalogue, gobuildinfo, sbom, valuesfile
from workstation.images.archive import Archive, ArchiveError

_OTHERS = {"registry", "digests", "pullPolicy", "pullSecrets"}
DIGEST = "sha256:" + "a" * 64


def test_every_image_of_the_chart_is_published_and_described() -> None:
    values = yamlfiles.load(PROJECT / "charts" / "bulkhead" / "values.yaml")
    given = {name: text for name, text in values["images"].items() if name not in _OTHERS}
    versions = {"kubernetes": values["kubernetesVersions"], "slurm": values["slurmVersions"]}
    wanted = {text.replace("{version}", version) for name, text in given.items() for version in versions.get(name, [""])}
    assert {image.title for image in catalogue.published()} == wanted
    assert {image.name for image in catalogue.published()} == given.keys() == catalogue.ABOUT.keys()


def test_only_images_that_there_are_can_be_chosen() -> None:
    assert [image.name for image in catalogue.chosen(["etcd", "etcd", "coredns"])] == ["etcd", "coredns"]
    assert catalogue.chosen([]) == catalogue.published()
    with pytest.raises(catalogue.UnknownImageError, match="nothing; the images are bulkhead, "):
        catalogue.chosen(["nothing"])


def test_the_chart_takes_the_values_file_and_pulls_by_digest(tmp_path: Path) -> None:
    digests = {image.title: "sha256:" + f"{number:x}" * 64 for number, image in enumerate(catalogue.published())}
    path = tmp_path / "values.yaml"
    path.write_text(valuesfile.values("r.example.org:5000/x", digests, ["pulls"]))
    controller = next(obj for obj in rendered("-f", str(path)) if obj["kind"] == "Deployment")
    (container,) = controller["spec"]["template"]["spec"]["containers"]
    environment = {each["name"]: each.get("value", "") for each in container["env"]}
    bulkhead = next(image for image in catalogue.published() if image.name == "bulkhead")
    assert container["image"] == f"r.example.org:5000/x/{bulkhead.title}@{digests[bulkhead.title]}"
    assert environment["BULKHEAD_IMAGE_BULKHEAD"] == container["image"]
    known = dict(each.split("=") for each in environment["BULKHEAD_IMAGE_DIGESTS"].split(","))
    for name in ("kubernetes", "slurm"):
        image = next(each for each in catalogue.published() if each.name == name)
        template = environment[f"BULKHEAD_IMAGE_{name.upper()}"]
        assert known[template.replace("{version}", image.tag)] == digests[image.title]


@pytest.mark.parametrize("wrong", ["images.digests.x=sha256:a", f"images.digests.X\\:y={DIGEST}", "images.digests=a"])
def test_digests_that_are_none_are_refused(wrong: str) -> None:
    with pytest.raises(AssertionError, match="schema"):
        rendered("--set", wrong)


def test_an_sbom_says_what_is_in_an_image(tmp_path: Path) -> None:
    entries = [
        Entry(PACKAGE_LIST, "file", b"libc6_2.36-9_amd64.deb\npython3-minimal_1%3a3.11.2_amd64.deb\nnonsense\n"),
        Entry(
            "site/aiohttp-3.14.dist-info/METADATA",
            "file",
            b"Metadata-Version: 2.1\nName: AioHTTP\nVersion: 3.14\n\nVersion: 1\n",
        ),
        Entry("bin/no-go", "file", b"\x7fELF nothing", 0o755),
    ]
    layer = write_layer(tmp_path, entries)
    found = sbom.scan([tmp_path / "blobs" / "sha256" / layer.digest])
    assert [each.purl for each in found] == [
        "pkg:deb/debian/libc6@2.36-9",
        "pkg:deb/debian/python3-minimal@1%3A3.11.2",
        "pkg:pypi/aiohttp@3.14",
    ]
    document = json.loads(sbom.spdx("x", "v1", DIGEST, found, "2026-01-01T00:00:00Z"))
    assert document["spdxVersion"] == "SPDX-2.3"
    assert {each["SPDXID"] for each in document["packages"]} == {
        each["relatedSpdxElement"] for each in document["relationships"]
    }
    assert sbom.spdx("x", "v1", DIGEST, found, "t") == sbom.spdx("x", "v1", DIGEST, found, "t")


@pytest.mark.parametrize(
    "damage", [b"", b"\x7fELF", b"\x7fELF" + b"\xff Go buildinf:".rjust(28, b"\0") + b"\x08\x02" + b"\xff" * 40]
)
def test_a_damaged_program_is_no_go_program(damage: bytes) -> None:
    assert gobuildinfo.read(damage) is None


def test_a_malformed_archive_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    path.write_bytes(b"no tar")
    with pytest.raises(ArchiveError, match=r"x\.tar"):
        Archive(path)
    for index in (b"{}", b"[]", b'{"manifests":[1]}', b'{"manifests":[{"mediaType":"x","digest":"../../etc","size":1}]}'):
        with tarfile.open(path, "w") as tar:
            (tmp_path / "index.json").write_bytes(index)
            tar.add(tmp_path / "index.json", "index.json")
        with pytest.raises(ArchiveError, match=r"x\.tar"):
            Archive(path)


def test_an_archive_whose_index_was_changed_is_damaged(tmp_path: Path) -> None:
    path = archive(tmp_path)
    content = path.read_bytes()
    with Archive(path) as whole:
        assert [each.architecture for each in whole.manifests()] == ["amd64"]
    path.write_bytes(content.replace(b'"architecture":"amd64"', b'"architecture":"arm64"'))
    with Archive(path) as changed, pytest.raises(ArchiveError, match="damaged"):
        changed.manifests()
