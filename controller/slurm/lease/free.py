"""Computes what a tenant's quota on the host still has for workers, by resource. Pure.

tenant-quota: hard - used ──────────────────────> most: what the host still accepts, including gated pods
its annotation with the ledger's numbers ───────> soon: what is left of nominal, and what could be borrowed now
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from bulkhead.api.accelerators import count
from bulkhead.api.ledger import read_standing
from bulkhead.api.untrusted import mapping
from controller.slurm.lease.fleet import Free, Worker
from controller.slurm.spec import NodeSetSpec


def free_of(quota: Mapping[str, Any] | None) -> dict[str, Free]:
    """The free quota by a ResourceQuota `tenant-quota`; a resource that the host does not count has no limit."""
    status = mapping(mapping(quota).get("status"))
    hard, used = mapping(status.get("hard")), mapping(status.get("used"))
    counted = [name for name in hard if name.startswith("requests.") and "/" in name]
    soon: dict[str, int] = {}
    standing = read_standing(mapping(mapping(mapping(quota).get("metadata")).get("annotations")))
    for (_, resource), counts in standing.items():
        mine = max(0, counts["nominal"] - counts["used"]) + counts["borrowable"]
        soon[resource] = soon.get(resource, 0) + mine
    return {
        (resource := name.removeprefix("requests.")): Free(
            max(0, count(hard[name]) - count(used.get(name))), soon.get(resource)
        )
        for name in counted
    }


def left(
    free: Mapping[str, Free], node_sets: Iterable[NodeSetSpec], workers: Iterable[Worker], on_host: frozenset[str] | None
) -> dict[str, Free]:
    """The same, minus the requests of workers that wait for a node.

    Workers in `on_host` are counted as used by the host already. If it is unknown which are there, none of them counts as such.
    """
    sets = {node_set.name: node_set for node_set in node_sets}
    most, soon = {name: room.most for name, room in free.items()}, {name: room.soon for name, room in free.items()}
    for worker in workers:
        node_set = sets.get(worker.node_set)
        if node_set is None or not node_set.gpus or not worker.live or worker.host_node or node_set.gpu_resource not in free:
            continue
        resource = node_set.gpu_resource
        if on_host is None or worker.name not in on_host:
            most[resource] -= node_set.gpus
        known = soon[resource]
        soon[resource] = None if known is None else max(0, known - node_set.gpus)
    return {name: replace(room, most=max(0, most[name]), soon=soon[name]) for name, room in free.items()}
