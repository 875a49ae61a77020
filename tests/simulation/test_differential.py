"""Keeps the simulation honest: the same random calls on a real kube-apiserver and on the simulation, and the same answers.

Both are reached through the real client. What must differ (UIDs, versions, times) is left out, and so is what the simulation
does not claim to know: `_UNKNOWN`, with the reasons in docs/decisions/0015-simulation.md.
"""

import asyncio
import os
import random
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.errors import ApiError
from bulkhead.kube.objects import Resource
from bulkhead.kube.resources import CONFIG_MAPS, NAMESPACES, PODS, SECRETS, SERVICES
from tests.simulation import wire
from tests.simulation.api import Api
from tests.simulation.faults import Faults

STRATEGIC: Final = "application/strategic-merge-patch+json"
_OPERATIONS: Final = 60
_KINDS: Final = (PODS, CONFIG_MAPS, SECRETS, SERVICES)
_LAST: Final = "last"  # the object after which no more events come
_VOLATILE: Final = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "selfLink", "namespace")
_UNKNOWN: Final = frozenset({"clusterIP", "clusterIPs", "nodePort", "lastTransitionTime", "observedGeneration"})


@dataclass
class Side:
    """One of the two servers, and what was learnt of its objects."""

    client: Client
    space: str
    first: dict[tuple[Resource, str], str] = field(default_factory=dict)  # the version that an object had first

    async def now(self, r: Resource, name: str) -> Obj:
        try:
            return await self.client.get(r, name, self.space)
        except ApiError:
            return {"metadata": {"uid": "none", "resourceVersion": "1"}}

    async def meta(self, r: Resource, name: str, uid: str, version: str) -> Obj:
        """Preconditions: each right, wrong or absent."""
        held = (await self.now(r, name))["metadata"]
        self.first.setdefault((r, name), held["resourceVersion"])
        made: Obj = {}
        if uid:
            made["uid"] = held["uid"] if uid == "right" else "00000000-0000-0000-0000-000000000000"
        if version:
            made["resourceVersion"] = held["resourceVersion"] if version == "right" else self.first[r, name]
        return made


Operation = Callable[[Side], Any]


def plain(value: Any) -> Any:
    """An answer without what differs by nature."""
    if isinstance(value, dict):
        found = {key: plain(item) for key, item in value.items() if key not in _UNKNOWN}
        meta = found.get("metadata")
        if isinstance(meta, dict):
            for gone in _VOLATILE:
                meta.pop(gone, None)
            if "deletionTimestamp" in meta:
                meta["deletionTimestamp"] = "set"
        return {key: item for key, item in found.items() if item not in (None, {}, [])}
    return [plain(item) for item in value] if isinstance(value, list) else value


def differing(real: Any, simulated: Any, path: str = "") -> list[str]:
    """Where two answers differ."""
    if isinstance(real, dict) and isinstance(simulated, dict):
        keys = sorted({*real, *simulated})
        return [each for key in keys for each in differing(real.get(key), simulated.get(key), f"{path}.{key}")]
    return [] if real == simulated else [f"{path}: real {real!r}, simulated {simulated!r}"]


async def outcome(call: Any) -> tuple[str, Any]:
    try:
        answer = await call
    except ApiError as error:
        return f"{type(error).__name__} {error.status}", error.reason
    if answer is None or answer.get("kind") in {"Status", "Binding"}:
        return "ok", None
    return "ok", plain(answer)


def operations(rng: random.Random) -> tuple[str, Operation]:
    """One call to make on both sides."""
    name = rng.choice(("a", "b"))
    uid, version = rng.choice(("", "", "right", "wrong")), rng.choice(("", "", "right", "first"))
    made = rng.choice(_ALL)(rng, name, uid, version)
    return f"{made[0]} {name} uid={uid} version={version}", made[1]


def create_pod(rng: random.Random, name: str, *_: str) -> tuple[str, Operation]:
    finalizers = ["example.com/hold"] if rng.random() < 0.25 else []
    gates = [{"name": "example.com/gate"}, {"name": "example.com/other"}] if rng.random() < 0.25 else []
    limits = {"limits": {"nvidia.com/gpu": "1"}} if rng.random() < 0.3 else {}
    body: Obj = {
        "metadata": {"name": name, "labels": {"app": name}, "finalizers": finalizers},
        "spec": {
            "containers": [{"name": "main", "image": "busybox:1.36", "resources": limits}],
            "schedulingGates": gates,
            "automountServiceAccountToken": False,
            "volumes": [{"name": "config", "configMap": {"name": "config"}}],
        },
    }
    return f"create pod finalizers={bool(finalizers)} gates={bool(gates)}", lambda s: s.client.create(PODS, body, s.space)


def bind(rng: random.Random, name: str, uid: str, _version: str) -> tuple[str, Operation]:
    async def call(side: Side) -> Obj:
        meta = {"name": name} | await side.meta(PODS, name, uid, "")
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": {"kind": "Node", "name": "node-1"}}
        return await side.client.create_subresource(PODS, name, "binding", body, side.space)

    return "bind", call


