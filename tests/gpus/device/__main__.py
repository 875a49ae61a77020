"""`python3 -m tests.gpus.device`, from the root of the repository on a machine with an NVIDIA GPU.

1. After a process: what the metrics still show of one that loaded the GPU fully, and for how long, once it has ended by itself
   and by SIGKILL (`after.py`). The control: the metrics show it while it runs.
2. Residue (row C13 of tests/adversarial/rows.yaml): a process fills the GPU's memory with a pattern and ends, by itself and by
   SIGKILL. The next process takes all memory and looks for the pattern. The control: the same look finds it where it is.
3. Names and units: what the NVML collector exports, read by the reader of exporters' pages, beside what `nvidia-smi -q -x`
   says, at rest and under load.
4. Errors: a process reads memory that is not its own; the collector exports the XID, and the next process works (`xid.py`).
5. Neighbours: what a process notices of another on the same GPU, with time slicing, and with MPS if NVIDIA's daemon is there
   (`neighbour.py`). It fails for residue under time slicing; the rest is reported.

Takes up to 300 s. With names (`after`, `residue`, `units`, `xid`, `neighbour`) it makes these checks alone.
Writes `gpu-check.json` into $OUT, or to stdout without it.
Ends with 1 if a check fails, with 2 if one could not be made.
nvidia-ml-py is taken from a wheel below build/gpu-check, or from where Python finds it.
"""

import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from bulkhead.gpus import fields
from bulkhead.gpus.exposition import parse, render
from bulkhead.gpus.fields import ABOUT, FIELDS
from tests.gpus.device import after, neighbour, smi, xid
from workstation.hostcluster.gpu.nvml import NoGpusError, Nvml
from workstation.hostcluster.gpu.reading import samples_of

_ROLE_SECONDS: Final = 60
_BUSY_SECONDS: Final = 8.0
# How far two readings, some 100 ms apart, may be from each other: absolute, and as a part of the larger one.
_NEAR: Final = {
    fields.SM_CLOCK: (300.0, 0.3),
    fields.MEMORY_CLOCK: (50.0, 0.1),
    fields.TEMPERATURE: (5.0, 0.1),
    fields.POWER: (60.0, 0.35),
    fields.UTILISATION: (20.0, 0.2),
    fields.COPY_UTILISATION: (40.0, 0.5),
    fields.MEMORY_FREE: (64.0, 0.0),
    fields.MEMORY_USED: (64.0, 0.0),
    fields.MEMORY_RESERVED: (1.0, 0.0),
}


