"""The state of the supervisor and its components, which the supervisor writes to a file for others to read."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from workstation.hostcluster.component import RUN_DIR, HostOptions
from workstation.hostcluster.files import write_file

ComponentPhase = Literal["waiting", "starting", "ready", "unhealthy", "restarting", "lost", "stopped", "failed"]
HostPhase = Literal["starting", "running", "failed", "stopping"]


@dataclass(slots=True)
class ComponentState:
    """One line of `bulkhead host status`."""

    name: str
    phase: ComponentPhase = "waiting"
    pid: int = 0
    restarts: int = 0
    since: float = 0.0  # seconds since the epoch
    detail: str = ""
    log: str = ""


@dataclass(slots=True)
class HostState:
    """The whole state file."""

    pid: int
    phase: HostPhase
    started: float
    options: dict[str, Any]
    generation: str = ""  # of the context from which the running plan was computed
    error: str = ""
    components: list[ComponentState] = field(default_factory=list)
    lost: dict[str, str] = field(default_factory=dict)  # nodes that were broken on purpose ──> how
    release: str = ""  # of the supervisor's own code; empty before it was written
    certificates_end: float = 0.0  # when the first certificate of a component ends; seconds since the epoch, 0 if not known


def options_to_json(options: HostOptions) -> dict[str, Any]:
    """Plain values of the options."""
    return {**asdict(options), "data_dir": str(options.data_dir)}


def options_from_json(values: dict[str, Any]) -> HostOptions:
    """The reverse of `options_to_json`."""
    return HostOptions(**{**_known(HostOptions, values), "data_dir": Path(values["data_dir"])})


def _known(kind: type[HostOptions | HostState], values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of this release: a supervisor that an earlier one started reads what `host up` of a later one wrote."""
    names = {item.name for item in fields(kind)}
    return {name: value for name, value in values.items() if name in names}


def write(state: HostState, run_dir: Path = RUN_DIR) -> None:
    """Replace the state file."""
    write_file(run_dir / "state.json", json.dumps(asdict(state), indent=1).encode())


def read(run_dir: Path = RUN_DIR) -> HostState | None:
    """The state as last written; None if no host was started."""
    try:
        values = json.loads((run_dir / "state.json").read_text())
    except FileNotFoundError:
        return None
    components = [ComponentState(**item) for item in values.pop("components")]
    return HostState(**_known(HostState, values), components=components)


def is_supervisor(pid: int) -> bool:
    """Whether the process exists and is a supervisor, because process IDs are reused."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    # Without the first word, because an older release, whose host may still run, had it in another package.
    return b".hostcluster.supervisor" in command and pid != os.getpid()
