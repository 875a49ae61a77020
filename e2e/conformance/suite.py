"""The upstream suite: built from its Go module, its server image made here, run with a focus, its report read.

    go.mod -> e2e.test and agnhost (cache) -> image under the name that e2e.test asks for -> run -> [Spec]

It changes nothing on the host but the namespaces that the suite makes and removes.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bulkhead.hostcluster import binaries
from bulkhead.hostcluster.component import RUN_DIR
from bulkhead.hostcluster.images import build
from bulkhead.hostcluster.images.layercache import cached_layer, file_key, key_of
from bulkhead.hostcluster.images.oci import Entry, ImageSpec

VERSION = "v1.36.3"
MODULE = Path(binaries.__file__).parent / "e2e-suite"
_BUILD_SECONDS = 3600
_STAMP = "k8s.io/component-base/version"
_LDFLAGS = f"-s -w -X {_STAMP}.gitVersion={VERSION} -X {_STAMP}.gitMajor=1 -X {_STAMP}.gitMinor=36"


class SuiteError(RuntimeError):
    """The suite could not be built or started; the text says why."""


@dataclass(frozen=True, slots=True)
class Spec:
    """One specification and how it went."""

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


def programs(cache: Path) -> Mapping[str, Path]:
    """`e2e.test` and `agnhost`, built once for each version."""
    folder = cache / "binaries" / "e2e-suite" / VERSION
    folder.mkdir(parents=True, exist_ok=True)
    commands = {
        "agnhost": ["go", "build", "-mod=readonly", "-trimpath", "-ldflags", "-s -w"],
        "e2e.test": ["go", "test", "-c", "-mod=readonly", "-trimpath", "-ldflags", _LDFLAGS],
    }
    packages = {"agnhost": "k8s.io/kubernetes/test/images/agnhost", "e2e.test": "k8s.io/kubernetes/test/e2e"}
    for name, command in commands.items():
        target, half = folder / name, folder / f".{name}"
        if not target.exists():
            print(f"building {name} {VERSION} (minutes on two cores)", file=sys.stderr, flush=True)
            _run(f"build of {name}", [*command, "-o", str(half), packages[name]], cwd=MODULE, seconds=_BUILD_SECONDS)
            half.rename(target)
    return {name: folder / name for name in commands}


def import_agnhost(cache: Path, files: Mapping[str, Path]) -> list[str]:
    """Make the suite's server image and import it under each name that the suite asks for."""
    listed = _run("list of images", [str(files["e2e.test"]), "--list-images"]).split()
    names = [one for one in listed if "e2e-test-images/agnhost:" in one]
    if not names:
        raise SuiteError("e2e.test --list-images names no agnhost image: the suite changed its tools")
    shop = build.Workshop(cache / "images", binaries.ensure, build.PROJECT)
    shell = build.busybox(shop)
    key = key_of([file_key(files["agnhost"])])
    program = cached_layer(shop.cache, "agnhost", key, lambda: [Entry("agnhost", "file", files["agnhost"], 0o755)])
    environment = dict(shell.environment)
    ctr = str(binaries.ensure("containerd")["ctr"])
    socket = str(RUN_DIR / "containerd" / "containerd.sock")
    for name in names:
        path = build.image_file(shop, ImageSpec(name, (*shell.layers, program), ("pause",), ("/agnhost",), "", environment))
        _run(f"import of {name}", [ctr, "-a", socket, "-n", "k8s.io", "images", "import", str(path)], seconds=300)
    return names


def run(program: Path, kubeconfig: Path, *, focus: str, skip: str, report: Path, seconds: int) -> list[Spec]:
    """Run the specs in focus, one after another; a spec that is not done in time counts as interrupted."""
    report.parent.mkdir(parents=True, exist_ok=True)
    raw = report.with_suffix(".ginkgo.json")
    raw.unlink(missing_ok=True)
    ginkgo = ["no-color", "v=true", "grace-period=20s", f"timeout={seconds}s", f"json-report={raw.resolve()}"]
    ginkgo += [f"focus={focus}", f"skip={skip}"]
    options = ["provider=skeleton", f"kubeconfig={kubeconfig}", "non-blocking-taints=kwok.x-k8s.io/node"]
    options += ["dump-logs-on-failure=false", "disable-log-dump=true"]
    command = [str(program), *(f"-ginkgo.{one}" for one in ginkgo), *(f"--{one}" for one in options)]
    log = report.with_suffix(".log")
    with log.open("w") as stream:
        subprocess.run(command, stdout=stream, stderr=subprocess.STDOUT, timeout=seconds + 300, check=False, cwd=report.parent)
    if not raw.exists():
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
        raise SuiteError(f"the suite ended without a report (log: {log}):\n{tail}")
    return read_report(raw)


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
