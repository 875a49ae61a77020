"""What a fault may use, the shape of every fault, and the check that a target works again."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol

from bulkhead.api import labels, names
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError
from bulkhead.kube.objects import Resource
from workstation.chaos import objects
from workstation.chaos.experiments import Experiment
from workstation.chaos.judge import Proof
from workstation.chaos.record import Entry

_WORKS_SECONDS: Final = 20.0
_EMPTY_SECONDS: Final = 90.0
_POLL_SECONDS: Final = 0.3


@dataclass(frozen=True, slots=True)
class Scene:
    """One experiment: the host and the target's plane, as their admin, and where to write what is about to be done."""

    host: Client
    plane: Client
    run: str
    target: str
    # Whether the run created the target, so that nothing in it has to be undone one by one.
    own_target: bool
    namespace: str
    image: str
    seconds: float
    experiment: Experiment
    intend: Callable[..., Awaitable[None]]

    @property
    def space(self) -> str:
        """The run's namespace in the target."""
        return objects.space(self.run)

    @property
    def selector(self) -> str:
        """Selects what the run created."""
        return objects.selector(self.run)

    async def will(self, note: str, *entries: Entry) -> None:
        """Record what is about to be done. Raises KubeError, and then it must not be done."""
        await self.intend(f"{self.experiment.name}: {note}", *(() if self.own_target else entries))


class Fault(Protocol):
    """The shape of every fault. Each call may take as long as its scene's seconds, and is cut off some time later."""

    async def inject(self, scene: Scene) -> list[Proof]:
        """Break the target, and return the evidence."""
        ...

    async def lift(self, scene: Scene) -> None:
        """Undo what an admin would undo. It is called in any case, also after half an injection."""
        ...

    async def recovered(self, scene: Scene) -> str:
        """What is still missing until the target works again; empty if nothing is."""
        ...


async def works(scene: Scene) -> str:
    """Why the target does not work; empty if it does: it accepts a Service, and its syncer brings it to the host."""
    name = f"beat-{secrets.token_hex(4)}"
    try:
        async with asyncio.timeout(_WORKS_SECONDS):
            made = await scene.plane.create(kinds.SERVICES, objects.service(scene.run, name))
            mirrored = f"{labels.VIRTUAL_UID}={made['metadata']['uid']}"
            while True:
                if (await scene.host.list_metadata(kinds.SERVICES, work(scene), label_selector=mirrored)).items:
                    return ""
                await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError:
        return f"a new Service did not reach the host within {_WORKS_SECONDS:g} s"
    except KubeError as error:
        return f"a new Service was not accepted: {error}"
    finally:
        with suppress(KubeError):
            await scene.plane.delete(kinds.SERVICES, name, scene.space)


def work(scene: Scene) -> str:
    """The host namespace of the target's objects."""
    return names.work_namespace(scene.target)


async def emptied(scene: Scene, r: Resource) -> None:
    """Delete all labelled objects of a kind in the target, as one request that is repeated while some are left."""
    namespace = scene.space if r.namespaced else None
    clock = asyncio.get_running_loop().time
    end = clock() + _EMPTY_SECONDS
    while clock() < end:
        with suppress(KubeError):
            await scene.plane.transport.request("DELETE", r.path(namespace), params={"labelSelector": scene.selector})
        with suppress(KubeError):
            if not (await scene.plane.list_metadata(r, namespace, label_selector=scene.selector)).items:
                return
        await asyncio.sleep(_POLL_SECONDS)
