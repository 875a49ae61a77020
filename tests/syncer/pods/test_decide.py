"""What is decided for a pod: the table of `decisions.yaml` row by row, and what holds for every pair of pods whatsoever."""

from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkhead.api import labels as marks
from bulkhead.api import ledger
from bulkhead.api.objects import Obj
from bulkhead.api.podphase import has_ended, placed_on
from bulkhead.api.untrusted import mapping
from syncer.pods.actions import (
    Answer,
    Bind,
    Confirm,
    CreateHost,
    DeleteMisplaced,
    DeleteOrphan,
    DeletePredecessor,
    DeleteVirtual,
    Deletion,
    EndHost,
    EvictVirtual,
    Follow,
    NotePlaced,
    PodAction,
    ReadHost,
    ReadVirtual,
    Repin,
    Step,
    uid,
)
from syncer.pods.decide import UNREAD, Memory, Reads, decide, has_started, may_have_predecessor
from syncer.translate.origin import virtual_uid
from tests.kit import yamlfiles

TABLE: dict[str, list[dict[str, Any]]] = yamlfiles.load(Path(__file__).with_name("decisions.yaml"))
ROWS = [pytest.param(row, id=f"{line}: {row['case']}") for line, rows in TABLE.items() for row in rows]


def pod(row: dict[str, Any]) -> Obj:
    """A pod of either side, from what a row says of it."""
    meta: Obj = {"uid": row["uid"], "name": "web", "namespace": "space"}
    if "of" in row:
        meta["annotations"] = {marks.VIRTUAL_UID: row["of"]}
        meta["labels"] = {} if row.get("unmarked") else {marks.SYNCED: marks.SYNCED_BY_SYNCER}
    if "deleting" in row:
        meta |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": row["deleting"]}
    if "noted" in row:
        meta["annotations"] |= dict.fromkeys(row["noted"], "{}")
    if "finalizers" in row:
        meta["finalizers"] = row["finalizers"]
    status: Obj = {"phase": row["phase"]} if "phase" in row else {}
    if row.get("started"):
        status["startTime"] = "2026-01-01T00:00:00Z"
    if row.get("scheduled"):
        status["conditions"] = [{"type": "PodScheduled", "status": "True"}]
    spec: Obj = {"nodeName": row["node"]} if "node" in row else {}
    if "pinned" in row:
        terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [each]}]} for each in row["pinned"]]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        spec["affinity"] = {"nodeAffinity": required}
    if row.get("gated"):
        spec["schedulingGates"] = [{"name": ledger.GATE}]
    return {"metadata": meta, "spec": spec, "status": status}


def answer(row: Any) -> Answer:
    return Answer(None if row == "none" else pod(row))


def shown(value: Any) -> str:
    if isinstance(value, Answer):
        return "none" if value.pod is None else uid(value.pod)
    return uid(value) if isinstance(value, dict) else str(value)


def written(action: PodAction) -> str:
    """An action as the table writes it."""
    parts = ", ".join(f"{each.name}={shown(getattr(action, each.name))}" for each in fields(action))
    return f"{type(action).__name__}({parts})"


@pytest.mark.parametrize("row", ROWS)
def test_the_table(row: dict[str, Any]) -> None:
    assert set(row) <= {"case", "virtual", "host", "memory", "read", "decision"}
    virtual, host = (pod(row[side]) if side in row else None for side in ("virtual", "host"))
    reads = Reads(**{side: answer(said) for side, said in row.get("read", {}).items()})
    assert written(decide(virtual, host, Memory(**row.get("memory", {})), reads)) == row["decision"]


def test_the_table_has_every_action() -> None:
    named = {row["decision"].partition("(")[0] for rows in TABLE.values() for row in rows}
    assert named == {each.__name__ for each in get_args(PodAction)}
    assert set(get_args(Deletion)) < set(get_args(Step)) < set(get_args(PodAction))


