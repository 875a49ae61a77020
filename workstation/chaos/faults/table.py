"""Which fault each experiment has."""

from collections.abc import Mapping
from typing import Final

from bulkhead.kube import resources as kinds
from workstation.chaos import objects
from workstation.chaos.faults import floods, hogs, killed
from workstation.chaos.faults.pending import NeverFits
from workstation.chaos.faults.scene import Fault
from workstation.chaos.faults.store import StoreFilled
from workstation.chaos.faults.webhooks import Webhook

FAULTS: Final[Mapping[str, Fault]] = {
    "plane-deleted": killed.PodsDeleted("the target's plane", killed.plane),
    "syncer-deleted": killed.PodsDeleted("the target's syncer", killed.syncer),
    "controller-deleted": killed.PodsDeleted("Bulkhead's controller", killed.controller),
    "webhook-fails": Webhook(),
    "webhook-slow": Webhook(slow_seconds=5),
    "objects-flood": floods.Flood(kinds.CONFIG_MAPS, floods.config_map),
    "definitions-flood": floods.Flood(kinds.CUSTOM_RESOURCE_DEFINITIONS, objects.definition),
    "events-flood": floods.Flood(kinds.EVENTS, floods.event),
    "watch-storm": floods.WatchStorm(),
    "gpu-never-fits": NeverFits(),
    "store-filled": StoreFilled(),
    "cpu-hog": hogs.CPU,
    "memory-hog": hogs.MEMORY,
    "processes-hog": hogs.PROCESSES,
}
