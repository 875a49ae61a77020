"""The plane's identity: what arrives while it is asked does not count against it."""

from typing import Any, cast
from unittest.mock import AsyncMock

import pytest

from bulkhead.api.objects import Obj
from bulkhead.api.planeidentity import ACCEPTED_SECONDS, PLACED_NAME
from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists, KubeError, NotFound, Throttled, Timeout
from bulkhead.kube.informer import Change
from bulkhead.kube.objects import Key, Meta
from syncer.watch.deletions import ObservedDeletions
from syncer.write.identity import CHECK_SECONDS, READ_SECONDS, PlaneIdentity
from syncer.write.massdelete import MassDeleteBreaker
from tests.kit.fakeclock import FakeClock

KEY = Key("", "kube-public")


class _Listed:
    def __init__(self, revision: int, uid: str) -> None:
        self.items = ({"metadata": {"uid": uid}},)
        self.resource_version = str(revision)


class _Plane:
    """A plane of a given revision, from which a watch event arrives before the answer does."""

    def __init__(self) -> None:
        self.revision = 100
        self.uid = "plane"
        self.arrives = 0
        self.identity: PlaneIdentity | None = None

    async def list(self, *_args: Any, **_options: Any) -> _Listed:
        answer = _Listed(self.revision, self.uid)
        if self.identity is not None and self.arrives:
            self.identity.saw(str(self.arrives))
        return answer


class _Host:
    """A host that remembers the ConfigMap, which is not there while it has no data."""

    def __init__(self) -> None:
        self.data: dict[str, str] = {"clusterUID": "plane", "highestRevision": "100"}
        self.labels: dict[str, str] = {}
        self.refused: list[KubeError] = []  # what the next quarantines get instead of an answer
        self.lost: list[KubeError] = []  # what the next creations get, whether they are done or not
        self.done = True
        self.placed = False
        self.reads = 0
        self.events: list[str] = []

    async def get(self, _resource: Any, name: str, _namespace: str) -> Obj:
        self.reads += name != PLACED_NAME
        if not (self.placed if name == PLACED_NAME else self.data):
            raise NotFound(404, "NotFound", name)
        return {"data": self.data}

    async def patch(self, _resource: Any, name: str, body: Obj, _namespace: str) -> Obj:
        if "quarantine" in body["data"] and self.refused:
            raise self.refused.pop(0)
        if not self.data:
            raise NotFound(404, "NotFound", name)
        self.data = {key: value for key, value in (self.data | body["data"]).items() if value is not None}
        self.labels |= body.get("metadata", {}).get("labels", {})
        return {"data": self.data}

    async def create(self, _resource: Any, made: Obj, _namespace: str) -> Obj:
        if made["kind"] == "Event":
            self.events.append(made["reason"])
            return {}
        if self.data:
            raise AlreadyExists(409, "AlreadyExists", made["metadata"]["name"])
        if self.done or not self.lost:
            self.data, self.labels = made["data"], made["metadata"].get("labels", {})
        if self.lost:
            raise self.lost.pop(0)
        return made


def _made(host: _Host | None = None) -> tuple[PlaneIdentity, _Plane, FakeClock]:
    plane, clock = _Plane(), FakeClock()
    identity = PlaneIdentity(cast("Client", plane), cast("Client", host or _Host()), "bh-red", clock)
    plane.identity = identity
    return identity, plane, clock


def _told(identity: PlaneIdentity) -> list[str]:
    """What the rest of the syncer is told."""
    told: list[str] = []
    identity.on_quarantined = lambda: told.append("quarantined")
    identity.on_accepted = lambda _: told.append("accepted")
    return told


async def test_an_event_that_overtakes_the_answer_is_not_a_step_back() -> None:
    identity, plane, _clock = _made()
    await identity.establish()
    plane.arrives = 105
    plane.revision = 103
    identity._checked = float("-inf")
    assert await identity.trusted()


async def test_a_revision_seen_before_the_question_counts() -> None:
    host = _Host()
    identity, plane, _clock = _made(host)
    await identity.establish()
    identity.saw("105")
    await identity.flush()
    assert host.labels == {}
    plane.revision = 103
    identity._checked = float("-inf")
    assert not await identity.trusted()
    # The controller watches for the label alone.
    assert host.labels == {"bulkhead.dev/quarantined": "true"}


