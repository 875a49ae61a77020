"""A GPU's memory by libcuda alone: fill all of it with a pattern, or look through all of it for one.

Each role is a process of its own, since a process that ends is what the check is about:

    python3 -m tests.gpus.device.cuda fill|killed|scan|control|fault
    python3 -m tests.gpus.device.cuda busy|load SECONDS

and prints one line of JSON. A kernel of the GPU counts the words; where the driver does not take it, the memory is copied.
"""

import ctypes
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from typing import Any, Final

PATTERN: Final = 0xB01C4EAD
_BLOCKS: Final = (1 << 30, 64 << 20, 2 << 20)
_CONTROL_BYTES: Final = 1 << 30
# The first page of a GPU's addresses is never given out.
NEVER_GIVEN: Final = 0x1000

KERNEL: Final = b"""
.version 7.0
.target sm_80
.address_size 64
.visible .entry look(.param .u64 data, .param .u64 words, .param .u32 pattern, .param .u64 counts)
{
 .reg .pred %p<4>;
 .reg .b32 %r<8>;
 .reg .b64 %rd<16>;
 ld.param.u64 %rd1, [data];
 ld.param.u64 %rd2, [words];
 ld.param.u32 %r1, [pattern];
 ld.param.u64 %rd3, [counts];
 cvta.to.global.u64 %rd1, %rd1;
 cvta.to.global.u64 %rd3, %rd3;
 mov.u32 %r2, %ctaid.x;
 mov.u32 %r3, %ntid.x;
 mov.u32 %r4, %tid.x;
 mov.u32 %r5, %nctaid.x;
 mul.wide.u32 %rd4, %r2, %r3;
 cvt.u64.u32 %rd5, %r4;
 add.u64 %rd4, %rd4, %rd5;
 mul.wide.u32 %rd6, %r5, %r3;
 mov.u64 %rd10, 0;
 mov.u64 %rd11, 0;
NEXT:
 setp.ge.u64 %p1, %rd4, %rd2;
 @%p1 bra DONE;
 shl.b64 %rd7, %rd4, 2;
 add.u64 %rd8, %rd1, %rd7;
 ld.global.u32 %r6, [%rd8];
 setp.eq.u32 %p2, %r6, %r1;
 @%p2 add.u64 %rd10, %rd10, 1;
 setp.ne.u32 %p3, %r6, 0;
 @%p3 add.u64 %rd11, %rd11, 1;
 add.u64 %rd4, %rd4, %rd6;
 bra NEXT;
DONE:
 atom.global.add.u64 %rd12, [%rd3], %rd10;
 add.u64 %rd9, %rd3, 8;
 atom.global.add.u64 %rd13, [%rd9], %rd11;
 ret;
}
"""


class CudaError(Exception):
    """A call of the driver failed."""


