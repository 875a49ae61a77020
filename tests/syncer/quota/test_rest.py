"""No two pods take each other's place in turn: with only its own queue, in any order, it comes to rest after whatever happened.

The gangs are unlikely on purpose: more pods than they declare, of several sizes and priorities, some of them held back.
"""

import random
from types import SimpleNamespace
from typing import Any

import pytest

from bulkhead.api import ledger
from bulkhead.api.objects import Obj
from bulkhead.kube.informer import Change
from bulkhead.kube.objects import Key, key_of
from syncer.quota.waiting import Starved
from syncer.translate import Untranslatable
from syncer.translate.kinds import gang, pod
from syncer.translate.kinds.gate import Around
from syncer.work import Item
from tests.syncer.quota.test_hostqueue import GPU, VIEW, Bed

_STEPS = 40
# Of all pods that there are each may be tried some times.
_MOST_TRIES = 3000


class Town(Bed):
    """A bed whose queue is worked off."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)  # noqa: S311
        super().__init__(limit=self.rng.choice((4, 8)))
        self.due: dict[Key, None] = {}
        queue: Any = SimpleNamespace(add=self._queue)
        self.starved = Starved(queue, quota=lambda _key: self.quota)

    def _queue(self, item: Item) -> None:
        self.due[item.key] = None

    def hosted(self, key: Key) -> Obj | None:
        return next((each for each in self.host.values() if each["metadata"]["uid"] == f"h-{key.name}"), None)

    def gone(self, host: Obj) -> None:
        self.show(host, "deleted")
        self.starved.gone(Change("deleted", key_of(host), host["metadata"]))

    def settle(self) -> None:
        for _ in range(_MOST_TRIES):
            if not self.due:
                return
            key = self.rng.choice(list(self.due))
            del self.due[key]
            self._reconcile(key)
        raise AssertionError(f"no rest: {sorted(key.name for key in self.due)} are tried again and again")

    def _reconcile(self, key: Key) -> None:
        host = self.hosted(key)
        if key not in self.virtual:
            self.host_queue.forget(key)
            self.starved.forget(key)
        elif host is not None:
            if self.host_queue.may_take_back(key, host):
                self.gone(host)
                self.due[key] = None
        elif "QuotaExceeded" in self._try(key):
            self.starved.add(key, rank=self.host_queue.rank(self.virtual[key]))
        else:
            self.starved.forget(key)

    def _try(self, key: Key) -> str:
        desired = pod.for_creation(self.virtual[key], VIEW, Around(gang.Groups()))
        try:
            self.host_queue.attempt(key, self.virtual[key], desired)
            self.claims.claim(key_of(desired), desired)
        except Untranslatable as refused:
            return str(refused.reason)
        self.show(desired | {"metadata": desired["metadata"] | {"uid": f"h-{key.name}"}, "status": {}})
        return ""

    def happen(self, number: int) -> None:
        rng, keys = self.rng, sorted(self.virtual)
        there = [each for each in keys if self.hosted(each) is not None]
        what = rng.random()
        if what < 0.4 or not keys:
            of, made = rng.choice(("", "", "g", "h")), f"2026-01-01T00:{rng.randint(0, 1):02}:{number:02}Z"
            key = self.pod(f"p{number}", rng.choice((1, 1, 2, 3, 4)), priority=rng.choice((0, 0, 1, 2)), of=of,
                           size=rng.choice((2, 2, 2, 3)), creationTimestamp=made)  # fmt: skip
            if rng.random() < 0.2:
                self.virtual[key]["spec"]["schedulingGates"] = [{"name": "example.com/mine"}]
        elif what < 0.55 and there:
            key = rng.choice(there)
            host = self.of(key)
            if ledger.ADMITTED in host["metadata"]["annotations"]:
                self._ends(key)
            else:
                self.admit(key)
        elif what < 0.75:
            key = rng.choice(keys)
            self._ends(key)
        elif what < 0.85:
            key = rng.choice(keys)
            self.virtual[key]["spec"].pop("schedulingGates", None)
            self.host_queue.virtual_changed(Change("modified", key, self.virtual[key]["metadata"]))
        else:
            key = rng.choice(keys)
            self.quota["spec"]["hard"][f"requests.{GPU}"] = str(rng.choice((3, 4, 6, 8)))
            self.starved.counted(Change("modified", Key("work", "tenant-quota"), self.virtual[key]["metadata"]))
        self.due[key] = None

    def _ends(self, key: Key) -> None:
        host = self.hosted(key)
        del self.virtual[key]
        if host is not None:
            self.gone(host)


@pytest.mark.parametrize("seed", range(40))
def test_it_comes_to_rest(seed: int) -> None:
    town = Town(seed)
    for number in range(_STEPS):
        town.happen(number)
        town.settle()
