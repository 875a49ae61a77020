"""Helm's Secret of a release, as Helm writes it, and as nothing good would."""

import base64
import gzip
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
