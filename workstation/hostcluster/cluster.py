"""Brings the embedded host up, takes it down, and reads its state.

`up` prepares the machine and the files, starts the supervisor in a process of its own, and waits until every component is
healthy. Then it imports the images and applies the add-ons. It may be repeated at any time. `down` leaves nothing behind.
"""

import fcntl
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import bulkhead
from workstation.hostcluster import (
    addons,
    binaries,
    cgroups,
    configuration,
    imports,
    machine_settings,
    namespaces,
    pki,
    programs,
    registry,
    remains,
    state,
)
from workstation.hostcluster.component import DATA_DIR, NODE_ADDRESS, NODE_NAME, RUN_DIR, HostContext, HostOptions, Progress
from workstation.hostcluster.debian import HOST_PACKAGES, ensure_packages
from workstation.hostcluster.files import READ_AT_START, write_file
from workstation.hostcluster.images import build
from workstation.hostcluster.node import Node, present
from workstation.hostcluster.supervisor import load_context, plan_of

_START_SECONDS = 240.0
_NODE_SECONDS = 180.0
_LOOK_SECONDS = 20.0  # longer than a request may take
_STOP_SECONDS = 60.0
_LOCK = Path("/run/bulkhead-host.lock")


class HostError(Exception):
    """The host cannot do what was requested; the text has the reason and what to do."""


@dataclass(frozen=True, slots=True)
class HostHandle:
    """A host that is up."""

    kubeconfig: Path
    context: HostContext


@contextmanager
def exclusive(report: Progress) -> Iterator[None]:
    """One `up` or `down` at a time, with the umask that kubelets and containerd expect.

    They write files for pods, such as /etc/hosts and /etc/resolv.conf, and folders above pods' file systems. With root's umask
    of a hardened machine no other user could read those.
    """
    if os.geteuid() != 0:
        raise HostError("the embedded host must run as root, because it creates containers, networks and mounts")
    while True:
        with _LOCK.open("w") as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                report.detail("waiting for another `bulkhead host` command to end")
                fcntl.flock(stream, fcntl.LOCK_EX)
            if not _same_file(stream.fileno(), _LOCK):
                continue  # a `down` held the lock and removed its file
            earlier = os.umask(0o022)
            try:
                yield
            finally:
                os.umask(earlier)
            return


def _same_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _context(options: HostOptions, report: Progress) -> HostContext:
    also = ("registry",) if options.registry else ()
    found = binaries.ensure_all(report, also=also)
    return HostContext(options=options, binaries=found, cache_dir=binaries.cache_dir(), python=sys.executable)


def bare_context(options: HostOptions) -> HostContext:
    """The parts of a context that removing a host needs; requires no binaries."""
    return HostContext(options=options, binaries={}, cache_dir=binaries.cache_dir(), python=sys.executable)


def alive(run_dir: Path = RUN_DIR) -> state.HostState | None:
    """The state of a running supervisor; None if none runs."""
    found = state.read(run_dir)
    return found if found is not None and state.is_supervisor(found.pid) else None


def status(run_dir: Path = RUN_DIR) -> state.HostState | None:
    """The state as last written; if the supervisor is gone, every component counts as stopped."""
    found = state.read(run_dir)
    if found is None or state.is_supervisor(found.pid):
        return found
    for component in found.components:
        component.pid = 0
        if component.phase != "failed":
            component.phase = "stopped"
    found.phase = "failed"
    log = bare_context(state.options_from_json(found.options)).log("supervisor")
    found.error = found.error or f"supervisor {found.pid} is gone; see {log}; `bulkhead host up` starts the host again"
    return found


def _write_context(ctx: HostContext) -> str:
    """Write the context for the supervisor. Returns the context's generation, which changes with what the components read."""
    read = [component.env.get(READ_AT_START, "") for component in plan_of(ctx)]
    values = {
        "files": hashlib.sha256(" ".join(read).encode()).hexdigest()[:16],
        "options": state.options_to_json(ctx.options),
        "binaries": {name: str(path) for name, path in ctx.binaries.items()},
        "cache_dir": str(ctx.cache_dir),
        "lost": dict(ctx.lost),
        "python": ctx.python,  # the folder of the one that started the supervisor may be gone
    }
    write_file(ctx.run_dir / "host.json", json.dumps(values, indent=1).encode())
    return load_context(ctx.run_dir)[1]


def _spawn(ctx: HostContext) -> int:
    """Start the supervisor in a session of its own; it outlives this process and its terminal."""
    log = ctx.log("supervisor")
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as stream:
        process = subprocess.Popen(
            [ctx.python, "-m", "workstation.hostcluster.supervisor", str(ctx.run_dir)], cwd="/", start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=stream, stderr=stream,
        )  # fmt: skip
    process.returncode = 0  # do not wait for it: it outlives this process
    return process.pid


