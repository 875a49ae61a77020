"""Each second of what a claim was given is counted once: a world of claims and pods, a controller that dies, a silent watch."""

import itertools
from collections import Counter
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from bulkhead.metering.claimed import Claimed
from bulkhead.metering.meter import Meter
from tests.metering.test_claimed import LINES, claimed, user


@dataclass
class Time:
    """A piece of time that is true: what a claim had, or a pod ran."""

    begin: int
    end: int | None = None

    def within(self, start: int, end: int) -> int:
        return max(0, min(end, end if self.end is None else self.end) - max(start, self.begin))


@dataclass
class TruePod:
    since: int
    running: int | None = None
    ended: int | None = None
    there: bool = True


@dataclass
class TrueClaim:
    had: list[Time] = field(default_factory=list)
    users: list[str] = field(default_factory=list)
    ran: list[Time] = field(default_factory=list)
    lost: int = 0

    @property
    def has(self) -> bool:
        return bool(self.had) and self.had[-1].end is None


@dataclass
class World:
    """What is true, what the store has, and the controller as long as it lives."""

    stamped: bool = True
    now: int = 1_000_000
    pods: dict[str, TruePod] = field(default_factory=dict)
    claims: dict[str, TrueClaim] = field(default_factory=dict)
    meter: Meter | None = None
    hears: bool = True
    used: Counter[str] = field(default_factory=Counter)
    idle: Counter[str] = field(default_factory=Counter)
    until: int = 1_000_000

    def tell(self, uid: str) -> None:
        """Deliver the present state of a claim, if a watch is open."""
        claim = self.claims[uid]
        if self.meter is not None and self.hears:
            if claim.has:
                self.meter.see_claim(self.claimed(uid), self.now)
            else:
                self.meter.claim_gone(uid, self.now)
        elif not claim.has:
            claim.lost += claim.had[-1].within(self.until, self.now)

    def claimed(self, uid: str) -> Claimed:
        claim = self.claims[uid]
        given = claim.had[-1].begin if self.stamped else None
        return claimed(uid, given=given, created=1_000_000, users=tuple(claim.users), name=uid)

    def tell_pod(self, uid: str) -> None:
        pod = self.pods[uid]
        if self.meter is not None and pod.there:
            self.meter.see(user(uid, since=pod.since, running=pod.running, ended=pod.ended))
        elif self.meter is not None:
            self.meter.gone(uid, self.now)

    def start(self) -> None:
        self.meter = Meter(self.until)
        for uid, pod in self.pods.items():
            if pod.there:
                self.meter.see(user(uid, since=pod.since, running=pod.running, ended=pod.ended), listed=True)
        if self.hears:
            self.see_all()

    def see_all(self) -> None:
        assert self.meter is not None
        for uid, claim in self.claims.items():
            if claim.has:
                self.meter.see_claim(self.claimed(uid), None)

    def stop(self) -> None:
        self.meter = None
        for claim in self.claims.values():
            self.lose_ended(claim)

    def lose_ended(self, claim: TrueClaim) -> None:
        """If a claim ended and was not counted to its end, the process that saw it lost that end."""
        claim.lost += sum(span.within(self.until, self.now) for span in claim.had if span.end is not None)

    def listen(self, hears: bool) -> None:
        if self.meter is not None and self.hears and not hears:
            self.meter.no_claims()
            for claim in self.claims.values():
                claim.lost += sum(span.within(self.until, self.now) for span in claim.had)
        elif self.meter is not None and hears and not self.hears:
            self.see_all()
        self.hears = hears

    def reserve(self, uid: str, other: bool) -> None:
        """The scheduler gives a claim its devices, if it has none, and binds a pod to it; or binds one more pod to it."""
        claim = self.claims.setdefault(uid, TrueClaim())
        if claim.has and not other:
            return
        if not claim.has:
            claim.had.append(Time(self.now))
        pod = f"p{len(self.pods)}"
        self.pods[pod] = TruePod(self.now)
        claim.users.append(pod)
        self.tell_pod(pod)
        self.tell(uid)

    def change(self, what: str, uid: str) -> None:
        pod = self.pods[uid]
        (of,) = (name for name, claim in self.claims.items() if uid in claim.users) if pod.ended is None else ("",)
        if what == "run" and pod.ended is None and pod.running is None:
            pod.running = self.now
            self.claims[of].ran.append(Time(self.now))
        elif what in {"end", "delete"} and pod.ended is None:
            pod.ended = self.now
            claim = self.claims[of]
            for span in claim.ran:
                # One piece of running for each pod, in the order in which they began.
                if span.end is None and span.begin == pod.running:
                    span.end = self.now
                    break
            claim.users.remove(uid)
            if not claim.users:
                claim.had[-1].end = self.now
            self.tell(of)
        pod.there = pod.there and what != "delete"
        self.tell_pod(uid)

    def count(self, *, written: bool, late: int = 0) -> None:
        if self.meter is None:
            return
        found = list(self.meter.count(max(self.until, self.now - late), lines=LINES))
        assert all(min(tally.used, tally.idle) >= 0 and tally.borrowed == 0 for tally in found)
        if not written:
            self.stop()
            return
        if not self.hears:
            for claim in self.claims.values():
                if claim.has:
                    claim.lost += claim.had[-1].within(self.until, self.now)
        self.until = self.meter.until
        for tally in found:
            self.used[tally.account.owner] += tally.used
            self.idle[tally.account.owner] += tally.idle

    def true_used(self, claim: TrueClaim) -> int:
        moments = sorted({1_000_000, self.now, *(at for span in claim.ran for at in (span.begin, span.end or self.now))})
        pieces = itertools.pairwise(moments)
        return sum(stop - start for start, stop in pieces if any(span.within(start, stop) for span in claim.ran))


