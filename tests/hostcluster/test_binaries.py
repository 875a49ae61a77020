"""Getting binaries: cache, checked download, build; never half of one."""

import hashlib
import io
import os
import re
import tarfile
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from workstation.hostcluster import binaries
from workstation.hostcluster.binaries import download, gobuild
from workstation.hostcluster.binaries.versions import COMPONENTS, Download, Recipe, recipe
from workstation.hostcluster.progress import Silent

MODULES = Path(binaries.__file__).parent
MODULE_OF = {
    "kubernetes": "k8s.io/kubernetes",
    "etcd": "go.etcd.io/etcd/server/v3",
    "etcdutl": "go.etcd.io/etcd/etcdutl/v3",
    "containerd": "github.com/containerd/containerd/v2",
    "runc": "github.com/opencontainers/runc",
    "coredns": "github.com/coredns/coredns",
    "kwok": "sigs.k8s.io/kwok",
    "helm": "helm.sh/helm/v4",
    "metrics-server": "sigs.k8s.io/metrics-server",
    "dex": "github.com/dexidp/dex",
    "registry": "github.com/distribution/distribution/v3",
    "kubernetes-1.34": "k8s.io/kubernetes",
    "metallb": "go.universe.tf/metallb",
    "contour": "github.com/projectcontour/contour",
    "kueue": "sigs.k8s.io/kueue",
    "otelcol": "go.opentelemetry.io/collector/otelcol",
}
# Whose source is here, and who need no module.
OWN = {"startafter"}
# Of which releases hold no binaries.
UNRELEASED = {"metrics-server", "dex", "registry", "metallb", "contour", "kueue", "otelcol"} | OWN
FAKE = Recipe("fake", "v1", ("fake",), ())


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the parent's
        return


