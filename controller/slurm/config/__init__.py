"""Renders the text files of a Slurm cluster from the templates in this folder.

Pure. Undefined names are errors. Every expression of a template passes `words.checked`, so each value is one word or one quoted
text; otherwise nothing is rendered.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import jinja2

from bulkhead.api.slurm import MOST_NODES, NODE_SET_NAME, RESERVED_NODE_SETS
from controller.slurm.config import known
from controller.slurm.config.words import checked
from controller.slurm.spec import (
    MARIADB,
    MARIADB_PORT,
    SLURMCTLD,
    SLURMCTLD_PORT,
    SLURMD_PORT,
    SLURMDBD,
    SLURMDBD_PORT,
    TOKEN_KEY,
    NodeSetSpec,
    Pairs,
    SlurmSpec,
    image,
)

TOPOLOGY: Final = "platform"  # the name of the topology; a node's place in it reads platform:<unit>
ROOT_SWITCH: Final = "fabric"
UNPLACED: Final = "unplaced"  # the unit of workers whose node is not known yet: their jobs run meanwhile

MOST_RETIRING: Final = 64

_JWT_KEY: Final = f"jwt_key={image.RUN_KEYS}/{TOKEN_KEY}"
_TEMPLATES: Final = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent),
    undefined=jinja2.StrictUndefined,
    finalize=checked,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
    autoescape=False,  # noqa: S701 - no HTML; `finalize` refuses what these files cannot hold
)

_METRICS_USERS: Final = "MetricsAuthUsers"
_METRICS_OPEN: Final = "metricsparameters"

# Keys that a tenant may change by its extraConf; all other keys are in the template.
_SETTINGS: Final[Pairs] = (
    ("SlurmctldParameters", "enable_configless,reconfig_on_restart"),
    ("SlurmdParameters", "config_overrides"),
    ("SelectTypeParameters", "CR_Core_Memory"),
    ("SchedulerParameters", "bf_continue,bf_interval=10,bf_max_job_test=1000"),
    ("SlurmctldTimeout", "60"),
    ("SlurmdTimeout", "60"),
    ("MessageTimeout", "20"),
    # A login pod's limits say nothing about a worker's, which could not raise its own.
    ("PropagateResourceLimits", "NONE"),
    ("PreemptMode", "REQUEUE"),
    # slurmctld serves metrics without a token unless a user is named here, and they show what every user runs.
    (_METRICS_USERS, "slurm"),
)
# Fair share and age have a weight only with accounting, because they are computed from the database.
_WITH_ACCOUNTING: Final[Pairs] = (
    ("AccountingStorageTRES", "gres/gpu"),
    ("PriorityDecayHalfLife", "7-0"),
    ("PriorityMaxAge", "7-0"),
    ("PriorityWeightAge", "1000"),
    ("PriorityWeightFairshare", "10000"),
    ("PriorityWeightJobSize", "1000"),
    ("PriorityWeightPartition", "1000"),
    ("PriorityWeightQOS", "100000"),
)


@dataclass(frozen=True, slots=True)
class _Partition:
    name: str
    enabled: bool
    words: Pairs


@dataclass(frozen=True, slots=True)
class _Gres:
    nodes: str
    type: str
    files: str


def config_files(spec: SlurmSpec) -> dict[str, str]:
    """The files of ConfigMap `slurm-config`."""
    return {
        "slurm.conf": slurm_conf(spec),
        "gres.conf": gres_conf(spec),
        "cgroup.conf": cgroup_conf(),
        "topology.yaml": topology_yaml(spec),
    }


def slurm_conf(spec: SlurmSpec) -> str:
    """slurm.conf: the platform's keys, then settings with the tenant's over ours, then node sets and partitions."""
    return _TEMPLATES.get_template("slurm.conf.j2").render(
        spec=spec,
        image=image,
        ctld=SLURMCTLD,
        ctld_address=spec.service(SLURMCTLD),
        ctld_port=SLURMCTLD_PORT,
        slurmd_port=SLURMD_PORT,
        dbd_address=spec.service(SLURMDBD),
        dbd_port=SLURMDBD_PORT,
        jwt_key=_JWT_KEY,
        settings=settings(spec),
        partitions=_partitions(spec),
    )


def settings(spec: SlurmSpec) -> Pairs:
    """The keys that a tenant may change: its value replaces ours, or follows ours if the value is a list."""
    ours = dict(_SETTINGS + (_WITH_ACCOUNTING if spec.accounting else ()))
    own = {key.lower(): (key, value) for key, value in spec.extra_conf}
    if _METRICS_OPEN in own:
        # This key opens the metrics to all users, and Slurm obeys it only if no user is named.
        del ours[_METRICS_USERS]
    result: dict[str, str] = {}
    for key, value in ours.items():
        given = own.pop(key.lower(), None)
        if given is None:
            result[key] = value
        elif key.lower() in known.MERGED:
            result[key] = ",".join(part for part in (value, given[1].strip('"')) if part)
        else:
            result[key] = given[1]
    return (*result.items(), *own.values())


def gres_conf(spec: SlurmSpec) -> str:
    """gres.conf: for every node set the files that its image's entrypoint makes, as many as each of its pods holds GPUs."""
    sets = [_gres(node_set) for node_set in (*spec.node_sets, *spec.retiring_gpus[:MOST_RETIRING]) if node_set.gpus]
    return _TEMPLATES.get_template("gres.conf.j2").render(sets=sets)


