"""The device plugin and its generated messages."""

import subprocess
import sys
from pathlib import Path

import pytest

from workstation.hostcluster.gpu.regenerate import FOLDER, PROJECT, WRITTEN, write

pytest.importorskip("grpc_tools")


def test_registers_streams_health_allocates_and_survives_a_kubelet_restart(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.hostcluster.gpu.exchange", str(tmp_path)]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr[-4000:]


def test_generated_messages_are_up_to_date(tmp_path: Path) -> None:
    write(tmp_path)
    for name in WRITTEN:
        assert (tmp_path / FOLDER / name).read_text() == (PROJECT / FOLDER / name).read_text(), name
