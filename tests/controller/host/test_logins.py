"""Requests for people's certificates on a real API server: one who floods, what is kept of a request, and what goes in time."""

import asyncio
import base64
from collections.abc import AsyncIterator
from datetime import datetime, timedelta

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from bulkhead.api import names
from bulkhead.api.objects import Obj
from bulkhead.kube import codec
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.work.clock import SystemClock
from controller.decide import logins as decide
from controller.host import logins
from controller.host.logins import Logins
from tests.kit.background import background
from tests.kit.crds import install
from tests.kit.servers import ApiServer, by_token
from tests.kit.syncerbed import until

pytestmark = [pytest.mark.apiserver, pytest.mark.reconcile]
REQUESTS = kinds.CERTIFICATE_SIGNING_REQUESTS
FLOOD = 200


def pem() -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    made = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, hashes.SHA256())
    return base64.b64encode(made.public_bytes(serialization.Encoding.PEM)).decode()


def filed(prefix: str, request: str, tenant: str = "nobodys") -> Obj:
    spec = {"request": request, "signerName": names.LOGIN_SIGNER, "usages": ["client auth"]}
    return {"metadata": {"generateName": f"{prefix}-", "labels": {"bulkhead.dev/tenant": tenant}}, "spec": spec}


@pytest.fixture
async def admin(quiet_server: ApiServer) -> AsyncIterator[Client]:
    async with Client(by_token(quiet_server.admin), user_agent="tests", field_manager="tests") as client:
        await install(client)
        yield client
        for each in (await client.list(REQUESTS)).items:
            await client.delete(REQUESTS, each["metadata"]["name"])


async def answered(client: Client, prefix: str) -> int:
    listed = (await client.list(REQUESTS)).items
    ours = [each for each in listed if each["metadata"]["name"].startswith(prefix)]
    return sum(not decide.is_open(decide.request_of(each)) for each in ours)


async def test_a_user_who_files_hundreds_keeps_no_other_waiting(quiet_server: ApiServer, admin: Client) -> None:
    """All are refused, because they name no tenant; the last request is answered while nearly all of the flood still waits."""
    request = pem()
    async with (
        Client(quiet_server.config_for("flood", "system:masters"), user_agent="tests", field_manager="tests") as flood,
        Client(quiet_server.config_for("ada", "system:masters"), user_agent="tests", field_manager="tests") as ada,
    ):
        await asyncio.gather(*(flood.create(REQUESTS, filed("a-flood", request)) for _ in range(FLOOD)))
        # By its name the last of a list, as by its time.
        await ada.create(REQUESTS, filed("z-ada", request))
        async with background(Logins(admin, SystemClock()).run()):

            async def all_answered() -> bool:
                return await answered(admin, "a-flood") == FLOOD

            # Nor is the flood forgotten.
            await until(all_answered, "the flood answered")
    # Each is written once, with its answer: by their versions they are in the order in which they were answered.
    by_version = sorted((await admin.list(REQUESTS)).items, key=lambda each: int(each["metadata"]["resourceVersion"]))
    names_ = [each["metadata"]["name"].partition("-")[0] for each in by_version]
    assert names_.index("z") < FLOOD // 2


class Sooner(SystemClock):
    """A clock on which a sleep of a minute ends at once, and answers are old."""

    def now(self) -> datetime:
        return super().now() + timedelta(minutes=11)

    async def sleep(self, seconds: float) -> None:
        await super().sleep(min(seconds, 0.1))


async def test_what_was_answered_goes_in_its_time(admin: Client) -> None:
    await admin.create(REQUESTS, filed("old", pem()))
    async with background(Logins(admin, SystemClock()).run()):
        await until(lambda: answered(admin, "old"), "an answer")
    assert len((await admin.list(REQUESTS)).items) == 1

    async def gone() -> bool:
        return not (await admin.list(REQUESTS)).items

    async with background(Logins(admin, Sooner()).run()):
        await until(gone, "what was answered, removed")


async def test_little_is_kept_of_a_request_and_nothing_of_a_very_large_one(admin: Client) -> None:
    made = await admin.create(REQUESTS, filed("kept", pem()))
    large = made["metadata"] | {"annotations": {"a": "x" * 2000, "b": "<" * 9000}}
    meta, body = logins.facts(msgspec.Raw(codec.encode(made | {"metadata": large})), None)
    assert len(body) < 400
    assert (meta.annotations, meta.labels) == (None, None)
    kept, whole = decide.request_of(codec.decode_obj(body)), decide.request_of(made)
    assert (kept.name, kept.requester, kept.created) == (whole.name, whole.requester, whole.created)
    assert decide.is_open(kept)
    for status in ({"conditions": [{"type": "Denied"}]}, {"conditions": [{"type": "Failed"}]}, {"certificate": "eA=="}):
        _, body = logins.facts(codec.encode(made | {"status": status}), None)
        assert not decide.is_open(decide.request_of(codec.decode_obj(body)))
    assert logins.facts(codec.encode(made | {"spec": made["spec"] | {"request": "x" * 70_000}}), None)[1] == b""
    for junk in ({"metadata": {"name": "x"}}, {"metadata": made["metadata"], "status": {"conditions": 1}}):
        assert logins.facts(codec.encode(junk), None)[1] == b""