def role(name: str) -> dict[str, Any]:
    """Run a role as a process of its own; what it printed, or what went wrong."""
    command = [sys.executable, "-m", "tests.gpus.device.cuda", name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_ROLE_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return {"error": f"not finished after {_ROLE_SECONDS} s"}
    lines = done.stdout.strip().splitlines()
    if not lines:
        return {"error": f"exit status {done.returncode}", "stderr": done.stderr[-2000:]}
    found: dict[str, Any] = json.loads(lines[-1])
    return found | {"exit": done.returncode}


def _library() -> Any:
    """NVML, which only machines with a GPU have."""
    return importlib.import_module("pynvml")


def residue() -> tuple[bool | None, dict[str, Any]]:
    """Whether nothing of an earlier process is found; None if that could not be told."""
    found: dict[str, Any] = {"control": role("control")}
    control = found["control"]
    told = control.get("written_words", -1) == control.get("found_words")
    clean = True
    for how in ("fill", "killed"):
        filled = role(how)
        seen = role("scan")
        found[how] = {"filled": filled, "scanned": seen}
        told = told and filled.get("filled", 0) > 0.9 * filled.get("total", 1)
        told = told and seen.get("scanned", 0) > 0.9 * seen.get("total", 1)
        clean = clean and seen.get("pattern_words") == 0
        found[how]["pattern_words_found"] = seen.get("pattern_words")
        found[how]["all_zero"] = seen.get("nonzero_words") == 0
    return (clean if told else None), found


def compare(collector: Nvml) -> tuple[bool, list[dict[str, Any]]]:
    """One reading of both sides; each row has both values and whether they are near."""
    lines = [sample for reading in collector.read() for sample in samples_of(reading, "this-machine")]
    page = parse(render(lines, ABOUT), FIELDS)
    theirs = smi.parse(smi.ask())
    rows: list[dict[str, Any]] = []
    ours = {(sample.labels[fields.UUID], sample.name): sample.value for sample in page.samples}
    for uuid, values in theirs.items():
        for name, value in values.items():
            mine = ours.get((uuid, name))
            wide, part = _NEAR[name]
            near = mine is not None and abs(mine - value) <= max(wide, part * max(mine, value))
            rows.append({"field": name, "unit": smi.UNITS[name], "nvml": mine, "nvidia-smi": value, "near": near})
    whole = page.left_out == 0 and len(page.samples) == len(lines) and len(ours) >= len(rows) > 0
    return whole and all(row["near"] for row in rows), rows


def units() -> tuple[bool | None, dict[str, Any]]:
    """Both sides at rest and under load, and that the load shows."""
    try:
        collector = Nvml()
    except NoGpusError as error:
        return None, {"error": str(error)}
    try:
        good, rest = compare(collector)
        command = [sys.executable, "-m", "tests.gpus.device.cuda", "busy", str(_BUSY_SECONDS)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as load:
            assert load.stdout is not None
            load.stdout.readline()
            time.sleep(3)  # utilisation is an average of up to a second
            loaded_good, loaded = compare(collector)
            load.communicate(timeout=_ROLE_SECONDS)
        page = render((s for r in collector.read() for s in samples_of(r, "this-machine")), ABOUT)
    finally:
        collector.close()
    nvml = {row["field"]: row["nvml"] for row in loaded}
    idle = {row["field"]: row["nvml"] for row in rest}
    shows = (nvml.get(fields.UTILISATION) or 0) > 50 and nvml.get(fields.MEMORY_USED, 0) - idle.get(
        fields.MEMORY_USED, 0
    ) >= 4096
    found = {"rest": rest, "load": loaded, "load_shows": shows, "page": page.decode().splitlines()}
    return good and loaded_good and shows, found


def main(*names: str) -> int:
    """All checks. What follows a process comes first, since the GPU has to be at rest for it."""
    began = time.monotonic()
    for wheel in sorted(Path("build/gpu-check").glob("*.whl")):
        sys.path.insert(0, str(wheel.resolve()))
    report: dict[str, Any] = {"python": sys.version.split()[0]}
    verdicts: list[bool | None] = []
    checks: dict[str, Callable[[], tuple[bool | None, dict[str, Any]]]] = {
        "after": lambda: after.check(_library()),
        "residue": residue,
        "units": units,
        "xid": lambda: xid.check(_library(), role),
        "neighbour": neighbour.check,
    }
    if unknown := set(names) - set(checks):
        sys.stderr.write(f"no such check: {', '.join(sorted(unknown))}; there are {', '.join(checks)}\n")
        return 2
    for name in names or checks:
        check = checks[name]
        try:
            verdict, report[name] = check()
        except Exception as error:  # noqa: BLE001 - the other checks are made all the same
            verdict, report[name] = None, {"error": f"{type(error).__name__}: {error}"}
        verdicts.append(verdict)
        report[name]["verdict"] = {True: "passed", False: "FAILED", None: "not told"}[verdict]
        sys.stderr.write(f"{name}: {report[name]['verdict']}\n")
    report["seconds"] = round(time.monotonic() - began, 1)
    text = json.dumps(report, indent=1) + "\n"
    folder = os.environ.get("OUT")
    if folder:
        (Path(folder) / "gpu-check.json").write_text(text)
    sys.stdout.write(text)
    return 1 if False in verdicts else 2 if None in verdicts else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
