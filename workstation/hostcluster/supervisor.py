"""The process that runs the embedded host: starts the components in order, checks their health, restarts those that end.

It never changes the cluster's objects and never decides what to run: it gets a plan. It reads the context, joins the cgroup,
and runs one task for each component (wait for its dependencies → start → wait until healthy → watch → restart with backoff). It
writes `state.json` on every change, and stops all in reverse order on SIGTERM. Components of a node that is lost on purpose are
left alone until the node returns.
"""

import asyncio
import contextlib
import hashlib
import json
import logging
import os
import shutil
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import bulkhead
from workstation.hostcluster import addons, cgroups, health, pki, registry, state, upstream
from workstation.hostcluster.component import RUN_DIR, Component, HostContext

_LOG = logging.getLogger("workstation.hostcluster.supervisor")
_POLL_STARTING = 0.1
_POLL_READY = 5.0
_FAILURES_BEFORE_RESTART = 6
_DEATHS_BEFORE_FAILED = 5  # a component that always ends at its start fails before its whole deadline is over
_BACKOFF = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
_STEADY_SECONDS = 60.0  # after this lifetime, a component's backoff is the shortest again
_MAX_LOG = 64 << 20


class StartFailed(Exception):  # noqa: N818 - reads as what happened
    """A component did not become healthy in its time."""


def tail(path: Path, lines: int = 12) -> str:
    """The last lines of a log."""
    try:
        with path.open("rb") as stream:
            stream.seek(max(0, path.stat().st_size - 16384))
            text = stream.read().decode(errors="replace")
    except FileNotFoundError:
        return "(no log)"
    return "\n".join(line[:500] for line in text.splitlines()[-lines:])


def _rotate(path: Path) -> None:
    """Keep one older log. The process appends to the file, so it can be truncated meanwhile."""
    if not path.exists() or path.stat().st_size <= _MAX_LOG:
        return  # people delete logs where a disk is full
    older = path.with_suffix(".log.1")
    try:
        shutil.copyfile(path, older)
    except OSError:  # a full disk: without the older log there is room again
        older.unlink(missing_ok=True)
    os.truncate(path, 0)


def _open_log(path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)


class Keeper:
    """Keeps one component running."""

    def __init__(self, component: Component, log: Path, board: "Board") -> None:
        self.component = component
        self.ready = asyncio.Event()
        self.gone = asyncio.Event()  # set once the host stops and this component has stopped
        self.ever_ready = False
        self._log = log
        self._board = board
        self._process: asyncio.subprocess.Process | None = None
        self._born = 0.0
        self._state = board.state_of(component.name)
        self._state.log = str(log)

    def _set(self, phase: state.ComponentPhase, detail: str = "") -> None:
        if (self._state.phase, self._state.detail) == (phase, detail):
            return
        if self._state.phase != phase:
            self._state.since = time.time()
        self._state.phase, self._state.detail = phase, detail
        self._board.publish()

    async def _start(self) -> asyncio.subprocess.Process:
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": os.environ.get("HOME", "/root"),
            **({"PYTHONPATH": where} if (where := os.environ.get("PYTHONPATH")) else {}),  # the code that the supervisor runs
            **self.component.env,
        }
        log = _open_log(self._log)
        try:
            process = await asyncio.create_subprocess_exec(
                *self.component.argv, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log,
                env=environment, cwd="/", start_new_session=True,
            )  # fmt: skip
        finally:
            os.close(log)
        self._process, self._born = process, time.monotonic()
        self._state.pid = process.pid
        self._set("starting")
        return process

    def lost(self) -> bool:
        """Whether its node is lost on purpose, and publish it: the component is then neither checked nor restarted."""
        how = self._board.lost.get(self.component.node)
        if how is not None:
            self._set("lost", f"node {how}")
        return how is not None

    async def _until_healthy(self, process: asyncio.subprocess.Process) -> bool:
        """True if healthy; False if it ended first or took too long."""
        until = time.monotonic() + self.component.start_deadline
        wrong = "not checked yet"
        while time.monotonic() < until:
            if process.returncode is not None:
                self._set("restarting", f"ended with status {process.returncode} while starting")
                return False
            if self.lost():
                until = time.monotonic() + self.component.start_deadline
                await asyncio.sleep(_POLL_STARTING)
                continue
            wrong = await health.ask(self.component, time.monotonic() - self._born)
            if not wrong:
                return True
            self._set("starting", wrong)
            await asyncio.sleep(_POLL_STARTING)
        self._set("restarting", f"not healthy after {self.component.start_deadline:.0f} s: {wrong}")
        return False

    async def _until_ill(self, process: asyncio.subprocess.Process) -> None:
        """Return when the process has ended, or has failed so many checks that it must be restarted."""
        failures = 0
        ended = asyncio.ensure_future(process.wait())
        try:
            while failures < _FAILURES_BEFORE_RESTART:
                await asyncio.wait({ended}, timeout=_POLL_READY)
                if ended.done():
                    self._set("restarting", f"ended with status {process.returncode}")
                    return
                if self.lost():
                    failures = 0
                    continue
                wrong = await health.ask(self.component, time.monotonic() - self._born)
                failures = failures + 1 if wrong else 0
                _rotate(self._log)
                self._set("unhealthy" if wrong else "ready", wrong)
            _LOG.warning("%s: unhealthy, restarting: %s", self.component.name, self._state.detail)
        finally:
            ended.cancel()

    async def _life(self) -> None:
        """One run of the process, from its start to its end."""
        process = await self._start()
        if await self._until_healthy(process):
            self.ready.set()
            self.ever_ready = True
            self._set("ready")
            await self._until_ill(process)
            self.ready.clear()
        await self.stop(keep_phase=True)

    async def _until_wanted(self) -> None:
        """Return once its node is not lost and its dependencies are healthy."""
        await self._board.until_present(self.component.node)
        for other in self.component.depends_on:
            await self._board.keepers[other].ready.wait()

    async def run(self) -> None:
        """Keep it running until cancelled. Raises `StartFailed` if it never became healthy."""
        await self._until_wanted()
        first, attempt, deaths = time.monotonic(), 0, 0
        while True:
            try:
                await self._life()
            except OSError as error:
                if not self.ever_ready and self._board.state.phase == "starting":
                    raise StartFailed(f"{self.component.name} cannot be started: {error}") from error
                # Such as a full disk, or a program that is gone: the others go on, and this one when that is over.
                self.ready.clear()
                await self.stop(keep_phase=True)
                self._set("restarting", f"cannot be started: {error}")
            if self.lost():
                await self._until_wanted()
                first, attempt, deaths = time.monotonic(), 0, 0
                continue
            deaths += 1
            late = deaths >= _DEATHS_BEFORE_FAILED or time.monotonic() - first > self.component.start_deadline
            if late and not self.ever_ready and self._board.state.phase == "starting":
                self._set("failed", self._state.detail)
                raise StartFailed(f"{self.component.name}: {self._state.detail}\nlog {self._log} ends with:\n{tail(self._log)}")
            attempt = 0 if time.monotonic() - self._born > _STEADY_SECONDS else min(attempt + 1, len(_BACKOFF) - 1)
            _LOG.warning("%s: %s; restarting it in %.1f s", self.component.name, self._state.detail, _BACKOFF[attempt])
            await asyncio.sleep(_BACKOFF[attempt])
            self._state.restarts += 1

    async def stop(self, *, keep_phase: bool = False) -> None:
        """End the process: terminate, wait, kill."""
        process = self._process
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            try:
                async with asyncio.timeout(self.component.grace):
                    await process.wait()
            except TimeoutError:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        self._state.pid = 0
        if not keep_phase:
            self._set("stopped")


