"""Orders: keys made once and kept, their rotation in two halves, revoked tokens, and a cluster that is switched off."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, cast

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists, NotFound
from bulkhead.kube.objects import Resource
from controller.slurm.cluster import Order
from controller.slurm.decide.status import Found
from controller.slurm.keystore import OFF, REVOKE, ROTATE, SPREAD, KeyStore
from controller.slurm.loop import SlurmLoops
from controller.slurm.ordering import Ordering
from controller.slurm.spec import LeaseSpec, LoginSpec, SlurmSpec, UserSpec
from controller.slurm.spec.keys import from_data, waiting
from controller.slurm.ssh.authorities import Authorities
from controller.slurm.ssh.desks import Desks
from tests.controller.slurm_runtime.world import LEASE, START, node_set, slurm_spec
from tests.kit.fakeclock import FakeClock
from tests.kit.tenantsamples import plane_spec, tenant

PLANE = plane_spec()


class Host:
    """The host's Secrets."""

    def __init__(self) -> None:
        self.secret: Obj | None = None
        self.writes = 0
        self.raced: Obj | None = None
        self.authority: Obj | None = None

    async def get(self, r: Resource, name: str, namespace: str) -> Obj:
        assert (r, namespace) == (kinds.SECRETS, PLANE.namespace)
        if name == "slurm-ssh-ca" and self.authority is not None:
            return self.authority
        if name == "slurm-ssh-ca":
            raise NotFound(404, "NotFound", name)
        if self.secret is None:
            raise NotFound(404, "NotFound", name)
        return self.secret

    async def create(self, _: Resource, obj: Obj) -> Obj:
        self.writes += 1
        if obj["metadata"]["name"] == "slurm-ssh-ca":
            self.authority = obj | {"metadata": obj["metadata"] | {"resourceVersion": "1"}}
            return obj
        if self.raced is not None:
            self.secret = self.raced
            raise AlreadyExists(409, "AlreadyExists", "it is there")
        self.secret = obj
        return obj

    async def patch(self, _: Resource, name: str, body: Any, __: str) -> Obj:
        self.writes += 1
        if name == "slurm-ssh-ca" and self.authority is not None:
            self.authority = self.authority | {"data": body["data"]}
            return self.authority
        assert self.secret is not None
        self.secret["data"] = self.secret["data"] | body.get("data", {})
        annotations = (self.secret["metadata"].get("annotations") or {}) | body["metadata"]["annotations"]
        self.secret["metadata"]["annotations"] = {key: value for key, value in annotations.items() if value is not None}
        return self.secret


class Loops:
    """What was ordered last."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.applies = True
        self.since: dict[str, datetime] = {}
        self.ordered: Order | None = None
        self.forgotten: list[str] = []
        self.gone = False

    def order(self, _: str, order: Order) -> Found | None:
        self.ordered = order
        for key in (*(key.kid for key in order.keys.auth), *order.trusted) if self.applies else ():
            self.since.setdefault(key, self._clock.now())
        return None

    def spread(self, _: str) -> dict[str, datetime]:
        return self.since

    def last_order(self, _: str) -> Order | None:
        return self.ordered

    def lease(self, _: str) -> LeaseSpec:
        return self.ordered.spec.lease if self.ordered is not None else LeaseSpec()

    def removed(self, _: str) -> bool:
        return self.gone

    def runs(self, _: str) -> bool:
        return self.ordered is not None

    async def forget(self, tenant: str) -> None:
        self.forgotten.append(tenant)


class OpenDesks:
    """Which tenants' requests for ssh certificates are answered."""

    def __init__(self) -> None:
        self.open_of: set[str] = set()

    def open(self, tenant: str, _: object) -> None:
        self.open_of.add(tenant)

    async def forget(self, tenant: str) -> None:
        self.open_of.discard(tenant)


class Bed:
    def __init__(self) -> None:
        self.host, self.clock, self.desks = Host(), FakeClock(START), OpenDesks()
        self.loops = Loops(self.clock)
        client = cast(Client, self.host)
        authorities = Authorities(client, self.clock)
        self.ordering = Ordering(
            KeyStore(client, self.clock), cast(SlurmLoops, self.loops), authorities, cast(Desks, self.desks)
        )

    async def order(
        self, *, seen: bool = True, on: bool = True, name: str = "team-a", users: tuple[UserSpec, ...] = (), **annotations: str
    ) -> Any:
        asked = tenant()
        asked["metadata"]["annotations"] = annotations
        stored = {"slurm-keys": self.host.secret} if seen and self.host.secret else {}
        spec: SlurmSpec | None = replace(slurm_spec(node_set()), users=users, cluster_name=name) if on else None
        return await self.ordering.order(PLANE, asked, stored, spec)

    async def hold(self, logins: SlurmSpec, **annotations: str) -> Order | None:
        """Only what a refused cluster still gets is ordered."""
        asked = tenant()
        asked["metadata"]["annotations"] = annotations
        stored = {"slurm-keys": self.host.secret} if self.host.secret else {}
        await self.ordering.hold(PLANE, asked, stored, logins)
        return self.loops.ordered

    @property
    def keys(self) -> Any:
        assert self.loops.ordered is not None
        return self.loops.ordered.keys


