"""Machines and files that a new user may have: each ends with a sentence and an exit code, none with a traceback."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from bulkhead.kube.kubeconfig import KubeConfig
from tests.kit.kubeconfigs import to_yaml
from workstation.cli import hostfile, main
from workstation.cli.failures import CliError
from workstation.hostcluster import cluster
from workstation.hostcluster.addons.objects import AddonError
from workstation.hostcluster.images.python_root import ImageError
from workstation.images import valuesfile

NOWHERE: Final = Path("/nonexistent")


def run(shell: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command line as a process of its own; Python buffers what it prints, as it does for people."""
    around = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"} | environment
    line = shell.replace("bulkhead", f"{sys.executable} -m workstation.cli.main", 1)
    return subprocess.run(["sh", "-c", line], env=around, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.parametrize(
    "error", [ImageError("pip: no route to the index"), AddonError("kubectl apply: no answer within 90 s"), RuntimeError("x")]
)
def test_what_keeps_the_host_from_starting_is_a_sentence(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(cluster, "up", fails)
    assert main.main(["host", "up"]) == 1
    assert f"error: {error}" in capsys.readouterr().err


def test_a_full_disk_behind_the_output_is_an_error() -> None:
    done = run("bulkhead version --client > /dev/full")
    assert (done.returncode, done.stderr) == (1, "error: this machine: [Errno 28] No space left on device\n")


def test_a_closed_input_is_an_empty_one() -> None:
    done = run("bulkhead tenant create -f - <&-", KUBECONFIG=str(NOWHERE))
    assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (os.mkfifo, "is not a regular file"),
        (lambda path: path.mkdir(), "is a folder"),
        (lambda _: None, "does not exist"),
    ],
    ids=["pipe", "folder", "nothing"],
)
def test_a_kubeconfig_that_is_none_is_called_what_it_is(make: Callable[[Path], object], says: str, tmp_path: Path) -> None:
    path = tmp_path / "config"
    make(path)
    with pytest.raises(CliError, match=says):
        hostfile.find_kubeconfig(str(path))


def test_a_home_that_there_is_not_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CliError, match="~nosuchuser/config: the home folder of that user is not known"):
        hostfile.find_kubeconfig("~nosuchuser/config")

    def unknown(_: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", unknown)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setattr(hostfile, "EMBEDDED", NOWHERE)
    with pytest.raises(CliError, match="no kubeconfig of the host cluster"):
        hostfile.find_kubeconfig(None)


LOGIN: Final = "bulkhead login red --server-ca /dev/null --issuer-url https://x.example.org --client-id a --server"


@pytest.mark.parametrize(
    "server", ["https://h:644a", "https://h:99999", "https://[::1", "red.example.org:6443", "http://h", "https://u@h"]
)
def test_an_address_that_is_none_is_refused_before_anything_is_asked(server: str) -> None:
    done = run(f"{LOGIN} '{server}'")
    assert (done.returncode, done.stderr) == (2, f"error: --server {server}: it must be https://HOST[:PORT]\n")


def test_a_host_whose_name_cannot_be_one_is_not_reached(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_bytes(to_yaml(KubeConfig(server="https://api..example.com:6443", token="x")))
    done = run(f"bulkhead tenant list --kubeconfig {path}")
    assert (done.returncode, "the host's API cannot be reached" in done.stderr) == (1, True), done.stderr


def test_an_empty_authority_is_an_error_of_the_kubeconfig(tmp_path: Path) -> None:
    path, authority = tmp_path / "config", tmp_path / "ca"
    authority.write_bytes(b"")
    text = to_yaml(KubeConfig(server="https://127.0.0.1:1", token="x")).decode()
    path.write_text(text.replace("cluster:", f"cluster:\n    certificate-authority: {authority}", 1))
    done = run(f"bulkhead tenant list --kubeconfig {path}")
    assert (done.returncode, "Traceback" in done.stderr) == (1, False), done.stderr
    assert "kubeconfig broken" in done.stderr


def test_a_registry_whose_name_cannot_be_one_is_an_error(tmp_path: Path) -> None:
    done = run(f"bulkhead images push registry..example.org/x --folder {tmp_path}")
    assert (done.returncode in {1, 2}, "Traceback" in done.stderr) == (True, False), done.stderr


def test_a_date_that_there_is_not_is_not_yaml(tmp_path: Path) -> None:
    path = tmp_path / "red.yaml"
    path.write_text("kind: Tenant\nuntil: 2026-02-30\n")
    done = run(f"bulkhead tenant create -f {path}", KUBECONFIG=str(NOWHERE))
    assert (done.returncode, done.stderr) == (2, f"error: {path}: not YAML: day is out of range for month\n")
    done = run(f"bulkhead tenant list --kubeconfig {path}")
    assert (done.returncode, "kubeconfig broken: neither YAML nor JSON" in done.stderr) == (1, True), done.stderr


@pytest.mark.parametrize("folder", [".", "", "/"])
def test_an_export_into_a_folder_without_a_name_is_refused(folder: str) -> None:
    done = run(f"bulkhead tenant export red --to '{folder}'", KUBECONFIG=str(NOWHERE))
    assert (done.returncode, "exists already" in done.stderr) == (2, True), done.stderr


def test_values_are_not_read_from_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert valuesfile.digests_in(pipe, "registry.example.org") == {}