ANYTHING = st.sampled_from([None, "", 0, 1, -1, 5, 10**12, True, 1.5, "soon", [], ["x"], {}, {"type": "PodScheduled"}])
UIDS = st.sampled_from(["a", "b"])
STATUSES = ANYTHING | st.fixed_dictionaries(
    {},
    optional={
        "phase": ANYTHING | st.sampled_from(["Pending", "Running", "Succeeded", "Failed"]),
        "startTime": ANYTHING,
        "conditions": ANYTHING | st.just([{"type": "PodScheduled", "status": "True"}, "x", None]),
    },
)
SPECS = st.none() | st.fixed_dictionaries({}, optional={"nodeName": ANYTHING | st.sampled_from(["node-a", "node-b"])})
META: dict[str, Any] = {
    "deletionTimestamp": ANYTHING,
    "deletionGracePeriodSeconds": ANYTHING,
    "finalizers": ANYTHING,
}


@st.composite
def pods(draw: st.DrawFn, *, host: bool) -> Obj:
    """A pod as no API server should give it, but for the metadata that an informer insists on."""
    meta: Obj = {"uid": draw(UIDS)} | draw(st.fixed_dictionaries({}, optional=META))
    if host:
        meta["uid"] = f"host-{meta['uid']}"
        meta["labels"] = draw(st.sampled_from([None, {}, {marks.SYNCED: marks.SYNCED_BY_SYNCER}]))
        meta["annotations"] = draw(st.none() | st.fixed_dictionaries({}, optional={marks.VIRTUAL_UID: UIDS}))
    pod: Obj = {"metadata": meta}
    return pod | draw(st.fixed_dictionaries({}, optional={"spec": SPECS, "status": STATUSES}))


VIRTUAL, HOST = pods(host=False), pods(host=True)
READS = st.builds(
    Reads, virtual=st.none() | st.builds(Answer, st.none() | VIRTUAL), host=st.none() | st.builds(Answer, st.none() | HOST)
)
MEMORY = st.builds(
    Memory,
    expected=st.sampled_from(["", "a", "b"]),
    may_be_there=st.booleans(),
    superseded=st.booleans(),
    recreated=st.booleans(),
    had_host=st.booleans(),
    placed=st.booleans(),
    went_placed=st.booleans(),
    went_ended=st.booleans(),
    deletion_observed=st.booleans(),
    namespace_ending=st.booleans(),
    behind=st.booleans(),
    max_grace=st.integers(1, 7200),
)
ANY = {"virtual": st.none() | VIRTUAL, "host": st.none() | HOST, "memory": MEMORY, "reads": READS}


def of(answered: Answer | None, virtual: Obj) -> bool:
    """Whether the host answered with the host pod of this virtual one."""
    return answered is not None and answered.host_pod_of(uid(virtual)) is not None


@given(**ANY)
def test_there_is_an_answer_and_always_the_same(virtual: Obj | None, host: Obj | None, memory: Memory, reads: Reads) -> None:
    action = decide(virtual, host, memory, reads)
    assert isinstance(action, get_args(PodAction))
    assert action == decide(virtual, host, memory, reads)


def steps(virtual: Obj | None, host: Obj | None, memory: Memory, servers: Reads) -> Iterator[PodAction]:
    """The actions of one reconcile, where these are the servers' answers."""
    reads = UNREAD
    while True:
        action = decide(virtual, host, memory, reads)
        yield action
        match action:
            case ReadHost():
                assert reads.host is None, "asked twice"
                reads = replace(reads, host=servers.host)
            case ReadVirtual():
                assert reads.virtual is None, "asked twice"
                reads = replace(reads, virtual=servers.virtual)
            case Confirm():
                memory = replace(memory, superseded=False, expected="")
            case NotePlaced():
                assert not memory.placed, "noted twice"
                memory = replace(memory, placed=True)
            case _:
                return


@given(**ANY)
def test_each_server_is_asked_once_at_most(virtual: Obj | None, host: Obj | None, memory: Memory, reads: Reads) -> None:
    servers = Reads(reads.virtual or Answer(None), reads.host or Answer(None))
    assert len(list(steps(virtual, host, memory, servers))) <= 5


@given(**ANY)
def test_none_is_created_while_one_may_be_there_nor_after_it_was_placed(
    virtual: Obj | None, host: Obj | None, memory: Memory, reads: Reads
) -> None:
    action = decide(virtual, host, memory, reads)
    if not isinstance(action, CreateHost):
        return
    assert virtual is not None
    assert host is None
    assert uid(action.virtual) == uid(virtual)
    assert not has_started(action.virtual, memory)
    assert not has_ended(action.virtual)
    assert not memory.namespace_ending
    assert not memory.went_placed
    assert not may_have_predecessor(virtual, host, memory, reads)
    # Of one that had a host pod before the plane itself says that it was not placed.
    assert not memory.had_host or (reads.virtual is not None and action.virtual is reads.virtual.pod)
    # And of one whose host pod may be there before the host itself says that it is not.
    assert not memory.may_be_there or (reads.host is not None and not of(reads.host, virtual))