@pytest.fixture
def bed() -> Bed:
    return Bed()


async def test_keys_are_made_once_even_when_the_informer_is_behind(bed: Bed) -> None:
    await bed.order()
    first = bed.keys
    await bed.order(seen=False)
    await bed.order()
    assert bed.keys == first
    assert bed.host.writes == 1
    labels = (bed.host.secret or {})["metadata"]["labels"]
    assert labels["bulkhead.dev/tenant"] == PLANE.tenant


async def test_two_controllers_that_make_keys_at_once_end_with_the_same(bed: Bed) -> None:
    other = Bed()
    await other.order()
    bed.host.raced = other.host.secret
    await bed.order()
    assert bed.keys == other.keys


async def test_keys_that_cannot_be_read_are_replaced(bed: Bed) -> None:
    await bed.order()
    assert bed.host.secret is not None
    bed.host.secret["data"] = {"slurm.jwks": "%%%"}
    await bed.order()
    assert from_data(bed.host.secret["data"]) == bed.keys


async def test_a_rotation_stages_then_promotes_then_drops(bed: Bed) -> None:
    await bed.order()
    old = bed.keys.auth[0]
    asked = {ROTATE: "one"}
    await bed.order(**asked)
    assert bed.keys.auth[0] == old
    assert waiting(bed.keys) is not None
    bed.clock.advance(SPREAD.total_seconds() - 1)
    await bed.order(**asked)
    assert bed.keys.auth[0] == old
    bed.clock.advance(1)
    await bed.order(**asked)
    fresh = bed.keys.auth[0]
    assert fresh != old
    assert [key.kid for key in bed.keys.auth] == [fresh.kid, old.kid]
    writes = bed.host.writes
    await bed.order(**asked)
    assert bed.host.writes == writes
    bed.clock.advance(timedelta(hours=13).total_seconds())
    await bed.order(**asked)
    assert bed.keys.auth == (fresh,)


async def test_a_key_that_no_daemon_has_yet_does_not_sign(bed: Bed) -> None:
    """The plane does not answer while a rotation is requested."""
    await bed.order()
    old, asked = bed.keys.auth[0], {ROTATE: "one"}
    bed.loops.applies = False
    for _ in range(3):
        await bed.order(**asked)
        bed.clock.advance(10 * SPREAD.total_seconds())
    assert bed.keys.auth[0] == old
    bed.loops.applies = True
    await bed.order(**asked)
    bed.clock.advance(SPREAD.total_seconds() - 1)
    await bed.order(**asked)
    assert bed.keys.auth[0] == old
    bed.clock.advance(1)
    await bed.order(**asked)
    assert bed.keys.auth[0] != old


async def test_revoking_changes_the_key_of_tokens_and_nothing_else(bed: Bed) -> None:
    await bed.order()
    before = bed.keys
    await bed.order(**{REVOKE: "now"})
    after = bed.keys
    assert after.jwt != before.jwt
    assert (after.auth, after.ssh_host_key, after.database_password) == (
        before.auth,
        before.ssh_host_key,
        before.database_password,
    )
    await bed.order(**{REVOKE: "now"})
    assert bed.keys == after


@pytest.mark.parametrize("annotation", [REVOKE, ROTATE])
async def test_a_request_of_any_length_is_served_once(bed: Bed, annotation: str) -> None:
    await bed.order()
    for _ in range(2):
        await bed.order(**{annotation: "x" * 1000})
        bed.clock.advance(SPREAD.total_seconds())
    await bed.order(**{annotation: "x" * 1000})
    writes, keys = bed.host.writes, bed.keys
    await bed.order(**{annotation: "x" * 1000})
    assert (bed.host.writes, bed.keys) == (writes, keys)


async def test_a_tenant_without_slurm_costs_nothing(bed: Bed) -> None:
    assert await bed.order(on=False) is None
    assert bed.loops.ordered is None
    assert bed.host.writes == 0


async def test_switched_off_it_is_taken_down_once_and_keeps_its_keys(bed: Bed) -> None:
    await bed.order()
    keys = bed.keys
    ordered = await bed.order(on=False)
    assert not ordered.wanted
    assert bed.loops.ordered is not None
    assert not bed.loops.ordered.on
    assert bed.loops.ordered.spec.node_sets == ()
    assert bed.loops.ordered.spec.lease == LEASE
    bed.loops.gone = True
    assert await bed.order(on=False) is None
    assert OFF in (bed.host.secret or {})["metadata"]["annotations"]
    bed.loops.ordered = None
    assert await bed.order(on=False) is None
    assert bed.loops.ordered is None
    await bed.order()
    assert bed.keys == keys
    assert OFF not in (bed.host.secret or {})["metadata"]["annotations"]


