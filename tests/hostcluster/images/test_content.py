"""What is put into the images, as far as no Debian package is needed for it."""

import platform
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from workstation.hostcluster.images import slack
from workstation.hostcluster.images.build import PROJECT
from workstation.hostcluster.images.pause import elf_x86_64
from workstation.hostcluster.images.python_root import make_tree, own_sources, runtime_requirements, tree_entries


def test_pods_get_the_runtime_dependencies_alone() -> None:
    text = runtime_requirements(PROJECT / "requirements.lock")
    names = {line.split("==")[0] for line in text.splitlines() if "==" in line}
    assert {"aiohttp", "httptools", "msgspec", "kopf", "pydantic", "cryptography", "multidict", "cffi"} <= names
    assert not names & {"rich", "pytest", "mypy", "ruff", "grpcio", "grpcio-tools", "hypothesis"}
    assert text.count("--hash=sha256:") >= len(names)


def test_pods_get_our_packages_without_the_host_and_the_command_line() -> None:
    names = [path.relative_to(PROJECT).as_posix() for path in own_sources(PROJECT)]
    assert "controller/__init__.py" in names
    assert "syncer/__init__.py" in names
    assert not [name for name in names if name.startswith("workstation/") or name.endswith(".pyc")]


def test_pause_is_a_small_elf_whose_entry_lies_in_its_only_segment() -> None:
    program = elf_x86_64()
    assert len(program) < 512
    entry = struct.unpack_from("<Q", program, 24)[0]
    address, _, size = struct.unpack_from("<QQQ", program, 64 + 16)
    assert address <= entry < address + size


# There is machine code for one kind of machine; others get a shell loop, and programs without a launcher.
needs_machine_code = pytest.mark.skipif(platform.machine() != "x86_64", reason="machine code for x86-64 only")


@needs_machine_code
def test_pause_ends_on_sigterm(tmp_path: Path) -> None:
    program = tmp_path / "pause"
    program.write_bytes(elf_x86_64())
    program.chmod(0o755)
    with subprocess.Popen([program]) as process:
        # The handler may not be set yet: then the signal's default ends the process, with another status.
        process.terminate()
        assert process.wait(10) in {0, -15}


def _launcher(at: Path, program: str) -> Path:
    at.write_bytes(slack.elf_x86_64(program))
    at.chmod(0o755)
    return at


@needs_machine_code
def test_a_program_gets_coarse_timers_its_arguments_and_its_environment(tmp_path: Path) -> None:
    shell = shutil.which("sh") or "/bin/sh"
    launcher = _launcher(tmp_path / "sh", shell)
    script = 'cat /proc/self/timerslack_ns; echo "$0 $1 $2 $GREETING"'
    done = subprocess.run(
        [launcher, "-c", script, "called", "a b", "c"],
        env={"PATH": "/usr/bin:/bin", "GREETING": "hello"}, capture_output=True, text=True, check=True, timeout=30,
    )  # fmt: skip
    assert done.stdout.splitlines() == [str(slack.SLACK_NS), "called a b c hello"]


@needs_machine_code
def test_a_program_that_is_not_there_is_no_success(tmp_path: Path) -> None:
    launcher = _launcher(tmp_path / "gone", str(tmp_path / "nothing"))
    assert subprocess.run([launcher], check=False, timeout=30).returncode == 127


def test_each_program_of_an_image_stands_behind_its_launcher(tmp_path: Path) -> None:
    found = {entry.path: entry for entry in slack.entries("etcd", tmp_path / "etcd", "amd64")}
    assert found["usr/local/bin/etcd"].mode == 0o755
    if platform.machine() == "x86_64":
        assert b"/usr/local/libexec/etcd\0" in found["usr/local/bin/etcd"].content
        assert found["usr/local/libexec/etcd"].content == tmp_path / "etcd"


@pytest.mark.parametrize(("packaged", "modes"), [(False, [0o644, 0o755]), (True, [0o600, 0o700])])
def test_the_umask_of_a_build_is_not_in_the_image(packaged: bool, modes: list[int], tmp_path: Path) -> None:
    """Pods run as another user: with an admin's umask of 077 they could read none of our files."""
    for name, mode in (("module.py", 0o600), ("program", 0o700)):
        (tmp_path / name).touch()
        (tmp_path / name).chmod(mode)
    found = {entry.path: entry.mode for entry in tree_entries(tmp_path, packaged=packaged)}
    assert [found["module.py"], found["program"]] == modes


def test_two_commands_may_make_the_same_tree_at_once(tmp_path: Path) -> None:
    target = tmp_path / "trees" / "site-1"

    def fill(tree: Path) -> None:
        tree.mkdir()
        target.mkdir()
        (target / "theirs").touch()

    assert make_tree(target, fill) == target
    assert [path.name for path in target.parent.iterdir()] == ["site-1"]
    assert (target / "theirs").exists()


def test_a_tree_that_cannot_be_kept_is_an_error(tmp_path: Path) -> None:
    target = tmp_path / "trees" / "site-1"
    with pytest.raises(FileNotFoundError):
        make_tree(target, lambda _: None)
    assert not target.exists()
