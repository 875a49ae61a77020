"""The best pods stay on the host: which are admitted, which wait, which give up their place, and with which messages."""

from types import SimpleNamespace
from typing import Any

import pytest

from bulkhead.api import ledger
from bulkhead.api.objects import Obj
from bulkhead.kube.informer import Change
from bulkhead.kube.objects import Key, key_of
from syncer.quota.claims import Claims
from syncer.quota.hostqueue import HostQueue
from syncer.translate import Untranslatable
from syncer.translate.kinds import gang, pod
from syncer.translate.kinds.gate import Around
from syncer.translate.origin import of_host
from syncer.work import Item
from tests.kit import translationsamples as samples
from tests.kit.fakeclock import FakeClock

GPU = "nvidia.com/gpu"
VIEW = samples.view({"gated_resources": [GPU], "gated_gangs": True})


class Copy:
    """The host's pods, as a store has them."""

    def __init__(self, pods: dict[Key, Obj]) -> None:
        self.get = pods.get
        self.metas = lambda: [SimpleNamespace(key=key, **each["metadata"]) for key, each in pods.items()]


class Bed:
    """The tenant's pods as the caches have them; a host that makes what it is asked to."""

    def __init__(self, limit: int = 8) -> None:
        self.virtual: dict[Key, Obj] = {}
        self.host: dict[Key, Obj] = {}
        self.queued: list[str] = []
        self.quota: Obj = {"metadata": {"name": "tenant-quota"}, "spec": {"hard": {f"requests.{GPU}": str(limit)}}}
        caches: Any = SimpleNamespace(
            settings=SimpleNamespace(gated_resources=(GPU,), gated_gangs=True),
            view=lambda: VIEW,
            virtual_pod=self.virtual.get,
            views=SimpleNamespace(static=VIEW),
            host={"Pod": SimpleNamespace(store=Copy(self.host))},
            origin=lambda meta: of_host({"metadata": meta if isinstance(meta, dict) else vars(meta)}, VIEW),
        )
        queue: Any = SimpleNamespace(add=self._queue)
        self.claims = Claims([GPU], {}, FakeClock(), hard=lambda: self.quota)
        self.host_queue = HostQueue(caches, queue, self.claims, quota=lambda: self.quota)

    def _queue(self, item: Item) -> None:
        self.queued.append(item.key.name)

    def pod(self, name: str, gpus: int = 1, *, priority: int = 0, of: str = "", size: int = 0, **metadata: Any) -> Key:
        """A virtual pod; of those made later the time of creation is later."""
        meta: Obj = {"name": name, "uid": f"u-{name}", "creationTimestamp": f"2026-01-01T00:00:{len(self.virtual):02}Z"}
        if of:
            meta["labels"] = {"kueue.x-k8s.io/pod-group-name": of}
            meta["annotations"] = {"kueue.x-k8s.io/pod-group-total-count": str(size)}
        container = {"name": "main", "image": "i", "resources": {"limits": {GPU: gpus}} if gpus else {}}
        made = samples.pod({"containers": [container], "priority": priority}, meta | metadata)
        self.virtual[key_of(made)] = made
        return key_of(made)

    def create(self, key: Key) -> str:
        """One try of the syncer; returns the refusal's text, empty where the pod is on the host."""
        self.queued.clear()
        desired = self.translated(key)
        try:
            self.host_queue.attempt(key, self.virtual[key], desired)
            self.claims.claim(key_of(desired), desired)
        except Untranslatable as refused:
            return f"{refused.reason} {refused}"
        self.show(desired | {"metadata": desired["metadata"] | {"uid": f"h-{key.name}"}, "status": {}})
        return ""

    def translated(self, key: Key) -> Obj:
        """The pod as the host is to have it."""
        return pod.for_creation(self.virtual[key], VIEW, Around(gang.Groups()))

    def show(self, host: Obj, kind: Any = "added") -> None:
        """The host's cache shows a pod, or its end."""
        self.host[key_of(host)] = host
        if kind == "deleted":
            del self.host[key_of(host)]
        change = Change(kind, key_of(host), host["metadata"])
        self.host_queue.seen(change)
        self.claims.seen(change, None if kind == "deleted" else host)

    def of(self, key: Key) -> Obj:
        return next(each for each in self.host.values() if each["metadata"]["uid"] == f"h-{key.name}")

    def admit(self, key: Key) -> None:
        host = self.of(key)
        spec = {field: value for field, value in host["spec"].items() if field != "schedulingGates"}
        noted = host["metadata"]["annotations"] | {ledger.ADMITTED: "{}"}
        self.show(host | {"spec": spec, "metadata": host["metadata"] | {"annotations": noted}}, "modified")

    def take_back(self, key: Key) -> None:
        """What the reconcile of a pod does that gives its place."""
        assert self.host_queue.gives_way(key)
        assert self.host_queue.may_take_back(key, self.of(key))
        self.show(self.of(key), "deleted")

    def gives_way(self) -> list[str]:
        return sorted(key.name for key in self.virtual if self.host_queue.gives_way(key))


