"""What nodes show to a tenant that borrows: as much as the host's quota lets it have, and no more than its own without one."""

from types import SimpleNamespace
from typing import Any

from bulkhead.api.objects import Obj
from bulkhead.kube.informer import Change
from bulkhead.kube.objects import Key, Meta
from syncer.quota.shares import EVERY, NodeShares
from syncer.work import Item

GPU, MIG = "nvidia.com/gpu", "nvidia.com/mig-1g.10gb"
QUOTA = Key("bh-team-a-work", "tenant-quota")


class Bed:
    """Two nodes of 8 GPUs, and a tenant with 4 of its own."""

    def __init__(self, *gated: str) -> None:
        self.quotas: dict[Key, Obj] = {}
        nodes = {Key("", name): {"status": {"allocatable": {GPU: "8", MIG: "7"}}} for name in ("a", "b")}
        settings = SimpleNamespace(
            gpu_resources=(GPU, MIG), gated_resources=gated, limits={GPU: 4, MIG: 2}, work_namespace=QUOTA.namespace
        )
        stores = {"Node": nodes, "ResourceQuota": self.quotas}
        caches: Any = SimpleNamespace(
            settings=settings, host={kind: SimpleNamespace(store=store) for kind, store in stores.items()}
        )
        self.queued: list[Item] = []
        queue: Any = SimpleNamespace(add_after=lambda item, *_: self.queued.append(item))
        self.shares = NodeShares(caches, queue)
        for key in nodes:
            self.shares.node_changed(Change("added", key, Meta(name=key.name)))

    def quota(self, hard: Any) -> bool:
        """The host's quota changes; whether the limit is shared out again."""
        self.quotas[QUOTA] = {"spec": {"hard": hard}}
        self.queued.clear()
        self.shares.quota_changed(Change("modified", QUOTA, Meta(name=QUOTA.name)))
        return self.queued == [EVERY]

    def shown(self, resource: str = GPU) -> list[int]:
        self.shares.share_out()
        return [self.shares.of(name)[resource] for name in ("a", "b")]


def test_what_others_lend_is_shown_and_no_longer_when_it_is_lent_no_more() -> None:
    bed = Bed(GPU)
    assert bed.shown() == [4, 0]
    assert bed.quota({f"requests.{GPU}": "12", f"requests.{MIG}": "2"})
    assert bed.shown() == [8, 4]
    assert not bed.quota({f"requests.{GPU}": "12", f"requests.{MIG}": "2", "pods": "7"}), "nothing that nodes show is another"
    assert bed.quota({f"requests.{GPU}": "4"})
    assert bed.shown() == [4, 0]


def test_what_it_does_not_borrow_is_what_its_settings_say() -> None:
    bed = Bed(GPU)
    bed.quota({f"requests.{GPU}": "6", f"requests.{MIG}": "7"})
    assert (bed.shown(), bed.shown(MIG)) == ([6, 0], [2, 0])
    alone = Bed()
    alone.quota({f"requests.{GPU}": "12"})
    assert alone.shown() == [4, 0]


def test_a_quota_that_says_nothing_leaves_it_its_own() -> None:
    for hard in (None, {}, {"pods": "7"}, "12"):
        bed = Bed(GPU)
        bed.quota(hard)
        assert bed.shown() == [4, 0]
