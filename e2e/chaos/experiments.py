"""The experiments: their words in `experiments.yaml`, and the fault of each by the same name here.

To add one: a small class in a module of `faults`, a line here, and its words there. `docs/chaos-experiments.md` is made of
both. What an experiment needs beyond a tenant is a word in `needs`: the runner gives it such a target, or skips it with the
fault's own sentence (`Fault.unmet`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, get_args

import yaml

from e2e.chaos.faults import (
    clocks,
    crashes,
    crowds,
    disks,
    execs,
    floods,
    keys,
    neighbours,
    network,
    nodes,
    platform,
    slurm,
    stores,
    syncers,
    webhooks,
)
from e2e.chaos.faults.fault import Fault

WORDS: Final = Path(__file__).with_name("experiments.yaml")
# Whose failures are expected: the target tenant's; the controller's; or those of the whole platform, where planes still serve.
Target = Literal["tenant", "controller", "platform"]
# What the target has to be: any tenant; one in Slurm mode; one with three members; any tenant on a host of several real nodes.
Needs = Literal["", "slurm", "members", "nodes"]


@dataclass(frozen=True, slots=True)
class Experiment:
    """One fault, its target, what is expected of it, and how long the target may take to work again."""

    name: str
    title: str
    fault: Fault
    recover_within: float
    target: Target = "tenant"
    family: str = ""
    hypothesis: str = ""
    needs: Needs = ""
    may_lose: bool = False  # the target's data, and with it the pods that are to stay
    only_measured: bool = False  # others' latency, of which nothing is promised during this fault; their requests still succeed


FAULTS: Final[Mapping[str, Fault]] = {
    "apiserver-killed": crashes.KillApiServer(),
    "apiserver-frozen": crashes.Freeze("kube-apiserver", 30),
    "apiserver-killed-creating": crashes.KillApiServerWhileCreating(),
    "apiserver-memory": crashes.OutOfMemory(),
    "etcd-frozen": crashes.Freeze("etcd", 60),
    "etcd-killed-writing": crashes.KillEtcdWhileWriting(6),
    "etcd-memory": crashes.OutOfMemory("etcd", "etcd"),
    "manager-killed": crashes.KillControllerManager(),
    "plane-killed": crashes.KillProgramsAtOnce(),
    "syncer-killed": syncers.KillSyncerBeforeStatus(),
    "syncer-killed-boundaries": syncers.KillSyncerAtBoundaries(),
    "syncer-frozen": syncers.FreezeSyncer(40),
    "syncer-twice": syncers.TwoSyncers(),
    "store-full": stores.FullStore(),
    "store-overwritten": stores.DamagedStore("database overwritten"),
    "log-truncated": stores.DamagedStore("log truncated"),
    "log-overwritten": stores.DamagedStore("log overwritten"),
    "store-older": stores.OlderStore(),
    "volume-lost": stores.LostVolume(),
    "member-lost": stores.LostMember(),
    "keys-lost": keys.LostKeys(),
    "certificates-expired": keys.ExpiredCertificates(),
    "webhook-closed": webhooks.FailClosedWebhook(),
    "webhook-slow": webhooks.AnsweringWebhook(delay=8.0),
    "webhook-large": webhooks.AnsweringWebhook(size=25000000),
    "flood": floods.Flood(),
    "flood-events": floods.FloodOfEvents(),
    "flood-pods": floods.FloodOfPods(),
    "flood-logs": crowds.FloodOfLogs(),
    "flood-execs": execs.OpenExecs(),
    "flood-watches": crowds.WatchesAndLists(),
    "affinity-terms": floods.ManyTerms(),
    "drain-refused": floods.Unevictable(),
    "partition-plane": network.Partition("plane", "both", 45),
    "partition-host": network.Partition("host", "both", 45),
    "partition-one-way": network.Partition("plane", "back", 30),
    "member-apart": network.MemberApart(),
    "packets-lost": network.Loss(),
    "line-narrow": network.NarrowLine(),
    "line-late": network.Delay(),
    "names-away": network.WithoutNames(),
    "registry-away": network.WithoutRegistry(),
    "disk-slow": disks.SlowDisk(),
    "disk-failing": disks.FailingDisk(),
    "disk-full": disks.FailingDisk(error="ENOSPC", calls="write,pwrite64,fallocate", files="/member/"),
    "clock-syncer": clocks.WrongClock("syncer"),
    "clock-controller": clocks.WrongClock("controller"),
    "controller-killed": platform.KillControllerMidway(),
    "controller-killed-steps": platform.KillControllerAtSteps(),
    "leader-frozen": platform.FrozenLeader(),
    "syncers-restarted": platform.KillAllSyncers(),
    "host-api-killed": platform.KillHostPart("kube-apiserver"),
    "host-api-frozen": platform.FreezeHostPart("kube-apiserver", 20),
    "host-api-busy": platform.BusyHostApi(),
    "host-etcd-killed": platform.KillHostPart("etcd"),
    "host-etcd-frozen": platform.FreezeHostPart("etcd", 15),
    "noise-cpu": neighbours.Noise("cpu"),
    "noise-memory": neighbours.Noise("memory"),
    "noise-processes": neighbours.Noise("processes"),
    "noise-network": neighbours.Noise("network"),
    "noise-disk": neighbours.Noise("disk"),
    "slurm-array": slurm.EndlessArray(),
    "slurm-controller-killed": slurm.KillSlurmController(),
    "node-killed": nodes.LoseNode("killed"),
    "node-paused": nodes.LoseNode("paused"),
    "node-cut": nodes.LoseNode("cut"),
}

# The same faults with the same proofs for a short run: they last less long, or are smaller.
_SHORT: Final[Mapping[str, tuple[str, Fault]]] = {
    "webhook-closed": ("webhook in A fails closed on everything", webhooks.FailClosedWebhook(8)),
    "etcd-frozen": ("etcd of A frozen for 15 s", crashes.Freeze("etcd", 15)),
    "flood": ("1,000 ConfigMaps and 40 CRDs in A", floods.Flood(1000, 40)),
    "partition-plane": ("A's syncer cut off from its plane for 12 s", network.Partition("plane", "both", 12)),
}

ALL: Final = "all"  # instead of a name
# What `--short` without names runs: one for each way in which a fault could spread, less than 8 minutes together.
GATE: Final = ("syncer-killed", "webhook-closed", "etcd-frozen", "flood", "partition-plane", "controller-killed")


def read(words: Mapping[str, Any], faults: Mapping[str, Fault]) -> tuple[Experiment, ...]:
    """The experiments in the order of their words. Raises `ValueError` where one has a fault alone, or words alone."""
    about = {name: (family, entry) for family, entries in words.items() for name, entry in entries.items()}
    if odd := sorted(set(about) ^ set(faults)):
        raise ValueError(f"experiments with a fault or with words alone: {', '.join(odd)}")
    made = []
    for name, (family, entry) in about.items():
        target, needs = entry.get("target", "tenant"), entry.get("needs", "")
        if target not in get_args(Target) or needs not in get_args(Needs):
            raise ValueError(f"{name}: target {target!r} or needs {needs!r} is not one of those that there are")
        title, within, hypothesis = str(entry["title"]), float(entry["within"]), str(entry["hypothesis"])
        lost, latency = bool(entry.get("loses", False)), entry.get("latency", "promised")
        if latency not in {"promised", "measured"}:
            raise ValueError(f"{name}: latency must be promised or measured, not {latency!r}")
        measured = latency == "measured"
        made.append(Experiment(name, title, faults[name], within, target, family, hypothesis, needs, lost, measured))
    return tuple(made)


EXPERIMENTS: Final = read(yaml.safe_load(WORDS.read_text()), FAULTS)

SHORT: Final[Mapping[str, Experiment]] = {
    item.name: replace(item, title=_SHORT[item.name][0], fault=_SHORT[item.name][1])
    for item in EXPERIMENTS
    if item.name in _SHORT
}


def shortened(experiments: Sequence[Experiment]) -> tuple[Experiment, ...]:
    """The same experiments; those that have a short form are in it."""
    return tuple(SHORT.get(item.name, item) for item in experiments)


def selected(wanted: Sequence[str], *, short: bool) -> tuple[Experiment, ...]:
    """The experiments with these names. Without names those of a run: all of them, or the gate's few. `ALL` is each of them."""
    known = {item.name: item for item in EXPERIMENTS}
    names = [name for given in wanted for name in (known if given == ALL else [given])]
    names = names or [name for name in known if name in GATE or not short]
    unknown = sorted(set(names) - set(known))
    if unknown:
        raise ValueError(f"no experiment is called {', '.join(unknown)}; there are: {ALL}, {', '.join(known)}")
    found = tuple(known[name] for name in names)
    return shortened(found) if short else found
