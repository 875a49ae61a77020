"""The namespace of a run, the present state of its pods, and their output.

    opened(client) ──> delete leftovers of earlier runs ──> namespace, account, pull secrets ──> Space
        Space.add(pod) ──> Space.probed(name): ran, or why it did not ──> the output of its program
    at every end, including a cancellation ──> delete pods, claims and the namespace, and wait while there is time

All pods are read with one list; nothing else is polled. Objects whose deletion a run could not wait for are in `left`.
"""

import asyncio
import contextlib
import json
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from bulkhead.api.conditions import condition_of
from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping, mappings, text
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError, NotFound
from workstation.preflight.facts import Probed
from workstation.preflight.probes import objects

_EVERY = 0.4
_LINES = 40
_LOG_BYTES = 65_536
_OLD = timedelta(minutes=3)  # a run takes one minute, and another admin's run may be in progress
_LEFT_SECONDS = 4.0
_SWEEP_SECONDS = 5.0
_MAKE_SECONDS = 8.0


class Space:
    """The namespace of one run: creates its pods, follows them to their end, and reports what each showed."""

    def __init__(self, client: Client, name: str, swept: tuple[str, ...] = ()) -> None:
        self.client = client
        self.swept = swept  # namespaces of runs that were killed
        self.name = name
        self.left: tuple[str, ...] = ()
        self.pods: Mapping[str, Obj] = {}
        self._refused: dict[str, str] = {}

    async def add(self, pod: Obj) -> None:
        """Create a pod; `probed` reports a refusal."""
        try:
            await self.client.create(kinds.PODS, pod, self.name)
        except KubeError as error:
            self.refuse(str(pod["metadata"]["name"]), str(error))

    def refuse(self, name: str, why: str) -> None:
        """Make `probed` report that a pod was not created."""
        self._refused[name] = why

    def knows(self, name: str) -> bool:
        """Whether this pod was requested."""
        return name in self.pods or name in self._refused

    async def until(self, name: str, done: Callable[[Obj], bool]) -> Obj | None:
        """The pod once it is so; None if it was refused, has ended, or cannot start. The caller sets a deadline."""
        while name not in self._refused:
            pod = self.pods.get(name)
            if pod is not None and done(pod):
                return pod
            if pod is not None and (phase(pod) in {"Failed", "Succeeded"} or _hopeless(pod)):
                return None
            await asyncio.sleep(_EVERY / 2)
        return None

    async def probed(self, name: str, *, said: bool = True) -> Probed:
        """The result of a pod."""
        if name in self._refused:
            return Probed(ran=False, trouble=self._refused[name])
        pod = self.pods.get(name)
        if pod is None:
            return Probed(ran=False, trouble="the pod did not appear in time", pending=True)
        ran = phase(pod) in {"Running", "Succeeded"}
        lines = await self.said(name) if said and phase(pod) != "Pending" else []
        trouble = "" if ran else trouble_of(pod) or await self._event(name)
        pending = not ran and phase(pod) == "Pending" and not _hopeless(pod)
        return Probed(ran, trouble, text(mapping(pod.get("spec")).get("nodeName")), tuple(lines), pending)

    async def said(self, name: str) -> list[Mapping[str, Any]]:
        """The last lines of a pod's program; empty if they cannot be read."""
        path = f"{kinds.PODS.path(self.name, name, 'log')}?tailLines={_LINES}&limitBytes={_LOG_BYTES}"
        try:
            data = await self.client.get_raw(path, timeout=5.0)
        except KubeError:
            return []
        return parsed(data)

    async def _event(self, name: str) -> str:
        """The last warning about a pod, or about a claim with its name."""
        try:
            found = await self.client.list(kinds.EVENTS, self.name, field_selector="type=Warning")
        except KubeError:
            return ""
        about = [event for event in found.items if text(mapping(event.get("involvedObject")).get("name")) == name]
        return f"{text(about[-1].get('reason'))}: {text(about[-1].get('message'))}" if about else ""

    async def watch(self) -> None:
        """Keep `pods` up to date until cancelled."""
        while True:
            with contextlib.suppress(KubeError):
                found = await self.client.list(kinds.PODS, self.name)
                self.pods = {text(pod["metadata"].get("name")): pod for pod in found.items}
            await asyncio.sleep(_EVERY)

    async def remove(self, until: float) -> None:
        """Delete everything, and wait until it is gone while there is time (by the loop's clock)."""
        now = asyncio.get_running_loop().time
        with contextlib.suppress(KubeError):
            pods = await self.client.list_metadata(kinds.PODS, self.name)
            claims = await self.client.list_metadata(kinds.PERSISTENT_VOLUME_CLAIMS, self.name)
            gone = [self.client.delete(kinds.PODS, pod["metadata"]["name"], self.name, grace_seconds=1) for pod in pods.items]
            gone += [
                self.client.delete(kinds.PERSISTENT_VOLUME_CLAIMS, claim["metadata"]["name"], self.name)
                for claim in claims.items
            ]
            await asyncio.gather(*gone, return_exceptions=True)
        self.left = (f"namespace {self.name}: {await self._delete_namespace()}",)
        while now() < until:
            try:
                await self.client.get(kinds.NAMESPACES, self.name)
            except NotFound:
                self.left = ()
                return
            except KubeError:
                pass
            await asyncio.sleep(_EVERY)

    async def _delete_namespace(self) -> str:
        for _ in range(3):
            try:
                await self.client.delete(kinds.NAMESPACES, self.name)
            except KubeError as error:
                problem = str(error)
                await asyncio.sleep(_EVERY)
            else:
                return "deletion was requested, but it was not gone yet"
        return f"not deleted: {problem}; delete it by hand, or run preflight again"


