"""What no API server stores, and a plane that lies may answer: data that are not base64, addresses that are not addresses."""

from typing import Any

import pytest

from bulkhead.api.objects import Obj
from syncer.translate import Reason, Untranslatable
from syncer.translate.registry import KINDS
from tests.kit import translationsamples as samples
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


@pytest.mark.parametrize(
    ("pod", "field"),
    [
        (
            samples.container(env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.nonsense"}}}]),
            "spec.containers[0].env[0].valueFrom.fieldRef.fieldPath",
        ),
        (
            samples.pod({"volumes": [{"name": "v", "projected": {"sources": [{}]}}]}),
            "spec.volumes[0].projected.sources[0]",
        ),
        (
            samples.pod(
                {
                    "topologySpreadConstraints": [
                        {
                            "maxSkew": 1,
                            "topologyKey": "kubernetes.io/hostname",
                            "whenUnsatisfiable": "DoNotSchedule",
                            "matchLabelKeys": ["app"],
                        }
                    ]
                }
            ),
            "spec.topologySpreadConstraints[0].matchLabelKeys",
        ),
    ],
)
def test_a_pod_with_it_is_refused_as_malformed(pod: Obj, field: str) -> None:
    with pytest.raises(Untranslatable) as refused:
        KINDS["Pod"].to_host(pod, VIEW)
    assert (refused.value.reason, refused.value.field) == (Reason.MALFORMED, field)


def test_a_system_class_is_the_hosts_own_whatever_the_class_offers() -> None:
    view = samples.view({"allowed_priority_classes": ["system-custom"]})
    with pytest.raises(Untranslatable, match="is the host's own") as refused:
        KINDS["Pod"].to_host(samples.pod({"priorityClassName": "system-custom"}), view)
    assert refused.value.reason is Reason.NOT_ALLOWED
