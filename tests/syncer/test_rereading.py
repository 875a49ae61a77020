"""Which settings a running syncer takes over, and that it loses none of them."""

import asyncio
from typing import Any

import msgspec
import pytest

from bulkhead.api.syncersettings import FILE, READ_AGAIN
from bulkhead.kube.errors import Timeout
from syncer import settings
from syncer.rereading import Rereading
from syncer.settings import Settings, taken_over
from tests.kit.syncersettings import settings_for


def test_every_setting_that_is_read_again_is_one() -> None:
    assert {settings._json_name(name) for name in Settings.__struct_fields__} >= READ_AGAIN


def test_what_is_read_once_stays() -> None:
    running = settings_for("team-a")
    told = settings_for("team-b", limits={"nvidia.com/gpu": 9}, podGroups=True, massDeleteLimit=7)
    now = taken_over(running, told)
    assert now.limits == {"nvidia.com/gpu": 9}
    assert msgspec.structs.replace(now, limits=running.limits) == running


class Host:
    """The copy of one ConfigMap."""

    def __init__(self, told: Settings) -> None:
        self.text = msgspec.json.encode(told).decode()

    def get(self, _key: Any) -> dict[str, Any]:
        return {"data": {FILE: self.text}}


@pytest.mark.parametrize("broken", [False, True])
async def test_what_failed_to_be_taken_over_is_tried_again(*, broken: bool) -> None:
    running, told = settings_for("team-a"), settings_for("team-a", limits={"nvidia.com/gpu": 9})
    adopted: list[Settings] = []

    async def adopt(now: Settings) -> None:
        adopted.append(now)
        if broken and len(adopted) == 1:
            raise Timeout("away")

    made = Rereading(running, None, adopt)  # type: ignore[arg-type]
    made.informer.store = Host(told)  # type: ignore[assignment]
    if broken:
        with pytest.raises(Timeout):
            await made.run()
    running_on = asyncio.create_task(made.run())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert adopted == [told] * (2 if broken else 1)
    made._saw(None)  # type: ignore[arg-type]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(adopted) == (2 if broken else 1), "the same settings are taken over once"
    running_on.cancel()
