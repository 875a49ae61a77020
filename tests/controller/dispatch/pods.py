"""Host pods as tests of the ledger's shell have them, and a host that answers writes as it is told to."""

from collections.abc import Callable
from typing import Any

import msgspec

from bulkhead.api import labels, ledger
from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError
from bulkhead.kube.informer import Change
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.kube.objects import Key, Meta
from controller.dispatch.hostpod import Seen, decoded
from controller.dispatch.seen import Pods

SPACE = "bh-team-work"


def host_pod(name: str = "p", *, version: int = 5, gated: bool = False, node: str = "n0", **more: Any) -> Obj:
    """A pod of a tenant; `notes` are annotations, `status` and `meta` as they are."""
    notes = {labels.VIRTUAL_NAMESPACE: "default", labels.VIRTUAL_NAME: name} | more.pop("notes", {})
    meta = {"name": name, "namespace": SPACE, "uid": f"uid-{name}", "resourceVersion": str(version), "annotations": notes}
    spec: Obj = {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}
    if gated:
        spec["schedulingGates"] = [{"name": ledger.GATE}]
    elif node:
        spec["nodeName"] = node
    status = more.pop("status", {})
    return {"metadata": meta | more.pop("meta", {}), "spec": spec | more, "status": status}


def seen(**more: Any) -> Seen:
    found = decoded(host_pod(**more), 0.0)
    assert found is not None
    return found


def show(pods: Pods, obj: Obj) -> None:
    """What the informer does with an event."""
    meta, body = pods.shrink(msgspec.json.encode(obj), None)
    if body:
        pods.heard(Change("modified", meta.key, meta))


def end(pods: Pods, obj: Obj) -> None:
    """What the informer does when a pod is gone."""
    meta = obj["metadata"]
    kept = Meta(name=meta["name"], namespace=meta["namespace"], uid=meta["uid"])
    pods.heard(Change("deleted", Key(kept.namespace, kept.name), kept))


class FakeHost(Client):
    """Answers as it is told to, and keeps what was asked."""

    def __init__(self) -> None:
        super().__init__(KubeConfig(server="https://host.invalid"), user_agent="tests", field_manager="tests")
        self.asked: list[tuple[str, str, Any]] = []
        self.answer: Callable[[str, str], Obj | KubeError | None] = lambda _, name: host_pod(name, version=9)

    def _say(self, verb: str, name: str, body: Any) -> Any:
        self.asked.append((verb, name, body))
        found = self.answer(verb, name)
        if isinstance(found, KubeError):
            raise found
        return found

    async def get(self, r: Any, name: str, namespace: str | None = None, **more: Any) -> Obj:
        found: Obj = self._say("get", name, None)
        return found

    async def patch(self, r: Any, name: str, body: Any, namespace: str | None = None, **more: Any) -> Obj:
        found: Obj = self._say(f"patch {more.get('subresource') or r.plural}", name, body)
        return found

    async def delete(self, r: Any, name: str, namespace: str | None = None, **more: Any) -> Obj | None:
        found: Obj | None = self._say("delete", name, more)
        return found

    async def create_subresource(self, r: Any, name: str, subresource: str, body: Obj, namespace: str | None = None) -> Obj:
        found: Obj = self._say(subresource, name, body)
        return found
