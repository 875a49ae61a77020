"""Large pods: what one change of a namespace costs the host is bounded by the size of a pod and by the budget of bytes."""

from bulkhead.api.objects import Obj
from bulkhead.kube.resources import NAMESPACES
from syncer import metrics
from tests.kit.syncerbed import SyncerBed, until

PODS_OF_ALL = 6
TEXT = 150_000


def gated(bed: SyncerBed, name: str, size: int) -> Obj:
    main = {"name": "main", "image": "busybox:1.36", "args": ["x" * size]}
    return bed.pod(name, containers=[main], schedulingGates=[{"name": "example.org/wait"}])


async def test_a_pod_too_large_for_the_host_says_so_and_its_size(bed: SyncerBed) -> None:
    await bed.create(gated(bed, "large", 900_000))

    async def refused() -> Obj | None:
        found = await bed.condition("large")
        return found if found and found["reason"] == "TooLarge" else None

    message = (await until(refused, "refusal"))["message"]
    assert "at most 262144 are mirrored" in message
    assert "ConfigMap" in message
    assert await bed.mirror("large") is None


async def test_every_byte_that_a_namespace_costs_the_host_is_counted(bed: SyncerBed) -> None:
    for number in range(PODS_OF_ALL):
        await bed.create(gated(bed, f"p{number}", TEXT))
    for number in range(PODS_OF_ALL):
        await bed.mirrored(f"p{number}")
    before = metrics.HOST_BYTES._value.get()
    await bed.plane.patch(NAMESPACES, bed.space, {"metadata": {"labels": {"stage": "test"}}})

    async def labelled() -> bool:
        return all(
            any(
                key.startswith("namespace.bulkhead.dev/") and value == "test"
                for key, value in each["metadata"]["labels"].items()
            )
            for each in await bed.host_pods()
        )

    await until(labelled, "label on every host pod")
    assert metrics.HOST_BYTES._value.get() - before >= PODS_OF_ALL * TEXT