@contextlib.asynccontextmanager
async def opened(client: Client, *, clean_until: float) -> AsyncIterator[Space]:
    """A space for the duration of the block. Raises KubeError or TimeoutError if it cannot be created."""
    swept = await sweep(client)
    space = Space(client, f"{objects.PREFIX}{secrets.token_hex(4)}", swept)
    try:
        # Inside the block: the namespace may exist although the answer to its creation was lost.
        async with asyncio.timeout(_MAKE_SECONDS):
            await client.create(kinds.NAMESPACES, objects.namespace(space.name))
            await client.create(kinds.SERVICE_ACCOUNTS, objects.account(), space.name)
        watching = asyncio.create_task(space.watch())
        try:
            yield space
        finally:
            watching.cancel()
    except asyncio.CancelledError:
        # A user who interrupts waits only until the deletion is requested and has begun.
        clean_until = min(clean_until, asyncio.get_running_loop().time() + _LEFT_SECONDS)
        raise
    finally:
        # In a task of its own, so that a second cancellation does not end the cleanup.
        await asyncio.shield(asyncio.ensure_future(_removed(space, clean_until)))


async def _removed(space: Space, until: float) -> None:
    now = asyncio.get_running_loop().time()
    async with asyncio.timeout(max(_LEFT_SECONDS, until - now)):
        with contextlib.suppress(TimeoutError):
            await space.remove(until)


async def sweep(client: Client) -> tuple[str, ...]:
    """Request the deletion of what killed runs left, and return the names."""
    old: list[str] = []
    with contextlib.suppress(KubeError, TimeoutError):
        async with asyncio.timeout(_SWEEP_SECONDS):
            found = await client.list(kinds.NAMESPACES, label_selector=f"{objects.LABEL}=true")
            old = [
                str(namespace["metadata"]["name"]) for namespace in found.items if is_leftover(namespace, datetime.now(UTC))
            ][:20]
            await asyncio.gather(*(client.delete(kinds.NAMESPACES, name) for name in old), return_exceptions=True)
    return tuple(old)


def is_leftover(namespace: Mapping[str, Any], now: datetime) -> bool:
    """Whether a namespace belongs to a run that was killed: by label, name and age.

    The label is not enough, because any user who may label a namespace can set it; another admin's run may be in progress.
    """
    metadata = mapping(namespace.get("metadata"))
    try:
        born = datetime.fromisoformat(text(metadata.get("creationTimestamp")))
    except ValueError:
        return False
    labelled = mapping(metadata.get("labels")).get(objects.LABEL) == "true"
    return labelled and text(metadata.get("name")).startswith(objects.PREFIX) and born.tzinfo is not None and now - born > _OLD


def phase(pod: Mapping[str, Any]) -> str:
    """The pod's phase."""
    return text(mapping(pod.get("status")).get("phase")) or "Pending"


def address(pod: Obj) -> str:
    """The pod's address, once it runs."""
    return text(mapping(pod.get("status")).get("podIP")) if phase(pod) == "Running" else ""


def waiting(pod: Mapping[str, Any]) -> tuple[str, str]:
    """Why the pod's container waits: reason and message."""
    for status in mappings(mapping(pod.get("status")).get("containerStatuses"), 4):
        found = mapping(mapping(status.get("state")).get("waiting"))
        if found:
            return text(found.get("reason")), text(found.get("message"))
    return "", ""


def trouble_of(pod: Obj) -> str:
    """What keeps a pod from running, as the cluster reports it."""
    reason, message = waiting(pod)
    if reason and reason not in {"ContainerCreating", "PodInitializing"}:
        return f"{reason}: {message}"
    scheduled = condition_of(pod, "PodScheduled")
    if scheduled.get("status") == "False":
        return f"not scheduled: {text(scheduled.get('message'))}"
    for status in mappings(mapping(pod.get("status")).get("containerStatuses"), 4):
        ended = mapping(mapping(status.get("state")).get("terminated"))
        if ended:
            return f"{text(ended.get('reason'))}: {text(ended.get('message')) or 'exit code ' + str(ended.get('exitCode'))}"
    if not mapping(pod.get("spec")).get("nodeName"):
        return "no scheduler has looked at it"
    return text(mapping(pod.get("status")).get("message"))


_NEVER = frozenset({"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "RunContainerError"})


def _hopeless(pod: Obj) -> bool:
    return waiting(pod)[0] in _NEVER


def parsed(data: bytes) -> list[Mapping[str, Any]]:
    """The lines of the program, which are JSON objects; other lines are ignored."""
    found: list[Mapping[str, Any]] = []
    for line in data[-_LOG_BYTES:].splitlines()[-_LINES:]:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            found.append(value)
    return found
