"""Since when a tenant is over its quota: noted of each line, kept as long as that line is over, and no longer."""

from collections.abc import Mapping
from datetime import timedelta

import pytest

from bulkhead.api import ledger
from bulkhead.ledger.model import Line, Rules, Standing, Tenant
from controller.dispatch.answers import Standings
from controller.dispatch.apply import Writes
from controller.dispatch.quotas import Quota
from controller.dispatch.seen import Pods
from tests.controller.dispatch.pods import FakeHost
from tests.kit.fakeclock import FakeClock

GPU, MIG = ("", "nvidia.com/gpu"), ("", "nvidia.com/mig-1g.10gb")
CLOCK = FakeClock()
NOW = CLOCK.now().timestamp()
HOUR_AGO = NOW - timedelta(hours=1).total_seconds()


@pytest.mark.parametrize(
    ("policy", "noted", "over", "wanted"),
    [
        ("Reclaim", {}, [GPU], {GPU: NOW}),
        ("Reclaim", {GPU: HOUR_AGO}, [GPU, MIG], {GPU: HOUR_AGO, MIG: NOW}),
        ("Reclaim", {GPU: HOUR_AGO, MIG: NOW}, [MIG], {MIG: NOW}),
        ("Reclaim", {GPU: HOUR_AGO}, [], None),
        ("Keep", {GPU: HOUR_AGO}, [GPU], None),
        # Nothing is written that is noted already.
        ("Reclaim", {GPU: HOUR_AGO}, [GPU], {GPU: HOUR_AGO}),
        ("Keep", {}, [GPU], {}),
    ],
)
def test_each_line_has_its_time(
    policy: str, noted: Mapping[Line, float], over: list[Line], wanted: Mapping[Line, float] | None
) -> None:
    host = FakeHost()
    standings = Standings(host, Writes(host, Pods(CLOCK.monotonic, lambda: None), CLOCK, lambda: True), CLOCK)
    lines = {line: Standing(1, 1, 2 if line in over else 1, 0, 0, 0) for line in (GPU, MIG)}
    quota = Quota("bh-ada-work", Tenant("ada", "research", over_since=noted), "")
    changes = standings._changes(quota, lines, Rules(over_quota="Reclaim" if policy == "Reclaim" else "Keep"))
    if wanted == noted:
        assert ledger.OVER_SINCE not in changes
    else:
        text = changes[ledger.OVER_SINCE]
        assert (None if text is None else ledger.read_over_since(text, ())) == wanted