def _await_running(ctx: HostContext, pid: int, generation: str, report: Progress) -> None:
    """Wait until the supervisor has applied this generation of the context and every component is healthy."""
    until = time.monotonic() + _START_SECONDS
    waiting: list[str] = []
    while time.monotonic() < until:
        found = state.read(ctx.run_dir)
        if found is not None and found.pid == pid and found.generation == generation:
            waiting = [
                f"{item.name} {item.phase} {item.detail}".strip() for item in found.components if not _settled(ctx, item)
            ]
            if found.phase == "running" and not waiting:
                return
            if found.phase == "failed":
                raise HostError(f"start failed: {found.error}")
            report.detail(", ".join(waiting[:3]))
        if _gone(pid):
            text = ctx.log("supervisor").read_text(errors="replace")[-2000:]
            raise HostError(f"start failed: the supervisor ended; {ctx.log('supervisor')} ends with:\n{text}")
        time.sleep(0.1)
    raise HostError(f"start failed: not ready after {_START_SECONDS:.0f} s: {'; '.join(waiting)}; logs are in {ctx.log('')}")


def _settled(ctx: HostContext, item: state.ComponentState) -> bool:
    return item.phase == "ready" or (item.phase == "lost" and item.name.partition("/")[0] in ctx.lost)


def _gone(pid: int) -> bool:
    """Whether the process has ended; a child that has ended is reaped."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return not state.is_supervisor(pid)


def await_node(node: Node, report: Progress) -> None:
    """Wait until the node is Ready in the cluster."""
    ctx = node.ctx
    until = time.monotonic() + _NODE_SECONDS
    path = "{.status.conditions[?(@.type=='Ready')]['status','message']}"
    answer = ""
    while time.monotonic() < until:
        argv = [
            str(ctx.binaries["kubectl"]),
            f"--kubeconfig={ctx.kubeconfig}",
            "--request-timeout=5s",
            "get",
            "node",
            node.name,
        ]
        try:
            done = programs.ended([*argv, f"-o=jsonpath={path}"], _LOOK_SECONDS, environment=programs.directly(NODE_ADDRESS))
            answer = (done.stdout or done.stderr).strip()
        except RuntimeError as error:
            answer = str(error)
        if answer.startswith("True"):
            return
        report.detail(answer)
        time.sleep(0.3)
    raise HostError(
        f"node {node.name} is not ready in {_NODE_SECONDS:.0f} s: {answer}; see {ctx.log(node.component('kubelet'))}"
    )


def _write_files(ctx: HostContext, report: Progress) -> tuple[str, ...]:
    """Write what the components read. Returns the names of the certificates that were renewed."""
    renewed = pki.ensure_pki(ctx)
    if ctx.options.registry:
        registry.ensure(ctx)
    configuration.write_configuration(ctx)
    if not configuration.has_resolvers((ctx.config_dir / "resolv.conf").read_text()):
        report.warn(
            f"{configuration.RESOLV_CONFS[0]} names no resolver that pods reach: names outside of the cluster stay unknown"
        )
    return renewed


def _own_data_dir(folder: Path) -> None:
    """Create the data folder, or reuse one of an earlier host; `down` removes it completely."""
    if folder.exists() and any(folder.iterdir()) and not remains.is_ours(folder):
        raise HostError(f"data folder {folder} contains other files; choose an empty or new folder with --data-dir")
    folder.mkdir(parents=True, exist_ok=True, mode=0o755)
    (folder / remains.MARKER).touch()


def known_nodes(data_dir: Path) -> int:
    """The number of real nodes that the host of this data folder has, running or not; 1 if there is no host."""
    folders = [folder.name for folder in (data_dir / "nodes").glob("*")]
    return max([1, *(int(name.rpartition("-")[2]) for name in folders if name.rpartition("-")[2].isdecimal())])


def _refuse_fewer_nodes(ctx: HostContext) -> None:
    known = known_nodes(ctx.data_dir)
    if ctx.options.nodes < known:
        raise HostError(
            f"this host has {known} real nodes, with pods, images and volumes on them, and cannot shrink: give --nodes {known} "
            "or more, or run `bulkhead host down` (without --keep-data) and start a new one"
        )


def prepare_nodes(ctx: HostContext) -> None:
    """Create the groups, namespaces and routes of nodes that are not lost; existing ones are kept."""
    for node in present(ctx):
        cgroups.create(node.cgroup)
    namespaces.ensure(present(ctx))


def _start(ctx: HostContext, report: Progress) -> None:
    machine_settings.refuse_other_kubelet()
    if any(cgroups.groups()) or ctx.run_dir.exists():
        report.step("Removing what an earlier host left")
        remains.clear(ctx, report)
    report.step("Preparing the machine")
    ctx.run_dir.mkdir(parents=True, exist_ok=True)
    _own_data_dir(ctx.data_dir)
    machine_settings.prepare(ctx)
    prepare_nodes(ctx)
    _write_files(ctx, report)
    generation = _write_context(ctx)
    report.step("Starting the components")
    _await_running(ctx, _spawn(ctx), generation, report)


def _renew(ctx: HostContext, living: state.HostState, report: Progress) -> None:
    """Give a running supervisor the new context: it restarts only the components that this changes."""
    running = state.options_from_json(living.options)
    if running.data_dir != ctx.data_dir:
        raise HostError(
            f"a host with its data in {running.data_dir} is up; run `bulkhead host down` first to use {ctx.data_dir}"
        )
    if living.release != bulkhead.__version__:
        report.warn(
            f"the supervisor of this host is of {living.release or 'an earlier release'}, not {bulkhead.__version__}, and goes "
            "on with its components: `bulkhead host down --keep-data`, then `bulkhead host up` replaces it; all pods restart"
        )
    # A packet filter that is loaded again has no masquerading, for one: `flush ruleset` is the first line of Debian's own file.
    machine_settings.prepare(ctx)
    prepare_nodes(ctx)
    renewed = _write_files(ctx, report)
    if renewed:
        report.warn(
            f"{len(renewed)} certificates were renewed; the components that use them restart. A copy of {ctx.kubeconfig} is "
            "valid until the former certificate ends: copy it again"
        )
    tell(ctx, living, report)


def tell(ctx: HostContext, living: state.HostState, report: Progress) -> None:
    """Give the supervisor this context, and wait until the host matches it."""
    generation = _write_context(ctx)
    if generation != living.generation:
        os.kill(living.pid, signal.SIGHUP)
    _await_running(ctx, living.pid, generation, report)


def _stop_supervisor(report: Progress) -> None:
    living = alive()
    if living is None:
        return
    report.detail("stopping the components")
    os.kill(living.pid, signal.SIGTERM)
    until = time.monotonic() + _STOP_SECONDS
    while state.is_supervisor(living.pid) and time.monotonic() < until:
        time.sleep(0.05)


def _bring_up(ctx: HostContext, report: Progress, *, slurm: bool) -> None:
    report.step("Building the images")
    recipes = build.chosen(slurm=slurm) if ctx.options.imports else build.HOST_RECIPES
    images = build.ensure_images(ctx.cache_dir, report, recipes=recipes)
    living = alive()
    if living is not None and living.phase in ("starting", "running"):
        report.step("Checking the components")
        ctx = replace(ctx, lost=living.lost)
        for name, how in ctx.lost.items():
            report.warn(f"node {name} stays {how}: `bulkhead host node return {name}` brings it back")
        _renew(ctx, living, report)
    else:
        _stop_supervisor(report)
        _start(ctx, report)
        addons.grant(ctx)
    report.step("Importing the images")
    for node in present(ctx):
        imports.import_images(node, images, report)
    report.step("Waiting for the nodes" if ctx.options.nodes > 1 else f"Waiting for the node {NODE_NAME}")
    for node in present(ctx):
        await_node(node, report)
    report.step("Applying the add-ons")
    addons.apply(ctx, report)


def up(options: HostOptions, report: Progress, *, slurm: bool = False) -> HostHandle:
    """Bring the host up or up to date; with `slurm`, including the images of the Slurm mode."""
    with exclusive(report):
        report.step("Fetching binaries and packages")
        ensure_packages(HOST_PACKAGES, report)
        ctx = _context(options, report)
        _refuse_fewer_nodes(ctx)
        _bring_up(ctx, report, slurm=slurm)
        return HostHandle(ctx.kubeconfig, ctx)


def _options_of_remains(data_dir: Path | None) -> HostOptions:
    found = state.read()
    if data_dir is not None or found is None:
        return HostOptions(data_dir=data_dir or DATA_DIR)
    return state.options_from_json(found.options)


def down(report: Progress, *, data_dir: Path | None = None, keep_data: bool = False) -> None:
    """Take the host down and remove all of it. Raises with a list of what is left, if anything is."""
    with exclusive(report):
        ctx = bare_context(_options_of_remains(data_dir))
        report.step("Stopping the host")
        _stop_supervisor(report)
        report.step("Removing its files and networks")
        remains.clear(ctx, report)
        if ctx.data_dir.exists():
            machine_settings.restore(ctx)
        remains.remove_files(ctx, data=not keep_data)
        report.step("Checking that nothing is left")
        left = remains.leftovers(ctx, data_kept=keep_data)
        if left:
            raise HostError(
                "parts of the host are left; run `bulkhead host down` again or remove them by hand:\n  " + "\n  ".join(left)
            )
        _LOCK.unlink(missing_ok=True)