def cgroup_conf() -> str:
    """cgroup.conf: none are used, so that a worker needs no privilege and runs on any host."""
    return _TEMPLATES.get_template("cgroup.conf.j2").render()


def topology_yaml(spec: SlurmSpec) -> str:
    """topology.yaml: the units of the tenant's nodes; workers join their unit once they have been placed."""
    return _TEMPLATES.get_template("topology.yaml.j2").render(
        kind=spec.topology.kind, units=(UNPLACED, *spec.topology.units), name=TOPOLOGY, root=ROOT_SWITCH
    )


def slurmdbd_conf(spec: SlurmSpec, password: str) -> str:
    """slurmdbd.conf; it contains the database's password, so it is stored in a Secret."""
    return _TEMPLATES.get_template("slurmdbd.conf.j2").render(
        dbd=SLURMDBD,
        dbd_address=spec.service(SLURMDBD),
        dbd_port=SLURMDBD_PORT,
        database_address=spec.service(MARIADB),
        database_port=MARIADB_PORT,
        jwt_key=_JWT_KEY,
        password=password,
    )


def _partitions(spec: SlurmSpec) -> list[_Partition]:
    named = next((node_set.name for node_set in spec.node_sets if node_set.partition.is_default), None)
    first = named or next((node_set.name for node_set in spec.node_sets if node_set.partition.enabled), None)
    kept = [
        _Partition(node_set.name, node_set.partition.enabled, _partition_words(node_set, default=node_set.name == first))
        for node_set in spec.node_sets
    ]
    return [*kept, *(_Partition(name, enabled=True, words=(("State", "DOWN"),)) for name in _retiring(spec))]


def _retiring(spec: SlurmSpec) -> list[str]:
    """The names of node sets that are being removed. They come from the plane, where a tenant may have invented any."""
    names = [name for name in spec.retiring if re.fullmatch(NODE_SET_NAME, name) and name not in RESERVED_NODE_SETS]
    return names[:MOST_RETIRING]


def _partition_words(node_set: NodeSetSpec, *, default: bool) -> Pairs:
    own = {key.lower() for key, _ in node_set.partition.config}
    usual: list[tuple[str, str]] = [("Default", "YES" if default else "NO"), ("State", "UP"), ("MaxTime", "UNLIMITED")]
    if not own & {"defmempercpu", "defmempergpu", "defmempernode"}:
        # Without a default, a job that requests no memory takes all memory of its node, and no other job runs there.
        usual.append(("DefMemPerCPU", str(max(1, node_set.memory_mib // node_set.cpus))))
    return (*((key, value) for key, value in usual if key.lower() not in own), *node_set.partition.config)


def _gres(node_set: NodeSetSpec) -> _Gres:
    return _Gres(
        # Every possible worker: a worker beyond a lowered `max` keeps its GPUs until it has been released.
        nodes=f"{node_set.name}-[0-{MOST_NODES - 1}]",
        type=node_set.gpu_type,
        files=f"{image.GPU_FILES}[0-{node_set.gpus - 1}]",
    )
