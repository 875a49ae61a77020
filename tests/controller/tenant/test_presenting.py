"""A changed certificate is announced to the kubelets of a plane's pods at once, and to none of them twice."""

from typing import Any, cast

import pytest

from bulkhead.kube.client import Client
from bulkhead.kube.errors import ApiError, NotFound
from controller.plane.spec import LEAF_ANNOTATION
from controller.tenant.facets.keys.presenting import present
from tests.kit.tenantsamples import material, plane_spec


class Recorder:
    """What a client was told to patch."""

    def __init__(self, error: Exception | None = None) -> None:
        self.said: list[tuple[str, dict[str, Any], str]] = []
        self._error = error

    async def patch(self, _: object, name: str, body: dict[str, Any], namespace: str) -> None:
        self.said.append((name, body, namespace))
        if self._error is not None:
            raise self._error


def pod(name: str, component: str = "plane", **meta: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": f"u-{name}", "labels": {"bulkhead.dev/component": component}, **meta}}


async def touched(pods: list[dict[str, Any]], error: Exception | None = None) -> list[str]:
    spec = plane_spec()
    client = Recorder(error)
    await present(cast("Client", client), spec, material(spec), pods)
    assert {namespace for _, _, namespace in client.said} <= {spec.namespace}
    # Of another pod of that name nothing is changed, and nothing but the annotation of this one.
    assert all(body["metadata"].keys() == {"uid", "annotations"} and body.keys() == {"metadata"} for _, body, _ in client.said)
    return [name for name, _, _ in client.said]


async def test_pods_of_the_plane_are_touched_for_a_certificate_that_they_were_not_touched_for() -> None:
    spec = plane_spec()
    now = material(spec).leaf("pki-apiserver/server")
    pods = [
        pod("plane-0"),
        pod("plane-1", annotations={LEAF_ANNOTATION: "of before"}),
        pod("plane-2", annotations={LEAF_ANNOTATION: now}),
        pod("plane-3", deletionTimestamp="2026-01-01T00:00:00Z"),
        pod("syncer-x", "syncer"),
    ]
    assert await touched(pods) == ["plane-0", "plane-1"]


@pytest.mark.parametrize("error", [NotFound(404, "NotFound", "gone"), ApiError(500, "InternalError", "broken")])
async def test_a_pod_that_cannot_be_touched_keeps_no_other_from_it(error: Exception) -> None:
    assert await touched([pod("plane-0"), pod("plane-1")], error) == ["plane-0", "plane-1"]
