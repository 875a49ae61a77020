"""A real API server takes the policies and flags that are rendered, and writes down what it should, without credentials."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bulkhead.api.auditevents import read
from bulkhead.kube.client import Client
from bulkhead.kube.objects import Resource
from bulkhead.kube.resources import CONFIG_MAPS, SECRETS, SERVICE_ACCOUNTS, SERVICES
from controller.plane import audit
from controller.plane.pki import SYNCER_USER
from controller.plane.spec import CONFIG_PATH
from controller.plane.trail import Audit
from tests.kit.servers import ApiServer, ServerOptions

pytestmark = [pytest.mark.apiserver, pytest.mark.auditing]
CANARY = "canary-4711"
CASES = {"built-in": None, "metadata": Audit(), "requests": Audit(requests=True, file_mib=16), "small": Audit(file_mib=1)}
CLEANER = "system:serviceaccount:kube-system:generic-garbage-collector"

_REVIEWS = Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", False)


@pytest.fixture(params=CASES)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Audit | None, ApiServer]]:
    asked = CASES[request.param]
    (tmp_path / "audit-policy.json").write_text(json.dumps(audit.policy(asked)))
    flags = tuple(
        flag.replace(CONFIG_PATH, str(tmp_path)).replace(audit.AUDIT_PATH, str(tmp_path)) for flag in audit.flags(asked)
    )
    started = ApiServer("audited", tmp_path / "server", ServerOptions(flags=flags))
    try:
        started.start()
        started.wait()
        yield asked, started
    finally:
        started.stop()


async def test_what_is_written_down(server: tuple[Audit | None, ApiServer], tmp_path: Path) -> None:
    asked, api = server
    platform = api.config_for(SYNCER_USER, "system:masters")
    account_of_system = api.config_for(CLEANER, "system:masters", "system:serviceaccounts:kube-system")
    async with (
        Client(api.admin, user_agent="tests", field_manager="tests") as admin,
        Client(platform, user_agent="tests", field_manager="tests") as syncer,
        Client(account_of_system, user_agent="tests", field_manager="tests") as cleaner,
    ):
        for resource, fields in (
            (SECRETS, {"stringData": {"x": CANARY}}),
            (CONFIG_MAPS, {"data": {"x": CANARY}}),
            (SERVICES, {"spec": {"ports": [{"port": 80}], "externalName": "x", "sessionAffinity": "None"}}),
        ):
            note = {"annotations": {"note": "seen-4712"}} if resource is SERVICES else {}
            await admin.create(resource, {"metadata": {"name": "told"} | note} | fields, "default")
        account = {"metadata": {"name": "worker"}}
        await admin.create(SERVICE_ACCOUNTS, account, "default")
        token = await admin.create_subresource(SERVICE_ACCOUNTS, "worker", "token", {"spec": {}}, "default")
        await admin.create(_REVIEWS, {"spec": {"token": token["status"]["token"]}})
        await syncer.get(SECRETS, "told", "default")
        # An admin of the tenant can have a token of such an account.
        await cleaner.get(SECRETS, "told", "default")
        await cleaner.list(SECRETS, "default")
        await cleaner.get(SERVICES, "told", "default")
        await syncer.create(SERVICES, {"metadata": {"name": "own"}, "spec": {"ports": [{"port": 81}]}}, "default")
        # A body that is too large for a file, and a head: both leave a line behind.
        await admin.create(CONFIG_MAPS, {"metadata": {"name": "large"}, "data": {"x": "<" * 900_000}}, "default")
        uri = f"/api/v1/namespaces/default/pods?labelSelector=x!={'a' * 60}&pretty={'<' * 100_000}"
        await admin.get_raw(uri)
    raw = (tmp_path / "audit.log").read_text()
    events = [event for event in map(read, raw.encode().splitlines()) if event is not None]
    found = {(user(event), str(event["verb"]), target(event)) for event in events}
    for name in ("secrets told", "configmaps told", "services told", "serviceaccounts/token worker", "configmaps large"):
        assert ("admin", "create", name) in found
    assert ("admin", "create", "tokenreviews ") in found
    assert ("admin", "list", "pods ") in found
    assert (SYNCER_USER, "create", "services own") in found
    assert (SYNCER_USER, "get", "secrets told") not in found
    assert (CLEANER, "get", "secrets told") in found
    assert (CLEANER, "list", "secrets ") in found
    assert ((CLEANER, "get", "services told") in found) is (asked is not None)
    assert CANARY not in raw
    assert token["status"]["token"] not in raw
    assert ("seen-4712" in raw) is bool(asked and asked.requests)


def user(event: Any) -> str:
    return str(event["user"]["username"])


def target(event: Any) -> str:
    found = event.get("objectRef") or {}
    kind = "/".join(each for each in (found.get("resource"), found.get("subresource")) if each)
    return f"{kind} {found.get('name', '')}"