def report(rng: random.Random, name: str, uid: str, version: str) -> tuple[str, Operation]:
    phase = rng.choice(("Running", "Succeeded"))
    conditions = [{"type": "Ready", "status": "True"}, {"type": "PodScheduled", "status": "True"}]
    kind = rng.choice((STRATEGIC, "application/merge-patch+json"))

    async def call(side: Side) -> Obj:
        body = {"metadata": await side.meta(PODS, name, uid, version), "status": {"phase": phase, "conditions": conditions}}
        return await side.client.patch(PODS, name, body, side.space, subresource="status", content_type=kind)

    return f"report {phase} {kind.split('-')[0]}", call


def change_pod(rng: random.Random, name: str, uid: str, version: str) -> tuple[str, Operation]:
    kind, body = rng.choice(
        (
            ("merge", {"metadata": {"labels": {"step": str(rng.randrange(3)), "app": None}}}),
            ("strategic", {"metadata": {"annotations": {"step": str(rng.randrange(3))}}}),
            ("strategic", {"spec": {"containers": [{"name": "main", "image": f"busybox:{rng.randrange(2)}"}]}}),
            ("strategic", {"spec": {"schedulingGates": [{"name": "example.com/gate", "$patch": "delete"}]}}),
            ("merge", {"spec": {"activeDeadlineSeconds": 100}}),
            ("merge", {"spec": {"restartPolicy": "Never"}}),
            ("merge", {"spec": {"terminationGracePeriodSeconds": 7}}),
            ("merge", {"metadata": {"finalizers": None}}),
            ("merge", {"status": {"phase": "Running"}}),
        )
    )
    content = STRATEGIC if kind == "strategic" else "application/merge-patch+json"

    async def call(side: Side) -> Obj:
        meta = (body.get("metadata") or {}) | await side.meta(PODS, name, uid, version)
        return await side.client.patch(PODS, name, body | {"metadata": meta}, side.space, content_type=content)

    return f"patch pod {kind} {body}", call


def end_pod(rng: random.Random, name: str, uid: str, version: str) -> tuple[str, Operation]:
    grace = rng.choice((None, 0, 5, 60))

    async def call(side: Side) -> Any:
        meta = await side.meta(PODS, name, uid, version)
        return await side.client.delete(
            PODS, name, side.space, grace_seconds=grace, uid=meta.get("uid"), resource_version=meta.get("resourceVersion")
        )

    return f"delete pod grace={grace}", call


def _content(r: Resource, rng: random.Random) -> Obj:
    if r == SERVICES:
        return {
            "spec": {"clusterIP": "None", "ports": [{"name": "http", "port": rng.choice((80, 81))}], "selector": {"app": "a"}}
        }
    value = rng.choice(("MQ==", "Mg=="))
    kind = {"type": rng.choice(("Opaque", "example.com/other"))} if r == SECRETS else {}
    return {"data": {"value": value}} | kind | ({"immutable": True} if rng.random() < 0.1 else {})


def create_plain(rng: random.Random, name: str, *_: str) -> tuple[str, Operation]:
    r = rng.choice((CONFIG_MAPS, SECRETS, SERVICES))
    body = {"metadata": {"name": name}} | _content(r, rng)
    return f"create {r}", lambda side: side.client.create(r, body, side.space)


def replace_plain(rng: random.Random, name: str, uid: str, version: str) -> tuple[str, Operation]:
    r = rng.choice((CONFIG_MAPS, SECRETS))
    content = _content(r, rng)

    async def call(side: Side) -> Obj:
        meta = {"name": name, "namespace": side.space} | await side.meta(r, name, uid, version)
        return await side.client.replace(r, {"apiVersion": "v1", "kind": r.kind, "metadata": meta} | content)

    return f"replace {r} {content}", call


def change_plain(rng: random.Random, name: str, uid: str, version: str) -> tuple[str, Operation]:
    r = rng.choice((CONFIG_MAPS, SECRETS, SERVICES))
    content = _content(r, rng)

    async def call(side: Side) -> Obj:
        return await side.client.patch(r, name, {"metadata": await side.meta(r, name, uid, version)} | content, side.space)

    return f"patch {r} {content}", call


def end_plain(rng: random.Random, name: str, uid: str, version: str) -> tuple[str, Operation]:
    r = rng.choice((CONFIG_MAPS, SECRETS, SERVICES))

    async def call(side: Side) -> Any:
        meta = await side.meta(r, name, uid, version)
        done = await side.client.delete(r, name, side.space, uid=meta.get("uid"), resource_version=meta.get("resourceVersion"))
        return done if r != SERVICES else None

    return f"delete {r}", call


def look(rng: random.Random, name: str, *_: str) -> tuple[str, Operation]:
    r = rng.choice((PODS, CONFIG_MAPS, SECRETS, SERVICES))
    return f"get {r}", lambda side: side.client.get(r, name, side.space)


