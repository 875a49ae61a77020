"""A process on the first GPU that does what its standard input says: one of the two of `neighbour.py`.

    python3 -m tests.gpus.device.worker

A line is a command with its numbers. Each answer is one line of JSON. A command that takes time first answers `begun`.
A call of the driver that fails is an answer with `error`. Times are those of the machine's monotonic clock.
"""

import ctypes
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any, Final

from tests.gpus.device.cuda import NEVER_GIVEN, Cuda, CudaError

# Launches that wait at the same time: enough that the GPU hardly waits for the process.
_MAX_QUEUED: Final = 16
_MAX_QUEUED_MS: Final = 400.0
# A GPU at rest has a slow clock.
_WARM_LAUNCHES: Final = 20
_WIDE: Final = (132 * 8, 256)
_SMALL: Final = (1, 32)
_CALIBRATED: Final = 200_000
_SLOWEST: Final = 5
# The shared memory that a block has without asking for more, and enough blocks for all of it.
_BLOCKS: Final = (132 * 4, 256)
_SHARED_WORDS: Final = 12288

# `work` computes for a time that follows from its rounds; `leave` fills shared memory, `left` counts what it finds there.
KERNELS: Final = b"""
.version 7.0
.target sm_80
.address_size 64
.shared .align 4 .b8 room[49152];
.visible .entry work(.param .u64 out, .param .u32 rounds)
{
 .reg .pred %p<2>;
 .reg .b32 %r<4>;
 .reg .f32 %f<4>;
 .reg .b64 %rd<4>;
 ld.param.u64 %rd1, [out];
 ld.param.u32 %r1, [rounds];
 cvta.to.global.u64 %rd1, %rd1;
 mov.u32 %r2, %tid.x;
 cvt.rn.f32.u32 %f1, %r2;
 mov.f32 %f2, 0f3F7FFFEF;
 mov.f32 %f3, 0f3DCCCCCD;
 mov.u32 %r3, 0;
MORE:
 setp.ge.u32 %p1, %r3, %r1;
 @%p1 bra OVER;
 fma.rn.f32 %f1, %f1, %f2, %f3;
 fma.rn.f32 %f1, %f1, %f2, %f3;
 fma.rn.f32 %f1, %f1, %f2, %f3;
 fma.rn.f32 %f1, %f1, %f2, %f3;
 add.u32 %r3, %r3, 1;
 bra MORE;
OVER:
 mul.wide.u32 %rd2, %r2, 4;
 add.u64 %rd3, %rd1, %rd2;
 st.global.f32 [%rd3], %f1;
 ret;
}
.visible .entry leave(.param .u32 pattern)
{
 .reg .pred %p<2>;
 .reg .b32 %r<8>;
 ld.param.u32 %r1, [pattern];
 mov.u32 %r2, %tid.x;
 mov.u32 %r3, %ntid.x;
 mov.u32 %r4, room;
MORE:
 setp.ge.u32 %p1, %r2, 12288;
 @%p1 bra OVER;
 shl.b32 %r5, %r2, 2;
 add.u32 %r6, %r4, %r5;
 st.volatile.shared.u32 [%r6], %r1;
 add.u32 %r2, %r2, %r3;
 bra MORE;
OVER:
 ret;
}
.visible .entry left(.param .u32 pattern, .param .u64 counts)
{
 .reg .pred %p<4>;
 .reg .b32 %r<8>;
 .reg .b64 %rd<8>;
 ld.param.u32 %r1, [pattern];
 ld.param.u64 %rd1, [counts];
 cvta.to.global.u64 %rd1, %rd1;
 mov.u32 %r2, %tid.x;
 mov.u32 %r3, %ntid.x;
 mov.u32 %r4, room;
 mov.u64 %rd2, 0;
 mov.u64 %rd3, 0;
MORE:
 setp.ge.u32 %p1, %r2, 12288;
 @%p1 bra OVER;
 shl.b32 %r5, %r2, 2;
 add.u32 %r6, %r4, %r5;
 ld.volatile.shared.u32 %r7, [%r6];
 setp.eq.u32 %p2, %r7, %r1;
 @%p2 add.u64 %rd2, %rd2, 1;
 setp.ne.u32 %p3, %r7, 0;
 @%p3 add.u64 %rd3, %rd3, 1;
 add.u32 %r2, %r2, %r3;
 bra MORE;
OVER:
 atom.global.add.u64 %rd4, [%rd1], %rd2;
 add.u64 %rd5, %rd1, 8;
 atom.global.add.u64 %rd6, [%rd5], %rd3;
 ret;
}
"""

