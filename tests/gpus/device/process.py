"""A `worker.py` as the process that started it sees it: commands go in, answers come out, each with a deadline."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final

Answer = dict[str, Any]

_ANSWER_SECONDS: Final = 30.0


class GoneError(Exception):
    """The process ended or did not answer."""


class Process:
    """One of the two, from its start to its end."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-m", "tests.gpus.device.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=os.environ | {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"} | dict(environment),
        )
        self._answers: queue.SimpleQueue[Answer | None] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()
        self.pid = self._child.pid
        try:
            self.started = self.answer()
        except GoneError:
            self.kill()
            raise

    def __enter__(self) -> "Process":  # noqa: PYI034 - Python 3.10 has no Self
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        assert self._child.stdin is not None
        try:
            self._child.stdin.close()
            self._child.wait(10)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self.kill()

    def kill(self) -> float:
        """SIGKILL; seconds until the process is gone."""
        began = time.monotonic()
        self._child.send_signal(signal.SIGKILL)
        self._child.wait(_ANSWER_SECONDS)
        return round(time.monotonic() - began, 3)

    def tell(self, name: str, *numbers: float) -> None:
        """Send a command; if it takes time, wait until it has begun."""
        assert self._child.stdin is not None
        try:
            self._child.stdin.write(" ".join((name, *map(str, numbers))) + "\n")
            self._child.stdin.flush()
        except BrokenPipeError as error:
            raise GoneError(f"the process ended before {name!r}") from error

    def answer(self) -> Answer:
        """The next answer that is more than that a command has begun."""
        until = time.monotonic() + _ANSWER_SECONDS
        while True:
            answer = self._next(until)
            if "begun" not in answer:
                return answer

    def begin(self, name: str, *numbers: float) -> None:
        """Send a command that takes time, and wait until it has begun."""
        self.tell(name, *numbers)
        answer = self._next(time.monotonic() + _ANSWER_SECONDS)
        if "begun" not in answer:
            raise GoneError(f"{name!r} did not begin: {answer}")

    def ask(self, name: str, *numbers: float) -> Answer:
        """Send a command and wait for its answer."""
        self.tell(name, *numbers)
        return self.answer()

    def _next(self, until: float) -> Answer:
        try:
            answer = self._answers.get(timeout=max(0.0, until - time.monotonic()))
        except queue.Empty as error:
            raise GoneError(f"no answer after {_ANSWER_SECONDS} s") from error
        if answer is None:
            raise GoneError(f"the process ended with {self._child.wait(10)}")
        return answer

    def _read(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            self._answers.put(json.loads(line))
        self._answers.put(None)
