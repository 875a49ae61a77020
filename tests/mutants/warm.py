"""A process in a copy of the tree that runs suites one after the other, and keeps what costs the most of each: two kinds of it.

    FORKING   imports what is not the tree's own once; each run is a child, which imports the tree with its mutant afresh
    KEEPING   keeps the API servers that suites start: for mutants of what is no Python, such as the chart's policies, and for
              suites that leave a server as they found it

The process is this file by itself, outside of the package that it would import. What it is asked is a line of JSON, pytest's
arguments, and so is its answer: how pytest ended, and the first test that was red.
"""

import contextlib
import importlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

FORKING: Final = "forking"
KEEPING: Final = "keeping"
# Not the tree's own, and slow to import; some are plugins of pytest.
_SLOW: Final = (
    "pytest", "hypothesis", "pytest_asyncio.plugin", "pytest_timeout", "xdist.plugin", "yaml", "msgspec", "httptools",
    "aiohttp.web", "pydantic", "prometheus_client", "cryptography.x509", "jinja2", "kopf", "unittest.mock", "pdb",
)  # fmt: skip

# Plugins that are imported already are fine as they are.
_IMPORTED: Final = ("-W", "ignore:Module already imported:pytest.PytestAssertRewriteWarning")


class Warm:
    """The process, as who asks it sees it."""

    def __init__(self, kind: str, tree: Path, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, kind], cwd=tree, env=environment, text=True, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def run(self, arguments: Sequence[str], seconds: float) -> tuple[int | None, str]:
        """How pytest ended, nothing where it hung, and the first test that was red."""
        asked, answers = self._process.stdin, self._process.stdout
        if asked is None or answers is None or self._process.poll() is not None:
            return None, ""
        asked.write(json.dumps(list(arguments)) + "\n")
        asked.flush()
        if not select.select([answers], [], [], seconds)[0]:
            return None, ""
        code, red = json.loads(answers.readline() or '[null, ""]')
        return code, red

    def close(self) -> None:
        """End it, and what it started with it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for end in (self._process.stdin, self._process.stdout):
            if end is not None:
                end.close()


class _Seen:
    """The first test that was red, or that could not be collected."""

    def __init__(self) -> None:
        self.red = ""

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and not self.red:
            self.red = report.nodeid

    pytest_collectreport = pytest_runtest_logreport


def main(kind: str) -> None:
    """Answer until nobody asks any more."""
    sys.path[0] = str(Path.cwd())
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    if kind == FORKING:
        for name in _SLOW:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
    for line in sys.stdin:
        answers.write((_in_a_child(line) if kind == FORKING else _with_kept_servers(line)) + "\n")
        answers.flush()


def _in_a_child(line: str) -> str:
    told, tells = os.pipe()
    child = os.fork()
    if not child:
        os.close(told)
        # Tests that fork themselves must not come back here.
        with os.fdopen(tells, "w") as answer:
            answer.write(_run(line))
        os._exit(0)
    os.close(tells)
    with os.fdopen(told) as answer:
        said = answer.read()
    os.waitpid(child, 0)
    return said or '[null, ""]'


def _with_kept_servers(line: str) -> str:
    from tests.kit import known, servers

    servers.running, servers.start_pair = _running, _pair
    known._told.clear()  # each run brings policies of its own
    return _run(line)


def _run(line: str) -> str:
    import pytest

    seen = _Seen()
    code = pytest.main([*json.loads(line), *_IMPORTED], plugins=[seen])
    return json.dumps([int(code), seen.red])


_kept: dict[str, Any] = {}


def _pair(folder: Path, host: Any = None, plane: Any = None) -> Any:
    """The two servers that a session shares; to stop them does nothing."""
    from tests.kit import servers

    made = [
        _server("host", host or servers.with_pod_groups("10.96.0.0/16")),
        _server("plane", plane or servers.with_pod_groups("10.112.0.0/22")),
    ]
    return SimpleNamespace(host=made[0], plane=made[1], stop=lambda: None)


@contextlib.contextmanager
def _running(name: str, folder: Path, options: Any = None) -> Iterator[Any]:
    """A server until the end of the block, and after it."""
    yield _server(name, options)


def _server(name: str, options: Any) -> Any:
    """The server of this name and these options, which is started once and not stopped."""
    from tests.kit.servers import ApiServer

    key = f"{name} {options}"
    if key not in _kept:
        # The folder that a test has goes with later ones.
        server = ApiServer(name, Path(tempfile.mkdtemp(dir=Path.cwd(), prefix="server-")), options)
        server.start()
        server.wait()
        _kept[key] = server
    return _kept[key]


if __name__ == "__main__":
    main(sys.argv[1])