@pytest.fixture
def release(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    folder = tmp_path / "release"
    folder.mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield folder, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("component", sorted({*COMPONENTS} - OWN))
def test_the_version_is_the_one_that_the_module_pins(component: str) -> None:
    text = (MODULES / component / "go.mod").read_text()
    found = re.findall(rf"^\s*{re.escape(MODULE_OF[component])} (v\S+)", text, re.MULTILINE)
    assert found == [recipe(component).version]
    assert (MODULES / component / "go.sum").stat().st_size > 0


@pytest.mark.parametrize("component", sorted(OWN))
def test_a_program_of_our_own_needs_no_module_and_changes_its_version_with_its_source(
    component: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "require" not in (MODULES / component / "go.mod").read_text()
    before = recipe(component).version
    assert recipe(component).version == before
    read = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: read(path) + b"//\n")
    assert recipe(component).version != before


def test_every_release_file_has_checksums_and_every_binary_a_source() -> None:
    for component in COMPONENTS:
        wanted = recipe(component)
        had = {name for item in wanted.downloads for name in ([item.name] if item.name else [to for _, to in item.members])}
        assert had == set(wanted.files) or (component in UNRELEASED and not had)
        assert all(item.checksums.startswith("https://") and item.url.startswith("https://") for item in wanted.downloads)


def test_an_unknown_component_names_those_that_there_are() -> None:
    with pytest.raises(ValueError, match="unknown component: docker; the components are kubernetes"):
        recipe("docker")


@pytest.mark.parametrize(
    "sums",
    ["{d}", "{d}\n", "{d}  tool.tar.gz\n", "{o}  other.tar.gz\n{d} *./tool.tar.gz\n", "{d}  build/tool.tar.gz"],
)
def test_the_digest_is_found_in_every_form_of_list(sums: str) -> None:
    digest, other = "d" * 64, "0" * 64
    assert download.digest_for(sums.format(d=digest, o=other), "tool.tar.gz") == digest


@pytest.mark.parametrize("sums", ["", "not a digest", f"{'a' * 64}  other.tar.gz", "<html>404</html>"])
def test_a_list_without_the_file_is_refused(sums: str) -> None:
    with pytest.raises(ValueError, match="release checksums: tool is not listed"):
        download.digest_for(sums, "tool")


def _archive(content: bytes) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        member = tarfile.TarInfo("fake-v1/fake")
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def _recipe_at(url: str) -> Recipe:
    item = Download(f"{url}/fake.tar.gz", f"{url}/SHA256SUMS", (("fake-v1/fake", "fake"),))
    return Recipe("fake", "v1", ("fake",), (item,))


def test_a_download_is_checked_and_unpacked(tmp_path: Path, release: tuple[Path, str]) -> None:
    folder, url = release
    content = _archive(b"program")
    (folder / "fake.tar.gz").write_bytes(content)
    (folder / "SHA256SUMS").write_text(f"{hashlib.sha256(content).hexdigest()}  fake.tar.gz\n")
    into = tmp_path / "scratch" / "v1"
    into.mkdir(parents=True)
    assert download.fetch(_recipe_at(url), into, Silent()) is True
    assert (into / "fake").read_bytes() == b"program"
    assert (into / "fake").stat().st_mode & 0o111


def test_a_download_that_does_not_match_is_an_error(tmp_path: Path, release: tuple[Path, str]) -> None:
    folder, url = release
    (folder / "fake.tar.gz").write_bytes(_archive(b"program"))
    (folder / "SHA256SUMS").write_text(f"{'0' * 64}  fake.tar.gz\n")
    into = tmp_path / "scratch" / "v1"
    into.mkdir(parents=True)
    with pytest.raises(RuntimeError, match="the file is not used"):
        download.fetch(_recipe_at(url), into, Silent())
    assert list(into.iterdir()) == []


@pytest.mark.parametrize("answered", [b"<html>sign in first</html>", "<html>\xe4</html>".encode("latin-1"), b""])
def test_a_proxys_page_in_place_of_the_checksums_is_an_error(
    tmp_path: Path, release: tuple[Path, str], answered: bytes
) -> None:
    folder, url = release
    (folder / "SHA256SUMS").write_bytes(answered)
    into = tmp_path / "scratch" / "v1"
    into.mkdir(parents=True)
    with pytest.raises(RuntimeError, match=r"fake.tar.gz is not listed in http.*SHA256SUMS: does a proxy answer in its place"):
        download.fetch(_recipe_at(url), into, Silent())


def test_a_publisher_that_cannot_be_reached_is_no_error(tmp_path: Path) -> None:
    assert download.fetch(_recipe_at("http://127.0.0.1:1"), tmp_path, Silent()) is False


def test_what_has_no_release_is_not_taken_for_downloaded(tmp_path: Path) -> None:
    assert download.fetch(FAKE, tmp_path, Silent()) is False


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(binaries, "recipe", lambda _: FAKE)
    monkeypatch.setattr(download, "fetch", lambda *_: False)
    return tmp_path / "cache" / "bulkhead" / "binaries" / "fake"


def _built(wanted: Recipe, into: Path, _: object) -> None:
    (into / "fake").write_bytes(b"built")
    (into / "fake").chmod(0o755)


def test_what_is_built_appears_whole_and_is_then_taken_from_the_cache(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gobuild, "build", _built)
    assert binaries.ensure("fake") == {"fake": fake / "v1" / "fake"}

    def again(*_: object) -> None:
        raise AssertionError("built twice")

    monkeypatch.setattr(gobuild, "build", again)
    assert binaries.ensure("fake")["fake"].read_bytes() == b"built"


def test_what_is_built_is_on_the_disk_before_it_counts(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there: list[bool] = []
    monkeypatch.setattr(gobuild, "build", _built)
    monkeypatch.setattr(os, "sync", lambda: there.append((fake / "v1").exists()))
    binaries.ensure("fake")
    assert there == [False]


def test_an_interrupted_build_leaves_nothing_that_looks_done(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(wanted: Recipe, into: Path, _: object) -> None:
        (into / "fake").write_bytes(b"ha")
        raise KeyboardInterrupt

    monkeypatch.setattr(gobuild, "build", interrupted)
    with pytest.raises(KeyboardInterrupt):
        binaries.ensure("fake")
    assert [path.name for path in fake.iterdir()] == [".lock"]


def test_an_incomplete_folder_is_replaced(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (fake / "v1").mkdir(parents=True)
    (fake / "v1" / "fake").write_bytes(b"not executable")
    monkeypatch.setattr(gobuild, "build", _built)
    assert binaries.ensure("fake")["fake"].read_bytes() == b"built"


def test_two_runs_at_once_build_once(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    builds: list[int] = []

    def counted(wanted: Recipe, into: Path, report: object) -> None:
        builds.append(1)
        _built(wanted, into, report)

    monkeypatch.setattr(gobuild, "build", counted)
    threads = [threading.Thread(target=binaries.ensure, args=("fake",)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert builds == [1]


@pytest.mark.parametrize("component", COMPONENTS)
def test_the_build_is_pinned_and_stripped(component: str) -> None:
    command = gobuild.command(recipe(component), Path("/out"))
    assert command[:4] == ["go", "build", "-mod=readonly", "-trimpath"]
    assert any(part.startswith("-s -w") for part in command)


@pytest.mark.parametrize(
    ("component", "reason", "way_out"),
    [
        ("etcd", "no release could be downloaded", "release downloads"),
        ("metrics-server", "its releases contain none", "install Go"),
    ],
)
def test_without_go_the_error_says_what_to_do(
    component: str, reason: str, way_out: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeError, match=f"{reason} and there is no `go`.*install Go.*") as refused:
        gobuild.build(recipe(component), tmp_path, Silent())
    assert way_out in str(refused.value)