Answer = dict[str, Any]


def quantiles(nanoseconds: list[int]) -> Answer:
    """Count, median, p99 and maximum of durations, in microseconds."""
    ordered = sorted(nanoseconds)
    if not ordered:
        return {"count": 0}
    return {
        "count": len(ordered),
        "p50_us": round(ordered[len(ordered) // 2] / 1e3, 1),
        "p99_us": round(ordered[len(ordered) * 99 // 100] / 1e3, 1),
        "max_us": round(ordered[-1] / 1e3, 1),
    }


def say(answer: Answer) -> None:
    """Write an answer at once."""
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


class Worker:
    """A context on the GPU, all that it holds, and one block that is handed to and fro."""

    def __init__(self) -> None:
        self._cuda = Cuda()
        module = ctypes.c_void_p()
        self._cuda.call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(KERNELS))
        self._kernels = {name: self._kernel(module, name) for name in ("work", "leave", "left")}
        # Small, so that later small blocks have their place beside it when the GPU has no memory left.
        self._scratch = self._cuda.take(4096)
        self._held: list[tuple[int, int]] = []
        self._block = (0, 0)
        # The first launch loads a kernel; the last of `work` tells how long a round takes.
        for _ in range(_WARM_LAUNCHES):
            self._work(_WIDE, _CALIBRATED)
        self._fill_shared(0)
        self._count_shared(0)
        self._cuda.wait()
        began = time.perf_counter()
        self._work(_WIDE, _CALIBRATED)
        self._cuda.wait()
        self._rounds_per_ms = max(1, int(_CALIBRATED / ((time.perf_counter() - began) * 1e3)))

    def commands(self) -> dict[str, Callable[..., Answer]]:
        """What a line may begin with."""
        return {
            "latency": self.latency,
            "throughput": self.throughput,
            "compute": self.compute,
            "memory": self.memory,
            "take_all": self.take_all,
            "release": self.release,
            "take": self.take,
            "drop": self.drop,
            "catch": self.catch,
            "look": self.look,
            "fault": self.fault,
            "leave": self.leave,
            "left": self.left,
        }

    def latency(self, seconds: float) -> Answer:
        """Launch a small kernel and wait for it, again and again."""
        say({"begun": True})
        took: list[int] = []
        slowest: list[tuple[int, float]] = []
        until = time.monotonic() + seconds
        failed = None
        while time.monotonic() < until and failed is None:
            began = time.perf_counter_ns()
            try:
                self._work(_SMALL, 1)
                self._cuda.wait()
            except CudaError as error:
                failed = str(error)
            took.append(time.perf_counter_ns() - began)
            slowest.append((took[-1], time.monotonic()))
            if len(slowest) > 2 * _SLOWEST:
                slowest = sorted(slowest, reverse=True)[:_SLOWEST]
        found = quantiles(took) | {
            "slowest": [(at, round(one / 1e6, 2)) for one, at in sorted(slowest, reverse=True)[:_SLOWEST]]
        }
        return found if failed is None else found | {"error": failed, "at": time.monotonic()}

    def throughput(self, seconds: float) -> Answer:
        """Compute in kernels of 1 ms."""
        return self.compute(1.0, seconds)

    def compute(self, milliseconds: float, seconds: float) -> Answer:
        """Compute all the time in kernels of this length on the whole GPU; how much of it the process got."""
        say({"begun": True})
        rounds = int(milliseconds * self._rounds_per_ms)
        queued = int(max(1, min(_MAX_QUEUED, _MAX_QUEUED_MS / milliseconds)))
        began, kernels = time.monotonic(), 0
        while time.monotonic() < began + seconds:
            for _ in range(queued):
                self._work(_WIDE, rounds)
            self._cuda.wait()
            kernels += queued
        took = time.monotonic() - began
        return {"kernels": kernels, "seconds": round(took, 3), "share": round(kernels * milliseconds / 1e3 / took, 3)}

    def memory(self) -> Answer:
        """What the driver tells this process of the GPU's memory."""
        free, total = self._cuda.memory()
        return {"free": free, "total": total}

    def take_all(self) -> Answer:
        """Take all memory that is left."""
        taken = list(self._cuda.take_all())
        self._held += taken
        return {"taken": sum(size for _, size in taken), "blocks": len(taken)}

    def release(self) -> Answer:
        """Give all of it back."""
        for address, _ in self._held:
            self._cuda.give_back(address)
        self._held = []
        return {}

    def take(self, size: float) -> Answer:
        """Take a block, look through it, and fill it with the pattern, which the same look must find then."""
        self._block = (self._cuda.take(int(size)), int(size))
        return self._looked_through()

    def drop(self) -> Answer:
        """Give the block back."""
        address, self._block = self._block[0], (0, 0)
        began = time.monotonic()
        self._cuda.give_back(address)
        return {"began": began, "ended": time.monotonic()}

    def look(self) -> Answer:
        """How much of the block is the pattern still."""
        return {"words": self._block[1] // 4, "pattern_words": self._cuda.look(*self._block)[0]}

    def catch(self, size: float, seconds: float) -> Answer:
        """Ask for a block until another process gives it back; what is in it then."""
        say({"begun": True})
        until, tries = time.monotonic() + seconds, 0
        while time.monotonic() < until:
            tries += 1
            try:
                self._block = (self._cuda.take(int(size)), int(size))
            except CudaError:
                continue
            at = time.monotonic()
            found = self._looked_through() | {"tries": tries, "caught": at}
            self.drop()
            return found
        return {"tries": tries, "caught": None}

    def fault(self) -> Answer:
        """Read memory that is not the process's own."""
        began = time.monotonic()
        try:
            self._cuda.look(NEVER_GIVEN, 4096)
        except CudaError as error:
            return {"faulted": True, "began": began, "ended": time.monotonic(), "with": str(error.__context__ or error)}
        return {"faulted": False}

    def leave(self, seconds: float, word: float) -> Answer:
        """Leave a word all over the shared memory of all multiprocessors, again and again."""
        say({"begun": True})
        until, launches = time.monotonic() + seconds, 0
        while launches == 0 or time.monotonic() < until:
            self._fill_shared(int(word))
            self._cuda.wait()
            launches += 1
        return {"launches": launches}

    def left(self, seconds: float, word: float) -> Answer:
        """Count a word in shared memory that was not written before it is read, again and again."""
        say({"begun": True})
        self._cuda.call("cuMemsetD32_v2", ctypes.c_uint64(self._scratch), ctypes.c_uint32(0), ctypes.c_size_t(4))
        until, launches = time.monotonic() + seconds, 0
        while launches == 0 or time.monotonic() < until:
            self._count_shared(int(word))
            self._cuda.wait()
            launches += 1
        found = (ctypes.c_uint64 * 2)()
        self._cuda.call("cuMemcpyDtoH_v2", found, ctypes.c_uint64(self._scratch), ctypes.c_size_t(16))
        words = launches * _BLOCKS[0] * _SHARED_WORDS
        return {"launches": launches, "words": words, "pattern_words": found[0], "nonzero_words": found[1]}

    def _looked_through(self) -> Answer:
        before, nonzero = self._cuda.look(*self._block)
        self._cuda.fill(*self._block)
        self._cuda.wait()
        after, _ = self._cuda.look(*self._block)
        words = self._block[1] // 4
        return {"words": words, "pattern_words": before, "nonzero_words": nonzero, "control_words": after}

    def _kernel(self, module: ctypes.c_void_p, name: str) -> ctypes.c_void_p:
        function = ctypes.c_void_p()
        self._cuda.call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
        return function

    def _work(self, shape: tuple[int, int], rounds: int) -> None:
        self._launch("work", shape, ctypes.c_uint64(self._scratch), ctypes.c_uint32(rounds))

    def _fill_shared(self, word: int) -> None:
        self._launch("leave", _BLOCKS, ctypes.c_uint32(word))

    def _count_shared(self, word: int) -> None:
        self._launch("left", _BLOCKS, ctypes.c_uint32(word), ctypes.c_uint64(self._scratch))

    def _launch(self, name: str, shape: tuple[int, int], *values: Any) -> None:
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.cast(ctypes.pointer(one), ctypes.c_void_p) for one in values))
        self._cuda.call("cuLaunchKernel", self._kernels[name], shape[0], 1, 1, shape[1], 1, 1, 0, None, pointers, None)


def main() -> None:
    """Do what the lines say until there are no more."""
    began = time.monotonic()
    try:
        commands = Worker().commands()
    except CudaError as error:
        say({"error": str(error), "seconds": round(time.monotonic() - began, 3)})
        return
    say({"ready": os.getpid(), "seconds": round(time.monotonic() - began, 3)})
    for line in sys.stdin:
        name, *numbers = line.split()
        try:
            say(commands[name](*map(float, numbers)))
        except CudaError as error:
            say({"error": str(error)})


if __name__ == "__main__":
    main()
