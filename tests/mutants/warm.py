"""A process in a copy of the tree that runs suites one after the other, and keeps the most expensive part of each.

There are two kinds of it:

    FORKING   imports what the suites import once; each run is a child, which forgets what a mutant has changed and whatever
              imports that, so that it is imported afresh
    KEEPING   keeps the API servers that suites start: for mutants outside Python, such as the chart's policies, and for
              suites that leave a server as they found it

The process is this file by itself, outside of the package that it would import. A request is a line of JSON with pytest's
arguments. The answer is a line too: how pytest ended, and the first red test.
"""

import ast
import contextlib
import functools
import importlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections import defaultdict
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

_PACKAGES: Final = ("bulkhead", "controller", "frontdoor", "gpumetrics", "syncer", "workstation")
# The embedded host's, which nothing here runs; what they bring along must not be there before a fork.
_OF_THE_HOST: Final = ("workstation.hostcluster", "workstation.images")
_READY: Final = "ready\n"
# Plugins that are imported already are fine as they are.
_IMPORTED: Final = ("-W", "ignore:Module already imported:pytest.PytestAssertRewriteWarning")


class Warm:
    """The process, as who asks it sees it."""

    def __init__(self, kind: str, tree: Path, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, kind], cwd=tree, env=environment, text=True, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        if self._process.stdout is None or self._process.stdout.readline() != _READY:
            raise RuntimeError(f"{__file__} {kind} does not start in {tree}")

    def run(self, arguments: Sequence[str], seconds: float, changed: Sequence[Path] = ()) -> tuple[int | None, str]:
        """How pytest ended, nothing where it hung, and the first test that was red; with these files of the tree changed."""
        asked, answers = self._process.stdin, self._process.stdout
        if asked is None or answers is None or self._process.poll() is not None:
            return None, ""
        asked.write(json.dumps([list(arguments), [str(each) for each in changed]]) + "\n")
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
    """Answer until the input ends."""
    sys.path[0] = str(Path.cwd())
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    if kind == FORKING:
        _stale(())  # what imports what, before anything is changed
        for name in (*_SLOW, *(each for each in _modules() if not each.startswith(_OF_THE_HOST))):
            # What cannot be imported here its test will tell.
            with contextlib.suppress(Exception):
                importlib.import_module(name)
    answers.write(_READY)
    answers.flush()
    for line in sys.stdin:
        arguments, changed = json.loads(line)
        said = _in_a_child(arguments, _stale(changed)) if kind == FORKING else _with_kept_servers(arguments)
        answers.write(said + "\n")
        answers.flush()


def _modules() -> dict[str, Path]:
    """The tree's own modules, but for its tests: those are read afresh each time, with what they rewrite of asserts."""
    found: dict[str, Path] = {}
    for package in _PACKAGES:
        for path in sorted(Path(package).rglob("*.py")):
            parts = path.with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return {name: path for name, path in found.items() if not name.endswith(".__main__")}


def _stale(changed: Sequence[str]) -> set[str]:
    """The modules of changed files, and all modules that import one of them; all modules if a file is not a module."""
    modules = _modules()
    files = {str(path): name for name, path in modules.items()}
    if not set(changed) <= files.keys():
        return set(modules)
    importers: dict[str, set[str]] = defaultdict(set)
    for name, path in modules.items():
        for imported in _imports(name, path):
            importers[imported].add(name)
    found: set[str] = set()
    left = [files[each] for each in changed]
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left.extend(importers[name])
    return found


@functools.cache
def _imports(name: str, path: Path) -> frozenset[str]:
    """What a module imports, by all the names that it may have; the packages that it is in are among them."""
    parts = name.split(".")
    found = {".".join(parts[:end]) for end in range(1, len(parts))}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{each.name}" for each in node.names)
    return frozenset(found)


def _forget(names: set[str]) -> None:
    for name in names:
        _unregister(sys.modules.pop(name, None))
        package, _, last = name.rpartition(".")
        if package in sys.modules and last in vars(sys.modules[package]):
            delattr(sys.modules[package], last)


def _unregister(module: Any) -> None:
    """Take a module's metrics out of the registry, which refuses a second metric of a name."""
    from prometheus_client import REGISTRY

    for value in vars(module).values() if module is not None else ():
        if value in list(REGISTRY._collector_to_names):
            REGISTRY.unregister(value)


def _in_a_child(arguments: Sequence[str], stale: set[str]) -> str:
    told, tells = os.pipe()
    child = os.fork()
    if not child:
        os.close(told)
        # Tests that fork themselves must not come back here.
        with os.fdopen(tells, "w") as answer:
            _forget(stale)
            answer.write(_run(arguments))
        os._exit(0)
    os.close(tells)
    with os.fdopen(told) as answer:
        said = answer.read()
    os.waitpid(child, 0)
    return said or '[null, ""]'


def _with_kept_servers(arguments: Sequence[str]) -> str:
    from tests.kit import known, servers

    servers.running, servers.start_pair = _running, _pair
    known._told.clear()  # each run brings policies of its own
    return _run(arguments)


def _run(arguments: Sequence[str]) -> str:
    import pytest

    seen = _Seen()
    code = pytest.main([*arguments, *_IMPORTED], plugins=[seen])
    return json.dumps([int(code), seen.red])


_kept: dict[str, Any] = {}


def _pair(folder: Path, host: Any = None, plane: Any = None) -> Any:
    """The two servers that a session shares; to stop them does nothing."""
    from tests.kit import servers

    made = [
        _server("host", host or servers.with_pod_groups("10.96.0.0/16", defined=True)),
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
