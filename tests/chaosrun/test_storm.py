"""Watches are counted by the API server that answers: one of three in a plane of three. No server."""

from typing import Any, Final, cast

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube.objects import ObjList
from workstation.chaos.experiments import BY_NAME
from workstation.chaos.faults.floods import WatchStorm
from workstation.chaos.faults.scene import Scene

AMOUNT: Final = 300


class Plane:
    """A plane with so many members, one of which says how many watches it serves."""

    def __init__(self, members: int, served: int) -> None:
        self._members, self._served = members, served

    async def list(self, *_: object, **__: object) -> ObjList:
        pods: list[Obj] = [{"metadata": {"name": f"plane-{number}"}} for number in range(self._members)]
        return ObjList(pods, "1")

    async def get_raw(self, _: str) -> bytes:
        return f'apiserver_longrunning_requests{{resource="configmaps",verb="WATCH"}} {self._served}\n'.encode()


@pytest.mark.parametrize(("members", "served", "shown"), [(1, 300, True), (1, 100, False), (3, 100, True), (3, 40, False)])
async def test_a_storm_is_shown_by_a_members_part_of_it(members: int, served: int, shown: bool) -> None:
    plane = cast("Any", Plane(members, served))
    scene = Scene(
        host=plane,
        plane=plane,
        run="chaos-0a1b2c",
        target="red",
        own_target=False,
        namespace="bulkhead-system",
        image="",
        seconds=1.0,
        experiment=BY_NAME["watch-storm"],
        intend=plane.get_raw,
    )
    proof = await WatchStorm()._counted(scene, AMOUNT)
    assert (proof.shown, f"{served} watches" in proof.text, "one of its 3" in proof.text) == (shown, True, members == 3)
