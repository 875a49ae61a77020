"""Which connections succeed: before any policy, under the policies, and after them (`judge.network` lists the pods).

    servers run ──> clients get their addresses ──> settled: all pods reach each other
        ──> policies ──> settled: as the policies say ──> policies deleted ──> settled: all pods again

A phase ends as soon as its expectation has held for two rounds of every client, or else at its deadline with the state at that
time. Each client tries several times a second, always with a new connection, so open connections are not tested.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from bulkhead.api.untrusted import mapping, mappings, sequence, text
from bulkhead.kube import resources as kinds
from bulkhead.kube.errors import KubeError
from bulkhead.kube.objects import Resource
from workstation.preflight.facts import Obj, Phases, Probed, Reached, Unseen
from workstation.preflight.probes import objects
from workstation.preflight.probes.space import Space, address

SERVERS: Final = ("door", "open")
_SETTLE = {"before": 8.0, "under": 8.0, "anyhow": 6.0, "after": 8.0}
_CLOSED = frozenset({"outsider>door", "confined>door", "caller>open", "anywhere>open", "entity>open"})
_WAYS = ("caller>", "anywhere>", "entity>")
_CILIUM = Resource("cilium.io", "v2", "ciliumnetworkpolicies", "CiliumNetworkPolicy", True)
_EVERY = 0.5
# A round that began before a policy changed tells nothing about it.
_SKIPPED = 2

Expected = Callable[[str], bool | None]


@dataclass(frozen=True, slots=True)
class Round:
    """The last report of one client."""

    number: int
    reached: Mapping[str, bool]


async def phases(
    space: Space,
    shape: objects.Shape,
    api: Mapping[str, tuple[str, int]],
    host_api: tuple[tuple[str, int], ...],
    *,
    cilium: bool,
) -> tuple[Phases | Unseen, dict[str, Probed]]:
    """The three phases, or why there are none; and the results of the pods. The caller enforces the deadline."""
    for name in SERVERS:
        order = {"serve": objects.PORT, "facts": True}
        await space.add(objects.pod(shape, name, order))
    addresses = {}
    for name in SERVERS:
        found = await space.until(name, lambda pod: bool(address(pod)))
        if found is None:
            return await _not_run(space, SERVERS)
        addresses[name] = address(found)
    door, open_ = ((addresses[name], objects.PORT) for name in SERVERS)
    clients = {
        "allowed": {"door": door},
        "outsider": {"door": door, "open": open_},
        "confined": {"open": open_, "door": door, **{name: at for name, at in api.items() if name == "api"}},
        # If `open` is closed to these, their policies are in force.
        **{name: {"open": open_, **api} for name in ("caller", "anywhere", *(["entity"] if cilium else []))},
    }
    for name, targets in clients.items():
        await space.add(objects.pod(shape, name, {"try": targets}))
    for name in clients:
        if await space.until(name, lambda pod: bool(address(pod))) is None:
            return await _not_run(space, clients)
    return await _through(space, tuple(clients), _policies(host_api, cilium=cilium)), {
        name: await space.probed(name) for name in SERVERS
    }


async def _not_run(space: Space, names: Any) -> tuple[Unseen, dict[str, Probed]]:
    probed = {name: await space.probed(name) for name in names}
    troubles = [f"{name}: {result.trouble}" for name, result in probed.items() if not result.ran]
    return Unseen(f"the probe pods did not run: {'; '.join(troubles)}"), probed


def _policies(host_api: tuple[tuple[str, int], ...], *, cilium: bool) -> list[tuple[Resource, Obj]]:
    made: list[tuple[Resource, Obj]] = [(kinds.NETWORK_POLICIES, policy) for policy in objects.policies(host_api)]
    return [*made, (_CILIUM, objects.entity_policy())] if cilium else made


async def _through(space: Space, clients: tuple[str, ...], made: list[tuple[Resource, Obj]]) -> Phases | Unseen:
    before = await _settled(space, clients, lambda _pair: True, _SETTLE["before"])
    if not before:
        return Unseen("the probe pods ran, but their output could not be read (pods/log)")
    try:
        for kind, policy in made:
            await space.client.create(kind, dict(policy), space.name)
        under = await _settled(space, clients, _under, _SETTLE["under"])
        if any(_under(pair) not in {None, to} for pair, to in under.items()):
            under = await _settled(space, clients, _under_anyhow, _SETTLE["anyhow"])
    except KubeError as error:
        return Unseen(f"a NetworkPolicy could not be created: {error}")
    for kind, policy in made:
        with contextlib.suppress(KubeError):
            await space.client.delete(kind, policy["metadata"]["name"], space.name)
    return Phases(before, under, await _settled(space, clients, lambda _pair: True, _SETTLE["after"]))


def _under(pair: str) -> bool | None:
    return None if pair == "confined>api" else pair not in _CLOSED


def _under_anyhow(pair: str) -> bool | None:
    # Network plugins differ in how the API can be opened.
    return None if pair not in _CLOSED and pair.startswith(_WAYS) else _under(pair)


async def _settled(space: Space, clients: tuple[str, ...], expected: Expected, seconds: float) -> Reached:
    """Which connections succeed, once that is as expected or at the deadline."""
    floor = {name: found.number + _SKIPPED for name, found in (await _rounds(space, clients)).items()}
    met = 0
    found: dict[str, Round] = {}
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while met < 2:
                now = await _rounds(space, clients)
                fresh = {name: last for name, last in now.items() if last.number >= floor.get(name, 0)}
                news = all(fresh[name].number > found[name].number if name in found else True for name in fresh)
                complete = len(fresh) == len(clients)
                if complete and news:
                    met = met + 1 if all(expected(pair) in {None, to} for pair, to in flat(fresh).items()) else 0
                found |= fresh
                await asyncio.sleep(_EVERY)
    return flat(found)


def flat(rounds: Mapping[str, Round]) -> dict[str, bool | None]:
    """`client>server`, and whether the connection succeeded."""
    return {f"{client}>{server}": to for client, last in rounds.items() for server, to in last.reached.items()}


async def _rounds(space: Space, clients: tuple[str, ...]) -> dict[str, Round]:
    outputs = await asyncio.gather(*(space.said(name) for name in clients))
    found = {name: last_round(lines) for name, lines in zip(clients, outputs, strict=True)}
    return {name: last for name, last in found.items() if last is not None}


def last_round(lines: list[Mapping[str, Any]]) -> Round | None:
    """The last round that a client reported."""
    for line in reversed(lines):
        number = line.get("round")
        if isinstance(number, int):
            return Round(number, {text(name): to for name, to in mapping(line.get("reached")).items() if isinstance(to, bool)})
    return None


def api_targets(services: tuple[Obj, ...], slices: tuple[Obj, ...]) -> dict[str, tuple[str, int]]:
    """The addresses of the host's API for pods: the Service `kubernetes`, and up to three of the endpoints behind it."""
    found: dict[str, tuple[str, int]] = {}
    for service in services[:1]:
        spec = mapping(service.get("spec"))
        port = next((entry.get("port") for entry in mappings(spec.get("ports"), 4)), None)
        if text(spec.get("clusterIP")) and isinstance(port, int):
            found["api"] = (text(spec["clusterIP"]), port)
    behind = [
        (text(at), port.get("port"))
        for each in slices[:4]
        for port in mappings(each.get("ports"), 1)
        for endpoint in mappings(each.get("endpoints"), 8)
        for at in sequence(endpoint.get("addresses"))[:1]
    ]
    known = [(at, port) for at, port in behind if at and isinstance(port, int)][:3]
    return found | {f"endpoint-{number}": at for number, at in enumerate(known)}
