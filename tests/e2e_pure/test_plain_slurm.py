"""The plain side of the Slurm benchmark: a tenant's slurm.conf keeps its scheduling and changes its places."""

import pytest

from e2e.performance.plain_slurm import CONTROLLER_PORT, FIRST_NODE_PORT, PlainNode, plain_config

TENANT = """\
# Made by Bulkhead. A=B
ClusterName=red
SlurmctldHost=slurmctld-0(slurmctld.slurm.svc.cluster.local)
SlurmctldPort=6817
SlurmUser=slurm
StateSaveLocation=/var/spool/slurmctld
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=/run/keys/jwt_hs256.key
TaskPlugin=task/none
SelectType=select/cons_tres
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageTRES=gres/gpu
SlurmctldParameters=enable_configless,reconfig_on_restart
SchedulerParameters=bf_continue,bf_interval=10
NodeSet=cpu Feature=cpu
PartitionName=cpu Nodes=cpu Default=YES
"""


def lines() -> list[str]:
    return plain_config(TENANT, "machine", ["plain-0", "plain-1"], PlainNode(cpus=3, memory_mib=700)).splitlines()


@pytest.mark.parametrize(
    "line",
    [
        "SlurmUser=slurm",
        "TaskPlugin=task/none",
        "SelectType=select/cons_tres",
        "SchedulerParameters=bf_continue,bf_interval=10",
    ],
)
def test_scheduling_stays_word_for_word(line: str) -> None:
    assert line in lines()


@pytest.mark.parametrize(
    "word", ["slurmctld-0", "jwt", "slurmdbd", "gres/gpu", "configless", "Feature=cpu", "ClusterName=red", "#"]
)
def test_nothing_of_the_tenants_place_is_left(word: str) -> None:
    assert not [line for line in lines() if word in line]


def test_nodes_differ_by_port_alone() -> None:
    nodes = [line for line in lines() if line.startswith("NodeName=")]
    size = "CPUs=3 RealMemory=700"
    assert nodes == [
        f"NodeName=plain-{index} NodeHostname=machine NodeAddr=127.0.0.1 Port={FIRST_NODE_PORT + index} {size}"
        for index in (0, 1)
    ]
    assert f"SlurmctldPort={CONTROLLER_PORT}" in lines()


def test_every_key_stands_once_but_for_nodes() -> None:
    keys = [line.partition("=")[0] for line in lines() if not line.startswith("NodeName")]
    assert len(keys) == len(set(keys))
