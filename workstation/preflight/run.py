"""One run, from the first request to the last deletion, within a minute whatever the cluster does.

    version ──> lists, APIs, rights, kubelets ───────────────────────────┐
           └──> a space ──> network, claims, images, GPUs, … at once ────┴──> Observed ──> judge ──> Report

Each part has the time that is left for probing; at its end, what is known counts. If cancelled, a run cleans up
and reports nothing.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any

from bulkhead.api.names import SYSTEM_NAMESPACE
from bulkhead.api.untrusted import mapping, text
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError
from workstation.preflight import observe
from workstation.preflight.facts import Listed, Observed, Phases, Probed, Pull, Unseen
from workstation.preflight.findings import Report
from workstation.preflight.judge import gpus, judge, storage
from workstation.preflight.judge import nodes as judge_nodes
from workstation.preflight.probes import network, objects, trials
from workstation.preflight.probes.space import Space, opened
from workstation.preflight.values import Values

# Fractions of the whole time: the end of probing, and the end of waiting until the probes are gone.
_PROBE_UNTIL = 0.73
_CLEAN_UNTIL = 0.95
# How long the pulls of all images wait for the network probes, which need only one of the images. On empty nodes all pulls
# would share the network to the registry, and the most important results would come last.
_PULLS_WAIT = 0.4
_NOT_SO_FAR = Unseen("the probes did not finish in time")
_CILIUM = "ciliumnetworkpolicies.cilium.io"

Say = Callable[[str], None]
Lists = Mapping[str, Listed]


@dataclass(frozen=True, slots=True)
class Order:
    """The options of a run, in addition to the values."""

    image: str | None = None
    registry_config: bytes | None = None
    shared_classes: tuple[str, ...] = ()
    namespace: str = SYSTEM_NAMESPACE
    seconds: float = 60.0


async def run(client: Client, values: Values, order: Order, say: Say) -> Report:
    """The whole run. Raises KubeError if the server does not answer at all."""
    clock = asyncio.get_running_loop().time
    begin = clock()
    say("asking for the version")
    version, there, here = await observe.version(client)
    say("reading the cluster, and starting the probes")
    probing = _Probing(values, order, say)
    async with asyncio.TaskGroup() as tasks:
        reading = tasks.create_task(observe.lists(client, order.namespace))
        groups = tasks.create_task(observe.groups(client))
        denied = tasks.create_task(observe.denied(client))
        kubelets = tasks.create_task(_kubelets(client, reading))
        tasks.create_task(probing.probe(client, reading, begin))
    observed = Observed(
        here=here,
        there=there,
        namespace=order.namespace,
        version=version,
        lists=reading.result(),
        groups=groups.result(),
        denied=denied.result(),
        kubelets=kubelets.result(),
        pod_security=probing.pod_security,
        phases=probing.phases,
        probes=probing.probes,
        claims=probing.claims,
        secrets=probing.secrets,
        pulls=probing.pulls or Unseen("no image was tested"),
    )
    return Report(client.config.server, clock() - begin, judge(observed, values), probing.left, probing.swept)


async def _kubelets(client: Client, reading: "asyncio.Task[dict[str, Listed]]") -> Mapping[str, Any]:
    return await observe.kubelets(client, judge_nodes.real(_known(await reading, "nodes")))


@dataclass(slots=True)
class _Probing:
    """Everything that needs pods, and its results so far; missing results were not decided in time."""

    values: Values
    order: Order
    say: Say
    phases: Phases | Unseen = _NOT_SO_FAR
    pod_security: bool | Unseen = _NOT_SO_FAR
    secrets: dict[str, str] = field(default_factory=dict)
    pulls: dict[str, Pull] = field(default_factory=dict)
    probes: dict[str, Probed] = field(default_factory=dict)
    claims: dict[str, Probed] = field(default_factory=dict)
    left: tuple[str, ...] = ()
    swept: tuple[str, ...] = ()

    async def probe(self, client: Client, reading: "asyncio.Task[dict[str, Listed]]", begin: float) -> None:
        """All of it. If a part fails as a whole, its error is the reason for every check that needs it."""
        try:
            async with opened(client, clean_until=begin + _CLEAN_UNTIL * self.order.seconds) as space:
                self.swept = space.swept
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout_at(begin + _PROBE_UNTIL * self.order.seconds):
                        await self._try_all(space, await reading)
                await self._collect(space)
                self.say("removing the probes")
            self.left = space.left
        except (KubeError, TimeoutError) as error:
            self.phases = self.pod_security = Unseen(
                f"the namespace for probes was not created: {error or 'no answer in time'}"
            )

    async def _try_all(self, space: Space, lists: Lists) -> None:
        values, order = self.values, self.order
        self.pod_security = await trials.pod_security(space)
        self.secrets |= await trials.copy_secrets(space, values.pull_secrets, order.namespace, order.registry_config)
        usable = tuple(name for name, wrong in self.secrets.items() if not wrong)
        shape = objects.shape(values, order.image, usable)
        nodes = _known(lists, "nodes")
        networked = asyncio.Event()
        parts: list[Coroutine[Any, Any, None]] = [
            self._network(space, shape, lists, networked),
            trials.user_namespace(space, shape),
            trials.gpu(space, shape, gpus.real_nodes(nodes, values.gpu_resources)),
            self._pulls(space, shape, judge_nodes.real(nodes), networked),
            *self._claims(space, shape, _known(lists, "storageclasses")),
        ]
        self.say(f"probing with pods in {space.name}")
        async with asyncio.TaskGroup() as tasks:
            for part in parts:
                tasks.create_task(_alone(part))

    async def _pulls(self, space: Space, shape: objects.Shape, nodes: list[str], networked: asyncio.Event) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PULLS_WAIT * self.order.seconds):
                await networked.wait()
        await trials.pulls(space, shape, self.values.images, nodes, self.pulls)

    async def _network(self, space: Space, shape: objects.Shape, lists: Lists, networked: asyncio.Event) -> None:
        try:
            await self._phases(space, shape, lists)
        finally:
            networked.set()

    async def _phases(self, space: Space, shape: objects.Shape, lists: Lists) -> None:
        api = network.api_targets(_known(lists, "host service"), _known(lists, "host api"))
        kinds = {text(mapping(crd.get("metadata")).get("name")) for crd in _known(lists, "customresourcedefinitions")}
        self.phases, found = await network.phases(space, shape, api, self.values.host_api, cilium=_CILIUM in kinds)
        self.probes |= found

    def _claims(
        self, space: Space, shape: objects.Shape, classes: tuple[Mapping[str, Any], ...]
    ) -> list[Coroutine[Any, Any, None]]:
        """The claims to test. A class that keeps volumes is not tested, because a volume would remain."""
        wanted = [
            ("claim-plane", storage.PLANE, each, "ReadWriteOnce")
            for each in storage.chosen(classes, self.values.storage_class)[:1]
        ]
        if self.values.with_slurm:
            shared = storage.shareable(classes, self.order.shared_classes)
            wanted += [
                (f"claim-shared-{number}", f"{storage.SHARED}{_name(each)}", each, "ReadWriteMany")
                for number, each in enumerate(shared)
            ]
        made = []
        for pod, purpose, found, mode in wanted:
            if storage.disposable(found):
                self.claims[purpose] = Probed(ran=False, trouble=pod, pending=True)
                made.append(trials.claim(space, shape, pod, _name(found), mode))
        return made

    async def _collect(self, space: Space) -> None:
        """The results of the pods, at the end of the time or earlier."""
        for purpose, waiting in list(self.claims.items()):
            self.claims[purpose] = await space.probed(waiting.trouble)
        for name in (*network.SERVERS, judge_nodes.USER_NAMESPACE, gpus.RUNTIME):
            if space.knows(name):
                self.probes[name] = await space.probed(name)
        if isinstance(self.phases, Unseen):
            silent = [name for name in network.SERVERS if not self.probes.get(name, Probed(ran=True)).ran]
            if silent:
                self.phases = Unseen(f"the probe pods did not run in time: {self.probes[silent[0]].trouble}")


async def _alone(part: Coroutine[Any, Any, None]) -> None:
    """Run a test. If it fails, its result stays unknown, and the other tests continue."""
    with contextlib.suppress(KubeError):
        await part


def _known(lists: Lists, name: str) -> tuple[Mapping[str, Any], ...]:
    found = lists.get(name, ())
    return () if isinstance(found, Unseen) else found


def _name(obj: Mapping[str, Any]) -> str:
    return text(mapping(obj.get("metadata")).get("name"))