async def test_a_plane_that_is_lost_while_nothing_changes_is_noticed_and_accepted_once() -> None:
    identity, plane, clock = _made()
    accepted: list[float] = []
    identity.on_accepted = lambda _: accepted.append(clock.monotonic())
    await identity.establish()
    plane.uid = "another"
    await identity._refresh()
    assert not identity.quarantine, "it was asked a moment ago"
    clock.advance(CHECK_SECONDS)
    await identity._refresh()
    assert identity.quarantine == "plane changed identity: cluster UID was plane, is another"
    await identity._refresh()
    assert accepted == []
    # An operator deletes the record.
    identity._host.data = {}  # type: ignore[attr-defined]
    await identity._refresh()
    assert (identity.quarantine, accepted) == ("", [clock.monotonic()])
    clock.advance(CHECK_SECONDS)
    await identity._refresh()
    assert (identity.quarantine, len(accepted)) == ("", 1)


@pytest.mark.parametrize(
    ("change", "trusted"),
    [
        (Change("deleted", KEY, Meta(name="kube-public", resource_version="90"), relist=True), True),
        (Change("deleted", KEY, Meta(name="kube-public", resource_version="90")), False),
        (Change("modified", KEY, Meta(name="kube-public", resource_version="90"), relist=True), False),
    ],
    ids=["absent from a list", "a deletion that was seen", "in a list"],
)
async def test_what_the_accepted_plane_lacks_is_no_step_back(change: Change, trusted: bool) -> None:
    """Informers list the new plane one after the other, and tell of the former one's objects by the versions they had."""
    host = _Host()
    identity, plane, clock = _made(host)
    await identity.establish()
    plane.uid, plane.revision = "another", 40
    identity._checked = float("-inf")
    assert not await identity.trusted()
    host.data = {}  # an operator accepts the plane
    clock.advance(1)
    assert await identity.trusted()
    identity.noticed(change)
    clock.advance(1)
    assert await identity.trusted() is trusted


@pytest.mark.parametrize(
    ("placed", "told"),
    [(True, ["accepted"]), (False, [])],
    ids=["accepted while no syncer ran", "a plane that is new, or whose namespace was lost"],
)
async def test_a_record_that_is_missing_at_the_start_was_deleted_if_the_one_beside_it_is_there(
    placed: bool, told: list[str]
) -> None:
    host = _Host()
    host.data, host.placed = {}, placed
    identity, _plane, clock = _made(host)
    heard = _told(identity)
    await identity.establish()
    accepted = {"acceptedAt": "2026-01-01T00:00:00Z"} if placed else {}
    assert host.data == {"clusterUID": "plane", "highestRevision": "100"} | accepted
    assert heard == told
    clock.advance(CHECK_SECONDS)
    await identity._refresh()
    assert (heard, await identity.trusted()) == (told, True)


@pytest.mark.parametrize("done", [True, False])
async def test_an_acceptance_counts_although_its_record_could_not_be_written_at_once(done: bool) -> None:
    host = _Host()
    identity, plane, clock = _made(host)
    heard = _told(identity)
    await identity.establish()
    plane.uid = "another"
    clock.advance(CHECK_SECONDS)
    await identity._refresh()
    host.data, host.lost, host.done = {}, [Timeout("no answer")], done
    with pytest.raises(Timeout):
        await identity.trusted()
    assert heard == ["quarantined"]
    # Before the next look at the plane is due.
    await identity._refresh()
    assert heard == ["quarantined", "accepted"]
    assert host.data == {"clusterUID": "another", "highestRevision": "100", "acceptedAt": "2026-01-01T00:00:30Z"}
    assert await identity.trusted()
    # The same for a syncer that has just started.
    host.data, host.lost, host.placed = {}, [Timeout("no answer")], True
    identity, _plane, _clock = _made(host)
    heard = _told(identity)
    with pytest.raises(Timeout):
        await identity.establish()
    await identity.establish()
    assert heard == ["accepted"]


