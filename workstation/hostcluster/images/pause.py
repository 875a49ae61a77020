"""The program that holds a pod's namespaces open: 200 bytes of ELF, or a shell loop on other architectures.

It has three tasks: end on SIGTERM and SIGINT (process 1 ignores signals that it has no handler for), reap the orphans of a
shared PID namespace, and otherwise use no CPU and no memory. Each pod of each tenant has one, so its size counts.
"""

import struct

from workstation.hostcluster.images import elf
from workstation.hostcluster.images.oci import Entry, architecture

# x86-64, position known. `sigaction` structures follow the code: handler, flags, restorer, mask.
#   rt_sigaction(SIGTERM, &stop, NULL, 8); rt_sigaction(SIGINT, &stop, NULL, 8)
#   rt_sigaction(SIGCHLD, &ignore, NULL, 8)   with SIG_IGN the kernel reaps children itself
#   for (;;) pause();
#   stop: exit_group(0)


def _rt_sigaction(signal: int, address: int) -> bytes:
    return (
        b"\xb8" + struct.pack("<I", 13)  # mov eax, 13 (rt_sigaction)
        + b"\xbf" + struct.pack("<I", signal)  # mov edi, signal
        + b"\xbe" + struct.pack("<I", address)  # mov esi, address
        + b"\x31\xd2"  # xor edx, edx
        + b"\x41\xba\x08\x00\x00\x00"  # mov r10d, 8
        + b"\x0f\x05"  # syscall
    )  # fmt: skip


_LOOP = b"\xb8\x22\x00\x00\x00\x0f\x05\xeb\xf7"  # mov eax, 34 (pause); syscall; jmp back
_STOP = b"\x31\xff\xb8\xe7\x00\x00\x00\x0f\x05"  # xor edi, edi; mov eax, 231 (exit_group); syscall
_SA_RESTORER, _SA_NOCLDWAIT = 0x04000000, 0x2


def elf_x86_64() -> bytes:
    """The whole executable."""
    calls = 3 * len(_rt_sigaction(0, 0))
    stop_at = elf.CODE_AT + calls + len(_LOOP)
    data_at = stop_at + len(_STOP)
    stop_action = struct.pack("<QQQQ", stop_at, _SA_RESTORER, stop_at, 0)
    ignore_action = struct.pack("<QQQQ", 1, _SA_RESTORER | _SA_NOCLDWAIT, stop_at, 0)
    ignore_at = data_at + len(stop_action)
    code = _rt_sigaction(15, data_at) + _rt_sigaction(2, data_at) + _rt_sigaction(17, ignore_at) + _LOOP + _STOP
    return elf.x86_64(code + stop_action + ignore_action)


_SHELL = b"#!/bin/busybox sh\ntrap 'exit 0' TERM INT\nwhile :; do /bin/busybox sleep 2147483647 & wait; done\n"


def pause_entries(busybox: Entry) -> list[Entry]:
    """The files of the pause image for this machine."""
    if architecture() == "amd64":
        return [Entry("pause", "file", elf_x86_64(), 0o755)]
    return [Entry("pause", "file", _SHELL, 0o755), busybox]