@given(**ANY)
def test_a_virtual_pod_is_deleted_for_the_reasons_named_alone(
    virtual: Obj | None, host: Obj | None, memory: Memory, reads: Reads
) -> None:
    action = decide(virtual, host, memory, reads)
    match action:
        case DeleteVirtual():
            assert virtual is not None
            assert host is None
            assert reads.host is not None
            assert not of(reads.host, virtual)
            # It ran, or the tenant deleted it.
            assert has_started(action.virtual, memory) or virtual["metadata"]["deletionTimestamp"]
        case EvictVirtual():
            assert host is not None
            assert host["metadata"]["deletionTimestamp"]
            assert not memory.recreated or host["spec"]["nodeName"]
        case DeleteMisplaced():
            assert virtual is not None
            assert host is not None
            assert virtual["spec"]["nodeName"] != host["spec"]["nodeName"]
        case _:
            return
    assert uid(action.virtual) == uid(virtual or {})


@given(**ANY)
def test_a_host_pod_is_deleted_with_proof_and_grace(
    virtual: Obj | None, host: Obj | None, memory: Memory, reads: Reads
) -> None:
    action = decide(virtual, host, memory, reads)
    match action:
        case EndHost():
            assert virtual is not None
            assert virtual["metadata"]["deletionTimestamp"]
            assert virtual_uid(action.host) == uid(virtual)
        case DeleteOrphan() | DeletePredecessor():
            assert action.absence is reads.virtual
            assert not action.absence.has(virtual_uid(action.host))
            assert not action.host["metadata"].get("deletionTimestamp")
            assert virtual is None or uid(virtual) != virtual_uid(action.host)
        case _:
            return
    assert action.grace is None or 1 <= action.grace <= memory.max_grace
    assert action.again == (1.0 if memory.expected else None)


@given(**ANY)
def test_the_plane_hears_nothing_of_a_place_that_is_not_noted(
    virtual: Obj | None, host: Obj | None, memory: Memory, reads: Reads
) -> None:
    action = decide(virtual, host, memory, reads)
    if isinstance(action, (Bind, Follow, EvictVirtual, DeleteMisplaced)) and placed_on(host or {}):
        assert memory.placed


@given(**ANY)
def test_what_a_tenant_wrote_of_a_place_starts_nothing_and_ends_nothing(
    virtual: Obj | None, host: Obj | None, memory: Memory, reads: Reads
) -> None:
    if virtual is None:
        return
    forged = {"conditions": [{"type": "PodScheduled", "status": "True"}]}
    told = virtual | {"status": mapping(virtual.get("status")) | forged}
    assert type(decide(told, host, memory, reads)) is type(decide(virtual, host, memory, reads))


@given(**ANY)
def test_only_a_host_pod_without_a_node_is_recreated_for_the_tenants(
    virtual: Obj | None, host: Obj | None, memory: Memory, reads: Reads
) -> None:
    action = decide(virtual, host, memory, reads)
    if isinstance(action, Repin):
        assert not placed_on(action.host)
        assert placed_on(action.virtual)
        assert not has_started(action.virtual, memory)
        assert not action.host["metadata"].get("deletionTimestamp")


def test_a_deletion_without_its_proof_cannot_be_built() -> None:
    there, host = Answer(pod({"uid": "v1"})), pod({"uid": "h1", "of": "v1"})
    with pytest.raises(ValueError, match="is there"):
        DeleteOrphan(host, there, 1, None)
    with pytest.raises(ValueError, match="is there"):
        DeletePredecessor(host, there, 1, None)
    with pytest.raises(ValueError, match="is there"):
        DeleteVirtual(pod({"uid": "v1"}), Answer(host), lost=False, why="")
    for virtual in (pod({"uid": "v1"}), pod({"uid": "v2", "deleting": 30})):
        with pytest.raises(ValueError, match="not pending deletion"):
            EndHost(virtual, host, 1, None)
