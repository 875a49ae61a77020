"""What a process notices of another one on the same GPU: time slicing, and MPS where NVIDIA's daemon is there.

A is the quiet one, B the noisy one. Both are `worker.py`, in processes of their own:

1. time: how long A waits for a small kernel, and which share of the GPU it gets, alone, beside an idle B, beside a B that
   computes in kernels of 1 ms, 100 ms and 1 s, and beside three such processes. The control: A alone again.
2. memory: B takes all of it. What A still gets, what a new process gets, and what A sees of B.
3. faults: B reads memory that is not its own, or is killed as it computes. Whether A works on, and how long it waits.
4. residue: A gives back a block full of a pattern while B, which holds all other memory, asks for it. B looks through what it
   got. And A fills the shared memory of all multiprocessors while B looks for the pattern in it. The control: the same look
   finds the pattern where the process itself has written it.

Time, memory and faults are reported: Bulkhead promises nothing of them between parts of a GPU. Residue under time slicing fails
the check. With MPS nothing does: there the processes share multiprocessors, and find each other's shared memory.
"""

import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import Final

from tests.gpus.device import mps
from tests.gpus.device.process import Answer, GoneError, Process

_MEASURE_SECONDS: Final = 1.2
# How long B computes, so that it does so before, while and after A is measured.
_AROUND_SECONDS: Final = 0.4
_KERNELS_MS: Final = (1.0, 1000.0, 100.0)
_KERNELS_MPS_MS: Final = (100.0,)
_DISTURBED_SECONDS: Final = 2.5
_FAULTS: Final = 3
_BEFORE_SECONDS: Final = 1.0
_BLOCK: Final = 1 << 30
# Rounds by size of the block.
_ROUNDS: Final = {1 << 30: 40, 64 << 20: 60, 2 << 20: 100}
_ROUNDS_MPS: Final = {1 << 30: 10, 2 << 20: 20}
_SHARED_SECONDS: Final = 2.0
_WORD_OF_A: Final = 0xA11CE5ED
_WORD_OF_B: Final = 0xB0B5EED5
# How far the two measurements of A alone may be from each other.
_STEADY: Final = 0.25
_SETTINGS: Final = "name,driver_version,compute_mode,mig.mode.current,persistence_mode"


Start = Callable[[], Process]


def times(start: Start, kernels: tuple[float, ...]) -> Answer:
    """How long A waits and what it gets, alone and beside B."""
    found: Answer = {}
    with start() as a:
        found["alone"] = _measured(a)
        with start() as b:
            found["beside an idle process"] = _measured(a)
            for milliseconds in kernels:
                found[f"beside kernels of {milliseconds:g} ms"] = _measured_beside(a, (b,), milliseconds)
            # A GPU divides its time among processes. A tenant may have any number of them.
            with start() as c, start() as d:
                found["beside three processes"] = _measured_beside(a, (b, c, d), kernels[-1])
        found["alone again"] = _measured(a)
    found["steady"] = is_steady(found["alone"], found["alone again"])
    return found


def _measured(a: Process) -> Answer:
    return {"latency": _latency(a, _MEASURE_SECONDS), "throughput": a.ask("throughput", _MEASURE_SECONDS)}


def _measured_beside(a: Process, others: tuple[Process, ...], milliseconds: float) -> Answer:
    for other in others:
        other.begin("compute", milliseconds, 2 * _MEASURE_SECONDS + 3 * _AROUND_SECONDS)
    time.sleep(_AROUND_SECONDS)
    return _measured(a) | {"neighbours": [other.answer() for other in others]}


def _latency(a: Process, seconds: float) -> Answer:
    return {name: value for name, value in a.ask("latency", seconds).items() if name != "slowest"}


def memory(start: Start) -> Answer:
    """What is left for A and for a new process beside a B that takes all memory; what is seen of B."""
    found: Answer = {}
    with start() as a:
        found["a_sees_alone"] = a.ask("memory")
        with start() as b:
            found["a_sees_beside_a_context"] = a.ask("memory")
            found["b_takes"] = b.ask("take_all")
            found["a_sees_beside_a_full_gpu"] = a.ask("memory")
            found["a_asks_for"] = {str(size): a.ask("take", size).get("error", "got it") for size in (_BLOCK, 2 << 20)}
            found["a_computes"] = _latency(a, 0.2)
            with start() as c:
                found["a_new_process"] = c.started
            b.begin("compute", 100.0, 3.0)
            time.sleep(1.0)  # utilisation is an average of up to a second
            found["seen"] = _seen(a.pid, b.pid)
            b.answer()
            b.ask("release")
            found["a_sees_once_it_is_released"] = a.ask("memory")
            found["a_then_gets"] = a.ask("take", _BLOCK)
    return found