@pytest.fixture
def bed() -> Bed:
    return Bed()


def test_item_96_a_worse_pod_gives_its_place_and_then_waits_behind_the_better_one(bed: Bed) -> None:
    low, high = bed.pod("low", 8), bed.pod("high", 4, priority=5)
    assert not bed.create(low)
    assert "asked for 4 nvidia.com/gpu, 8 of 8 are in use" in bed.create(high)
    assert bed.queued == ["low"]
    bed.take_back(low)
    # Whichever comes first now, the better one gets the room.
    assert "a pod that comes before it waits" in bed.create(low)
    assert not bed.create(high)
    assert bed.queued == ["low"], "a pod that waited only behind it is tried again"
    assert "8 nvidia.com/gpu, 4 of 8 are in use" in bed.create(low)
    assert bed.gives_way() == []


def test_item_96_of_equals_the_older_one_stays(bed: Bed) -> None:
    first, second = bed.pod("first", 8), bed.pod("second", 8)
    assert not bed.create(second)
    assert bed.create(first)
    assert bed.gives_way() == ["second"]
    bed.take_back(second)
    assert not bed.create(first)
    assert bed.create(second)
    assert bed.gives_way() == []


def test_item_96_what_was_admitted_stays_and_what_would_not_help(bed: Bed) -> None:
    runs, low, high = bed.pod("runs", 6), bed.pod("low", 2), bed.pod("high", 4, priority=5)
    assert not bed.create(runs)
    bed.admit(runs)
    assert not bed.create(low)
    assert bed.create(high)
    assert bed.gives_way() == []
    # The ledger is faster.
    other = bed.pod("other", 2, priority=6)
    assert bed.create(other)
    assert bed.gives_way() == ["low"]
    bed.admit(low)
    assert bed.gives_way() == []


def test_item_96_a_waiting_pod_that_goes_lets_those_behind_it_try(bed: Bed) -> None:
    runs, high, low = bed.pod("runs", 6), bed.pod("high", 4, priority=5), bed.pod("low", 2)
    assert not bed.create(runs)
    bed.admit(runs)
    assert bed.create(high)
    assert "comes before it" in bed.create(low)
    bed.queued.clear()
    bed.host_queue.forget(high)
    assert bed.queued == ["low"]
    assert not bed.create(low)


def test_item_96_a_pod_that_requests_something_else_does_not_wait_behind(bed: Bed) -> None:
    runs, high, none = bed.pod("runs", 8), bed.pod("high", 4, priority=5), bed.pod("none", 0)
    assert not bed.create(runs)
    assert bed.create(high)
    assert not bed.create(none)


def test_item_95_a_pod_beyond_the_ceiling_says_so_with_numbers_and_blocks_no_other(bed: Bed) -> None:
    standing = {"nominal": 6, "ceiling": 8, "used": 0, "borrowed": 0, "lent": 1, "borrowable": 2}
    bed.quota["metadata"]["annotations"] = {ledger.STANDING: ledger.write_standing({("", GPU): standing})}
    huge, small = bed.pod("huge", 9, priority=9), bed.pod("small", 8)
    said = bed.create(huge)
    assert said.startswith("QuotaExceeded quota tenant-quota exceeded: asked for 9 nvidia.com/gpu, 0 of 8 are in use")
    words = "your own quota is 6, pods that have started hold 0, 1 of your own are lent to others, 2 more can be borrowed now"
    assert f"0 of 8 are in use ({words})." in said
    assert "more than can ever be in use" in said
    assert not bed.create(small)
    assert "8 of 8 are in use (your own quota is 6, pods that have started hold 0" in bed.create(huge)


def test_item_95_what_the_ledger_counted_before_something_ended_contradicts_nothing(bed: Bed) -> None:
    standing = {"nominal": 6, "ceiling": 8, "used": 20, "borrowed": 14, "lent": 0, "borrowable": 0}
    bed.quota["metadata"]["annotations"] = {ledger.STANDING: ledger.write_standing({("", GPU): standing})}
    assert "0 of 8 are in use (your own quota is 6)." in bed.create(bed.pod("huge", 9))


def test_item_96_a_gang_goes_to_the_host_where_all_of_it_has_room(bed: Bed) -> None:
    single = bed.pod("single", 2)
    assert not bed.create(single)
    bed.admit(single)
    gang_a = [bed.pod(f"a{number}", 2, of="a", size=4) for number in range(4)]
    assert "and the rest of its gang for 6 more" in bed.create(gang_a[0])
    assert [each for each in gang_a if bed.create(each)] == gang_a
    bed.show(bed.of(single), "deleted")
    assert [each for each in gang_a if bed.create(each)] == []


def test_item_96_a_gang_larger_than_the_ceiling_says_so_and_none_of_it_goes_down(bed: Bed) -> None:
    said = bed.create(bed.pod("a0", 3, of="a", size=3))
    assert "the 3 pods of its gang ask for 9 nvidia.com/gpu" in said
    assert "more than can ever be in use" in said
    # What came while the ceiling was higher goes.
    bed.quota["spec"]["hard"][f"requests.{GPU}"] = "9"
    pods = [bed.pod(f"b{number}", 3, of="b", size=3) for number in range(2)]
    assert not bed.create(pods[0])
    bed.quota["spec"]["hard"][f"requests.{GPU}"] = "8"
    assert bed.create(pods[1])
    assert bed.gives_way() == ["b0"]


def test_item_96_the_smaller_pods_of_a_gang_that_is_never_whole_stay_away_too(bed: Bed) -> None:
    small, large = bed.pod("small", 4, of="a", size=2), bed.pod("large", 5, of="a", size=2)
    assert not bed.create(small)
    assert "ask for 9 nvidia.com/gpu" in bed.create(large)
    bed.take_back(small)
    assert "ask for 9 nvidia.com/gpu" in bed.create(small)
    # The tenant takes the large one away: half of what is left fits.
    bed.host_queue.forget(large)
    assert not bed.create(small)


def test_item_96_a_gang_that_is_whole_without_its_largest_pods_stays_when_those_are_refused(bed: Bed) -> None:
    """Were it taken back, it would come again at once, and so on for ever."""
    first, second, huge = bed.pod("a0", 3, of="a", size=2), bed.pod("a1", 3, of="a", size=2), bed.pod("a2", 7, of="a", size=2)
    assert not bed.create(first)
    assert not bed.create(second)
    assert "ask for 10 nvidia.com/gpu" in bed.create(huge)
    assert bed.gives_way() == []


def test_item_96_a_gang_comes_where_its_best_pod_does_wherever_that_is(bed: Bed) -> None:
    """Whether it waits or is to give its place: if not, two would give their place in turn."""
    runs = bed.pod("runs", 2)
    assert not bed.create(runs)
    bed.admit(runs)
    pods = [bed.pod("a0", 3, of="a", size=2, priority=5), bed.pod("a1", 3, of="a", size=2)]
    assert [each for each in pods if bed.create(each)] == []
    better, worse = bed.pod("better", 1, priority=9), bed.pod("worse", 1, priority=1)
    assert bed.create(worse)
    assert bed.gives_way() == []
    # Its worse half waits: a pod that is worse than the better half waits behind it.
    bed.show(bed.of(pods[1]), "deleted")
    bed.quota["spec"]["hard"][f"requests.{GPU}"] = "7"
    assert bed.create(pods[1])
    assert "comes before it" in bed.create(worse)
    assert not bed.create(better)


