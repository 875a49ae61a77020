"""Which pods leave their budgets when a drain has waited for long enough, and which budgets are counted again."""

from types import SimpleNamespace
from typing import Any

from bulkhead.api import labels as marks
from bulkhead.api.objects import Obj
from bulkhead.kube.errors import NotFound
from bulkhead.kube.informer import Change
from bulkhead.kube.objects import Key, Meta
from syncer.drains import Drains
from syncer.mirrors.budgets import Budgets
from syncer.translate.kinds import disruptionbudget, drain
from syncer.work import Item
from tests.kit.fakeclock import FakeClock

HOUR = 3600


class Store(dict[Key, Obj]):
    def objects(self) -> list[Obj]:
        return list(self.values())

    def metas(self) -> list[Meta]:
        return [meta_of(each) for each in self.values()]


def meta_of(obj: Obj) -> Meta:
    return Meta(name=obj["metadata"]["name"], namespace="work", labels=dict(obj["metadata"].get("labels") or {}))


class Host:
    """One tenant's pods on the host, and what is written there."""

    def __init__(self, seconds: int = HOUR) -> None:
        self.clock = FakeClock()
        self.queued: list[Item] = []
        self.told: list[tuple[str, str]] = []
        self.gone: set[str] = set()
        self.nodes, self.pods, self.virtual, self.budgets = Store(), Store(), Store(), Store()
        self.settings = SimpleNamespace(drain_seconds=seconds)
        caches: Any = SimpleNamespace(
            settings=self.settings,
            host={"Node": SimpleNamespace(store=self.nodes), "Pod": SimpleNamespace(store=self.pods)},
            virtual={disruptionbudget.KIND: SimpleNamespace(store=self.budgets)},
            virtual_pod=self.virtual.get,
            origin=lambda _meta: SimpleNamespace(namespace="space"),
        )
        queue: Any = SimpleNamespace(add=lambda item, _lane=None: self.queued.append(item))
        recorder: Any = SimpleNamespace(warn=lambda obj, reason, text: self.told.append((obj["metadata"]["name"], text)))
        self.drains = Drains(caches, queue, self, recorder, self.clock)  # type: ignore[arg-type]  # what it calls of a writer
        self.counts = Budgets(caches, queue)

    async def patch(self, _resource: object, key: Key, body: Obj) -> Obj:
        if key.name in self.gone:
            raise NotFound(404, "NotFound", "gone")
        pod = self.pods[key]
        assert body["metadata"]["uid"] == pod["metadata"]["uid"]
        labels = pod["metadata"]["labels"] | body["metadata"]["labels"]
        self.pod(key.name, pod["spec"]["nodeName"], **{each: value for each, value in labels.items() if value is not None})
        return pod

    def pod(self, name: str, node: str, **labels: str) -> None:
        notes = {marks.VIRTUAL_NAMESPACE: "space", marks.VIRTUAL_NAME: name}
        meta = {"name": name, "namespace": "work", "uid": f"u-{name}", "labels": labels, "annotations": notes}
        key = Key("work", name)
        kind: Any = "modified" if key in self.pods else "added"
        self.pods[key] = {"metadata": meta, "spec": {"nodeName": node}}
        self.virtual[Key("space", name)] = {"metadata": {"name": name, "namespace": "space", "labels": {"app": name}}}
        self.heard(Change(kind, key, meta_of(self.pods[key])))

    def heard(self, change: Change) -> None:
        for part in (self.drains, self.counts):
            for each in part.subscriptions():
                if each.kind == "Pod":
                    each.listener(change)

    def node(self, name: str, *, cordoned: bool = True) -> None:
        taint = {"key": "node.kubernetes.io/unschedulable", "timeAdded": "2026-01-01T00:00:00Z"}
        self.nodes[Key("", name)] = {"metadata": {"name": name}, "spec": {"unschedulable": cordoned, "taints": [taint]}}

    async def look(self, name: str) -> float | None:
        return await self.drains.reconcile(Key("", name))

    def labelled(self) -> list[str]:
        return sorted(key.name for key, pod in self.pods.items() if drain.DRAINED in pod["metadata"]["labels"])


async def test_pods_of_a_drained_node_leave_their_budgets_at_the_deadline_and_come_back_when_it_is_open() -> None:
    host = Host()
    for name, node in (("a", "one"), ("b", "one"), ("c", "two")):
        host.pod(name, node)
    for name in ("one", "two"):
        host.node(name, cordoned=name == "one")
    host.budgets[Key("space", "keep")] = {
        "metadata": {"name": "keep", "namespace": "space"}, "spec": {"selector": {"matchLabels": {"app": "a"}}},
    }  # fmt: skip
    assert await host.look("one") == HOUR
    host.clock.advance(HOUR - 60)
    assert (await host.look("one"), host.labelled()) == (60.0, [])
    host.clock.advance(60)
    host.gone.add("b")
    assert (await host.look("one"), await host.look("two"), host.labelled()) == (None, None, ["a"])
    host.gone.clear()
    assert (await host.look("one"), host.labelled()) == (None, ["a", "b"])
    # Only who has a budget is told, and once.
    ((name, text),) = host.told
    assert (name, "node one" in text, "2026-01-01T00:00:00Z" in text, "(keep)" in text) == ("a", True, True, True)
    host.nodes.pop(Key("", "one"))
    assert (await host.look("one"), host.labelled()) == (None, ["a", "b"])
    host.node("one", cordoned=False)
    assert (await host.look("one"), host.labelled()) == (None, [])


async def test_what_comes_to_a_node_past_its_deadline_is_looked_at() -> None:
    host = Host(0)
    host.node("one")
    await host.look("one")
    host.pod("late", "one")
    assert Item(drain.KIND, Key("", "one")) in host.queued
    host.queued.clear()
    host.pod("elsewhere", "two")
    assert host.queued == []


async def test_another_deadline_counts_for_drains_that_are_under_way() -> None:
    host = Host()
    host.node("one")
    host.pod("a", "one")
    host.clock.advance(120)
    assert await host.look("one") == HOUR - 120
    host.settings.drain_seconds = 60
    assert (await host.look("one"), host.labelled()) == (None, ["a"])


async def test_a_class_may_say_never() -> None:
    host = Host(-1)
    host.node("one")
    host.pod("a", "one")
    host.clock.advance(10**8)
    assert (await host.look("one"), host.labelled()) == (None, [])


async def test_budgets_are_counted_again_when_a_pod_comes_goes_or_is_drained() -> None:
    host = Host(0)
    budget = Item(disruptionbudget.KIND, Key("space", "keep"))
    for namespace in ("space", "other"):
        host.budgets[Key(namespace, "keep")] = {"metadata": {"name": "keep", "namespace": namespace}, "spec": {}}

    def counted() -> list[Item]:
        found = [each for each in host.queued if each.kind == disruptionbudget.KIND]
        host.queued.clear()
        return found

    host.pod("a", "one")
    assert counted() == [budget]
    # A status changes often, and causes no recount.
    host.pod("a", "one")
    assert counted() == []
    host.pod("a", "one", app="other")
    assert counted() == [budget], "with other labels it may be of other budgets"
    host.node("one")
    await host.look("one")
    assert counted() == [budget]
    host.heard(Change("deleted", Key("work", "a"), Meta(name="a", namespace="work")))
    assert counted() == [budget]
