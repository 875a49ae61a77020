"""What no API server stores, and a plane that lies may still answer: data that are not base64, addresses that are none."""

from typing import Any

import pytest

from syncer.translate import Reason, Untranslatable
from syncer.translate.registry import KINDS
from tests.kit.translationsamples import VIEW

META = {"name": "a", "namespace": "team", "uid": "0b8c7a52-0000-4000-8000-000000000009"}


@pytest.mark.parametrize(
    ("kind", "content", "field"),
    [
        ("Secret", {"type": "Opaque", "data": {"key": "%%%"}}, "data.key"),
        ("Secret", {"type": "Opaque", "data": {"key": "YQ"}}, "data.key"),
        ("Service", {"spec": {"clusterIP": "10.112.4", "ports": [{"port": 80}]}}, "spec.clusterIP"),
        ("Service", {"spec": {"clusterIP": "db.example.org", "ports": [{"port": 80}]}}, "spec.clusterIP"),
    ],
)
def test_it_is_refused_as_malformed(kind: str, content: dict[str, Any], field: str) -> None:
    with pytest.raises(Untranslatable) as refused:
        KINDS[kind].to_host({"apiVersion": "v1", "kind": kind, "metadata": META} | content, VIEW)
    assert (refused.value.reason, refused.value.field) == (Reason.MALFORMED, field)
