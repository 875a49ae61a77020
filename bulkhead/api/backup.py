"""When snapshots of a plane are taken by themselves, and which of them are kept: in a Tenant and in its class. Types only.

A schedule is an interval, and no calendar: the installation spreads its tenants over the interval, so that a hundred planes
with the same schedule do not start at one moment (docs/decisions/0047-snapshots-of-planes.md).
"""

from typing import Annotated, Final, Literal

from pydantic import Field

from bulkhead.api.fields import ApiModel, Rule, model_rules, rules, text
from bulkhead.api.names import MOST_TARGETS, TARGET_NAME_LIMIT, TARGET_NAME_PATTERN

_BOUNDED: Final[Rule] = {
    "rule": "duration(self) >= duration('15m') && duration(self) <= duration('168h')",
    "message": "from 15m to 168h",
}
_NOT_SHORTER: Final[Rule] = {
    "rule": "!has(self.schedule) || !has(self.shortestSchedule) || duration(self.shortestSchedule) <= duration(self.schedule)",
    "message": "the schedule of the class cannot be shorter than shortestSchedule",
    "fieldPath": ".shortestSchedule",
}
HOURLY: Final = 24
DAILY: Final = 7
WEEKLY: Final = 5
FORBIDDEN: Final = "Forbidden"

Interval = Annotated[str, text(6, r"^[1-9][0-9]{0,4}(m|h)$"), Field(json_schema_extra=rules(_BOUNDED))]


TargetName = Annotated[str, text(TARGET_NAME_LIMIT, TARGET_NAME_PATTERN)]


class Retention(ApiModel):
    """How many scheduled snapshots are kept. The newest whole one always is."""

    hourly: Annotated[int, Field(ge=0, le=168)] | None = Field(
        None, description=f"Hours of which the last snapshot is kept; {HOURLY} by default."
    )
    daily: Annotated[int, Field(ge=0, le=366)] | None = Field(
        None, description=f"Days (UTC) of which the last snapshot is kept; {DAILY} by default."
    )
    weekly: Annotated[int, Field(ge=0, le=260)] | None = Field(
        None, description=f"Weeks of which the last snapshot is kept; {WEEKLY} by default."
    )


class Backup(ApiModel):
    """Snapshots of the plane that are taken by themselves."""

    schedule: Interval | None = Field(
        None,
        description="A snapshot is taken so often, for example 6h: 15m to 168h, and not more often than the class allows. "
        "Needs a place for snapshots (chart value backup.target).",
    )
    retention: Retention | None = Field(
        None, description="Which of them are kept; at most as many as the class keeps. Other snapshots are never deleted."
    )
    target: TargetName | None = Field(
        None, description="Where all snapshots of the plane are stored: one of the targets of the class, by default its own."
    )


class ClassBackup(ApiModel):
    """Snapshots of planes that are taken by themselves."""

    model_config = model_rules(_NOT_SHORTER)
    schedule: Interval | None = Field(
        None,
        description="A snapshot of every plane is taken so often, for example 6h; none by default. A Tenant may choose a "
        "longer interval.",
    )
    shortest_schedule: Interval | None = Field(
        None, description="The shortest interval that a Tenant may choose; schedule by default."
    )
    retention: Retention | None = Field(None, description="Which of them are kept; a Tenant may keep fewer.")
    clones: Literal["Allowed", "Forbidden"] | None = Field(
        None,
        description="Whether a snapshot of a Tenant of this class may become another Tenant (see bulkhead tenant restore "
        "--help): a clone has all of its Secrets. Allowed by default.",
    )
    target: TargetName | None = Field(
        None,
        description="Where snapshots of its planes are stored: a name in backup.targets of the chart; by default the "
        "installation's own place.",
    )
    targets: Annotated[list[TargetName], Field(max_length=MOST_TARGETS)] | None = Field(
        None,
        description="Further targets that a Tenant may choose.",
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )
