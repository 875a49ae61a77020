"""The end of a restore: what is compared again, what is not, and whose keys are dropped."""

import base64
from collections.abc import Mapping
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bulkhead.api import planeidentity
from bulkhead.api.conditions import Reason, RestoreReason, find_condition
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.errors import (
    ApiError,
    Conflict,
    Forbidden,
    Gone,
    NotServed,
    ProtocolError,
    Throttled,
    Timeout,
    TooLarge,
    Unavailable,
    unreachable,
)
from controller.decide.plan import Plan
from controller.inside.access import PlaneHealth
from controller.inside.budget import Budget
from controller.plane.restoring import FORMER_KEY
from controller.restores import status
from controller.restores.decide import COMPARE_FOR, Keys, Step, compares_again
from controller.restores.status import Compared
from controller.slurm.keystore import OFF
from controller.tenant.facets.restores.comparing import Comparing
from controller.tenant.facets.restores.dropping import RestoreKeysDropped
from controller.tenant.facets.restores.facet import AtWork, RestoreBegun, RestoreEnded
from controller.tenant.facets.restores.host import OF, SECRET, RestoreHost, left_over
from controller.tenant.turn import Seen, Turn
from tests.kit.fakeclock import FakeClock
from tests.kit.tenantsamples import plane_spec, tenant
from tests.snapshots.samples import made

FOUND = made(tenant="team-a")
SERVES = PlaneHealth(ready=True, bootstrapped=True)
SILENT = "the plane's API server does not answer"


class Host:
    """The host's side of a restore: remembers what was written, in its order."""

    def __init__(self, refusals: Mapping[str, BaseException] | None = None) -> None:
        self.done = list[str]()
        self.dropped = dict[str, str]()
        self._refusals = refusals or {}
        self.kept = False
        self.cluster_uid = ""

    async def is_gone(self, _: str) -> bool:
        return not self.kept

    async def mirrored(self, _: object, resource: Any) -> list[Obj]:
        if resource.kind in self._refusals:
            raise self._refusals[resource.kind]
        # Of each kind there is one, so the plane is asked, too.
        return [{"metadata": {"name": "one", "namespace": "bh-team-a-work"}}]

    async def release(self, *_: object, restored: bool, cluster_uid: str = "") -> None:
        self.done.append("released" if restored else "given back")
        self.cluster_uid = cluster_uid

    async def report(self, request: Obj, wanted: Obj) -> Obj:
        self.done.append(str(find_condition(wanted["conditions"], "Complete")))
        return request | {"status": (request.get("status") or {}) | wanted}

    async def drop(self, _: object, secrets: Mapping[str, Obj]) -> None:
        self.dropped |= {name: secret["metadata"]["resourceVersion"] for name, secret in secrets.items()}


class Plane:
    """A plane that answers lists, or refuses those of some kinds."""

    def __init__(self, refusals: Mapping[str, BaseException] | None = None) -> None:
        self._refusals = refusals or {}

    async def list(self, resource: Any, **_: object) -> tuple[Obj, ...]:
        if resource.kind in self._refusals:
            raise self._refusals[resource.kind]
        return ()


class Secrets:
    """The patches of Secrets on the host."""

    def __init__(self) -> None:
        self.patches = list[tuple[str, Obj]]()

    async def patch(self, _: object, name: str, body: Obj, __: str) -> None:
        self.patches.append((name, body))


@pytest.mark.parametrize("off", [True, False])
async def test_a_slurm_cluster_that_was_removed_since_the_snapshot_is_looked_for_again(*, off: bool) -> None:
    secrets, annotations = Secrets(), {"bulkhead.dev/slurm-cluster-name": "red"} | ({OFF: "true"} if off else {})
    there: dict[str, Obj] = {"slurm-keys": {"metadata": {"name": "slurm-keys", "annotations": annotations}}}
    await RestoreHost(cast("Any", secrets)).write(plane_spec(), Keys({}, {}), there)
    assert secrets.patches == ([("slurm-keys", {"metadata": {"annotations": {OFF: None}}})] if off else [])


async def compared(host: Host, plane: Plane | None) -> Compared:
    planes = SimpleNamespace(plane=lambda _: plane)
    return await Comparing(cast("Any", host), cast("Any", planes), Budget()).compare(plane_spec())


PASSING: list[BaseException] = [
    Throttled(429, "TooManyRequests", "slow down"),
    Unavailable(503, "ServiceUnavailable", "starting"),
    unreachable("connection refused"),
    ApiError(500, "InternalError", "etcdserver: leader changed"),
    Gone(410, "Expired", "the continue token is too old"),
    Timeout("did not answer within 10 s"),
    TimeoutError(),
]
LASTING: list[BaseException] = [
    TooLarge("more than 20000 objects"),
    ProtocolError("unexpected JSON"),
    Forbidden(403, "Forbidden", "no"),
    ApiError(400, "BadRequest", "no"),
]


@pytest.mark.parametrize("error", PASSING, ids=lambda error: f"{type(error).__name__}-{getattr(error, 'status', '')}")
@pytest.mark.parametrize("kind", ["Pod", "PersistentVolumeClaim", "Service"])
async def test_a_list_that_a_server_refuses_for_now_may_be_read_later(error: BaseException, kind: str) -> None:
    for host, plane in ((Host({kind: error}), Plane()), (Host(), Plane({kind: error}))):
        found = await compared(host, plane)
        assert (found.passing, found.clean, bool(found.trouble)) == (True, False, True)
    assert await compared(Host(), None) == Compared(trouble=SILENT, passing=True)


@pytest.mark.parametrize("error", LASTING, ids=lambda error: f"{type(error).__name__}-{getattr(error, 'status', '')}")
async def test_a_list_that_no_later_try_can_read_is_a_trouble_at_once(error: BaseException) -> None:
    for host, plane in ((Host({"Service": error}), Plane()), (Host(), Plane({"Service": error}))):
        assert await compared(host, plane) == Compared(trouble=str(error))


def turn(*made_before: object, secrets: Mapping[str, Obj] | None = None) -> Turn:
    observed = SimpleNamespace(tenant=tenant(), in_plane=lambda kind: (secrets or {}) if kind is kinds.SECRETS else {})
    return Turn(cast("Any", observed), cast("Any", SimpleNamespace(held=None)), plane_spec()).plus(*made_before)


def filled(clock: FakeClock, *, clone_of: str = "") -> Obj:
    """A TenantRestore whose volumes are filled at this moment."""
    spec = {"tenant": "team-a"} | ({"cloneOf": clone_of} if clone_of else {})
    request: Obj = {"metadata": {"name": "team-a-1", "uid": "u-1", "generation": 1}, "spec": spec}
    reported = status.at_work(request, FOUND, Step.FILLED, clock.now())
    return request | {"status": reported | {"filledTime": clock.now().isoformat()}}


class Ended:
    """The end of one restore, turn after turn: what the facets before it record, and what it does then."""

    def __init__(self, answers: list[Compared], *, clone_of: str = "") -> None:
        self.clock, self.host = FakeClock(), Host()
        self._answers = iter(answers)
        self.request = filled(self.clock, clone_of=clone_of)
        self.facet = RestoreEnded(cast("Any", self.host), self.clock, cast("Any", self))

    async def compare(self, _: object) -> Compared:
        return next(self._answers)

    async def turn(self, health: PlaneHealth = SERVES) -> Turn:
        begun = status.at_work(self.request, FOUND, Step.START, self.clock.now())
        work = AtWork(await self.host.report(self.request, begun), FOUND, Step.START)
        ended = await self.facet.reconcile(turn(work, health, cast("Plan", SimpleNamespace())))
        reported = ended.of(AtWork)
        assert reported is not None
        self.request = reported.request
        return ended

    @property
    def told(self) -> tuple[str, str]:
        return self.reason, status.message_of(self.request)

    @property
    def reason(self) -> str:
        return str((find_condition(self.request["status"]["conditions"], "Complete") or {}).get("reason"))


REFUSED = Compared(trouble="TooManyRequests: slow down", passing=True)


