"""Level 2: hostile pods in a plane, between two real API servers with the real syncer.

    pod of a case ──> the plane's API server ─┬─> refuses it
                                              └─> syncer ─┬─> a warning with reason and field, nothing on the host
                                                                     └─> a host pod that is exactly what translation makes of it

What translation is to make of a case, level 1 holds against the case's own table. The controls: both outcomes were seen often,
and the honest pod, to which attacks are added as changes, was mirrored before.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube.client import MERGE_PATCH, Client
from bulkhead.kube.errors import ApiError
from bulkhead.kube.resources import PODS
from syncer.pods.changes import changes
from syncer.translate import Untranslatable, diff
from syncer.translate.kinds import pod as pods
from tests.adversarial import smuggled
from tests.adversarial.cases import HARMLESS, IGNORED, ignored
from tests.adversarial.cases import PODS as CASES
from tests.kit import translationsamples as samples
from tests.kit.syncerbed import SyncerBed, until

pytestmark = pytest.mark.apiserver
# Cases of a class that offers something of its own need a session of their own; levels 1 and 3 have them.
PLAIN: Final = {name: case for name, case in CASES.items() if "view" not in case}
AT_ONCE: Final = 8
LEAST_REFUSED, LEAST_MIRRORED = 40, 20


@contextlib.asynccontextmanager
async def opened(host: Client, plane: Client) -> AsyncIterator[SyncerBed]:
    """A bed that leaves no pod behind, also of those that their case holds by a finalizer."""
    async with SyncerBed.open(host, plane) as bed:
        try:
            yield bed
        finally:
            for pod in (await plane.list(PODS, bed.space)).items:
                if pod["metadata"].get("finalizers"):
                    await plane.patch(PODS, pod["metadata"]["name"], {"metadata": {"finalizers": None}}, bed.space)


def hostile(bed: SyncerBed, name: str, case: Any) -> Obj:
    """The pod of a case under a name of its own, where the case has none."""
    place = {"metadata": {"name": name.lower(), "namespace": bed.space}}
    found = smuggled.virtual(case, smuggled.over(samples.POD, place))
    del found["metadata"]["uid"]
    return found


async def outcome(bed: SyncerBed, stored: Obj) -> str:
    """What became of a stored pod; fails where it is not what translation says."""
    assert bed.session is not None
    name = stored["metadata"]["name"]
    virtual = await bed.virtual(name)
    host = await bed.mirror(name)
    if virtual is None:
        return "gone"
    try:
        wanted = pods.for_creation(virtual, bed.session.caches.view())
    except Untranslatable as refused:
        assert host is None, f"{name} is on the host"
        await bed.event(name, refused.field, reason=str(refused.reason))
        return "refused"
    assert host is not None, f"{name} is not on the host: {[event['message'] for event in await bed.events(name)]}"
    assert diff.pod_patches(wanted, host) == (), name
    return "mirrored"


async def submit(bed: SyncerBed, pod: Obj) -> Obj | None:
    try:
        return await bed.plane.create(PODS, pod)
    except (ApiError, ValueError):  # no path of an API server leads into another folder
        return None


async def test_a_hostile_pod_is_refused_with_its_reason_or_mirrored_without_its_attack(
    host_client: Client, plane_client: Client, record_property: Callable[[str, object], None]
) -> None:
    async with opened(host_client, plane_client) as bed:
        slots = asyncio.Semaphore(AT_ONCE)

        async def tried(name: str) -> str:
            async with slots:
                stored = await submit(bed, hostile(bed, name, PLAIN[name]))
                if stored is None:
                    return "refused by the plane"
                await until(lambda: seen(bed, stored), f"{name} is judged")
                return await outcome(bed, stored)

        found = dict(zip(PLAIN, await asyncio.gather(*map(tried, PLAIN)), strict=True))
        record_property("decided_by", found)
        counts = Counter(found.values())
        assert counts["refused"] >= LEAST_REFUSED, counts
        assert counts["mirrored"] >= LEAST_MIRRORED, counts
        mirrored = {name for name, what in found.items() if what == "mirrored" and "refused" in PLAIN[name]}
        assert mirrored == HARMLESS["plane"].keys()


async def seen(bed: SyncerBed, stored: Obj) -> bool:
    """Whether the syncer has reported or done something about a pod."""
    name = stored["metadata"]["name"]
    return await bed.mirror(name) is not None or bool(await bed.events(name)) or await bed.virtual(name) is None


async def test_what_is_added_to_a_mirrored_pod_reaches_the_host_without_its_attack(
    host_client: Client, plane_client: Client, record_property: Callable[[str, object], None]
) -> None:
    async with opened(host_client, plane_client) as bed:
        slots = asyncio.Semaphore(AT_ONCE)

        async def tried(name: str) -> str:
            async with slots:
                return await changed(bed, name, PLAIN[name])

        fates = dict(zip(PLAIN, await asyncio.gather(*map(tried, PLAIN)), strict=True))
        record_property("decided_by", fates)
        found = Counter(fates.values())
        assert {name for name, fate in fates.items() if fate == IGNORED} == ignored("a plane's update").keys()
        assert found["refused by the plane"] >= LEAST_REFUSED, found
        assert found["changed"] >= LEAST_MIRRORED, found


async def told(bed: SyncerBed, name: str, refused: Untranslatable) -> bool:
    """Whether the tenant was told why a change is refused."""
    return any(event["reason"] == str(refused.reason) for event in await bed.events(name))


async def changed(bed: SyncerBed, name: str, case: Any) -> str:
    """Add the attack of a case to an honest pod that is mirrored; its host pod stays what translation makes of it.

    Where the plane accepts the change and stores the pod as it was, there was no attack: that is `IGNORED`.
    """
    assert bed.session is not None
    pod = smuggled.over(samples.POD, {"metadata": {"name": name.lower(), "namespace": bed.space}})
    del pod["metadata"]["uid"]
    await bed.create(pod)
    host = await bed.mirrored(name.lower())
    before = await bed.virtual(name.lower())
    assert before is not None
    try:
        if "container" in case:
            debugger = {"name": "debug", "image": "a"} | {
                key: case["container"][key] for key in case["container"] if key != "resources"
            }
            change = {"spec": {"ephemeralContainers": [debugger]}}
            stored = await bed.plane.patch(
                PODS, name.lower(), change, bed.space, subresource="ephemeralcontainers", content_type=MERGE_PATCH
            )
        else:
            change = {"metadata": case.get("metadata", {}), "spec": case.get("spec", {})}
            stored = await bed.plane.patch(PODS, name.lower(), change, bed.space, content_type=MERGE_PATCH)
    except ApiError:
        return "refused by the plane"
    if smuggled.content(stored) == smuggled.content(before):
        return IGNORED
    await bed.caught_up()
    virtual = await bed.virtual(name.lower())
    if virtual is None:
        return "gone"

    async def settled() -> bool:
        assert bed.session is not None
        there = await bed.mirror(name.lower())
        if there is None or there["metadata"]["uid"] != host["metadata"]["uid"]:
            return False
        try:
            found = changes(virtual, there, bed.session.caches.view())
        except Untranslatable as refused:
            return await told(bed, name.lower(), refused)
        return not found.patches and (found.refused is None or await told(bed, name.lower(), found.refused))

    await until(settled, f"what {name} adds is judged")
    return "changed"
