"""Requests for people's certificates: the controller answers those of its own signer, by its own rights, and no others."""

import asyncio
import base64

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from bulkhead.api import names
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import ApiError
from bulkhead.work.clock import SystemClock
from controller.host.logins import Logins
from tests.chart.controller.limited import Limited
from tests.kit.background import background
from tests.kit.controllerhost import ask, take_down
from tests.kit.servers import ApiServer
from tests.kit.syncerbed import until

pytestmark = pytest.mark.apiserver
RBAC = "rbac.authorization.k8s.io"


def request_for(signer: str, tenant: str = "own-login") -> Obj:
    key = ec.generate_private_key(ec.SECP256R1())
    pem = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, hashes.SHA256())
    spec = {
        "request": base64.b64encode(pem.public_bytes(serialization.Encoding.PEM)).decode(),
        "signerName": signer,
        "usages": ["client auth", "digital signature"],
    }
    return {"metadata": {"generateName": "x-", "labels": {"bulkhead.dev/tenant": tenant}}, "spec": spec}


@pytest.mark.charts
async def test_it_signs_in_a_person_by_its_own_rights_and_its_role_lets_people_ask(
    server: ApiServer, admin: Client, limited: Client
) -> None:
    await ask(admin, "own-login")
    binding = {"metadata": {"name": "people"}, "subjects": [{"kind": "User", "apiGroup": RBAC, "name": "alice"}]}
    await admin.apply(
        kinds.CLUSTER_ROLE_BINDINGS, binding | {"roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "bulkhead-login"}}
    )
    async with (
        Limited(admin, limited) as world,
        background(Logins(limited, SystemClock()).run()),
        Client(server.config_for("alice"), user_agent="tests", field_manager="tests") as alice,
    ):
        await world.settle("own-login")

        async def signed() -> bool:
            filed = await alice.create(kinds.CERTIFICATE_SIGNING_REQUESTS, request_for(names.LOGIN_SIGNER))
            for _ in range(50):
                status = (await alice.get(kinds.CERTIFICATE_SIGNING_REQUESTS, filed["metadata"]["name"])).get("status") or {}
                if status.get("certificate") or status.get("conditions"):
                    return bool(status.get("certificate"))
                await asyncio.sleep(0.1)
            return False

        await until(signed, "a certificate")
        await take_down(world, "own-login")


@pytest.mark.parametrize("subresource", ["", "approval", "status"])
async def test_it_answers_requests_of_no_other_signer(subresource: str, mighty: Client, admin: Client) -> None:
    for signer, refused in (("kubernetes.io/kube-apiserver-client", True), (names.LOGIN_SIGNER, False)):
        made = await admin.create(kinds.CERTIFICATE_SIGNING_REQUESTS, request_for(signer))
        name = str(made["metadata"]["name"])
        condition = {"type": "Approved" if subresource == "approval" else "Failed", "status": "True", "reason": "x"}
        changed = made | {"status": {"conditions": [condition]}}

        async def write(name: str = name, changed: Obj = changed) -> None:
            if subresource:
                await mighty.replace(kinds.CERTIFICATE_SIGNING_REQUESTS, changed, subresource=subresource)
            else:
                await mighty.delete(kinds.CERTIFICATE_SIGNING_REQUESTS, name)

        if not refused:
            await write()
            continue
        with pytest.raises(ApiError, match="of its own signer"):
            await write()
