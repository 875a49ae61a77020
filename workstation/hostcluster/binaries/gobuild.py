"""Builds a component from its `go.mod` in this folder: upstream's sources through the Go module proxy, pinned by go.sum."""

import os
import shutil
import subprocess
import time
from pathlib import Path

from workstation.hostcluster.binaries.versions import Recipe
from workstation.hostcluster.component import Progress
from workstation.hostcluster.debian import ensure_packages

_DEADLINE = 3600.0


def _last_lines(path: Path, count: int = 15) -> str:
    return "\n".join(path.read_text(errors="replace").splitlines()[-count:])


def command(wanted: Recipe, into: Path) -> list[str]:
    """The `go build` command line."""
    target = f"{into}/" if wanted.package == "tool" else str(into / wanted.files[0])
    tags = ["-tags", wanted.tags] if wanted.tags else []
    # Nothing of the checkout is in a program: the same source makes the same bytes.
    flags = ["-mod=readonly", "-trimpath", "-buildvcs=false", *tags, "-ldflags", f"-s -w {wanted.ldflags}".strip()]
    return ["go", "build", *flags, "-o", target, wanted.package]


def _why_built(wanted: Recipe) -> str:
    return "no release could be downloaded" if wanted.downloads else "its releases contain none"


def build(wanted: Recipe, into: Path, report: Progress) -> None:
    """Build into a folder. Raises with the compiler's last lines if it fails."""
    if shutil.which("go") is None:
        raise RuntimeError(
            f"binaries of {wanted.component}: {_why_built(wanted)} and there is no `go` to build them; "
            "install Go 1.26 or newer (or a Go that downloads its toolchain)"
            f"{', or allow access to the release downloads' if wanted.downloads else ''}"
        )
    if wanted.foreign and wanted.cgo:
        raise RuntimeError(
            f"binaries of {wanted.component}: it has parts in C, which cannot be built for {wanted.foreign} here"
        )
    ensure_packages(wanted.needs, report)
    log = into.parent / "build.log"
    environment = {**os.environ, "CGO_ENABLED": "1" if wanted.cgo else "0", "GOFLAGS": "", "GOWORK": "off"}
    environment |= {"GOOS": "linux", "GOARCH": wanted.foreign} if wanted.foreign else {}
    started = time.monotonic()
    with log.open("w") as stream:
        process = subprocess.Popen(
            command(wanted, into), cwd=Path(__file__).parent / wanted.component, env=environment,
            stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            while True:
                took = time.monotonic() - started
                report.detail(f"building {wanted.component} {wanted.version}: {took:.0f} s")
                try:
                    status = process.wait(timeout=2)
                    break
                except subprocess.TimeoutExpired:
                    if took > _DEADLINE:
                        raise RuntimeError(
                            f"binaries of {wanted.component}: the build took more than {_DEADLINE:.0f} s"
                        ) from None
        except BaseException:
            process.terminate()
            process.wait(timeout=10)
            raise
    if status != 0:
        raise RuntimeError(f"binaries of {wanted.component}: `go build` failed:\n{_last_lines(log)}")
