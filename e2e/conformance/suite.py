"""The upstream suite: built from its Go module, run with a focus, its report read.

    go.mod -> e2e.test, ginkgo and the programs of its images (cache) -> run, in parallel if requested -> [Spec]

On the host it changes only the namespaces that the suite creates and removes.
"""

import functools
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from workstation.hostcluster import binaries

VERSION = "v1.36.3"
MODULE = Path(binaries.__file__).parent / "e2e-suite"
_BUILD_SECONDS = 3600
_LAST_SECONDS = 120
DEVICE_DRIVER = "dra-test-driver"
_PACKAGES: Mapping[str, str] = {
    "agnhost": "k8s.io/kubernetes/test/images/agnhost",
    DEVICE_DRIVER: "k8s.io/kubernetes/test/e2e/dra/test-driver",
    "e2e.test": "k8s.io/kubernetes/test/e2e",
    "ginkgo": "github.com/onsi/ginkgo/v2/ginkgo",
    "nonewprivs": "k8s.io/kubernetes/test/images/nonewprivs",
    "regression-issue-74839": "k8s.io/kubernetes/test/images/regression-issue-74839",
    "sample-apiserver": "k8s.io/sample-apiserver",
}
_OF_SUITE = tuple(name for name in _PACKAGES if name != DEVICE_DRIVER)
_STAMP = "k8s.io/component-base/version"
_LDFLAGS = f"-s -w -X {_STAMP}.gitVersion={VERSION} -X {_STAMP}.gitMajor=1 -X {_STAMP}.gitMinor=36"


class SuiteError(RuntimeError):
    """The suite could not be built or started; the text says why."""


@dataclass(frozen=True, slots=True)
class Spec:
    """One specification and its result."""

    name: str
    state: str  # passed, failed, timedout, panicked, interrupted
    seconds: float
    failure: str


def _run(what: str, command: list[str], *, cwd: Path | None = None, seconds: int = 120) -> str:
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false", "GOWORK": "off"}
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=seconds, env=environment)
    if done.returncode != 0:
        raise SuiteError(f"{what}: {(done.stderr or done.stdout).strip()[-1500:]}")
    return done.stdout


def programs(cache: Path, wanted: Sequence[str] = _OF_SUITE) -> Mapping[str, Path]:
    """`e2e.test`, `agnhost` and further programs, built once for each version."""
    folder = cache / "binaries" / "e2e-suite" / VERSION
    folder.mkdir(parents=True, exist_ok=True)
    plain = ["go", "build", "-mod=readonly", "-trimpath", "-ldflags", "-s -w"]
    special = {"e2e.test": ["go", "test", "-c", "-mod=readonly", "-trimpath", "-ldflags", _LDFLAGS]}
    for name in wanted:
        command = special.get(name, plain)
        target, half = folder / name, folder / f".{name}"
        if not target.exists():
            print(f"building {name} {VERSION} (minutes on two cores)", file=sys.stderr, flush=True)
            _run(f"build of {name}", [*command, "-o", str(half), _PACKAGES[name]], cwd=MODULE, seconds=_BUILD_SECONDS)
            half.rename(target)
    return {name: folder / name for name in wanted}


@functools.cache
def source(path: str) -> Path:
    """A file or folder of the suite's own source, in Go's module cache."""
    folder = _run(
        "source of the suite", ["go", "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes"], cwd=MODULE
    )
    found = Path(folder.strip()) / path
    if not found.exists():
        raise SuiteError(f"source of the suite: {found} is missing; `go mod download` in {MODULE} fetches it")
    return found


def listed_images(program: Path) -> list[str]:
    """The names of all images that the suite may use."""
    return _run("list of images", [str(program), "--list-images"]).split()


def run(
    programs: Mapping[str, Path], kubeconfig: Path, *, focus: str, skip: str, report: Path, seconds: int, processes: int = 1
) -> list[Spec]:
    """Run the specs in focus, `processes` at a time; a spec that does not finish in time counts as interrupted."""
    report.parent.mkdir(parents=True, exist_ok=True)
    raw = report.with_suffix(".ginkgo.json")
    raw.unlink(missing_ok=True)
    ginkgo = [f"--procs={processes}", "--no-color", "-v", "--grace-period=20s", f"--timeout={seconds}s", "--keep-going"]
    ginkgo += [f"--output-dir={raw.parent.resolve()}", f"--json-report={raw.name}", f"--focus={focus}", f"--skip={skip}"]
    options = ["provider=skeleton", f"kubeconfig={kubeconfig.resolve()}", "non-blocking-taints=kwok.x-k8s.io/node"]
    options += ["dump-logs-on-failure=false", "disable-log-dump=true"]
    command = [str(programs["ginkgo"]), *ginkgo, str(programs["e2e.test"]), "--", *(f"--{one}" for one in options)]
    log = report.with_suffix(".log")
    with (
        log.open("w") as stream,
        subprocess.Popen(command, stdout=stream, stderr=subprocess.STDOUT, cwd=report.parent) as process,
    ):
        try:
            process.wait(timeout=seconds + 300)
        except BaseException:
            # On this signal it still cleans up after its specs and writes its report. SIGINT would not do: a shell's background
            # job ignores it.
            process.terminate()
            process.wait(timeout=_LAST_SECONDS)
            raise
    if not raw.exists():
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
        raise SuiteError(f"the suite ended without a report (log: {log}):\n{tail}")
    specs = read_report(raw)
    if not specs:
        raise SuiteError(f"the suite ran no spec: nothing matches {focus!r} without {skip!r} (log: {log})")
    return specs


def read_report(raw: Path) -> list[Spec]:
    """The specs of a Ginkgo report that ran."""
    specs = []
    for suite in json.loads(raw.read_text()):
        for one in suite.get("SpecReports") or ():
            if one.get("LeafNodeType") != "It" or one["State"] in {"skipped", "pending"}:
                continue
            name = " ".join([*(one.get("ContainerHierarchyTexts") or ()), one["LeafNodeText"]])
            failure = (one.get("Failure") or {}).get("Message", "")
            specs.append(Spec(name, one["State"], one["RunTime"] / 1e9, failure[:2000]))
    return specs