def test_item_96_a_gang_is_taken_back_whole_and_of_two_halves_the_better_one_stays(bed: Bed) -> None:
    worse = [bed.pod(f"w{number}", 2, of="w", size=4) for number in range(4)]
    better = [bed.pod(f"b{number}", 2, of="b", size=4, priority=1) for number in range(4)]
    assert not [each for each in worse if bed.create(each)]
    assert bed.create(better[0])
    assert bed.gives_way() == ["w0", "w1", "w2", "w3"]
    for each in worse:
        bed.take_back(each)
    assert [each for each in worse if not bed.create(each)] == []
    assert not [each for each in better if bed.create(each)]
    assert bed.gives_way() == []


def test_item_93_pods_of_one_gang_that_say_different_sizes_are_refused(bed: Bed) -> None:
    assert not bed.create(bed.pod("a0", of="a", size=4))
    said = bed.create(bed.pod("a1", of="a", size=5))
    assert said.startswith("Malformed")
    assert "pod 'a0' of gang 'a' gives the gang 4 pods, but this pod gives it 5 pods" in said
    # When all of that gang are on their way out, another of its name begins.
    ending = bed.of(Key("team", "a0"))
    bed.show(ending | {"metadata": ending["metadata"] | {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, "modified")
    assert "a1" in bed.queued
    assert not bed.create(Key("team", "a1"))
    # A gang of the same name in another namespace is another one.
    assert not bed.create(bed.pod("a2", of="a", size=2, namespace="elsewhere"))


def test_item_93_a_gang_that_says_another_size_while_it_waits_is_another_gang_once_all_of_it_say_so(bed: Bed) -> None:
    single = bed.pod("single", 8)
    assert not bed.create(single)
    bed.admit(single)
    pods = [bed.pod(f"a{number}", of="a", size=4) for number in range(4)]
    assert all("in use" in bed.create(each) for each in pods)
    for each in pods:
        bed.virtual[each]["metadata"]["annotations"] = {"kueue.x-k8s.io/pod-group-total-count": "3"}
    assert all("'a" in (said := bed.create(each)) and "this pod gives it 3 pods" in said for each in pods[:3])
    assert "in use" in bed.create(pods[3])
    assert bed.queued == ["a0", "a1", "a2"], "no pod declares four any longer"
    assert all("the rest of its gang" in bed.create(each) for each in pods[:3])
    # One that is gone is told nothing.
    odd = bed.pod("odd", of="a", size=9)
    assert bed.create(odd).startswith("Malformed")
    bed.host_queue.forget(odd)
    for each in pods:
        bed.host_queue.forget(each)
    assert "odd" not in bed.queued


def test_item_96_a_pod_that_its_tenant_holds_back_keeps_no_other_out(bed: Bed) -> None:
    """The ledger admits none of those: were they in the way, what the tenant wants to start might wait for ever."""
    held, ready, more = bed.pod("held", 8, priority=9), bed.pod("ready", 6), bed.pod("more", 2)
    bed.virtual[held]["spec"]["schedulingGates"] = [{"name": "example.com/mine"}]
    assert not bed.create(held)
    assert bed.create(ready)
    assert bed.gives_way() == ["held"]
    bed.take_back(held)
    assert "comes before it" in bed.create(held)
    assert not bed.create(ready)
    assert bed.create(held)
    assert not bed.create(more), "nor does it where it waits"
    # The tenant lets it go: now it is the best of all.
    del bed.virtual[held]["spec"]["schedulingGates"]
    assert bed.create(held)
    assert bed.gives_way() == ["more", "ready"]


def test_item_96_a_pod_that_is_held_back_no_longer_keeps_its_place(bed: Bed) -> None:
    held, ready = bed.pod("held", 8), bed.pod("ready", 8)
    bed.virtual[held]["spec"]["schedulingGates"] = [{"name": "example.com/mine"}]
    assert not bed.create(held)
    del bed.virtual[held]["spec"]["schedulingGates"]
    bed.host_queue.virtual_changed(Change("modified", held, bed.virtual[held]["metadata"]))
    assert bed.create(ready)
    assert bed.gives_way() == []


def test_a_gate_that_the_host_has_put_on_a_pod_changes_nothing_of_the_order(bed: Bed) -> None:
    """A waiting pod does not have such a gate yet: if the gate counted, both would give up their place in turn."""
    first, second = bed.pod("first", 8), bed.pod("second", 8)
    assert not bed.create(first)
    host = bed.of(first)
    gates = [*host["spec"]["schedulingGates"], {"name": "example.com/hosts"}]
    bed.show(host | {"spec": host["spec"] | {"schedulingGates": gates}}, "modified")
    assert bed.create(second)
    assert bed.gives_way() == []


@pytest.mark.parametrize("made", ["", "0", "yesterday", "0000", "2026-01-01", "2026-01-01T00:00:00", " " * 9, ["1"], 3, None])
def test_a_time_that_no_api_server_writes_makes_no_pod_the_oldest(bed: Bed, made: Any) -> None:
    forged, honest = bed.pod("forged", 8, creationTimestamp=made), bed.pod("honest", 8)
    assert not bed.create(forged)
    assert bed.create(honest)
    assert bed.gives_way() == ["forged"]


def test_a_host_pod_that_was_seen_before_its_virtual_pod_has_the_age_of_that(bed: Bed) -> None:
    late, early = bed.pod("late", 8, creationTimestamp="2026-01-01T00:00:09Z"), bed.pod("early", 8)
    hidden = bed.virtual.pop(late)
    desired = pod.for_creation(hidden, VIEW, Around(gang.Groups()))
    meta = desired["metadata"] | {"uid": "h-late", "creationTimestamp": "2025-01-01T00:00:00Z"}
    bed.show(desired | {"metadata": meta, "status": {}})
    assert bed.create(early)
    assert not bed.host_queue.gives_way(late), "as old as its host pod, as far as is known"
    bed.virtual[late] = hidden
    bed.host_queue.virtual_changed(Change("added", late, hidden["metadata"]))
    assert bed.create(early)
    assert bed.host_queue.gives_way(late)


def test_item_96_the_hosts_own_count_takes_back_too_and_other_shortages_block_no_pod(bed: Bed) -> None:
    low, high = bed.pod("low", 2), bed.pod("high", 2, priority=5)
    assert not bed.create(low)
    desired = pod.for_creation(bed.virtual[high], VIEW)
    bed.host_queue.attempt(high, bed.virtual[high], desired)
    bed.host_queue.refused(high)
    assert bed.gives_way() == []
    assert not bed.create(bed.pod("later"))
    # Memory, which the syncer does not count and the host does.
    status = {"hard": {"requests.memory": "1Gi"}, "used": {"requests.memory": "1Gi"}}
    bed.quota["status"] = status
    bed.host_queue._limited = ("memory",)
    for key, priority in ((low, 0), (high, 5)):
        own = samples.merged(bed.virtual[key], {"spec": {"priority": priority}})
        own["spec"]["containers"][0]["resources"]["requests"] = {"memory": "1Gi"}
        bed.virtual[key] = own
    bed.show(bed.of(low), "deleted")
    assert not bed.create(low)
    bed.host_queue.attempt(high, bed.virtual[high], pod.for_creation(bed.virtual[high], VIEW))
    bed.host_queue.refused(high)
    assert bed.gives_way() == ["low"]


def test_item_96_the_hosts_priority_counts_before_the_tenants_own_as_far_as_it_is_known(bed: Bed) -> None:
    own, hosts = bed.pod("own", 8, priority=9), bed.pod("hosts", 8)
    bed.virtual[hosts]["spec"]["priorityClassName"] = "batch"
    desired = pod.for_creation(bed.virtual[hosts], VIEW)
    assert not bed.create(own)
    assert bed.create(hosts)
    assert bed.gives_way() == []
    bed.host_queue.made(desired, desired | {"spec": desired["spec"] | {"priority": 100}})
    assert bed.create(hosts)
    assert bed.gives_way() == ["own"]


def test_other_settings_forget_no_pod_that_is_on_the_host(bed: Bed) -> None:
    low, high = bed.pod("low", 8), bed.pod("high", 4, priority=5)
    assert not bed.create(low)
    bed.host_queue.recount()
    assert "nvidia.com/gpu" in bed.create(high)
    assert bed.gives_way() == ["low"]
    # A pod that gives up its place does so after the next settings too, and for no other pod.
    bed.host_queue.recount()
    assert bed.gives_way() == ["low"]
    bed.take_back(low)
    bed.host_queue.recount()
    assert not bed.create(high)