class Cuda:
    """A context on the first GPU."""

    def __init__(self) -> None:
        self._lib = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        # The primary context: the way that needs the fewest arguments in every version of the driver.
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        self._look: Any = None
        self.by_kernel = self._load()

    def call(self, name: str, *arguments: Any) -> None:
        """Call the driver; raises CudaError with the code."""
        code = getattr(self._lib, name)(*arguments)
        if code:
            raise CudaError(f"{name}: error {code}")

    def _load(self) -> str:
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        try:
            self.call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(KERNEL))
            self.call("cuModuleGetFunction", ctypes.byref(function), module, b"look")
        except CudaError as error:
            return str(error)
        self._look = function
        # The driver loads a kernel when it is first used, and there must be memory for that.
        address = self.take(_BLOCKS[-1])
        self.look(address, _BLOCKS[-1])
        self.give_back(address)
        return "yes"

    def memory(self) -> tuple[int, int]:
        """Free and total bytes."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    def take(self, size: int) -> int:
        """Allocate device memory."""
        found = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(found), ctypes.c_size_t(size))
        return found.value

    def take_all(self) -> Iterator[tuple[int, int]]:
        """Allocate until no further block fits: addresses and sizes."""
        for size in _BLOCKS:
            while True:
                try:
                    yield self.take(size), size
                except CudaError:
                    break

    def give_back(self, address: int) -> None:
        """Free device memory."""
        self.call("cuMemFree_v2", ctypes.c_uint64(address))

    def fill(self, address: int, size: int) -> None:
        """Write the pattern into every word."""
        self.call("cuMemsetD32_v2", ctypes.c_uint64(address), ctypes.c_uint32(PATTERN), ctypes.c_size_t(size // 4))

    def wait(self) -> None:
        """Until the GPU has done what it was told."""
        self.call("cuCtxSynchronize")

    def look(self, address: int, size: int) -> tuple[int, int]:
        """How many words are the pattern, and how many are not zero (-1: not counted)."""
        if self._look is None:
            return self._copied(address, size)
        counts = self.take(16)
        try:
            self.call("cuMemsetD32_v2", ctypes.c_uint64(counts), ctypes.c_uint32(0), ctypes.c_size_t(4))
            values = (
                ctypes.c_uint64(address),
                ctypes.c_uint64(size // 4),
                ctypes.c_uint32(PATTERN),
                ctypes.c_uint64(counts),
            )
            pointers = (ctypes.c_void_p * 4)(*(ctypes.cast(ctypes.pointer(value), ctypes.c_void_p) for value in values))
            self.call("cuLaunchKernel", self._look, 1024, 1, 1, 256, 1, 1, 0, None, pointers, None)
            self.wait()
            found = (ctypes.c_uint64 * 2)()
            self.call("cuMemcpyDtoH_v2", found, ctypes.c_uint64(counts), ctypes.c_size_t(16))
            return found[0], found[1]
        finally:
            self.give_back(counts)

    def _copied(self, address: int, size: int) -> tuple[int, int]:
        found = 0
        step = 64 << 20
        buffer = ctypes.create_string_buffer(step)
        word = PATTERN.to_bytes(4, "little")
        for offset in range(0, size, step):
            length = min(step, size - offset)
            self.call("cuMemcpyDtoH_v2", buffer, ctypes.c_uint64(address + offset), ctypes.c_size_t(length))
            found += buffer.raw[:length].count(word)
        return found, -1


def fill() -> dict[str, Any]:
    """Fill all memory with the pattern."""
    cuda = Cuda()
    began, (_, total) = time.monotonic(), cuda.memory()
    filled = 0
    for address, size in cuda.take_all():
        cuda.fill(address, size)
        filled += size
    cuda.wait()
    return {"filled": filled, "total": total, "seconds": time.monotonic() - began}


def scan() -> dict[str, Any]:
    """Look through all memory without writing into it."""
    cuda = Cuda()
    began, (_, total) = time.monotonic(), cuda.memory()
    # Room for the counts, which come after everything else is taken.
    room = cuda.take(4 << 20)
    blocks = list(cuda.take_all())
    cuda.give_back(room)
    pattern = other = 0
    for address, size in blocks:
        here, nonzero = cuda.look(address, size)
        pattern += here
        other += nonzero
    return {
        "scanned": sum(size for _, size in blocks),
        "total": total,
        "pattern_words": pattern,
        "nonzero_words": other,
        "by_kernel": cuda.by_kernel,
        "seconds": time.monotonic() - began,
    }


def control() -> dict[str, Any]:
    """The same look finds the pattern where it is: in memory that this process filled; and what is left after it is freed."""
    cuda = Cuda()
    address = cuda.take(_CONTROL_BYTES)
    cuda.fill(address, _CONTROL_BYTES)
    cuda.wait()
    found, _ = cuda.look(address, _CONTROL_BYTES)
    cuda.give_back(address)
    room = cuda.take(4 << 20)
    blocks = list(cuda.take_all())
    cuda.give_back(room)
    again = sum(cuda.look(block, size)[0] for block, size in blocks)
    return {
        "written_words": _CONTROL_BYTES // 4,
        "found_words": found,
        "found_words_after_free_in_the_same_process": again,
        "by_kernel": cuda.by_kernel,
    }


def busy(seconds: float) -> dict[str, Any]:
    """Keep the GPU at work with 4 GiB of its memory taken."""
    cuda = Cuda()
    address = cuda.take(4 << 30)
    sys.stdout.write("working\n")
    sys.stdout.flush()
    until = time.monotonic() + seconds
    rounds = 0
    while time.monotonic() < until:
        cuda.fill(address, 4 << 30)
        cuda.wait()
        rounds += 1
    return {"rounds": rounds}


def load(seconds: float) -> dict[str, Any]:
    """Keep the GPU at work with all of its memory taken."""
    cuda = Cuda()
    blocks = list(cuda.take_all())
    until = time.monotonic() + seconds
    rounds = 0
    while time.monotonic() < until:
        for address, size in blocks:
            cuda.fill(address, size)
        cuda.wait()
        rounds += 1
    return {"rounds": rounds, "taken": sum(size for _, size in blocks)}


def fault() -> dict[str, Any]:
    """A kernel reads memory that is not its own, which the driver reports as an XID."""
    cuda = Cuda()
    if cuda.by_kernel != "yes":
        return {"faulted": False, "by_kernel": cuda.by_kernel}
    try:
        cuda.look(NEVER_GIVEN, 4096)
    except CudaError as error:
        return {"faulted": True, "error": str(error.__context__ or error)}
    return {"faulted": False}


def main(role: str, seconds: float = 0.0) -> None:
    """Play a role and print what it found."""
    timed = {"busy": busy, "load": load}
    roles = {"fill": fill, "killed": fill, "scan": scan, "control": control, "fault": fault}
    found = timed[role](seconds) if role in timed else roles[role]()
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()
    if role == "killed":
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1], *map(float, sys.argv[2:]))
