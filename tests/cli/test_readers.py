"""A result whose reader goes before its end (`| head`) keeps its exit code."""

import os
import sys
from collections.abc import Iterator
from typing import TextIO

import pytest

from workstation.cli import eventloop
from workstation.cli.arguments import Form, Host
from workstation.cli.doctor import DoctorRequest, doctor
from workstation.cli.output import told
from workstation.preflight.findings import Checked, Finding, Report, State

LONG = "x" * 500


@pytest.fixture
def unread() -> Iterator[TextIO]:
    """The end of a pipe to which something is written, and whose reader has gone."""
    reads, writes = os.pipe()
    os.close(reads)
    with os.fdopen(writes, "w") as stream:
        yield stream


def test_what_is_told_to_a_reader_that_has_gone_is_no_error_and_neither_is_what_follows(unread: TextIO) -> None:
    with pytest.raises(BrokenPipeError):
        unread.writelines([LONG] * 100)  # the control: without it each write fails
    for _ in range(2):
        told(unread, lambda: unread.writelines([LONG] * 100))


@pytest.mark.parametrize("form", ["table", "json"])
@pytest.mark.parametrize(("state", "code"), [(State.FAILED, 1), (State.OK, 0)])
def test_what_doctor_has_found_is_its_exit_code(
    monkeypatch: pytest.MonkeyPatch, unread: TextIO, form: Form, state: State, code: int
) -> None:
    checks = tuple(Checked(f"check-{number}", LONG, Finding(state, LONG, cure=LONG)) for number in range(100))
    report = Report("v1.36.3", 1.0, checks)
    monkeypatch.setattr(eventloop, "run", lambda coroutine: (coroutine.close(), report)[1])
    monkeypatch.setattr(sys, "stdout", unread)
    assert doctor(DoctorRequest(Host(), "bulkhead-system", form)) == code
