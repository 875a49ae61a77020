"""What is made inside a plane that answers, and what is taken out of it again."""

from collections.abc import Iterable
from typing import Any, cast

from bulkhead.api.objects import Obj
from controller.decide.plan import Plan, plan
from controller.host.owned import Owned
from controller.inside.access import PlaneAccess, PlaneHealth
from controller.inside.objects import gpumetrics, unprivileged
from controller.plane.spec import PlaneSpec
from controller.tenant.interior import Interior
from tests.kit.fakeclock import FakeClock
from tests.kit.tenantsamples import material, plane_spec


class Planes:
    """What was asked to be there, and to be there no more."""

    def __init__(self) -> None:
        self.asked: list[tuple[set[str], set[str]]] = []

    async def bootstrap(self, _spec: PlaneSpec, objects: Iterable[Obj], withdrawn: Iterable[Obj] = ()) -> str:
        self.asked.append(({obj["kind"] for obj in objects}, {obj["kind"] for obj in withdrawn}))
        return "u"


def planned(**changes: Any) -> Plan:
    spec = plane_spec(**changes)
    return plan(spec, material(spec), {})


async def test_what_a_tenant_wants_no_more_is_taken_out_of_its_plane() -> None:
    planes = Planes()
    interior = Interior(cast("Owned", None), cast("PlaneAccess", planes), FakeClock(), resync_seconds=600)
    policies = {obj["kind"] for obj in unprivileged.objects(plane_spec(isolation={"drop_privileges": "SlinkyWorkers"}))}
    for made in (
        planned(),
        planned(isolation={"drop_privileges": "SlinkyWorkers"}),
        planned(isolation={"drop_privileges": "SlinkyWorkers"}),
        planned(),
    ):
        assert (await interior.bootstrap(made, PlaneHealth(ready=True))).bootstrapped
    assert len(policies) == 2
    unasked = {obj["kind"] for obj in gpumetrics.objects(plane_spec(), b"")}
    # Each change once.
    assert [(policies <= there, gone) for there, gone in planes.asked] == [
        (False, policies | unasked),
        (True, unasked),
        (False, policies | unasked),
    ]
