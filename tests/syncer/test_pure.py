"""The small pure parts of the syncer's runtime: settings, heads, routes, refusals, patches, references, breaker, probes."""

import contextlib
from unittest.mock import AsyncMock

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkhead.kube.errors import ApiError, Forbidden, Unavailable, Unprocessable
from bulkhead.kube.objects import Key
from syncer import http1
from syncer.http1 import BadRequestError
from syncer.kubelet.routes import route
from syncer.mirrors.references import ReferenceIndex
from syncer.probes import STALL_SECONDS, Heart, Probes
from syncer.settings import Settings, SettingsFileError, parse
from syncer.translate import Reason, Reference, mergepatch
from syncer.watch.deletions import ObservedDeletions
from syncer.work import Item
from syncer.write import refusals
from syncer.write.identity import Observed, Recorded, judge
from syncer.write.massdelete import WINDOW_SECONDS, MassDeleteBreaker
from tests.kit.fakeclock import FakeClock

MINIMAL = {"tenant": "a", "tenantUID": "u", "planeNamespace": "bh-a", "workNamespace": "bh-a-work"}


def settings(**more: object) -> Settings:
    return parse(msgspec.json.encode(MINIMAL | more))


def test_settings_have_defaults() -> None:
    assert settings().kubelet_port == 10250
    assert settings(limits={"nvidia.com/gpu": 8}).limits == {"nvidia.com/gpu": 8}
    assert settings(runtimeClassName=None).runtime_class_name is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"tenants": "typo"},
        {"tenant": "Upper"},
        {"shimPort": 0},
        {"massDeleteLimit": 0},
        {"podSecurity": "none"},
        {"tokenSeconds": 10},
        {"nodes": {"selectors": {}}},
        {"limits": {"x": -1}},
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(SettingsFileError):
        settings(**wrong)


@pytest.mark.parametrize(
    "head",
    [
        b"GET /a%2e%2e/b HTTP/1.1\r\n\r\n",
        b"GET /a//b HTTP/1.1\r\n\r\n",
        b"GET /a/../b HTTP/1.1\r\n\r\n",
        b"GET /a;b HTTP/1.1\r\n\r\n",
        b"GET http://host/a HTTP/1.1\r\n\r\n",
        b"GET /a HTTP/1.0\r\n\r\n",
        b"GET /a HTTP/1.1\r\nX: a\nInjected: b\r\n\r\n",
        b"GET /a HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET /a HTTP/1.1\r\nContent-Length: 5\r\n\r\n",
        b"GET /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"GET /a?b=%ff%fe HTTP/1.1\r\n\r\n",
        b"BREW /a HTTP/1.1\r\n\r\n",
        b"GET /\xc3\xa4 HTTP/1.1\r\n\r\n",
        b"GET /a HTTP/1.1\r\n: a\r\n\r\n",
        b"GET /a HTTP/1.1\r\nX Y: a\r\n\r\n",
        b"GET /a HTTP/1.1\r\n" + b"".join(b"X-%d: a\r\n" % number for number in range(101)) + b"\r\n",
    ],
)
def test_heads_that_are_not_plain_are_refused(head: bytes) -> None:
    with pytest.raises(BadRequestError):
        http1.parse_head(head)


@given(st.binary(max_size=300))
def test_no_head_crashes_the_parser(raw: bytes) -> None:
    with contextlib.suppress(BadRequestError):
        route(http1.parse_head(raw + b"\r\n\r\n"))


@pytest.mark.parametrize(
    "target",
    [
        "/containerLogs/ns/web/main?follow=true&follow=false",
        "/containerLogs/ns/web/main?insecureSkipTLSVerifyBackend=true",
        "/containerLogs/ns/web/main?tailLines=-1",
        "/containerLogs/ns/web/main?tailLines=5%0a",
        "/containerLogs/ns/web/main?sinceTime=2026-01-01T00:00:00Z%0a",
        "/portForward/ns/web?ports=80%0a",
        "/exec/ns/web/main?command=sh&container=other",
        "/exec/ns/web/main",
        "/attach/ns/web/main?command=sh",
        "/portForward/ns/web?ports=0",
        "/portForward/ns/web?ports=70000",
        "/portForward/ns/Web",
        "/portForward/ns/web?ports=80&tty=1",
        "/portForward/ns/web?" + "&".join(["ports=80"] * 65),
        "/containerLogs/ns/web/main?follow=perhaps",
        "/containerLogs/ns/web/main?sinceTime=yesterday",
    ],
)
def test_parameters_that_are_not_listed_are_refused(target: str) -> None:
    head = f"GET {target} HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    with pytest.raises(BadRequestError):
        route(http1.parse_head(head.encode()))