async def test_a_cluster_that_is_switched_on_again_under_another_name_keeps_its_own(bed: Bed) -> None:
    """Slurmctld does not start on a volume that contains the state of a cluster of another name."""
    await bed.order()
    await bed.order(on=False)
    bed.loops.gone = True
    await bed.order(on=False)
    ordered = await bed.order(name="research")
    assert bed.loops.ordered is not None
    assert ordered.spec.cluster_name == bed.loops.ordered.spec.cluster_name == "team-a"
    assert bed.loops.ordered.kept.endswith("next: set clusterName to team-a")
    await bed.order()
    assert bed.loops.ordered.kept == ""


async def test_a_cluster_from_before_its_name_was_recorded_keeps_the_one_that_it_has(bed: Bed) -> None:
    await bed.order(name="research")
    assert bed.host.secret is not None
    del bed.host.secret["metadata"]["annotations"]
    await bed.order(name="research")
    await bed.order()
    assert bed.loops.ordered is not None
    assert bed.loops.ordered.spec.cluster_name == "research"


async def test_requests_for_ssh_certificates_are_answered_where_any_user_may_create_one(bed: Bed) -> None:
    await bed.order(users=(UserSpec("alice", 10001),))
    assert (bed.desks.open_of, bed.host.authority) == (set(), None)
    named = (UserSpec("alice", 10001, identities=("corp:ada",)),)
    await bed.order(users=named)
    assert bed.desks.open_of == {PLANE.tenant}
    assert bed.loops.ordered is not None
    (trusted,) = bed.loops.ordered.trusted
    assert trusted.startswith("ssh-ed25519 ")
    writes = bed.host.writes
    await bed.order(users=named)
    assert (bed.host.writes, bed.loops.ordered.trusted) == (writes, (trusted,))
    await bed.order(users=(UserSpec("alice", 10001),))
    assert (bed.desks.open_of, bed.loops.ordered.trusted) == (set(), ())
    await bed.order(users=named)
    await bed.order(on=False)
    assert bed.desks.open_of == set()
    await bed.order(users=named)
    assert bed.loops.ordered.trusted == (trusted,), "the CA stays"
    await bed.ordering.forget(PLANE.tenant)
    assert bed.desks.open_of == set()


async def test_a_ca_that_no_login_node_trusts_yet_signs_nothing(bed: Bed) -> None:
    """The plane does not answer while a rotation is requested."""
    named, asked = (UserSpec("alice", 10001, identities=("corp:ada",)),), {ROTATE: "one"}

    async def trusted() -> tuple[str, ...]:
        await bed.order(users=named, **asked)
        assert bed.loops.ordered is not None
        return bed.loops.ordered.trusted

    await bed.order(users=named)
    bed.loops.applies = False
    first, fresh = await trusted()
    bed.clock.advance(10 * SPREAD.total_seconds())
    assert await trusted() == (first, fresh)
    bed.loops.applies = True
    assert await trusted() == (first, fresh)
    bed.clock.advance(SPREAD.total_seconds())
    assert await trusted() == (fresh, first)


REVOKED = LoginSpec(root_keys=("a key",), keys=False, revoked=frozenset({"corp:eve"}))


async def test_a_cluster_that_is_refused_gets_the_users_and_revocations_of_its_tenant(bed: Bed) -> None:
    await bed.order(users=(UserSpec("alice", 10001), UserSpec("eve", 10002, identities=("corp:eve",))))
    before = bed.loops.ordered
    assert before is not None
    logins = replace(slurm_spec(), users=(UserSpec("alice", 10001),), login=REVOKED)
    order = await bed.hold(logins, **{REVOKE: "now"})
    assert order is not None
    assert before.spec.login is not None
    login = replace(before.spec.login, root_keys=("a key",), keys=False, revoked=frozenset({"corp:eve"}))
    assert order.spec == replace(before.spec, users=logins.users, login=login)
    assert not order.logins_only
    assert order.keys.jwt != before.keys.jwt
    assert (bed.desks.open_of, order.trusted) == (set(), ())


async def test_of_a_refused_cluster_that_this_process_does_not_know_only_logins_are_ordered(bed: Bed) -> None:
    await bed.order()
    bed.loops.ordered = None
    logins = replace(slurm_spec(), users=(UserSpec("ada", 10001, identities=("corp:ada",)),), login=REVOKED)
    for _ in range(2):
        order = await bed.hold(logins)
        assert order is not None
        assert order.logins_only
        assert order.spec == logins
        assert len(order.trusted) == 1
    # Without login nodes its tokens can be revoked all the same.
    before = bed.keys.jwt
    await bed.hold(replace(logins, login=None), **{REVOKE: "now"})
    assert bed.keys.jwt != before
    await bed.order()
    assert bed.loops.ordered is not None
    assert not bed.loops.ordered.logins_only


async def test_a_refused_cluster_that_is_switched_off_or_was_never_there_gets_nothing(bed: Bed) -> None:
    assert await bed.hold(replace(slurm_spec(), login=REVOKED)) is None
    await bed.order()
    await bed.order(on=False)
    before = bed.loops.ordered
    assert await bed.hold(replace(slurm_spec(), login=REVOKED)) is before
    bed.loops.gone = True
    await bed.order(on=False)
    bed.loops.ordered = None
    assert await bed.hold(replace(slurm_spec(), login=REVOKED)) is None
