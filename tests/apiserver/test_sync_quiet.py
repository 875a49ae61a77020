"""Once both sides agree nothing is written, by no event, no round of the patrol, and no restart of the syncer."""

import pytest

from bulkhead.kube.resources import CONFIG_MAPS, EVENTS, PODS, SECRETS, SERVICES
from syncer import events, metrics, ownquota
from tests.kit.syncerbed import SyncerBed, until


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written at a pace is written soon: rest is waited for."""
    monkeypatch.setattr(ownquota, "PACE_SECONDS", 0.1)


def writes() -> dict[str, float]:
    """What the syncer wrote so far. Not events: the host's API server writes some by itself."""
    return {
        f"{sample.name} {sorted(sample.labels.items())}": sample.value
        for metric in (metrics.HOST_WRITES, metrics.VIRTUAL_WRITES, metrics.PATROL_REPAIRS)
        for family in metric.collect()
        for sample in family.samples
        if sample.name.endswith("_total") and sample.value and sample.labels.get("kind") != "Event"
    }


async def rest(bed: SyncerBed) -> None:
    """Wait until everything has been seen and done, and nothing more was written for a while."""
    assert bed.session is not None
    session = bed.session
    quiet, before = 0, writes()

    async def at_rest() -> bool:
        nonlocal quiet, before
        # A new picture of the quota is written some seconds after the one before.
        idle = session.queue.idle and not session.own_quota._changed.is_set()
        quiet, before = quiet + 1 if idle and writes() == before else 0, writes()
        return quiet > 7  # more than half a second of looks, which come ever less often

    await bed.idle()
    await until(at_rest, "queue at rest")
    await bed.idle()


async def test_item_67_70_88_what_agrees_is_left_alone(bed: SyncerBed) -> None:
    await bed.plane.create(CONFIG_MAPS, {"metadata": {"name": "conf"}, "data": {"a": "1"}}, bed.space)
    await bed.plane.create(SECRETS, {"metadata": {"name": "key"}, "stringData": {"a": "1"}}, bed.space)
    ports = [{"name": "http", "port": 80, "targetPort": 8080}]
    await bed.plane.create(
        SERVICES, {"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": ports}}, bed.space
    )
    projected = {"sources": [{"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}}]}
    container = {
        "name": "main",
        "image": "busybox:1.36",
        "envFrom": [{"configMapRef": {"name": "conf"}}, {"secretRef": {"name": "key"}}],
        "ports": [{"containerPort": 8080}],
        "livenessProbe": {"httpGet": {"path": "/", "port": 8080}},
        "resources": {"limits": {"cpu": "100m", "memory": "64Mi"}},
        "volumeMounts": [{"name": "token", "mountPath": "/token"}],
    }
    volumes = [{"name": "token", "projected": projected}]
    await bed.running("web", bed.pod("web", containers=[container], volumes=volumes, serviceAccountName="default"))
    await rest(bed)
    before = writes()

    assert bed.session is not None
    assert bed.session.patrol.round() >= 5
    await rest(bed)
    assert writes() == before

    await bed.stop()
    await bed.start()
    await rest(bed)
    assert writes() == before


async def test_item_48_70_a_restarted_syncer_tells_only_those_of_the_hosts_events_that_are_new(bed: SyncerBed) -> None:
    meta = (await bed.running("web"))["metadata"]
    about = {"kind": "Pod", "namespace": bed.work, "name": meta["name"], "uid": meta["uid"]}

    async def happens(reason: str) -> None:
        event = {
            "involvedObject": about,
            "reason": reason,
            "message": "m",
            "type": "Normal",
            "source": {"component": "kubelet"},
        }
        await bed.host.create(EVENTS, event | {"metadata": {"name": f"{meta['name']}.{reason.lower()}"}, "count": 1}, bed.work)

    async def reported(reason: str, count: int = 1) -> None:
        async def found() -> bool:
            return any(each["reason"] == reason and each["count"] == count for each in await bed.events("web"))

        await until(found, f"event {reason}, {count} times, in the plane")

    for reason in ("Pulled", "Started"):
        await happens(reason)
        await reported(reason)

    def written() -> float:
        return (
            metrics.REGISTRY.get_sample_value("bulkhead_syncer_virtual_writes_total", {"kind": "Event", "verb": "create"}) or 0
        )

    before = written()
    await bed.stop()
    await happens("Killing")
    await bed.start()
    await reported("Killing")
    await rest(bed)
    assert written() == before + 1
    # What the plane has already is written again as soon as it repeats.
    await bed.host.patch(EVENTS, f"{meta['name']}.pulled", {"count": 7}, bed.work)
    await reported("Pulled", 7)


async def test_of_a_flood_of_pods_that_is_gone_no_events_are_written_any_more(
    bed: SyncerBed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "RATE", 1.0)  # so that events wait, however slow the machine is
    flood = 40
    for number in range(flood):
        await bed.create(bed.pod(f"flood-{number}", hostNetwork=True))
    await bed.event("flood-0", "hostNetwork")
    for number in range(flood):
        await bed.plane.delete(PODS, f"flood-{number}", bed.space, grace_seconds=0)
    # Events are written in turn: the one of a pod that comes after the flood says that the flood's had theirs.
    await bed.idle()
    await bed.create(bed.pod("after", hostNetwork=True))
    await bed.event("after", "hostNetwork")
    told = (await bed.plane.list(EVENTS, bed.space)).items
    assert len(told) < flood, [event["involvedObject"]["name"] for event in told]


async def test_item_88_the_patrol_repairs_what_a_hand_on_the_host_changed_and_counts_it(bed: SyncerBed) -> None:
    await bed.plane.create(
        SERVICES, {"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}}, bed.space
    )

    async def mirrored() -> bool:
        return len((await bed.host.list(SERVICES, bed.work)).items) == 1

    await until(mirrored, "host service")
    await rest(bed)
    name = bed.host_name("Service", "web")
    await bed.host.patch(SERVICES, name, {"spec": {"selector": {"app": "other"}}}, bed.work)

    async def repaired() -> bool:
        return (await bed.host.get(SERVICES, name, bed.work))["spec"]["selector"]["app"] == "web"

    await until(repaired, "selector set right")