@pytest.mark.parametrize(
    "upgrade", ["", "Connection: Upgrade\r\n", "Connection: Upgrade\r\nUpgrade: h2c\r\n", "Upgrade: websocket\r\n"]
)
@pytest.mark.parametrize("target", ["/exec/ns/web/main?command=sh", "/attach/ns/web/main", "/portForward/ns/web"])
def test_an_upgrade_to_an_unknown_protocol_is_refused(target: str, upgrade: str) -> None:
    with pytest.raises(BadRequestError, match="upgrade"):
        route(http1.parse_head(f"GET {target} HTTP/1.1\r\n{upgrade}\r\n".encode()))
    known = "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
    assert route(http1.parse_head(f"POST {target} HTTP/1.1\r\n{known}\r\n".encode())).pod == "web"


def test_quota_refusals_name_quota_use_and_request() -> None:
    text = (
        'pods "web-0123456789abcdef0123456789abcdef" is forbidden: exceeded quota: tenant-quota, '
        "requested: requests.nvidia.com/gpu=4, used: requests.nvidia.com/gpu=14, limited: requests.nvidia.com/gpu=16"
    )
    refused = refusals.explain(Forbidden(403, "Forbidden", text), "web")
    assert refused is not None
    assert refused.reason is Reason.QUOTA_EXCEEDED
    assert "tenant-quota" in refused.message
    assert "asked for 4 nvidia.com/gpu, 14 of 16 are in use" in refused.message


def test_other_refusals_hide_host_names() -> None:
    text = 'pods "web-0123456789abcdef0123456789abcdef" is forbidden: policy denied it in namespace "bh-a-work"'
    refused = refusals.explain(Forbidden(403, "Forbidden", text), "web")
    assert refused is not None
    assert refused.reason is Reason.HOST_REFUSED
    assert "0123456789abcdef" not in refused.message
    assert "bh-a-work" not in refused.message


def test_a_temporary_failure_is_not_a_refusal() -> None:
    assert refusals.explain(Unavailable(503, "", "down"), "web") is None
    assert refusals.explain(ApiError(500, "", "broken"), "web") is None
    uncounted = 'secrets "web-1" is forbidden: status unknown for quota: tenant-secrets, resources: secrets'
    assert refusals.explain(Forbidden(403, "Forbidden", uncounted), "web") is None
    unnoted = "pod: the controller has not noted yet what this tenant may do; it does so when it next reconciles the tenant"
    assert refusals.explain(Unprocessable(422, "Invalid", unnoted), "web") is None


json_values = st.recursive(
    st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)
json_objects = st.dictionaries(st.text(max_size=3), json_values, max_size=4)


def merged(target: dict[str, object], patch: dict[str, object]) -> dict[str, object]:
    result = dict(target)
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, dict):
            held = result.get(name)
            result[name] = merged(held if isinstance(held, dict) else {}, value)
        else:
            result[name] = value
    return result


@given(json_objects, json_objects)
def test_a_merge_patch_leads_from_old_to_new(old: dict[str, object], new: dict[str, object]) -> None:
    assert merged(old, mergepatch.between(old, new)) == new
    assert mergepatch.between(new, new) == {}


def test_references_come_with_the_first_and_go_with_the_last() -> None:
    index = ReferenceIndex()
    wanted = [Reference("ConfigMap", "ns", "c")]
    one, two, item = Item("Pod", Key("ns", "a")), Item("Ingress", Key("ns", "a")), Item("ConfigMap", Key("ns", "c"))
    assert index.set(one, wanted) == (frozenset({item}), frozenset())
    assert index.set(two, wanted) == (frozenset(), frozenset())
    assert index.forget(one) == frozenset()
    assert index.refers("ConfigMap", Key("ns", "c"))
    assert index.set(two, []) == (frozenset(), frozenset({item}))
    assert not index.refers("ConfigMap", Key("ns", "c"))
    assert index.forget(two) == frozenset()


def test_identity_is_judged() -> None:
    known = Recorded("uid", 100)
    assert judge(known, Observed("uid", 100)) == ""
    assert "identity" in judge(known, Observed("other", 200))
    assert "back in time" in judge(known, Observed("uid", 99))
    assert judge(Recorded("uid", 1, "kept"), Observed("uid", 200)) == "kept"


async def test_the_breaker_opens_at_the_limit_and_stays() -> None:
    clock = FakeClock()
    breaker = MassDeleteBreaker(2, clock, ObservedDeletions(), AsyncMock())
    assert await breaker.allow()
    clock.advance(WINDOW_SECONDS + 1)
    assert await breaker.allow()
    assert await breaker.allow()
    assert not await breaker.allow()
    clock.advance(WINDOW_SECONDS * 10)
    assert not await breaker.allow()


def test_a_stalled_loop_is_not_alive() -> None:
    clock = FakeClock()
    probes = Probes(Heart(clock), lambda: ["host Pod"])
    assert probes.respond("GET", "/livez").startswith(b"HTTP/1.1 200")
    assert b"host Pod" in probes.respond("GET", "/readyz")
    assert probes.respond("GET", "/readyz").startswith(b"HTTP/1.1 503")
    assert b"bulkhead_syncer_reconcile_total" in probes.respond("GET", "/metrics")
    assert probes.respond("POST", "/livez").startswith(b"HTTP/1.1 405")
    clock.advance(STALL_SECONDS)
    assert probes.respond("GET", "/livez").startswith(b"HTTP/1.1 503")
