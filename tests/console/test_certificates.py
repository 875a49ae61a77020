"""Certificates that end soon are an alarm on the overview, with what to type; a user without the right is told so."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from bulkhead.kube.client import Client
from bulkhead.kube.kubeconfig import KubeConfig
from tests.console import sample
from workstation.cli.console.alarms import Ending, certificates
from workstation.cli.console.certificates import Ends, endings, read_ends
from workstation.cli.console.drawing import picture_of
from workstation.console.picture import Level

DAY = 86_400.0
NOW = sample.NOW


def series(tenant: str, at: float | str, certificate: str = "pki-ca-etcd") -> str:
    return f'bulkhead_tenant_certificate_end_seconds{{certificate="{certificate}",tenant="{tenant}"}} {at}'


@pytest.mark.parametrize(
    ("days", "level", "words"),
    [
        (30, None, ""), (20.5, None, ""), (19.5, Level.WARN, "in 19 days"), (6.5, Level.BAD, "in 6 days"),
        (-1, Level.BAD, "has ended"),
    ],
)  # fmt: skip
def test_an_alarm_comes_with_twenty_days_left_and_becomes_red(days: float, level: Level | None, words: str) -> None:
    found = certificates({"red": Ending("pki-apiserver", NOW + days * DAY)}, NOW)
    assert [alarm.level for alarm in found] == ([] if level is None else [level])
    for alarm in found:
        assert (alarm.kind, alarm.subject, alarm.next_step) == ("tenant", "red", "bulkhead tenant why red")
        assert words in alarm.text
        assert "pki-apiserver" in alarm.text
        assert "2026-" in alarm.text


def test_many_at_once_are_one_alarm_that_points_to_the_controller() -> None:
    found = certificates({f"t{at:02}": Ending("ca", NOW + (at - 1) * DAY) for at in range(15)}, NOW)
    assert len(found) == 1
    assert found[0].level is Level.BAD
    assert "certificates of 15 planes" in found[0].text
    assert "t00, t01, t02, t03 and 11 more" in found[0].subject
    assert "logs -l app.kubernetes.io/component=controller --prefix --tail=-1 | grep" in found[0].next_step


def test_the_overview_has_it_and_only_for_tenants_that_are_there() -> None:
    soon = Ending("<b>ca</b>", NOW + 3 * DAY)
    seen = replace(sample.small().seen(), ends={"red": soon, "gone": soon, "blue": Ending("ca", NOW + 90 * DAY)})
    assert [(alarm.subject, alarm.reason) for alarm in picture_of(seen).alarms] == [("red", "CertificateEnds")]


@pytest.mark.parametrize("at", ["NaN", "1e300", "-1e300", "x", ""])
def test_a_value_of_any_kind_ends_as_an_alarm_or_as_nothing(at: str) -> None:
    found = endings(series("red", at).encode())
    for alarm in certificates(found, NOW):
        assert len(alarm.text) < 1000


def test_the_first_end_of_a_tenant_counts() -> None:
    page = "\n".join([series("red", 900), series("red", 300, "other"), series("", 1), "bulkhead_other 5", series("blue", 7)])
    assert endings(page.encode()) == {"red": Ending("other", 300.0), "blue": Ending("pki-ca-etcd", 7.0)}


@contextlib.asynccontextmanager
async def controllers(**pages: tuple[int, str]) -> AsyncIterator[Client]:
    """A host's API server with pods of the controller, whose pages are given by name."""

    async def listed(_: web.Request) -> web.Response:
        items = [{"metadata": {"name": name, "namespace": "bulkhead-system"}, "status": {"phase": "Running"}} for name in pages]
        return web.json_response({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "5"}, "items": items})

    async def page(request: web.Request) -> web.Response:
        status, text = pages[request.match_info["pod"].partition(":")[0]]
        return web.Response(status=status, text=text)

    app = web.Application()
    app.add_routes(
        [web.get("/api/v1/pods", listed), web.get("/api/v1/namespaces/bulkhead-system/pods/{pod}/proxy/metrics", page)]
    )
    async with TestServer(app) as server:
        config = KubeConfig(server=f"http://127.0.0.1:{server.port}")
        async with Client(config, user_agent="tests", field_manager="tests") as client:
            yield client


async def test_the_leader_tells_them_whichever_pod_it_is() -> None:
    async with controllers(standby=(200, "up 1\n"), leader=(200, series("red", 500))) as client:
        assert await read_ends(client) == Ends({"red": Ending("pki-ca-etcd", 500.0)})


@pytest.mark.parametrize(
    ("status", "text", "missing"),
    [
        (403, '{"kind": "Status", "reason": "Forbidden", "code": 403, "message": "no"}', "you may not read pods/proxy"),
        (503, "down", "HTTP 503"),
        (200, "", "not reported them yet"),
    ],
)
async def test_why_they_are_missing_is_said(status: int, text: str, missing: str) -> None:
    async with controllers(leader=(status, text)) as client:
        found = await read_ends(client)
    assert found.tenants == {}
    assert missing in found.missing


async def test_without_a_controller_that_is_said() -> None:
    async with controllers() as client:
        assert (await read_ends(client)).missing == "no pod of the controller runs"