class Board:
    """Runs all keepers and publishes their state."""

    def __init__(self, ctx: HostContext, generation: str) -> None:
        self._ctx = ctx
        self.state = state.HostState(
            pid=os.getpid(),
            phase="starting",
            started=time.time(),
            options=state.options_to_json(ctx.options),
            generation=generation,
            release=bulkhead.__version__,
        )
        self.keepers: dict[str, Keeper] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._changed = asyncio.Event()
        self._changed.set()
        self._reload = False
        self._returned = asyncio.Condition()

    @property
    def lost(self) -> Mapping[str, str]:
        """The nodes that are lost on purpose, and how."""
        return self._ctx.lost

    async def until_present(self, node: str) -> None:
        """Wait until a node is not lost."""
        async with self._returned:
            await self._returned.wait_for(lambda: node not in self.lost)

    def state_of(self, name: str) -> state.ComponentState:
        """The published state of a component; created if there is none."""
        for item in self.state.components:
            if item.name == name:
                return item
        self.state.components.append(state.ComponentState(name))
        return self.state.components[-1]

    def publish(self) -> None:
        """Write the state file, with the phase that follows from the components."""
        here = [keeper for keeper in self.keepers.values() if keeper.component.node not in self.lost]
        if self.state.phase == "starting" and here and all(keeper.ready.is_set() for keeper in here):
            self.state.phase = "running"
        try:
            state.write(self.state, self._ctx.run_dir)
        except OSError:
            _LOG.exception("the state of the host cannot be written")

    def reload(self) -> None:
        """Request that the plan is read again (a signal handler: it only sets a flag)."""
        self._reload = True
        self._changed.set()

    async def _drop(self, name: str) -> None:
        task = self._tasks.pop(name)
        task.cancel()
        await asyncio.wait({task})
        await self.keepers.pop(name).stop()

    async def _apply(self, plan: tuple[Component, ...], tasks: asyncio.TaskGroup) -> None:
        """Run exactly the components of the plan; of unchanged ones none restarts, of a lost node none until it returns."""
        wanted = {component.name: component for component in plan}
        changed = [name for name, keeper in self.keepers.items() if wanted.get(name) != keeper.component]
        # A frozen process cannot end, and everything else would wait for it.
        for name in [name for name in changed if self.keepers[name].component.node not in self.lost]:
            await self._drop(name)
        self.state.components = [self.state_of(name) for name in wanted]
        new = [component for component in plan if component.name not in self.keepers]
        for component in new:
            self.keepers[component.name] = Keeper(component, self._ctx.log(component.name), self)
        for component in new:
            self._tasks[component.name] = tasks.create_task(self.keepers[component.name].run(), name=component.name)

    async def _follow(self, tasks: asyncio.TaskGroup) -> None:
        """Apply the plan now, and again whenever it changes."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            if self._reload:
                self._ctx, generation = load_context(self._ctx.run_dir)
                self.state.options, self.state.generation = state.options_to_json(self._ctx.options), generation
                self.state.lost = dict(self._ctx.lost)
            self.state.certificates_end = _certificates_end(self._ctx)
            await self._apply(plan_of(self._ctx), tasks)
            for keeper in self.keepers.values():
                keeper.lost()
            self.publish()
            async with self._returned:
                self._returned.notify_all()

    async def run(self) -> None:
        """Run everything until cancelled or a start failed."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._follow(tasks), name="plan")
        except* StartFailed as failures:
            self.state.phase = "failed"
            self.state.error = "\n".join(str(error) for error in failures.exceptions)
            _LOG.error("start failed: %s", self.state.error)
        finally:
            failed = self.state.phase == "failed"
            self.state.phase = "failed" if failed else "stopping"
            self.publish()
            cgroups.thaw()  # a frozen process cannot end
            await asyncio.gather(*(self._stop_after_dependents(name, failed) for name in self.keepers))

    async def _stop_after_dependents(self, name: str, failed: bool) -> None:
        """Stop components only after those that depend on them; independent ones stop at the same time."""
        for other in self.keepers.values():
            if name in other.component.depends_on:
                await other.gone.wait()
        keeper = self.keepers[name]
        await keeper.stop(keep_phase=failed and not keeper.ever_ready)
        keeper.gone.set()


def load_context(run_dir: Path = RUN_DIR) -> tuple[HostContext, str]:
    """The context that `up` wrote for the supervisor, and its generation."""
    text = (run_dir / "host.json").read_bytes()
    values = json.loads(text)
    ctx = HostContext(
        options=state.options_from_json(values["options"]),
        binaries={name: Path(path) for name, path in values["binaries"].items()},
        cache_dir=Path(values["cache_dir"]),
        run_dir=run_dir,
        lost=values.get("lost", {}),
        python=values.get("python", sys.executable),
    )
    return ctx, hashlib.sha256(text).hexdigest()[:16]


def plan_of(ctx: HostContext) -> tuple[Component, ...]:
    """Upstream components, then the add-ons."""
    return (*upstream.components(ctx), *addons.components(ctx))


def _certificates_end(ctx: HostContext) -> float:
    try:
        return pki.first_end(ctx, *([registry.CERTIFICATE] if ctx.options.registry else []))
    except (OSError, ValueError):
        _LOG.exception("the host's certificates cannot be read")
        return 0.0


async def supervise(run_dir: Path) -> int:
    """Run until SIGTERM or a failed start."""
    board = Board(*load_context(run_dir))
    board.publish()
    work = asyncio.ensure_future(board.run())
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, work.cancel)
    loop.add_signal_handler(signal.SIGHUP, board.reload)
    with contextlib.suppress(asyncio.CancelledError):
        await work
    return 1 if board.state.phase == "failed" else 0


def main() -> int:
    """Entry point of the detached process."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    cgroups.join()
    return asyncio.run(supervise(Path(sys.argv[1])))


if __name__ == "__main__":
    sys.exit(main())