def _seen(a: int, b: int) -> Answer:
    """What the driver's own tool names of both, with and without a PID namespace of one's own."""
    apart = ("unshare", "--pid", "--fork", "--mount-proc")
    return {
        "pids": {"a": a, "b": b},
        "processes": _smi("--query-compute-apps=pid,process_name,used_memory"),
        "processes_from_another_pid_namespace": _smi("--query-compute-apps=pid,process_name,used_memory", apart),
        "gpu_from_another_pid_namespace": _smi("--query-gpu=utilization.gpu,memory.used,power.draw", apart),
    }


def _smi(query: str, before: tuple[str, ...] = ()) -> list[str]:
    command = [*before, "nvidia-smi", query, "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return [f"{type(error).__name__}: {error}"]
    return (done.stdout + done.stderr).strip().splitlines()


def fault(start: Start) -> Answer:
    """What A notices when B reads memory that is not its own."""
    with start() as a, start() as b:
        found = {"a_holds": a.ask("take", _BLOCK), "quiet": _latency(a, _DISTURBED_SECONDS)}
        a.begin("latency", _DISTURBED_SECONDS)
        time.sleep(_BEFORE_SECONDS)
        seen = b.ask("fault")
        found |= disturbed(a.answer(), seen.get("began", 0.0)) | {"neighbour": seen, "a_still_holds": a.ask("look")}
    with start() as following:
        return found | {"the_next_process": following.started}


def killed(start: Start) -> Answer:
    """What A notices when B is killed as it computes."""
    with start() as a, start() as b:
        found = {"a_holds": a.ask("take", _BLOCK)}
        b.begin("compute", 1000.0, 2 * _DISTURBED_SECONDS)
        a.begin("latency", _DISTURBED_SECONDS)
        time.sleep(_BEFORE_SECONDS)
        at = time.monotonic()
        gone = b.kill()
        return found | disturbed(a.answer(), at) | {"neighbour_gone_after_seconds": gone, "a_still_holds": a.ask("look")}


def disturbed(latency: Answer, at: float) -> Answer:
    """A's times, with the slowest launches told from when the neighbour's fault or end began; whether A works on."""
    slowest = [{"ended_after_seconds": round(when - at, 3), "ms": took} for when, took in latency.get("slowest", ())]
    found = {name: value for name, value in latency.items() if name not in ("slowest", "at")}
    if "at" in latency:
        found["failed_after_seconds"] = round(latency["at"] - at, 3)
    return found | {"slowest": slowest, "works_on": "error" not in latency}


def residue(start: Start, rounds: Mapping[int, int]) -> Answer:
    """What B finds in memory that A gives back as B asks for it, and in shared memory that A uses at the same time."""
    found: Answer = {"blocks": {}}
    with start() as a, start() as b:
        found["shared"] = _shared(a, b)
        for size, count in rounds.items():
            a.ask("take", size)
            held = b.ask("take_all")
            found["blocks"][str(size)] = added_up([_handed_over(a, b, size) for _ in range(count)]) | {"b_holds": held["taken"]}
            b.ask("release")
            a.ask("drop")
    return found


def _handed_over(a: Process, b: Process, size: int) -> tuple[Answer, Answer, Answer]:
    """A gives its block to B, and takes it again: what each has seen."""
    b.begin("catch", size, 5.0)
    dropped = a.ask("drop")
    caught = b.answer()
    return dropped, caught, a.ask("take", size)


def added_up(rounds: list[tuple[Answer, Answer, Answer]]) -> Answer:
    """The sums over all rounds in which B got the block once A had begun to give it back."""
    good = [one for one in rounds if (one[1].get("caught") or 0.0) >= one[0].get("began", float("inf"))]
    caught, again = [one[1] for one in good], [one[2] for one in good if "words" in one[2]]
    return {
        "rounds": len(rounds),
        "caught": len(good),
        "words": sum(one["words"] for one in caught),
        "pattern_words": sum(one["pattern_words"] for one in caught),
        "nonzero_words": sum(one["nonzero_words"] for one in caught),
        "control_words": sum(one["control_words"] for one in caught),
        "caught_after_ms": quantile_ms([one[1]["caught"] - one[0]["began"] for one in good]),
        "way_back": {name: sum(one[name] for one in again) for name in ("words", "pattern_words", "nonzero_words")},
    }


def quantile_ms(seconds: list[float]) -> float | None:
    """The median in milliseconds; None of nothing."""
    return round(sorted(seconds)[len(seconds) // 2] * 1e3, 2) if seconds else None


def _shared(a: Process, b: Process) -> Answer:
    """B looks for its own word first: the control. Then for A's, so that it cannot take what is its own for another's."""
    b.ask("leave", 0.0, _WORD_OF_B)
    own = b.ask("left", 0.0, _WORD_OF_B)
    a.ask("leave", 0.0, _WORD_OF_A)
    after = b.ask("left", 0.0, _WORD_OF_A)
    a.begin("leave", _SHARED_SECONDS, _WORD_OF_A)
    meanwhile = b.ask("left", _SHARED_SECONDS, _WORD_OF_A)
    return {"own": own, "after": after, "meanwhile": meanwhile, "neighbour": a.answer()}


def _mode(environment: Mapping[str, str], kernels: tuple[float, ...], rounds: Mapping[int, int], *, kill: bool) -> Answer:
    """All parts; one that breaks off leaves the others their turn."""

    def start() -> Process:
        return Process(environment)

    parts: dict[str, Callable[[], Answer]] = {
        "time": lambda: times(start, kernels),
        "memory": lambda: memory(start),
        "residue": lambda: residue(start, rounds),
        "fault": lambda: {"rounds": [fault(start) for _ in range(_FAULTS)]},
    }
    if kill:
        parts["killed"] = lambda: killed(start)
    found: Answer = {}
    for name, part in parts.items():
        began = time.monotonic()
        try:
            found[name] = part()
        except (GoneError, KeyError, OSError, subprocess.SubprocessError) as error:
            found[name] = {"error": f"{type(error).__name__}: {error}"}
        found[name]["seconds"] = round(time.monotonic() - began, 1)
    return found


def is_steady(alone: Answer, again: Answer) -> bool:
    """Whether A alone was the same before and after: the control of the times."""
    pairs = [
        (alone["latency"].get("p50_us"), again["latency"].get("p50_us")),
        (alone["throughput"].get("share"), again["throughput"].get("share")),
    ]
    return all(a and b and abs(a - b) <= _STEADY * max(a, b) for a, b in pairs)


def verdict(found: Answer) -> bool | None:
    """Whether nothing of a living neighbour was found; None if no block changed hands or a control found nothing."""
    blocks, shared = found.get("blocks", {}).values(), found.get("shared", {})
    seen = [one["pattern_words"] + one["way_back"]["pattern_words"] for one in blocks]
    seen += [shared[name]["pattern_words"] for name in ("after", "meanwhile") if name in shared]
    if any(seen):
        return False
    told = bool(blocks) and all(one["caught"] > 0 and one["control_words"] == one["words"] > 0 for one in blocks)
    return True if told and shared.get("own", {}).get("pattern_words") else None


def check() -> tuple[bool | None, Answer]:
    """Time slicing first, then MPS if it is there."""
    found: Answer = {"settings": _smi(f"--query-gpu={_SETTINGS}")}
    with tempfile.TemporaryDirectory(prefix="no-mps-") as nothing:
        # Without a daemon in this folder no process takes part in MPS.
        apart = {"CUDA_MPS_PIPE_DIRECTORY": nothing}
        found["time_sliced"] = _mode(apart, _KERNELS_MS, _ROUNDS, kill=True)
        with mps.daemon() as (environment, why):
            found["mps"] = {"daemon": why}
            if environment:
                # NVIDIA says of a client that is killed as it computes that the server may then be in any state.
                found["mps"] |= _mode(environment, _KERNELS_MPS_MS, _ROUNDS_MPS, kill=False)
        try:
            with Process(apart) as last:
                found["a_process_afterwards"] = last.started
        except GoneError as error:
            found["a_process_afterwards"] = {"error": str(error)}
    found["settings_afterwards"] = _smi(f"--query-gpu={_SETTINGS}")
    return verdict(found["time_sliced"]["residue"]), found
