"""What a class tells the syncer and the host's policies: rates, room on the host, periods of grace and of drains."""

import json
from typing import Any

import pytest

from bulkhead.api.syncersettings import READ_AGAIN
from controller.plane.policyfacts import policy_facts
from controller.plane.syncer import settings
from syncer.settings import parse as read
from tests.kit.tenantsamples import plane_for, tenant, tenant_class


@pytest.mark.parametrize(
    ("logs", "sessions", "told"),
    [
        (None, None, {}),
        ("4Mi", "8Mi", {}),
        ("2Mi", None, {"logBytesPerSecond": 2 << 20}),
        ("1Mi", "1Gi", {"logBytesPerSecond": 1 << 20, "sessionBytesPerSecond": 1 << 30}),
        ("soon", "", {}),
    ],
)
def test_the_class_says_how_fast_logs_and_sessions_pass(logs: str | None, sessions: str | None, told: dict[str, int]) -> None:
    rates = {"logRate": logs, "sessionRate": sessions}
    plane = {field: rate for field, rate in rates.items() if rate is not None}
    found = settings(plane_for(tenant(), tenant_class(controlPlane=plane)))
    # What is the built-in one restarts no syncer, and neither does another rate.
    assert {name: value for name, value in found.items() if name.endswith("BytesPerSecond")} == told
    assert told.keys() <= READ_AGAIN


@pytest.mark.parametrize(
    ("quota", "asked", "told"),
    [
        ({}, {}, {}),
        ({"maxPodBytes": "128Mi", "maxServiceEndpoints": 20_000}, {}, {}),
        ({"maxPodBytes": "1Mi"}, {}, {"mostPodBytes": 1 << 20}),
        ({"maxServiceEndpoints": 7}, {}, {"mostServiceEndpoints": 7}),
        # A class with more pods gives each of them as many places behind Services; one with fewer takes nothing away.
        ({"objects": {"pods": 5000}}, {}, {"mostServiceEndpoints": 100_000}),
        ({"objects": {"pods": 5000}, "maxServiceEndpoints": 7}, {}, {"mostServiceEndpoints": 7}),
        ({"objects": {"pods": 5000}}, {"pods": 2000}, {"mostServiceEndpoints": 40_000}),
        ({"objects": {"pods": 10}}, {}, {}),
        ({"objects": {"pods": 1_000_000}}, {}, {"mostServiceEndpoints": 20_000_000}),
        ({"maxPodBytes": "large", "maxServiceEndpoints": "many"}, {}, {}),
    ],
)
def test_the_class_says_what_all_pods_and_all_services_may_take_on_the_host(
    quota: dict[str, Any], asked: dict[str, int], told: dict[str, int]
) -> None:
    wants: dict[str, Any] = {"quota": {"objects": asked}} if asked else {}
    found = settings(plane_for(tenant(**wants), tenant_class(quota=quota)))
    # What is the built-in one restarts no syncer.
    assert {name: value for name, value in found.items() if name in ("mostPodBytes", "mostServiceEndpoints")} == told
    assert read(json.dumps(found).encode()).most_service_endpoints == told.get("mostServiceEndpoints", 20_000)


@pytest.mark.parametrize(
    ("period", "seconds"), [(None, 3600), ("1h", 3600), ("60m", 3600), ("30s", 30), ("9h", 3600), ("x", 3600)]
)
def test_the_class_says_how_long_a_pod_may_go_on_after_its_deletion(period: str | None, seconds: int) -> None:
    nodes = {} if period is None else {"nodes": {"maxGracePeriod": period}}
    spec = plane_for(tenant(), tenant_class(**nodes))
    assert policy_facts(spec)["bulkhead.dev/max-grace-seconds"] == str(seconds)
    # What is the built-in one restarts no syncer.
    assert settings(spec).get("maxGraceSeconds", 3600) == seconds
    assert ("maxGraceSeconds" in settings(spec)) == (seconds != 3600)


@pytest.mark.parametrize(
    ("deadline", "seconds"), [(None, 3600), ("1h", 3600), ("90m", 5400), ("30s", 30), ("0s", 0), ("Never", -1), ("soon", 3600)]
)
def test_the_class_says_for_how_long_budgets_hold_up_a_drain(deadline: str | None, seconds: int) -> None:
    nodes = {} if deadline is None else {"nodes": {"drainDeadline": deadline}}
    spec = plane_for(tenant(), tenant_class(**nodes))
    assert spec.nodes.drain_seconds == seconds
    # What is the built-in one restarts no syncer.
    assert settings(spec).get("drainSeconds", 3600) == seconds
    assert ("drainSeconds" in settings(spec)) == (seconds != 3600)