async def test_a_comparison_that_was_refused_is_tried_again_and_the_restore_ends_clean() -> None:
    ended = Ended([REFUSED, Compared(trouble=SILENT, passing=True), Compared()])
    after = await ended.turn()
    assert ended.told == (
        RestoreReason.STARTING,
        "the plane answers; the host's objects are compared with it; tried again after: TooManyRequests: slow down",
    )
    # The Tenant waits for it and says why, and looks again soon.
    report = RestoreBegun(*(cast("Any", None),) * 4).report(Seen(after))
    assert report.alarm is not None
    assert (report.alarm.reason, report.alarm.message) == (Reason.RESTORING, ended.told[1])
    assert report.again == 1.0
    # Another trouble is not written: each change causes a turn at once, without the pause between two tries.
    before = ended.request["status"]["conditions"]
    ended.clock.advance(1)
    await ended.turn()
    assert ended.request["status"]["conditions"] == before
    assert "released" not in ended.host.done
    await ended.turn()
    assert ended.host.done[-2] == "released"
    assert "it knows everything that the host has" in ended.host.done[-1]


async def test_a_restore_that_ends_clean_has_the_restored_datas_uid_recorded() -> None:
    ended = Ended([Compared()])
    await ended.turn(PlaneHealth(ready=True, bootstrapped=True, cluster_uid="of the snapshot"))
    assert (ended.host.done[-2], ended.host.cluster_uid) == ("released", "of the snapshot")


@pytest.mark.parametrize(
    ("restored", "uid", "after"),
    [(True, "of the snapshot", "of the snapshot"), (True, "", "of the empty plane"), (False, "any", "of the empty plane")],
    ids=["restored", "a UID that is not known", "given back"],
)
async def test_the_record_names_the_data_that_was_restored_and_not_what_it_replaced(
    restored: bool, uid: str, after: str
) -> None:
    """A volume was lost, the empty plane was accepted, and then a snapshot from before was restored."""
    record: Obj = {
        "metadata": {"resourceVersion": "7"},
        "data": {"clusterUID": "of the empty plane", "highestRevision": "9", "quarantine": "ours"},
    }

    class Client:
        async def get(self, *_: object) -> Obj:
            return record

        async def patch(self, _: object, __: str, body: Obj, ___: str) -> None:
            assert body["metadata"] == record["metadata"]
            record["data"] = {key: value for key, value in (record["data"] | body["data"]).items() if value is not None}

    host = RestoreHost(cast("Any", Client()))
    await host.release(plane_spec(), "another", restored=restored, cluster_uid=uid)
    assert record["data"]["quarantine"] == "ours"
    await host.release(plane_spec(), "ours", restored=restored, cluster_uid=uid)
    found = planeidentity.recorded(record)
    assert found == planeidentity.Recorded(after, 9)
    # What the controller reports: the Tenant's status still names the replaced plane.
    assert bool(planeidentity.lost(found, "of the empty plane", "of the snapshot")) is (after != "of the snapshot")


@pytest.mark.parametrize(("seconds", "ends"), [(COMPARE_FOR.total_seconds(), False), (COMPARE_FOR.total_seconds() + 1, True)])
async def test_a_comparison_that_is_refused_for_minutes_ends_the_restore_and_keeps_the_note(
    seconds: float, *, ends: bool
) -> None:
    ended = Ended([REFUSED, REFUSED])
    await ended.turn()
    ended.clock.advance(seconds)
    await ended.turn()
    assert ("not compared with it (TooManyRequests: slow down)" in ended.host.done[-1]) is ends
    assert ("bulkhead tenant accept-data team-a" in ended.host.done[-1]) is ends
    assert "released" not in ended.host.done


async def test_what_no_try_can_read_and_what_is_unknown_ends_the_restore_at_once() -> None:
    for answer, words in (
        (Compared(trouble="list of pods: more than 20000 objects"), "not compared with it (list of pods"),
        (Compared(("pod default/younger",)), "pod default/younger"),
    ):
        ended = Ended([answer])
        await ended.turn()
        assert RestoreReason.RESTORED in ended.host.done[-1]
        assert words in ended.host.done[-1]
        assert "released" not in ended.host.done


async def test_nothing_is_compared_before_the_plane_answers_nor_for_a_clone() -> None:
    ended = Ended([])
    await ended.turn(PlaneHealth(ready=True))
    assert ended.reason == RestoreReason.STARTING
    clone = Ended([], clone_of="red")
    await clone.turn()
    assert "the clone of red runs" in clone.host.done[-1]


