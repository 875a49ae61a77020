"""Requests for user certificates as the host's API server admits them: how large they may be, and from which user.

The controller reads every one of them. Each refusal is tried against a real API server with the chart's policy, next to a
request that is admitted. Once the policy is removed, and the same request is then admitted.
"""

import base64
import copy
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from bulkhead.api import names
from bulkhead.api.objects import Obj
from bulkhead.kube import codec
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import ApiError
from bulkhead.kube.resources import VALIDATING_ADMISSION_POLICIES as POLICIES
from bulkhead.kube.resources import VALIDATING_ADMISSION_POLICY_BINDINGS as BINDINGS
from tests.kit.helmchart import rendered
from tests.kit.known import IN_FORCE
from tests.kit.servers import ApiServer, by_token
from tests.kit.syncerbed import until

pytestmark = pytest.mark.apiserver
REQUESTS = kinds.CERTIFICATE_SIGNING_REQUESTS
NAME = "bulkhead-login-requests"


def pem(key: Any = None, *, padding: int = 0) -> str:
    key = key or ec.generate_private_key(ec.SECP256R1())
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    if padding:
        names_ = [x509.DNSName("x" * 60) for _ in range(padding // 62)]
        builder = builder.add_extension(x509.SubjectAlternativeName(names_), critical=False)
    found = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    return base64.b64encode(found).decode()


EC = pem()
# Of an RSA key of 4096 bits, which takes seconds to make.
RSA = base64.b64encode(Path(__file__).with_name("rsa4096.csr").read_bytes()).decode()


def filed(request: str = EC, *, meta: Obj | None = None, **spec: Any) -> Obj:
    plain = {"signerName": names.LOGIN_SIGNER, "usages": ["client auth", "digital signature"], "expirationSeconds": 3600}
    metadata: Obj = {"generateName": "x-", "labels": {"bulkhead.dev/tenant": "red"}} | (meta or {})
    body: Obj = {"metadata": metadata, "spec": {"request": request, **plain, **spec}}
    body["spec"] = {key: value for key, value in body["spec"].items() if value is not None}
    return body


LARGE = pem(padding=5000)  # 5 kB, some 6.9 kB as PEM and 9.2 kB in base64
TOO_LARGE = pem(padding=7000)

ALLOWED: dict[str, Obj] = {
    "as the command files it": filed(),
    "of a large key": filed(RSA),
    "a large one": filed(LARGE),
    "no expiry": filed(expirationSeconds=None),
    "ten minutes": filed(expirationSeconds=600),
    "a day": filed(expirationSeconds=86400),
    "client auth alone": filed(usages=["client auth"]),
    "all usages": filed(usages=["client auth", "digital signature", "key encipherment"]),
    "as kubectl apply files it": filed(meta={"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "x" * 1200}}),
    "sixteen labels": filed(meta={"labels": {f"l{number}": "x" for number in range(16)}}),
    "of another signer, however large": filed(pem(padding=60_000), signerName="example.com/other"),
    "of another signer, with finalizers": filed(signerName="example.com/other", meta={"finalizers": ["example.com/x"]}),
    "of another signer, for servers": filed(signerName="example.com/other", usages=["server auth"]),
}
REFUSED: dict[str, tuple[Obj, str]] = {
    "a large one": (filed(TOO_LARGE), "larger than 9000 bytes"),
    "a very large one": (filed(pem(padding=700_000)), "larger than 9000 bytes"),
    "usages of servers": (filed(usages=["server auth"]), "the usages are"),
    "usages of servers besides": (filed(usages=["client auth", "server auth"]), "the usages are"),
    "without client auth": (filed(usages=["digital signature"]), "the usages are"),
    "more than a day": (filed(expirationSeconds=86401), "between 600 and 86400"),
    "a generation": (filed(expirationSeconds=2**31 - 1), "between 600 and 86400"),
    "a long annotation": (filed(meta={"annotations": {"a": "x" * 5000}}), "annotations, of 4096 characters"),
    "long annotations": (
        filed(meta={"annotations": {f"a{number}": "x" * 400 for number in range(15)}}),
        "annotations, of 4096",
    ),
    "many annotations": (filed(meta={"annotations": {f"a{number}": "" for number in range(17)}}), "at most 16 annotations"),
    "many labels": (filed(meta={"labels": {f"l{number}": "x" for number in range(17)}}), "at most 16 labels"),
    "a finalizer": (filed(meta={"finalizers": ["example.com/x"]}), "no finalizers"),
    "an owner": (
        filed(meta={"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}]}),
        "no finalizers and no owners",
    ),
}


@pytest.fixture
async def admin(guarded_server: ApiServer) -> AsyncIterator[Client]:
    async with Client(by_token(guarded_server.admin), user_agent="tests", field_manager="tests") as client:
        for obj in rendered():
            if obj["metadata"]["name"] == NAME:
                await client.apply(POLICIES if obj["kind"] == "ValidatingAdmissionPolicy" else BINDINGS, obj)
        await until(lambda: refused(client, REFUSED["a finalizer"][0]), "the policy in force", IN_FORCE)
        yield client


@pytest.fixture
async def alice(guarded_server: ApiServer, admin: Client) -> AsyncIterator[Client]:
    """A user with every right; only the policy can refuse their requests."""
    async with Client(
        guarded_server.config_for("alice", "system:masters"), user_agent="tests", field_manager="tests"
    ) as client:
        yield client


async def refused(client: Client, obj: Obj) -> str:
    """Why a request is refused by the policy; empty where it is not. Nothing is filed."""
    try:
        await client.transport.request("POST", REQUESTS.path(), params={"dryRun": "All"}, body=codec.encode(obj))
    except ApiError as error:
        if NAME not in str(error):
            raise
        return str(error).partition("denied request: ")[2]
    return ""


async def test_requests_as_people_file_them_are_let_in(alice: Client) -> None:
    assert {name: said for name, obj in ALLOWED.items() if (said := await refused(alice, obj))} == {}


async def test_requests_that_are_too_large_or_for_something_else_are_refused(alice: Client) -> None:
    found = {name: await refused(alice, obj) for name, (obj, _) in REFUSED.items()}
    assert [name for name, (_, why) in REFUSED.items() if why not in found[name]] == []


async def test_one_that_is_filed_grows_by_no_change_of_it(alice: Client) -> None:
    made = await alice.create(REQUESTS, filed())
    name = str(made["metadata"]["name"])
    growing: dict[str, Obj] = {
        "finalizers": {"finalizers": ["example.com/x"]},
        "annotations": {"annotations": {"a": "x" * 5000}},
        "labels": {"labels": {f"l{number}": "x" for number in range(17)}},
        "ownerReferences": {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}]},
    }
    for change in growing.values():
        with pytest.raises(ApiError, match="login: "):
            await alice.patch(REQUESTS, name, {"metadata": change})
    # The approval carries metadata too.
    said = {"type": "Approved", "status": "True", "reason": "x"}
    approved = copy.deepcopy(await alice.get(REQUESTS, name)) | {"status": {"conditions": [said]}}
    approved["metadata"]["annotations"] = {"a": "x" * 5000}
    with pytest.raises(ApiError, match="login: "):
        await alice.replace(REQUESTS, approved, subresource="approval")
    approved["metadata"]["annotations"] = {"a": "x"}
    await alice.replace(REQUESTS, approved, subresource="approval")
    await alice.delete(REQUESTS, name)


async def test_one_from_before_the_policy_can_be_answered_and_removed(alice: Client, admin: Client) -> None:
    await admin.delete(BINDINGS, NAME)

    async def let_in() -> bool:
        return not any([await refused(alice, obj) for obj, _ in REFUSED.values()])

    # The rule taken away: every one of them is let in.
    await until(let_in, "no policy in force", IN_FORCE)
    old = filed(TOO_LARGE, meta={"finalizers": ["example.com/x"]}, usages=["server auth"])
    name = str((await alice.create(REQUESTS, old))["metadata"]["name"])
    for obj in rendered():
        if obj["metadata"]["name"] == NAME and obj["kind"] == "ValidatingAdmissionPolicyBinding":
            await admin.apply(BINDINGS, obj)
    await until(lambda: refused(alice, REFUSED["a finalizer"][0]), "the policy in force", IN_FORCE)
    there = await alice.get(REQUESTS, name)
    denied = there | {"status": {"conditions": [{"type": "Denied", "status": "True", "reason": "x"}]}}
    await alice.replace(REQUESTS, denied, subresource="approval")
    await alice.patch(REQUESTS, name, {"metadata": {"finalizers": []}})
    await alice.delete(REQUESTS, name)
