"""What a plane no longer has is deleted in it: objects of a namespace and those of none, and the tenant's own stay."""

from dataclasses import replace
from typing import Any, Final

import pytest

from bulkhead.kube.client import Client
from bulkhead.kube.errors import NotFound
from bulkhead.kube.resources import resource_of
from bulkhead.work.clock import SystemClock
from controller.inside.access import PlaneAccess
from controller.inside.budget import Budget
from controller.inside.objects import bootstrap, gpumetrics
from tests.kit.applying import apply_all
from tests.kit.tenantsamples import plane_spec

pytestmark = pytest.mark.apiserver
OFF: Final = plane_spec()
ON: Final = replace(OFF, installation=replace(OFF.installation, gpu_metrics=True))
CA: Final = b"-----BEGIN CERTIFICATE-----\n"


class _Held:
    def __init__(self, client: Client) -> None:
        self.client = client


async def reconciled(plane: Client, spec: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kinds of the objects for GPU metrics that are there after what the controller makes and withdraws in each turn."""
    access = PlaneAccess(SystemClock(), lambda _: None, Budget())
    monkeypatch.setitem(access._connections, spec.tenant, _Held(plane))
    made = [obj for obj in bootstrap.objects(spec, CA) if obj["metadata"]["name"] == gpumetrics.NAME]
    uid, whole = await access.bootstrap(spec, made, bootstrap.withdrawn(spec))
    assert uid
    assert whole
    return await there(plane)


async def there(plane: Client) -> list[str]:
    found = []
    for obj in gpumetrics.objects(ON, CA):
        try:
            await plane.get(resource_of(obj["apiVersion"], obj["kind"]), gpumetrics.NAME, gpumetrics.NAMESPACE)
        except NotFound:
            continue
        found.append(obj["kind"])
    return found


async def test_gpu_metrics_come_and_go_with_the_chart(plane_client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    assert await reconciled(plane_client, OFF, monkeypatch) == [], "nothing was there, and nothing fails"
    assert await reconciled(plane_client, ON, monkeypatch) == ["Service", "EndpointSlice", "ConfigMap"]
    for _ in range(2):
        assert await reconciled(plane_client, OFF, monkeypatch) == []


async def test_what_the_tenant_brought_under_that_name_stays(plane_client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    own = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": gpumetrics.NAME, "namespace": gpumetrics.NAMESPACE}}
    await apply_all(plane_client, [own])
    assert await reconciled(plane_client, OFF, monkeypatch) == ["ConfigMap"]
    await plane_client.delete(resource_of("v1", "ConfigMap"), gpumetrics.NAME, gpumetrics.NAMESPACE)
