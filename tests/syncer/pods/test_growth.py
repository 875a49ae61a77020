"""By how much patches make a host pod larger: the same as its sizes before and after, without what never wants for room."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkhead.api.objects import Obj
from syncer.pods import growth
from syncer.translate.diff import Patch
from syncer.translate.kinds.networkpolicy import EGRESS_ISOLATED, INGRESS_ISOLATED
from syncer.translate.kinds.pod import GENERATION
from syncer.translate.metadata import APPLIED

HOST: Obj = {
    "metadata": {"labels": {"app": "a", "tier": "1"}, "annotations": {"note": "xx", "cni.example/address": "x" * 500}},
    "spec": {"containers": [{"name": "main", "image": "busybox"}], "tolerations": [{"key": "a"}]},
}
TEXTS = st.dictionaries(st.sampled_from("abcdef"), st.text(max_size=20), max_size=6)


def grows(body: Obj, host: Obj = HOST) -> int:
    return growth.bytes_of((Patch(body),), host)


@given(TEXTS, st.dictionaries(st.sampled_from("abcdef"), st.text(max_size=20) | st.none(), max_size=6))
def test_labels_and_annotations_count_for_exactly_what_they_add(before: dict[str, str], change: dict[str, Any]) -> None:
    after = {key: value for key, value in (before | change).items() if value is not None}

    def size(texts: dict[str, str]) -> int:
        entries = (json.dumps({key: value}, ensure_ascii=False, separators=(",", ":")) for key, value in texts.items())
        return sum(len(entry.encode()) for entry in entries)

    for field in ("labels", "annotations"):
        host = {"metadata": {field: before}}
        assert grows({"metadata": {field: change}}, host) == size(after) - size(before)
    assert growth.labels((Patch({"metadata": {"labels": change}}),), {"metadata": {"labels": before}}) == after


@pytest.mark.parametrize(
    ("body", "by"),
    [
        ({"metadata": {"uid": "u"}}, 0),
        ({"metadata": {"labels": {"app": None}}}, -len('{"app":"a"}')),
        # What others noted on the host pod gives the tenant nothing.
        ({"metadata": {"annotations": {"note": "x" * 12}}}, 10),
        ({"spec": {"containers": [{"name": "main", "image": "busybox:1.36"}]}}, 5),
        ({"spec": {"initContainers": [{"name": "i", "image": "b"}]}}, len('"b"') - len("null")),
        ({"spec": {"tolerations": [{"key": "a"}, {"key": "b"}]}}, len(',{"key":"b"}')),
        ({"spec": {"ephemeralContainers": [{"name": "d"}]}}, len('[{"name":"d"}]')),
        ({"spec": {"containers": [{"name": "main", "resources": {"limits": {"cpu": "1"}}}]}}, 0),
        # A policy isolates pods, and a resize is noted, in a tenant that is full as well.
        ({"metadata": {"labels": {INGRESS_ISOLATED: "true", EGRESS_ISOLATED: "true"}}}, 0),
        ({"metadata": {"annotations": {GENERATION: "10", APPLIED: "{}"}}}, 0),
    ],
)
def test_what_counts_of_a_patch(body: Obj, by: int) -> None:
    assert grows(body) == by


def test_all_patches_of_a_pod_count_together() -> None:
    patches = (
        Patch({"metadata": {"labels": {"app": "bb"}}}),
        Patch({"spec": {"ephemeralContainers": []}}, "ephemeralcontainers"),
    )
    assert growth.bytes_of(patches, HOST) == 1 + 2
    assert growth.labels(patches, HOST) == {"app": "bb", "tier": "1"}