async def test_an_acceptance_counts_on_for_a_syncer_that_starts_before_its_time_is_over() -> None:
    """What the plane lost may be thousands of objects, and the breaker would stop a new process at the hundredth."""
    host = _Host()
    host.data, host.placed = {}, True

    async def started(after: float) -> list[float]:
        identity, plane, clock = _made(host)
        plane.revision = 110
        clock.advance(after)
        heard: list[float] = []
        identity.on_accepted = heard.append
        for _ in range(2):
            await identity.establish()
            identity.saw("105")
            await identity.flush()
            identity._established = False  # the plane did not answer for a moment
        return heard

    assert await started(0) == [ACCEPTED_SECONDS]
    assert await started(500) == [100.0]
    assert await started(ACCEPTED_SECONDS) == []
    # By a clock that is behind, for no longer than its time either.
    host.data["acceptedAt"] = "2026-01-01T00:01:00Z"
    assert await started(0) == [540.0]
    for odd in ("2027-01-01T00:00:00Z", "2026-01-01T00:00:00", "soon", ""):
        host.data["acceptedAt"] = odd
        assert await started(0) == []
    host.data |= {"acceptedAt": "2026-01-01T00:00:00Z", "quarantine": "recovered from member plane-2"}
    assert await started(0) == []


async def test_once_a_plane_is_accepted_nothing_is_counted_for_a_while() -> None:
    clock = FakeClock()
    breaker = MassDeleteBreaker(2, clock, ObservedDeletions(), AsyncMock())
    assert [await breaker.allow() for _ in range(4)] == [True, True, False, False]
    breaker.accept(ACCEPTED_SECONDS)
    assert not breaker.open
    assert all([await breaker.allow() for _ in range(100)])
    clock.advance(ACCEPTED_SECONDS)
    assert [await breaker.allow() for _ in range(4)] == [True, True, False, False]
    assert breaker.open


async def test_a_quarantine_that_the_controller_wrote_stays_and_counts_for_a_syncer_that_runs() -> None:
    """A recovery from one member: nothing is deleted because of what the plane lacks since then."""
    host = _Host()
    identity, plane, _clock = _made(host)
    await identity.establish()
    assert await identity.trusted()
    host.data["quarantine"] = "recovered from member plane-2"
    # Its data is as new as what this syncer saw.
    plane.revision = 120
    identity.saw("120")
    await identity.flush()
    assert host.data == {"clusterUID": "plane", "highestRevision": "120", "quarantine": "recovered from member plane-2"}
    assert identity.quarantine == "recovered from member plane-2"
    assert not await identity.trusted()


async def test_a_quarantine_that_the_controller_wrote_counts_before_anything_is_written() -> None:
    """The controller writes it first, and nothing may be deleted by what the plane lacks after that."""
    host = _Host()
    identity, _plane, clock = _made(host)
    heard = _told(identity)
    await identity.establish()
    host.data["quarantine"] = "recovered from member plane-2"
    # Those that wait for deletions together do not all read it.
    before = host.reads
    assert await identity.trusted()
    assert host.reads == before
    clock.advance(READ_SECONDS)
    assert not await identity.trusted()
    assert (identity.quarantine, heard) == ("recovered from member plane-2", ["quarantined"])
    # Positive control: without a record, what this syncer knows counts.
    host.data = {}
    clock.advance(READ_SECONDS)
    assert await identity.trusted()
    host.data = {}
    clock.advance(READ_SECONDS)
    assert await identity.trusted()
    assert heard == ["quarantined", "accepted"]


async def test_a_quarantine_that_the_host_could_not_take_is_not_an_all_clear() -> None:
    """While the host refuses it, the rolled-back plane grows past the revision that the host remembers."""
    host = _Host()
    host.refused = [Timeout("no answer"), Throttled(429, "TooManyRequests", "later")]
    identity, plane, clock = _made(host)
    heard = _told(identity)
    await identity.establish()
    plane.revision = 90
    clock.advance(CHECK_SECONDS)
    with pytest.raises(Timeout):
        await identity.trusted()
    plane.revision = 120
    with pytest.raises(Throttled):
        await identity._refresh()
    assert identity.quarantine == "plane went back in time: revision was 100, is 90"
    assert "quarantine" not in host.data
    await identity._refresh()
    assert host.data["quarantine"] == identity.quarantine
    assert host.events == ["PlaneQuarantined"]
    assert not await identity.trusted()
    assert heard == ["quarantined"]
    # Positive control: an operator ends it as ever.
    host.data = {}
    await identity._refresh()
    assert (identity.quarantine, heard) == ("", ["quarantined", "accepted"])
    assert await identity.trusted()
