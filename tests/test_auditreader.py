"""The reader of an audit trail's files, as the process that it is in a plane's pod."""

import json
import signal
import subprocess
import sys
from pathlib import Path

from bulkhead import auditreader
from bulkhead.api.auditevents import LONGEST_LINE
from tests.api.test_auditevents import line

READER = [sys.executable, "-m", "bulkhead.auditreader"]


def told(folder: Path, *options: str) -> tuple[list[str], dict[str, int]]:
    done = subprocess.run([*READER, f"--folder={folder}", *options], capture_output=True, check=True, timeout=60)
    *events, summary = map(json.loads, done.stdout.splitlines())
    return [event["auditID"] for event in events], summary


def test_former_files_come_before_the_newest(tmp_path: Path) -> None:
    (tmp_path / "audit.log").write_bytes(line(5) + line(6))
    (tmp_path / "audit-2026-01-02T00-00-00.000.log").write_bytes(line(3) + line(4))
    (tmp_path / "audit-2026-01-01T00-00-00.000.log").write_bytes(line(1) + line(2, x="x" * 4 * LONGEST_LINE))
    (tmp_path / "other.log").write_bytes(line(9))
    assert told(tmp_path) == (["1", "3", "4", "5", "6"], {"large": 1, "leftOut": 0})
    assert told(tmp_path, "--most=2") == (["5", "6"], {"large": 1, "leftOut": 3})
    assert told(tmp_path, "--user=eve")[0] == []


def test_a_file_that_is_renamed_meanwhile_counts_once(tmp_path: Path) -> None:
    (tmp_path / "audit.log").write_bytes(line(1))
    (tmp_path / "audit-2026-01-01T00-00-00.000.log").hardlink_to(tmp_path / "audit.log")
    assert told(tmp_path)[0] == ["1"]
    assert told(tmp_path / "missing") == ([], {"large": 0, "leftOut": 0})


def test_a_line_of_any_length_is_read_in_pieces(tmp_path: Path) -> None:
    (tmp_path / "audit.log").write_bytes(b"x" * 5 * LONGEST_LINE + b"\n" + line(1))
    (file,) = auditreader.files(tmp_path)
    with file:
        found = list(auditreader.lines(file))
    assert [len(each) <= LONGEST_LINE + 2 for each in found] == [True, True]
    assert found[1] == line(1)


def test_it_waits_until_it_is_told_to_end() -> None:
    waiting = subprocess.Popen([*READER, "--wait"])
    try:
        waiting.send_signal(signal.SIGTERM)
        assert waiting.wait(30) in {0, -signal.SIGTERM}  # the signal may come before the process waits for it
    finally:
        waiting.kill()
