"""Helm's Secret of a release, as Helm writes it, and as nothing good would."""

import base64
import gzip
import json
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkhead.kube import codec
from workstation.doctor import observe
from workstation.doctor.compare import difference
from workstation.doctor.release import UnreadableError, decoded

FOUND = {
    "name": "bulkhead",
    "version": 3,
    "info": {"status": "deployed"},
    "chart": {"metadata": {"name": "bulkhead", "version": "0.1.0", "appVersion": "0.1.0"}},
    "manifest": "---\nkind: A\nmetadata: {name: a}\n---\n# nothing\n---\nkind: B\nmetadata: {name: b}\n",
}


def secret(packed: bytes) -> dict[str, Any]:
    return {"data": {"release": base64.b64encode(base64.b64encode(packed)).decode()}}


def test_a_release_is_read() -> None:
    release = decoded(secret(gzip.compress(json.dumps(FOUND).encode())))
    assert (release.name, release.version, release.status, release.revision) == ("bulkhead", "0.1.0", "deployed", 3)
    assert [obj["kind"] for obj in release.objects] == ["A", "B"]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"data": {"release": "%%%"}}, "base64"),
        (secret(b"not gzip"), "gzip"),
        (secret(gzip.compress(b"not JSON")), "JSON"),
        (secret(gzip.compress(b"[" * 100_000)), "JSON"),
        (secret(gzip.compress(bytes(20 << 20))), "larger than 16 MiB"),
        (secret(gzip.compress(json.dumps(FOUND | {"manifest": "a: {"}).encode())), "YAML"),
        (secret(gzip.compress(json.dumps(FOUND | {"manifest": "---\nkind: A\n" * 1001}).encode())), "more than 1000 objects"),
    ],
)
def test_what_helm_would_not_write_is_an_error_that_says_what_is_wrong(data: dict[str, Any], words: str) -> None:
    with pytest.raises(UnreadableError, match=words):
        decoded(data)


class Secrets:
    """A client of a namespace in which helm has these revisions of one release, each with its status."""

    def __init__(self, *statuses: str) -> None:
        self._secrets = [
            {
                "metadata": {"labels": {"owner": "helm", "name": "bulkhead", "status": status, "version": str(number)}},
                **secret(gzip.compress(json.dumps(FOUND | {"version": number, "info": {"status": status}}).encode())),
            }
            for number, status in enumerate(statuses, 9)
        ]

    def _chosen(self, selector: str) -> list[Any]:
        found: list[Any] = self._secrets
        for term in selector.split(","):
            key, unequal, value = term.partition("!=") if "!=" in term else term.partition("=")
            found = [item for item in found if (item["metadata"]["labels"][key] == value) is (unequal == "=")]
        return found

    async def list(self, *_: Any, label_selector: str) -> Any:
        return SimpleNamespace(items=self._chosen(label_selector))

    async def pages(self, *_: Any, label_selector: str, metadata_only: bool) -> AsyncIterator[Any]:
        assert metadata_only
        items = [{"metadata": item["metadata"]} for item in self._chosen(label_selector)]
        yield SimpleNamespace(items=[codec.encode(item) for item in items])


@pytest.mark.parametrize(
    ("statuses", "revision", "status"),
    [
        (("superseded", "deployed"), 10, "deployed"),
        # Ctrl-C on `helm upgrade`, and the next one, which Helm refuses.
        (("superseded", "deployed", "pending-upgrade"), 10, "pending-upgrade"),
        (("deployed", "failed", "failed"), 9, "failed"),
        (("superseded", "failed", "deployed"), 11, "deployed"),
        (("failed",), 9, "failed"),
        (("pending-install",), 9, "pending-install"),
    ],
)
async def test_a_release_has_the_status_of_its_last_one(statuses: tuple[str, ...], revision: int, status: str) -> None:
    """And the objects of the one that is deployed: the last one may not have become true."""
    found = await observe._release(Secrets(*statuses), "bulkhead-system")  # type: ignore[arg-type] # its two calls
    assert not isinstance(found, observe.Unseen)
    assert (found.revision, found.status) == (revision, status)


async def test_without_a_release_that_is_the_reason() -> None:
    found = await observe._release(Secrets(), "bulkhead-system")  # type: ignore[arg-type] # its two calls
    assert isinstance(found, observe.Unseen)
    assert "no release of the chart bulkhead in namespace bulkhead-system" in found.reason


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=5), lambda more: st.lists(more) | st.dictionaries(st.text(), more)
    )
)
def test_no_shape_of_it_breaks_the_reader(found: Any) -> None:
    release = decoded(secret(gzip.compress(json.dumps(found).encode())))
    assert release.objects == ()


def test_only_what_the_chart_wrote_is_compared() -> None:
    wanted = {"spec": {"a": 1, "list": [{"name": "x"}], "none": None, "empty": []}, "metadata": {"labels": {"x": "y"}}}
    live = {"spec": {"a": 1, "list": [{"name": "x", "default": True}], "added": 2}, "metadata": {}, "status": {}}
    assert difference(wanted, live) == ""
    assert difference(wanted, live | {"spec": live["spec"] | {"a": 2}}) == "spec.a"
    assert difference(wanted, live | {"spec": live["spec"] | {"list": []}}) == "spec.list"
    assert difference(wanted, live | {"spec": live["spec"] | {"empty": ["more"]}}) == "spec.empty"
    assert difference(wanted, {}) == "spec"


def test_the_rules_of_an_aggregated_role_are_the_servers() -> None:
    wanted = {"aggregationRule": {"clusterRoleSelectors": [{}]}, "rules": []}
    assert difference(wanted, wanted | {"rules": [{"verbs": ["get"]}]}) == ""
    assert difference({"rules": []}, {"rules": [{"verbs": ["get"]}]}) == "rules"
