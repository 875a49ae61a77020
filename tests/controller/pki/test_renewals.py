"""What a clock that is wrong, and tenants that were made together, do to the certificates of all planes."""

from datetime import datetime, timedelta
from email.utils import format_datetime

import pytest

from bulkhead.api.objects import Obj
from bulkhead.work.steadyclock import SteadyClock
from controller.pki.material import Assembled, assemble
from controller.pki.renewals import Renewals
from controller.plane import pki
from controller.plane.render import render
from tests.kit.fakeclock import FakeClock
from tests.kit.tenantsamples import plane_spec

SPEC = plane_spec()
PLANES = 12


class Machine(FakeClock):
    wrong = timedelta()

    def now(self) -> datetime:
        return super().now() + self.wrong


class World:
    """Planes whose certificates were issued together, and a controller that looks at each in turn."""

    def __init__(self) -> None:
        self.machine = Machine()
        self.clock = SteadyClock(self.machine)
        self.hear()
        self.renewals = Renewals(self.clock, lambda: self.clock.trouble if self.clock.unknown else "")
        first = assemble(SPEC, {}, self.clock.now())
        self.secrets = [secrets(first)] * PLANES

    def hear(self) -> None:
        self.clock.heard(format_datetime(FakeClock.now(self.machine), usegmt=True))

    def turn(self) -> list[Assembled]:
        """A reconcile of each plane; what it issues is there at the next."""
        self.hear()
        found = [
            assemble(SPEC, plane_secrets, self.clock.now(), may_renew=self.renewals.take) for plane_secrets in self.secrets
        ]
        self.secrets = [secrets(plane_secrets) for plane_secrets in found]
        return found


def secrets(made: Assembled) -> dict[str, Obj]:
    objects = render(SPEC, made.keys).everything()
    return {obj["metadata"]["name"]: obj for obj in objects if obj["kind"] == "Secret"}


@pytest.fixture
def world() -> World:
    return World()


@pytest.mark.parametrize("days", [600, -600])
def test_a_clock_that_is_wrong_for_a_turn_reissues_no_certificate(world: World, days: int) -> None:
    world.turn()
    world.machine.advance(60)
    world.machine.wrong = timedelta(days=days)
    assert [result.issued for result in world.turn()] == [()] * PLANES
    # What has to be issued meanwhile is valid all the same.
    del world.secrets[0]["pki-dns"]
    made = world.turn()[0]
    assert [name for name, _ in made.issued] == ["pki-dns/client"]
    world.machine.wrong = timedelta()
    assert [result.issued for result in world.turn()] == [()] * PLANES


@pytest.mark.parametrize("days", [600, -600])
def test_a_controller_that_starts_with_a_clock_that_is_wrong_reissues_none_either(world: World, days: int) -> None:
    world.machine.wrong = timedelta(days=days)
    world.clock = SteadyClock(world.machine)
    world.renewals = Renewals(world.clock, lambda: world.clock.trouble if world.clock.unknown else "")
    # If certificates were due by the server's time, it would be unknown whether that time is right.
    world.machine.advance(61 * 24 * 3600)
    found = world.turn()
    assert [result.issued for result in found] == [()] * PLANES
    assert all(len(result.put_off) == 10 for result in found)
    world.machine.wrong = timedelta()
    assert sum(bool(result.issued) for result in world.turn()) == 5


def test_what_falls_due_together_is_renewed_a_few_planes_at_a_time(world: World) -> None:
    world.machine.advance(61 * 24 * 3600)
    renewed = []
    for _ in range(4):
        renewed.append([bool(result.issued) for result in world.turn()].count(True))
        world.machine.advance(9)
    assert renewed == [5, 3, 3, 1]
    assert [result.put_off for result in world.turn()] == [()] * PLANES


def test_cas_that_end_together_restart_a_few_planes_at_a_time(world: World) -> None:
    world.machine.advance((pki.AUTHORITY_LIFE - pki.LEAF_LIFE).total_seconds() + 1)
    found = world.turn()
    assert [bool(result.issued) for result in found].count(True) == 5
    assert all("pki-ca-client" in result.put_off for result in found if not result.issued)


def test_a_missing_or_wrong_certificate_is_renewed_without_waiting(world: World) -> None:
    world.machine.advance(61 * 24 * 3600)
    world.renewals = Renewals(world.clock, lambda: "no")
    for plane_secrets in world.secrets:
        plane_secrets.pop("pki-dns", None)
    found = world.turn()
    assert {name for result in found for name, _ in result.issued} == {"pki-dns/client"}
    changed = assemble(
        plane_spec(control_plane={"replicas": 3}), world.secrets[0], world.clock.now(), may_renew=world.renewals.take
    )
    assert changed.issued == (("pki-etcd/server", "does not say what it should"),)