STEPS = st.one_of(
    st.tuples(st.sampled_from(["pass", "pass", "count"]), st.integers(1, 900_000)),
    st.tuples(st.sampled_from(["reserve", "share"]), st.integers(0, 1)),
    st.tuples(st.sampled_from(["run", "run", "end", "delete"]), st.integers(0, 5)),
    st.tuples(st.sampled_from(["count", "die unwritten", "die", "start", "deaf", "hear"]), st.just(0)),
)


def play(steps: list[tuple[str, int]], *, stamped: bool) -> World:
    world = World(stamped)
    world.start()
    # So that most of what is drawn is about something.
    begun = [("reserve", 0), ("pass", 1000), ("run", 0), ("share", 0), ("pass", 1000), ("run", 1)]
    for what, number in (*begun, *steps):
        there = [uid for uid, pod in world.pods.items() if pod.there]
        if what == "pass":
            world.now += number
        elif what in {"reserve", "share"}:
            world.reserve(f"c{number}", what == "share")
        elif what in {"run", "end", "delete"} and there:
            world.change(what, there[number % len(there)])
        elif what == "start" and world.meter is None:
            world.start()
        elif what == "die" and world.meter is not None:
            world.stop()
        elif what in {"count", "die unwritten"}:
            world.count(written=what == "count", late=number)
        elif what in {"deaf", "hear"}:
            world.listen(what == "hear")
    if world.meter is None:
        world.start()
    world.listen(True)
    world.count(written=True)
    return world


@settings(max_examples=500)
@given(st.lists(STEPS, max_size=60), st.booleans())
def test_every_second_of_a_claim_is_counted_once_but_what_vanished_unseen(steps: list[tuple[str, int]], stamped: bool) -> None:
    world = play(steps, stamped=stamped)
    assert world.until == world.now
    used, idle = (sum(sums.values()) for sums in (world.used, world.idle))
    claims = world.claims.values()
    true = sum(span.within(0, world.now) for claim in claims for span in claim.had)
    assert used + idle <= true
    assert used <= sum(map(world.true_used, claims))
    if stamped:
        assert true - sum(claim.lost for claim in claims) <= used + idle


@given(st.lists(STEPS, max_size=60))
def test_a_controller_that_lives_and_hears_tells_used_from_idle_to_the_millisecond(steps: list[tuple[str, int]]) -> None:
    world = play([step for step in steps if step[0] not in {"die", "die unwritten", "deaf"}], stamped=False)
    assert sum(world.used.values()) == sum(map(world.true_used, world.claims.values()))
    assert sum(world.idle.values()) == sum(
        sum(span.within(0, world.now) for span in claim.had) - world.true_used(claim) for claim in world.claims.values()
    )


def test_the_world_of_these_tests_would_notice_what_is_counted_twice() -> None:
    """The positive control: a controller that forgets up to when it counted."""
    world = World()
    world.start()
    world.reserve("c0", other=False)
    world.now += 1000
    world.count(written=True)
    world.until = 1_000_000
    world.stop()
    world.start()
    world.count(written=True)
    assert sum(world.idle.values()) == 2 * world.claims["c0"].had[0].within(0, world.now)
