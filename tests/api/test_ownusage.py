"""A tenant's device-hours: what is written is read again, within its bounds, and a row that no controller wrote is not."""

import json
from dataclasses import replace
from typing import Any

import pytest

from bulkhead.api import ownusage
from bulkhead.api.ownusage import DayUse, OwnUsage

ROW = DayUse("2026-11-26", "nvidia.com/gpu", "h100", used=7200, idle=600, borrowed=60, measured=3600, busy=1800)
WRITTEN = ["2026-11-26", "nvidia.com/gpu", "h100", 7200, 600, 60, 3600, 1800]


def test_what_is_written_is_read_again_the_newest_day_first() -> None:
    older = replace(ROW, day="2026-11-25", flavor="")
    usage = OwnUsage(1_800_000_000.0, (older, ROW))
    assert ownusage.read(ownusage.write(usage)) == OwnUsage(1_800_000_000.0, (ROW, older))
    assert ownusage.of_config_map({"data": {ownusage.FILE: ownusage.write(usage)}}) is not None


def test_the_oldest_days_are_left_out_of_a_text_that_is_too_long() -> None:
    rows = [
        replace(ROW, day=f"2026-{month:02}-{day:02}", resource=f"example.com/{'x' * 280}")
        for month in range(1, 13)
        for day in range(1, 29)
    ]
    text = ownusage.write(OwnUsage(0.0, tuple(rows)))
    assert len(text) <= ownusage.MAX_BYTES
    found = ownusage.read(text)
    assert found is not None
    assert found.rows
    assert found.rows[0].day == "2026-12-28"


@pytest.mark.parametrize(
    "text",
    [None, 5, "", "no json", "[" * 10_000, "[]", "{}", '{"until": 7, "rows": []}', "x" * (ownusage.MAX_BYTES + 1)],
)
def test_a_text_of_another_shape_says_nothing(text: Any) -> None:
    assert ownusage.read(text) is None
    assert ownusage.of_config_map({"data": {ownusage.FILE: text}}) is None
    assert ownusage.of_config_map({"data": text}) is None


@pytest.mark.parametrize(
    "row",
    [
        None, [], WRITTEN[:-1], [*WRITTEN, 1], ["yesterday", *WRITTEN[1:]], [WRITTEN[0], "", *WRITTEN[2:]],
        [WRITTEN[0], "x" * 400, *WRITTEN[2:]], [*WRITTEN[:2], 7, *WRITTEN[3:]], [*WRITTEN[:3], -1, *WRITTEN[4:]],
        [*WRITTEN[:3], True, *WRITTEN[4:]], [*WRITTEN[:3], 1 << 60, *WRITTEN[4:]],
        # More borrowed than held, more busy than measured.
        [*WRITTEN[:5], 9000, 1, 1], [*WRITTEN[:6], 1, 2],
    ],
)  # fmt: skip
def test_a_row_that_no_controller_wrote_is_left_out(row: Any) -> None:
    text = json.dumps({"until": "2026-11-26T12:00:00Z", "rows": [row, WRITTEN]})
    assert ownusage.read(text) == OwnUsage(1_795_694_400.0, (ROW,))
