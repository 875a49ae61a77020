"""The data that the steps of the demo pass to each other, and how they show progress."""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from e2e.api import Api, Obj
from e2e.slurm.clusters import Cluster
from e2e.tenants import Tenant

MANIFESTS = Path(__file__).parent / "manifests"
TEAMS = ("team-a", "team-b")


@dataclass(frozen=True, slots=True)
class PodPlace:
    """The host node on which a tenant's pod runs."""

    tenant: str
    pod: str
    phase: str
    gpus: int
    node: str
    host_pod: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refusal that the demo shows: the object, the reason and the message."""

    tenant: str
    what: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class ModeRow:
    """One pod with GPUs, of a tenant in one of the modes."""

    tenant: str
    mode: str
    pod: str
    gpus: int
    node: str
    state: str


@dataclass(slots=True)
class Context:
    """The state of a run; the steps fill it in, one after the other."""

    begin: float = field(default_factory=time.monotonic)
    host_api: Api | None = None
    teams: dict[str, Tenant] = field(default_factory=dict)
    ready_s: dict[str, float] = field(default_factory=dict)
    refusals: list[Refusal] = field(default_factory=list)
    shown: list[tuple[str, str]] = field(default_factory=list)  # what the steps found out, for the table
    step_s: dict[str, float] = field(default_factory=dict)
    slurm: Cluster | None = None
    modes: list[ModeRow] = field(default_factory=list)  # one tenant in each mode on the same node

    @property
    def host(self) -> Api:
        if self.host_api is None:
            raise RuntimeError("demo: a step used the host's API before it was up")
        return self.host_api

    def note(self, text: str) -> None:
        """One line of progress."""
        print(f"  [{time.monotonic() - self.begin:6.1f} s] {text[:220]}", flush=True)

    def show(self, what: str, result: str) -> None:
        self.shown.append((what, result))
        self.note(f"  {what}: {result}")


class StepError(Exception):
    """A step failed: its title, the cause, and what to do next."""

    def __init__(self, step: str, cause: str, hint: str) -> None:
        super().__init__(f"{step}: {cause}")
        self.step = step
        self.cause = cause
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Step:
    """One step: its title for the reader, what it does, and where to look if it fails."""

    title: str
    act: Callable[[Context], None]
    hint: str


def run_steps(steps: tuple[Step, ...], context: Context) -> None:
    """All steps in order; the first failure ends the demo."""
    for number, step in enumerate(steps, 1):
        print(f"==> {number}/{len(steps)} {step.title}", flush=True)
        begin = time.monotonic()
        try:
            step.act(context)
        except KeyboardInterrupt:
            print("\ninterrupted; `make demo` goes on from here, `make down` stops the host", file=sys.stderr)
            raise
        except Exception as exc:
            raise StepError(step.title, f"{type(exc).__name__}: {exc}", step.hint) from exc
        context.step_s[step.title] = round(time.monotonic() - begin, 1)


def documents(name: str) -> list[Obj]:
    """The objects in one of the demo's manifests."""
    return [item for item in yaml.safe_load_all((MANIFESTS / name).read_text()) if item]