_ALL: Final = (create_pod, create_pod, bind, report, change_pod, change_pod, end_pod, end_pod, create_plain, replace_plain,
               change_plain, end_plain, look)  # fmt: skip


Event = tuple[str, str, Any]


async def end(side: Side) -> None:
    """Make one object more of each kind: what a watch shows before it is all that happened."""
    pod = {"spec": {"containers": [{"name": "main", "image": "busybox:1.36"}], "automountServiceAccountToken": False}}
    service = {"spec": {"clusterIP": "None", "ports": [{"name": "http", "port": 80}]}}
    for r, content in {PODS: pod, CONFIG_MAPS: {}, SECRETS: {}, SERVICES: service}.items():
        await side.client.create(r, {"metadata": {"name": _LAST}} | content, side.space)


async def events(side: Side, r: Resource, since: str) -> list[Event]:
    """What a watch shows of everything that happened before the end."""
    found: list[Event] = []
    async with asyncio.timeout(30):
        async for event in side.client.watch(r, side.space, resource_version=since):
            if event.key.name == _LAST:
                return found
            if event.type != "BOOKMARK":
                found.append((event.type, event.key.name, plain(event.object())))
    raise AssertionError(f"the watch of {r} ended before the last object")


def differing_events(real: list[Event], simulated: list[Event]) -> list[str]:
    """Where two watches differ: in the first event that does, or in how many there are."""
    for number, (one, other) in enumerate(zip(real, simulated, strict=False)):
        found = differing({"event": list(one[:2])}, {"event": list(other[:2])}) or differing(one[2], other[2])
        if found:
            return [f"event {number}: {each}" for each in found]
    rest = [("real", each) for each in real[len(simulated) :]] + [("simulated", each) for each in simulated[len(real) :]]
    return [f"{side} alone: {kind} {name}" for side, (kind, name, _) in rest]


async def compare(real: Client, seed: int) -> None:
    rng = random.Random(seed)
    api = Api("sim", asyncio.get_running_loop().time)
    life = wire.Life(random.Random(seed), lambda: None, latency=0.001)
    fake = wire.client(api, Faults(random.Random(seed)), life, "tests")
    space = f"diff-{secrets.token_hex(4)}"
    sides = (Side(real, space), Side(fake, space))
    for side in sides:
        await side.client.create(NAMESPACES, {"metadata": {"name": space}})
    starts = [{r: (await side.client.list(r, space)).resource_version for r in _KINDS} for side in sides]
    before: list[str] = []
    for _ in range(_OPERATIONS):
        what, call = operations(rng)
        answers = [await outcome(call(side)) for side in sides]
        before.append(f"{what} -> {answers[0][0]}")
        found = differing({"answer": list(answers[0])}, {"answer": list(answers[1])})
        if answers[0][0] == answers[1][0] == "ok":
            found = differing(answers[0][1], answers[1][1])
        assert not found, f"seed {seed}: " + "; ".join(found) + "\nafter:\n" + "\n".join(before[-12:])
    for side in sides:
        await end(side)
    shown = 0
    for r in _KINDS:
        real_ones, simulated = [await events(side, r, start[r]) for side, start in zip(sides, starts, strict=True)]
        shown += len(real_ones)
        found = differing_events(real_ones, simulated)
        assert not found, f"seed {seed}: {r}: " + "; ".join(found) + "\nof:\n" + "\n".join(before)
    assert shown, f"seed {seed}: no event of anything\nof:\n" + "\n".join(before)


MADE: Event = ("ADDED", "a", {"data": {"value": "MQ=="}})
GONE: Event = ("DELETED", "a", {"data": {"value": "MQ=="}})


@pytest.mark.parametrize(
    ("real", "simulated", "found"),
    [
        ([MADE, GONE], [MADE, GONE], []),
        ([MADE, GONE], [MADE], ["real alone: DELETED a"]),
        ([MADE], [], ["real alone: ADDED a"]),
        ([], [MADE], ["simulated alone: ADDED a"]),
        ([MADE], [GONE], ["event 0: .event: real ['ADDED', 'a'], simulated ['DELETED', 'a']"]),
        ([MADE], [("ADDED", "a", {})], ["event 0: .data: real {'value': 'MQ=='}, simulated None"]),
    ],
    ids=[
        "same",
        "the real server shows more",
        "the simulation shows nothing",
        "it shows more",
        "another event",
        "another object",
    ],
)
def test_watches_that_differ_are_found(real: list[Event], simulated: list[Event], found: list[str]) -> None:
    assert differing_events(real, simulated) == found


@pytest.mark.parametrize("seed", range(3))
async def test_the_simulation_answers_as_an_api_server_does(host_client: Client, seed: int) -> None:
    await compare(host_client, seed)


@pytest.mark.simulation
@pytest.mark.timeout(900)
async def test_many_sequences(host_client: Client) -> None:
    for seed in range(100, 100 + int(os.environ.get("SIMULATION_SEQUENCES", "40"))):
        await compare(host_client, seed)
