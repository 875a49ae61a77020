"""The use of a process is measured on that process: if it is gone or was replaced, that is an error, not a small figure."""

import os
import subprocess
import sys

import pytest

from e2e import machine
from e2e.performance.sync_process import SyncerError, Usage, spent_s


def test_a_process_that_is_gone_has_no_figures() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    for figure in (machine.rss_kib, machine.pss_kib, machine.cpu_ticks):
        with pytest.raises(ProcessLookupError, match=f"{process.pid} is gone"):
            figure(process.pid)
        assert figure(os.getpid()) > 0


def test_what_was_spent_is_of_one_process() -> None:
    assert spent_s(Usage(7, 1.0, 40.0), Usage(7, 1.5, 40.0)) == 0.5
    with pytest.raises(SyncerError, match="replaced by 8"):
        spent_s(Usage(7, 9.0, 40.0), Usage(8, 0.1, 40.0))
