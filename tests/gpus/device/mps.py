"""An MPS daemon of NVIDIA for the length of a check. It changes no setting of the GPU."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

# Where a daemon listens that this check has not started.
_PIPES_BY_DEFAULT: Final = Path("/tmp/nvidia-mps")  # noqa: S108 - NVIDIA's own
_START_SECONDS: Final = 10.0
_END_SECONDS: Final = 15.0


@contextmanager
def daemon() -> Iterator[tuple[dict[str, str], str]]:
    """The variables that lead to the daemon; none, and why, if there is none."""
    control = shutil.which("nvidia-cuda-mps-control")
    if control is None:
        yield {}, "nvidia-cuda-mps-control is not there"
        return
    if (_PIPES_BY_DEFAULT / "control").exists():
        yield {}, "another MPS daemon is there"
        return
    with tempfile.TemporaryDirectory(prefix="mps-") as folder:
        variables = {"CUDA_MPS_PIPE_DIRECTORY": f"{folder}/pipe", "CUDA_MPS_LOG_DIRECTORY": f"{folder}/log"}
        for path in variables.values():
            Path(path).mkdir()
        environment = os.environ | variables
        # In the foreground and in a session of its own, so that it ends with this check, and its server with it.
        child = subprocess.Popen(
            [control, "-f"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment, start_new_session=True
        )
        try:
            until = time.monotonic() + _START_SECONDS
            pipe = Path(folder, "pipe", "control")
            while not pipe.exists() and child.poll() is None and time.monotonic() < until:
                time.sleep(0.05)
            if pipe.exists() and child.poll() is None:
                yield variables, "started"
            else:
                yield {}, f"did not start: {child.poll()}"
        finally:
            _end(child, control, environment)


def _end(child: "subprocess.Popen[bytes]", control: str, environment: dict[str, str]) -> None:
    try:
        subprocess.run([control], input=b"quit\n", capture_output=True, env=environment, timeout=_END_SECONDS, check=False)
        child.wait(_END_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        os.killpg(child.pid, signal.SIGKILL)
        child.wait(_END_SECONDS)
