"""What a run reads of the host, among pods that other people run there. No server."""

from typing import Any, cast

import pytest

from bulkhead.api import labels, names
from bulkhead.api.objects import Obj
from bulkhead.kube.objects import ObjList
from workstation.chaos import observe
from workstation.chaos.judge import HOST


class Host:
    """A host with these pods and nothing else; the controller's are those of the system's namespace."""

    def __init__(self, *pods: Obj) -> None:
        self._pods = pods

    async def list(self, _: object, namespace: str = "", **__: object) -> ObjList:
        return ObjList([pod for pod in self._pods if namespace in {"", pod["metadata"]["namespace"]}], "1")


def pod(namespace: str, tenant: str = "red", *containers: str) -> Obj:
    marks = {labels.TENANT: tenant, labels.COMPONENT: "plane"}
    named = [{"name": name, "image": f"{name}:1"} for name in containers]
    return {"metadata": {"name": "x", "namespace": namespace, "uid": "u", "labels": marks}, "spec": {"containers": named}}


@pytest.mark.parametrize("tenant", ["kube-x", "system", "x-work", "Red", "a" * 63])
async def test_a_pod_that_names_what_no_tenant_is_called_ends_no_run(tenant: str) -> None:
    """Each user of the host who may create pods could end every run in a traceback."""
    host = Host(pod("default", tenant), pod(f"bh-{tenant}", tenant), pod("bh-red"), pod("bh-blue"))
    assert set(await observe.pods(cast("Any", host), names.SYSTEM_NAMESPACE)) == {"red", HOST}


@pytest.mark.parametrize(
    ("containers", "image"), [(("istio-proxy", "controller"), "controller:1"), (("main",), "main:1"), ((), "")]
)
async def test_the_image_for_pods_is_the_controllers_and_no_sidecars(containers: tuple[str, ...], image: str) -> None:
    """A sidecar has no python3, and the hogs were then UNPROVEN."""
    host = Host(pod(names.SYSTEM_NAMESPACE, "red", *containers))
    facts = await observe.facts(cast("Any", host), names.SYSTEM_NAMESPACE)
    assert facts.image == image
