"""What an API server reads again while it runs is announced to kubelets of the plane's pods at once, and to none twice."""

from dataclasses import replace
from typing import Any, cast

import pytest

from bulkhead.kube.client import Client
from bulkhead.kube.errors import ApiError, NotFound
from controller.plane import authentication
from controller.plane.pki import USERS, Pair
from controller.plane.render import render
from controller.plane.secrets import KeyMaterial
from controller.plane.spec import LEAF_ANNOTATION
from controller.tenant.presenting import present, version_of
from tests.kit.tenantsamples import material, plane_spec


class Recorder:
    """What a client was told to patch."""

    def __init__(self, error: Exception | None = None) -> None:
        self.written: list[tuple[str, dict[str, Any], str]] = []
        self._error = error

    async def patch(self, _: object, name: str, body: dict[str, Any], namespace: str) -> None:
        self.written.append((name, body, namespace))
        if self._error is not None:
            raise self._error


def pod(name: str, component: str = "plane", **meta: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": f"u-{name}", "labels": {"bulkhead.dev/component": component}, **meta}}


async def touched(pods: list[dict[str, Any]], error: Exception | None = None) -> list[str]:
    client = Recorder(error)
    await present(cast("Client", client), "team-a", "bh-team-a", "now", pods)
    assert {namespace for _, _, namespace in client.written} <= {"bh-team-a"}
    # Of another pod of that name nothing is changed, and nothing but the annotation of this one.
    assert all(
        body["metadata"].keys() == {"uid", "annotations"} and body.keys() == {"metadata"} for _, body, _ in client.written
    )
    return [name for name, _, _ in client.written]


async def test_pods_of_the_plane_are_touched_for_files_that_they_were_not_touched_for() -> None:
    pods = [
        pod("plane-0"),
        pod("plane-1", annotations={LEAF_ANNOTATION: "earlier"}),
        pod("plane-2", annotations={LEAF_ANNOTATION: "now"}),
        pod("plane-3", deletionTimestamp="2026-01-01T00:00:00Z"),
        pod("syncer-x", "syncer"),
    ]
    assert await touched(pods) == ["plane-0", "plane-1"]


@pytest.mark.parametrize("error", [NotFound(404, "NotFound", "gone"), ApiError(500, "InternalError", "broken")])
async def test_a_pod_that_cannot_be_touched_keeps_no_other_from_it(error: Exception) -> None:
    assert await touched([pod("plane-0"), pod("plane-1")], error) == ["plane-0", "plane-1"]


OTHER = Pair(b"another certificate\n", b"another key\n")


def version(keys: KeyMaterial, **files: str) -> str:
    parts = render(plane_spec(), keys).parts
    return version_of(
        obj | {"data": obj["data"] | files} if obj["metadata"]["name"] == "plane-config" else obj for obj in parts
    )


def test_files_that_are_read_again_make_another_version_and_no_others_do() -> None:
    keys = material(plane_spec())
    first = version(keys)
    server, people = {**keys.leaves, "pki-apiserver/server": OTHER}, {**keys.authorities, USERS: OTHER}
    changed = {
        "the serving certificate": version(replace(keys, leaves=server)),
        "the CA of people": version(replace(keys, authorities=people)),
        "the providers": version(keys, **{authentication.FILE: "more rules"}),
    }
    assert len({first, *changed.values()}) == 1 + len(changed), changed
    # What an API server reads at its start alone restarts it by its template.
    assert version(replace(keys, encryption_key="another")) == version(keys, **{"audit-policy.json": "another"}) == first


def test_a_plane_in_which_nothing_was_written_yet_has_a_version() -> None:
    assert version_of([]) == version_of([{"metadata": {"name": "pki-apiserver"}}])
