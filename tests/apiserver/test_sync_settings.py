"""Settings that change while the syncer runs, between two real API servers; the test writes them as the controller does."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from bulkhead.api import ledger
from bulkhead.api.syncersettings import CONFIG_MAP, FILE
from bulkhead.kube.client import Client
from bulkhead.kube.resources import CONFIG_MAPS, COSCHEDULING_GROUPS, STORAGE_CLASSES
from syncer import metrics
from syncer.settings import Settings
from syncer.translate.kinds import gate
from tests.kit.coscheduling import coscheduling
from tests.kit.syncerbed import SyncerBed, until
from tests.kit.syncersettings import settings_for

GPU = "nvidia.com/gpu"


class Told(SyncerBed):
    """A tenant whose settings stand in a ConfigMap of the host."""

    async def prepare(self) -> None:
        await super().prepare()
        body = {"metadata": {"name": CONFIG_MAP}, "data": {FILE: self._file()}}
        await self.host.create(CONFIG_MAPS, body, self.settings.plane_namespace)

    def _file(self, **more: Any) -> str:
        return json.dumps(
            {
                "tenant": self.tenant,
                "tenantUID": self.settings.tenant_uid,
                "planeNamespace": self.settings.plane_namespace,
                "workNamespace": self.work,
                "dnsAddress": self.settings.dns_address,
                "apiAddress": self.settings.api_address,
                "shimAddress": self.settings.kubelet_address,
                "publicAddress": self.settings.public_address,
                "serviceSlice": self.settings.service_slice,
                "nodes": {"selector": {"pool": self.tenant}},
                "limits": {GPU: 4},
                **more,
            }
        )

    async def tell(self, text: str = "", **more: Any) -> None:
        """Write other settings, or a text that is not valid settings."""
        body = {"data": {FILE: text or self._file(**more)}}
        await self.host.patch(CONFIG_MAPS, CONFIG_MAP, body, self.settings.plane_namespace)

    @property
    def in_use(self) -> Settings:
        assert self.session is not None
        return self.session.caches.settings

    async def uses(self, **wanted: Any) -> None:
        async def so() -> bool:
            return all(getattr(self.in_use, name) == value for name, value in wanted.items())

        await until(so, f"the settings {wanted} in use")

    async def refused_settings(self, number: float) -> None:
        async def so() -> bool:
            return metrics.SETTINGS_REFUSED._value.get() == number

        await until(so, f"settings refused: {number}")

    async def says(self, name: str, reason: str) -> None:
        async def so() -> bool:
            return (await self.condition(name) or {}).get("reason") == reason

        await until(so, f"{name} says {reason}")

    def listed(self) -> dict[str, int]:
        """How often each copy was listed."""
        assert self.session is not None
        sides = {"virtual": self.session.caches.virtual, "host": self.session.caches.host}
        return {f"{side} {kind}": each.relists for side, copies in sides.items() for kind, each in copies.items()}


@pytest.fixture
async def bed(host_client: Client, plane_client: Client) -> AsyncIterator[Told]:
    async with Told.open(host_client, plane_client) as opened:
        assert isinstance(opened, Told)
        yield opened


async def test_a_raised_limit_lets_a_waiting_pod_start_and_opens_no_watch_again(bed: Told) -> None:
    assert bed.session is not None
    await bed.create(bed.gpu_pod("small", 1))
    small = await bed.mirrored("small")
    await bed.create(bed.gpu_pod("large", 6))
    await bed.says("large", "QuotaExceeded")
    session, listed, repaired = bed.session, bed.listed(), _repairs()
    await bed.tell(limits={GPU: 8})
    await bed.mirrored("large")
    await bed.patrolled()
    await bed.idle()
    assert bed.listed() == listed
    assert bed.session is session
    assert not session._unready()
    assert (await bed.mirrored("small"))["metadata"]["uid"] == small["metadata"]["uid"]
    assert _repairs() == repaired


async def test_a_wider_bound_lets_those_start_that_were_refused(bed: Told) -> None:
    await bed.tell(mostPerPod={"cpu": "2"})
    await bed.uses(most_per_pod={"cpu": "2"})
    container = {"name": "main", "image": "busybox:1.36", "resources": {"limits": {"cpu": "4"}}}
    await bed.create(bed.pod("wide", containers=[container]))
    await bed.says("wide", "TooLarge")
    # A refused pod that nothing changes for is not tried again by itself.
    await bed.idle()
    await bed.tell(mostPerPod={"cpu": "8"})
    await bed.mirrored("wide")


async def test_pods_of_a_tenant_that_joins_a_cohort_wait_at_the_gate_from_then_on(bed: Told) -> None:
    await bed.create(bed.gpu_pod("before"))
    before = await bed.mirrored("before")
    assert not gate.is_gated(before)
    await bed.tell(gatedResources=[GPU], gatedGangs=True, limits={GPU: 8})
    await bed.uses(gated_resources=(GPU,), gated_gangs=True)
    await bed.create(bed.gpu_pod("after"))
    assert gate.is_gated(await bed.mirrored("after"))
    assert (await bed.mirrored("before"))["metadata"]["uid"] == before["metadata"]["uid"]
    # Its quota is 8 by the settings: the roster knows who was there before the settings changed.
    assert bed.session is not None
    assert bed.session.claims.used(GPU) == 2


async def test_groups_of_gangs_are_watched_from_then_on(bed: Told) -> None:
    async with coscheduling(bed.plane):
        await bed.tell(gatedResources=[GPU], gatedGangs=True)
        await bed.uses(gated_gangs=True)
        made = bed.pod("rank-0")
        made["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": "mpi"}
        await bed.create(made)
        await bed.says("rank-0", "ReferenceMissing")
        group = {"apiVersion": COSCHEDULING_GROUPS.api_version, "kind": "PodGroup", "metadata": {"name": "mpi"}}
        await bed.plane.create(COSCHEDULING_GROUPS, group | {"spec": {"minMember": 2}}, bed.space)
        host = await bed.mirrored("rank-0")
        assert host["metadata"]["annotations"][ledger.GANG_SIZE] == "2"
        await bed.plane.delete(COSCHEDULING_GROUPS, "mpi", bed.space)


async def test_another_rate_of_bytes_counts_from_then_on(bed: Told) -> None:
    assert bed.session is not None
    paces = bed.session.paces
    await bed.tell(logBytesPerSecond=1 << 20, sessionBytesPerSecond=2 << 20)
    await bed.uses(log_bytes_per_second=1 << 20, session_bytes_per_second=2 << 20)
    assert (paces._logs._rate, paces._sessions._rate) == (1 << 20, 2 << 20)
    assert paces is bed.session.paces, "streams that are open go on, at the other rate"


@pytest.mark.parametrize("text", ["{", "[]", '{"tenant": 7}', "x" * 100])
async def test_what_cannot_be_used_leaves_what_is_in_use(bed: Told, text: str) -> None:
    was = bed.in_use
    await bed.tell(text)
    await bed.refused_settings(1)
    assert bed.in_use == was
    await bed.tell(limits={GPU: 5})
    await bed.uses(limits={GPU: 5})
    await bed.refused_settings(0)


async def test_settings_that_are_gone_or_read_once_change_nothing(bed: Told) -> None:
    was = bed.in_use
    await bed.tell(limits={GPU: 6}, patrolSeconds=17.0, tenantUID="another", nodes={"selector": {}})
    await bed.uses(limits={GPU: 6})
    assert (bed.in_use.patrol_seconds, bed.in_use.tenant_uid, bed.in_use.nodes) == (
        was.patrol_seconds,
        was.tenant_uid,
        was.nodes,
    )
    await bed.host.delete(CONFIG_MAPS, CONFIG_MAP, bed.settings.plane_namespace)
    await bed.quiet()
    assert bed.in_use.limits == {GPU: 6}


async def test_what_changed_while_the_syncer_was_down_counts_although_its_file_is_older(bed: Told) -> None:
    await bed.stop()
    await bed.tell(limits={GPU: 7})
    await bed.start()
    assert bed.settings == settings_for(bed.tenant)
    await bed.uses(limits={GPU: 7})


async def test_a_class_that_is_offered_now_is_in_the_plane_at_once(bed: Told) -> None:
    name = f"fast-{bed.tenant}"
    await bed.host.create(STORAGE_CLASSES, {"metadata": {"name": name}, "provisioner": "example.com/fast"})
    try:
        await bed.tell(allowedStorageClasses=[name])

        async def shown() -> bool:
            return any(each["metadata"]["name"] == name for each in (await bed.plane.list(STORAGE_CLASSES)).items)

        await until(shown, "the class in the plane")
    finally:
        await bed.host.delete(STORAGE_CLASSES, name)


def _repairs() -> float:
    """What was written as a repair of the patrol's, by all kinds."""
    found = metrics.PATROL_REPAIRS.collect()
    return sum(sample.value for metric in found for sample in metric.samples if sample.name.endswith("_total"))
