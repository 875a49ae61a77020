"""Starts a program with coarse timers: a launcher of 200 bytes of ELF at the program's path, which then executes the program.

An idle API server wakes three hundred times a second for its own timers, mostly with nothing to do. The kernel may delay the
timers of a process by its timer slack, 50 microseconds by default. With more slack, a dozen timers share one wake-up. This does
not delay network traffic (prctl(2), PR_SET_TIMERSLACK; docs/decisions/0009).

    kubelet ──> /usr/local/bin/etcd: prctl, execve ──> /usr/local/libexec/etcd, same process, arguments and environment
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from workstation.hostcluster.images import elf
from workstation.hostcluster.images.oci import Entry

SLACK_NS: Final = 5_000_000
_BIN, _LIBEXEC = "usr/local/bin", "usr/local/libexec"


def elf_x86_64(program: str, slack_ns: int = SLACK_NS) -> bytes:
    """The executable that becomes `program`, an absolute path; it exits with 127 if there is no such program."""
    slack = b"\xbe" + struct.pack("<I", slack_ns)  # mov esi, nanoseconds
    prctl = (
        slack
        + b"\xbf\x1d\x00\x00\x00"  # mov edi, 29 (PR_SET_TIMERSLACK)
        + b"\xb8\x9d\x00\x00\x00"  # mov eax, 157 (prctl)
        + b"\x0f\x05"  # syscall
    )
    become = (
        b"\x48\x8b\x04\x24"  # mov rax, [rsp]: how many arguments
        b"\x48\x8d\x74\x24\x08"  # lea rsi, [rsp + 8]: the arguments
        b"\x48\x8d\x54\xc4\x10"  # lea rdx, [rsp + 8*rax + 16]: the environment
        b"\xb8\x3b\x00\x00\x00"  # mov eax, 59 (execve)
        b"\x0f\x05"  # syscall
    )
    fail = b"\xbf\x7f\x00\x00\x00\xb8\xe7\x00\x00\x00\x0f\x05"  # mov edi, 127; mov eax, 231 (exit_group); syscall
    name_at = elf.CODE_AT + len(prctl) + 5 + len(become) + len(fail)
    name = b"\xbf" + struct.pack("<I", name_at)  # mov edi, address of the name
    return elf.x86_64(prctl + name + become + fail + program.encode() + b"\0")


def entries(name: str, program: Path, machine: str) -> Iterator[Entry]:
    """The files that make `/usr/local/bin/<name>` run with coarse timers; on other architectures the program itself."""
    if machine != "amd64":
        yield Entry(f"{_BIN}/{name}", "file", program, 0o755)
        return
    yield Entry(f"{_BIN}/{name}", "file", elf_x86_64(f"/{_LIBEXEC}/{name}"), 0o755)
    yield Entry(f"{_LIBEXEC}/{name}", "file", program, 0o755)
