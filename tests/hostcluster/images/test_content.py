"""What is put into the images, as far as no Debian package is needed for it."""

import struct
import subprocess
from pathlib import Path

from bulkhead.hostcluster.images.build import PROJECT
from bulkhead.hostcluster.images.pause import elf_x86_64
from bulkhead.hostcluster.images.python_root import own_sources, runtime_requirements


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
    assert not [name for name in names if name.startswith(("bulkhead/hostcluster/", "bulkhead/cli/")) or name.endswith(".pyc")]


def test_pause_is_a_small_elf_whose_entry_lies_in_its_only_segment() -> None:
    program = elf_x86_64()
    assert len(program) < 512
    entry = struct.unpack_from("<Q", program, 24)[0]
    address, _, size = struct.unpack_from("<QQQ", program, 64 + 16)
    assert address <= entry < address + size


def test_pause_ends_on_sigterm(tmp_path: Path) -> None:
    import platform

    if platform.machine() != "x86_64":
        return
    program = tmp_path / "pause"
    program.write_bytes(elf_x86_64())
    program.chmod(0o755)
    with subprocess.Popen([program]) as process:
        # The handler may not be set yet: then the signal's default ends the process, with another status.
        process.terminate()
        assert process.wait(10) in {0, -15}
