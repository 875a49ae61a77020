"""What may be in an archive: planted texts are gone, and what helps is still there. Pure, no cost."""

import json
from typing import Any

import pytest

from workstation.collect import redact, sources

CANARY = "canary-4711"
JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJzeXN0ZW0ifQ.c2lnbmF0dXJl"


@pytest.mark.parametrize(
    ("content", "kept"),
    [
        (f"Authorization: Bearer {JWT}", "Authorization:"),
        (f"got {JWT} from", "from"),
        ("-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\nafter", "after"),
        ("-----BEGIN EC PRIVATE KEY-----\nMIIE cut off", ""),
        ("password=hunter2-hunter2 user=a", "user=a"),
        ('{"dbPassword": "hunter2-hunter2", "a": 1}', '"a": 1'),
        ("https://bob:hunter2-hunter2@example.org/x", "example.org/x"),
        ("https://example.org/hook?key=hunter2-hunter2 refused", "refused"),
        (f"key {'Ab1+' * 20}== end", "end"),
    ],
)
def test_what_looks_like_a_credential_is_gone(content: str, kept: str) -> None:
    found = redact.line(content)
    assert redact.REDACTED in found
    assert kept in found
    for secret in (JWT, "MIIE", "hunter2", "Ab1+Ab1+"):
        assert secret not in found


@pytest.mark.parametrize(
    "content",
    [
        "sha256:" + "0a" * 32,
        "/apis/bulkhead.dev/v1alpha1/namespaces/bh-red-work/tenantclasses/a-very-long-name-of-a-class/status",
        "I1126 12:00:00 1 server.go:12] 3 of 5 members are ready, 12 ms",
    ],
)
def test_what_is_not_one_stays(content: str) -> None:
    assert redact.line(content) == content


def tenants_pod() -> dict[str, Any]:
    container = {
        "name": "main",
        "image": CANARY,
        "command": [CANARY],
        "env": [{"name": "A", "value": CANARY}],
        "resources": {"requests": {"cpu": "1"}},
    }
    status = {
        "phase": "Pending",
        "message": CANARY,
        "conditions": [{"type": "Ready", "status": "False", "reason": "ContainersNotReady", "message": CANARY}],
        "containerStatuses": [
            {
                "name": "main",
                "ready": False,
                "restartCount": 3,
                "image": CANARY,
                "lastState": {"terminated": {"reason": "OOMKilled", "exitCode": 137, "message": CANARY}},
            }
        ],
    }
    meta = {
        "name": "web-0",
        "labels": {"app": CANARY, "kubernetes.io/x": CANARY, "bulkhead.dev/virtual-uid": "u"},
        "annotations": {"notes": CANARY},
        "managedFields": [{"manager": CANARY}],
    }
    spec = {"nodeName": "n", "containers": [container], "hostAliases": [{"ip": "1.1.1.1", "hostnames": [CANARY]}]}
    return {"kind": "Pod", "metadata": meta, "spec": spec, "status": status}


def test_a_tenants_pod_keeps_numbers_and_reasons() -> None:
    found = json.dumps(redact.pod(tenants_pod()))
    assert CANARY not in found
    for needed in ("web-0", "OOMKilled", "137", "ContainersNotReady", '"cpu": "1"', "bulkhead.dev/virtual-uid"):
        assert needed in found


def test_secrets_and_config_maps_keep_keys_and_sizes() -> None:
    secret = {
        "kind": "Secret",
        "type": "Opaque",
        "metadata": {"name": "a"},
        "data": {"key": "Y2FuYXJ5"},
        "stringData": {"b": CANARY},
    }
    found = redact.sizes(secret)
    assert found["bytes"] == {"key": 6}
    assert "Y2FuYXJ5" not in json.dumps(found)
    assert CANARY not in json.dumps(found)
    assert redact.sizes({"kind": "ConfigMap", "metadata": {}, "data": {"a": CANARY}})["bytes"] == {"a": len(CANARY)}


def test_a_tenants_people_are_counted() -> None:
    access = {"admins": [{"kind": "User", "name": CANARY}], "revokedUsers": [CANARY, "b"]}
    spec = {"class": "standard", "access": access, "scheduling": {"slurm": {"users": [{"name": CANARY}]}}}
    found = redact.tenant({"metadata": {"name": "red", "annotations": {"x": CANARY}}, "spec": spec})
    assert CANARY not in json.dumps(found)
    assert found["spec"]["access"] == {"admins": {"count": 1}, "revokedUsers": {"count": 2}}


@pytest.mark.parametrize(("reason", "kept"), [("FailedScheduling", True), ("Failed", False), (CANARY, False)])
def test_an_events_message_stays_only_where_the_host_wrote_it(reason: str, *, kept: bool) -> None:
    found = redact.event(
        {"reason": reason, "message": "0/3 nodes are available", "involvedObject": {"kind": "Pod", "name": "a"}}
    )
    assert (found["message"] == "0/3 nodes are available") is kept
    assert found["about"] == "Pod/a"


def test_what_the_platform_wrote_stays_without_values_of_variables() -> None:
    made = {"metadata": {"name": "plane-0"}, "spec": {"env": [{"name": "A", "value": CANARY}], "args": ["--x=1"]}}
    found = redact.ours(made)
    assert CANARY not in json.dumps(found)
    assert found["spec"]["args"] == ["--x=1"]


@pytest.mark.parametrize("strange", [{}, {"metadata": None, "spec": [], "status": "x", "data": 3}, {"spec": {"containers": 1}}])
def test_strange_objects_are_no_error(strange: dict[str, Any]) -> None:
    for redacted in (redact.pod, redact.claim, redact.event, redact.sizes, redact.ours, redact.tenant):
        assert isinstance(redacted(strange), dict)


def test_of_an_api_servers_metrics_only_known_names_stay() -> None:
    data = b'apiserver_storage_size_bytes{a="b"} 1\ncanary_total 3\n# HELP x\nprocess_resident_memory_bytes 5\n'
    assert sources.metric_lines(data) == b'apiserver_storage_size_bytes{a="b"} 1\nprocess_resident_memory_bytes 5\n'