def test_a_request_without_a_time_at_which_it_was_filled_is_compared_once() -> None:
    assert not compares_again(None, FakeClock().now())
    assert compares_again(FakeClock().now(), FakeClock().now() + timedelta(minutes=1))


def secret(version: str, of: str = "") -> Obj:
    return {"metadata": {"resourceVersion": version}, "data": {OF: base64.b64encode(of.encode()).decode()}}


LEFT = {SECRET: secret("7", "u-1"), FORMER_KEY: secret("8")}


def test_keys_are_left_over_once_no_restore_is_to_be_done_that_needs_them() -> None:
    assert left_over({}, ()) == {}
    assert left_over({"pki-ca-etcd": secret("1")}, ()) == {}
    assert left_over(LEFT, ()) == LEFT
    assert left_over(LEFT, {"u-1"}) == {}
    # Those of an earlier restore go while a later one waits; a clone's former key may be the later one's.
    assert left_over(LEFT, {"u-2"}) == {SECRET: LEFT[SECRET]}


@pytest.mark.parametrize(
    ("secrets", "copied", "read", "lists", "dropped"),
    [
        pytest.param({}, [], [], 0, {}, id="no keys"),
        pytest.param(LEFT, ["u-1"], [], 0, {}, id="at work"),
        pytest.param(LEFT, [], ["u-1"], 1, {}, id="a new one that the informer has not seen"),
        pytest.param(LEFT, [], [], 1, {SECRET: "7", FORMER_KEY: "8"}, id="finished or gone"),
        pytest.param(LEFT, ["u-2"], ["u-2"], 1, {SECRET: "7"}, id="of an earlier one"),
        pytest.param(LEFT, [], None, 1, {}, id="a host without the kind"),
    ],
)
async def test_keys_are_dropped_only_where_the_host_says_that_their_restore_is_over(
    secrets: dict[str, Obj], copied: list[str], read: list[str] | None, lists: int, dropped: dict[str, str]
) -> None:
    asked = list[str]()

    async def unfinished(name: str) -> list[Obj]:
        asked.append(name)
        if read is None:
            raise NotServed(404, "NotFound", "no such kind")
        return [{"metadata": {"uid": uid}} for uid in read]

    requests, host = SimpleNamespace(pending=lambda _: [{"metadata": {"uid": uid}} for uid in copied]), Host()
    requests.unfinished = unfinished
    await RestoreKeysDropped(cast("Any", requests), cast("Any", host)).reconcile(turn(secrets=secrets))
    assert (host.dropped, asked) == (dropped, [plane_spec().tenant] * lists)


async def test_keys_that_were_written_since_they_were_read_stay() -> None:
    versions = list[tuple[str, str | None]]()

    class Client:
        async def delete(self, _: object, name: str, __: str, *, resource_version: str | None = None) -> None:
            versions.append((name, resource_version))
            raise Conflict(409, "Conflict", "the version in the precondition does not match")

    await RestoreHost(cast("Any", Client())).drop(plane_spec(), LEFT)
    assert versions == [(SECRET, "7"), (FORMER_KEY, "8")]


@pytest.mark.parametrize(
    ("began", "kept", "ended"), [(True, False, 1), (True, True, 0), (False, False, 0)], ids=["gone", "kept", "not begun"]
)
async def test_what_had_begun_for_a_plane_that_is_gone_is_not_gone_on_with(began: bool, kept: bool, ended: int) -> None:
    """The next Tenant of the name would start with empty volumes, under the identity of the former."""
    clock, host = FakeClock(), Host()
    host.kept = kept
    request = filled(clock)
    if began:
        request["status"]["startTime"] = clock.now().isoformat()
    requests = SimpleNamespace(pending=lambda name: [request] if name == "team-a" else [])
    facet = RestoreBegun(cast("Any", requests), cast("Any", host), clock, cast("Any", None))
    await facet.forget("team-a")
    assert len(host.done) == ended
    assert all("'reason': 'Failed'" in told and "its Tenant was deleted" in told for told in host.done)
    await facet.forget("another")
    assert len(host.done) == ended
