"""What is written to a host pod that is there, when a part of it is refused."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube.informer import Change
from bulkhead.kube.objects import Key, Meta, key_of
from syncer.pods.patches import PodPatches
from syncer.quota.extent import Extent, Limits
from syncer.translate import TenantView, diff
from syncer.translate.kinds import pod
from syncer.translate.kinds.networkpolicy import INGRESS_ISOLATED
from syncer.translate.metadata import NAMESPACE_HASH
from syncer.translate.view import Isolating
from tests.kit import translationsamples as samples
from tests.kit.fakeclock import FakeClock

LISTED = replace(samples.VIEW, seccomp_profiles=frozenset({"audit.json"}))
PROFILE = {"seccompProfile": {"type": "Localhost", "localhostProfile": "audit.json"}}


class Bed:
    """A host that takes every patch and keeps it."""

    def __init__(self, view: TenantView, *, pod_bytes: int = 1 << 30, endpoints: int = 1 << 30) -> None:
        self.written: list[tuple[str | None, Obj]] = []
        self.warned: list[str] = []
        self.compared = 0
        caches: Any = SimpleNamespace(view=lambda: view)
        unchanged: Any = SimpleNamespace(nothing_to_patch=lambda *_: False, note_patched=self._compared)
        self.starved = set[Key]()
        starved: Any = SimpleNamespace(forget=self.starved.discard, add=self.starved.add)
        self.extent = Extent(Limits(pod_bytes, endpoints), FakeClock())
        recorder: Any = SimpleNamespace(warn=lambda _virtual, reason, _text: self.warned.append(reason))
        host: Any = SimpleNamespace(patch=self._patch)
        none: Any = SimpleNamespace()
        self.patches = PodPatches(
            caches, host, none, unchanged=unchanged, expectations=none, starved=starved, recorder=recorder, extent=self.extent
        )

    def _compared(self, _virtual: Obj, _host: Obj) -> None:
        self.compared += 1

    async def _patch(self, _r: Any, _key: Any, body: Obj, *, subresource: str | None, content_type: str) -> Obj:
        assert content_type == diff.STRATEGIC
        self.written.append((subresource, body))
        return placed({"metadata": {"name": "h", "namespace": "bh-red-work", "resourceVersion": "2"}})


def placed(own: Obj) -> Obj:
    return samples.merged(own, {"spec": {"nodeName": "gpu-a"}})


async def test_a_refused_ephemeral_container_stops_no_label_and_its_generation_is_not_told() -> None:
    own = placed(samples.pod({"securityContext": PROFILE}, {"generation": 1}))
    host = samples.merged(
        pod.for_creation(own, LISTED), {"metadata": {"uid": "h", "resourceVersion": "1"}, "spec": {"nodeName": "gpu-a"}}
    )
    debugger = {"name": "d", "image": "x", "securityContext": PROFILE}
    changed = samples.merged(
        own, {"metadata": {"generation": 2, "labels": {"app": "b"}}, "spec": {"ephemeralContainers": [debugger]}}
    )
    bed = Bed(samples.VIEW)
    assert await bed.patches.push(changed, host)
    assert bed.warned == ["NotAllowed"]
    assert [(subresource, body["metadata"]["labels"]) for subresource, body in bed.written] == [(None, {"app": "b"})]
    assert "annotations" not in bed.written[0][1]["metadata"]
    assert not bed.compared
    listed = Bed(LISTED)
    assert await listed.patches.push(changed, host)
    assert [subresource for subresource, _body in listed.written] == [None, "ephemeralcontainers", None]
    assert listed.written[-1][1]["metadata"]["annotations"] == {pod.GENERATION: "2"}


async def test_an_ephemeral_container_that_runs_under_a_withdrawn_profile_stops_nothing() -> None:
    debugger = {"name": "d", "image": "x", "securityContext": PROFILE}
    own = placed(samples.pod({"ephemeralContainers": [debugger]}))
    there = {"metadata": {"uid": "h", "resourceVersion": "1"}, "spec": {"ephemeralContainers": [debugger], "nodeName": "gpu-a"}}
    host = samples.merged(pod.for_creation(own, LISTED), there)
    bed = Bed(samples.VIEW)
    assert await bed.patches.push(samples.merged(own, {"metadata": {"labels": {"app": "b"}}}), host)
    assert [subresource for subresource, _body in bed.written] == [None]
    assert not bed.warned


@pytest.mark.parametrize("bound", ["pod_bytes", "endpoints"])
async def test_a_change_without_room_stays_behind_and_an_isolation_never_does(bound: str) -> None:
    own = placed(samples.pod({}, {"labels": {"app": "a"}}))
    host = samples.merged(pod.for_creation(own, LISTED), {"metadata": {"uid": "h", "resourceVersion": "1"}})
    host = placed(host)
    bed = Bed(samples.VIEW, **{bound: 1})
    meta = Meta(name=host["metadata"]["name"], namespace=host["metadata"]["namespace"], labels=host["metadata"]["labels"])
    bed.extent.pod_seen(Change("added", meta.key, meta), host, 1000)
    selector = {key: value for key, value in meta.labels.items() if key == NAMESPACE_HASH} if meta.labels else {}
    two = {"metadata": {}, "spec": {"selector": selector | {"app": "larger"}, "ports": [{"port": 1}, {"port": 2}]}}
    bed.extent.service_seen(Change("added", Key("work", "s"), Meta(name="s")), two)
    another = Change("added", Key("work", "other"), Meta(name="other", labels=selector | {"app": "larger"}))
    bed.extent.pod_seen(another, host, 1000)
    changed = samples.merged(own, {"metadata": {"labels": {"app": "larger"}}})
    assert await bed.patches.push(changed, host)
    assert (bed.written, bed.warned, bed.starved) == ([], ["QuotaExceeded"], {key_of(own)})
    policies = {"team": (Isolating({}, ingress=True, egress=False),)}
    isolated = Bed(replace(samples.VIEW, network_policies=policies), **{bound: 1})
    isolated.extent.pod_seen(Change("added", meta.key, meta), host, 1000)
    assert await isolated.patches.push(own, host)
    assert [body["metadata"]["labels"] for _, body in isolated.written] == [{INGRESS_ISOLATED: "true"}]
    assert not isolated.warned
