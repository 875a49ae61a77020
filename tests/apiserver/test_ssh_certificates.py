"""Requests for ssh certificates in a real plane, answered by the real desk of the controller, for a Tenant of a real host.

Each request uses only the rights that the platform gives; each refusal has a signed request next to it.
"""

import asyncio
import base64
import json
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa
from cryptography.hazmat.primitives.serialization import SSHCertificate, load_ssh_public_identity
from cryptography.x509.oid import NameOID

from bulkhead.api import names
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import ApiError, Forbidden, NotFound
from bulkhead.kube.objects import Resource
from bulkhead.work.clock import SystemClock
from controller import metrics
from controller.inside.budget import Budget
from controller.inside.calls import Plane
from controller.slurm.objects import render, ssh
from controller.slurm.spec import Forwarding
from controller.slurm.spec.keys import to_data
from controller.slurm.ssh.authorities import Authorities
from controller.slurm.ssh.desks import MOST_REQUESTS_WAITING, Desks
from tests.kit.crds import install
from tests.kit.servers import Pair
from tests.kit.slurmsamples import KEYS, slurm_spec
from tests.kit.syncerbed import until
from tests.kit.tenantsamples import plane_spec

pytestmark = [pytest.mark.apiserver, pytest.mark.planes]
CSR = kinds.CERTIFICATE_SIGNING_REQUESTS
REVIEWS = Resource("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", False)
ADA, BOB = "bulkhead:host:ada", "bulkhead:host:bob"
CORP = "corp:ada@example.org"
USERS = [
    {"name": "alice", "uid": 10001, "admin": True, "identities": [ADA]},
    {"name": "bob", "uid": 10002, "identities": [BOB, CORP, ADA]},
    {"name": "carol", "uid": 10003},
]
Key = ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey


@dataclass
class Bed:
    host: Client
    plane: Client
    apiservers: Pair
    tenant: str
    desks: Desks

    def client(self, user: str, *groups: str) -> Client:
        return Client(self.apiservers.plane.config_for(user, *groups), user_agent="tests", field_manager="tests")

    async def change(self, **access: Any) -> None:
        await self.host.patch(kinds.TENANTS, self.tenant, {"spec": {"access": access}})

    async def authorities(self) -> Any:
        tenant = await self.host.get(kinds.TENANTS, self.tenant)
        return await Authorities(self.host, SystemClock()).current(self.spec, tenant, {})

    @property
    def spec(self) -> Any:
        return plane_spec(tenant=self.tenant)

    async def answer(self, name: str) -> dict[str, str]:
        """The annotations of a request, once it is answered."""
        found: dict[str, str] = {}

        async def answered() -> bool:
            obj = await self.plane.get(CSR, name)
            found.update(obj["metadata"].get("annotations") or {})
            return bool(found.keys() & {names.SSH_CERTIFICATE, names.SSH_REFUSED})

        await until(answered, "the request answered")
        return found

    async def asks(self, user: str, *groups: str, key: Key | None = None, **more: Any) -> dict[str, str]:
        """What a user is answered, with the user's own rights."""
        async with self.client(user, *groups) as client:
            made = await client.create(CSR, request(key or ed25519.Ed25519PrivateKey.generate(), **more))
        return await self.answer(made["metadata"]["name"])

    async def asks_as(self, user: str, extra: dict[str, str], *groups: str) -> dict[str, str]:
        """The same by impersonation, for what a token says of its user; `system:authenticated` is what a group gives."""
        body = request(ed25519.Ed25519PrivateKey.generate())
        headers = {"Impersonate-User": user, "Content-Type": "application/json"}
        headers |= {f"Impersonate-Extra-{name.replace('/', '%2f')}": value for name, value in extra.items()}
        headers |= {"Impersonate-Group": groups[0]} if groups else {}
        answer = await self.plane.transport.exchange("POST", CSR.path(), body=encoded(body), headers=headers)
        assert answer.status == 201, answer
        return await self.answer(body["metadata"]["name"])


def encoded(body: Obj) -> bytes:
    return json.dumps(body).encode()


def pem_of(key: Key, subject: str = "") -> bytes:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)] if subject else [])
    builder = x509.CertificateSigningRequestBuilder().subject_name(name)
    digest = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    return builder.sign(key, digest).public_bytes(serialization.Encoding.PEM)


def request(key: Key, *, subject: str = "", pem: bytes = b"", **meta: Any) -> Obj:
    name = {"name": f"bulkhead-ssh-{secrets.token_hex(16)}"}
    data = base64.b64encode(pem or pem_of(key, subject)).decode()
    spec = {"request": data, "signerName": names.SSH_SIGNER, "usages": ["client auth"]}
    return {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": name | meta, "spec": spec}


def certificate(answer: dict[str, str]) -> SSHCertificate:
    found = load_ssh_public_identity(answer[names.SSH_CERTIFICATE].encode())
    assert isinstance(found, SSHCertificate)
    found.verify_cert_signature()
    return found


def users_of(answer: dict[str, str]) -> list[str]:
    return [each.decode() for each in certificate(answer).valid_principals]


def counted(result: str) -> float:
    return float(metrics.ssh_certificates.labels(result)._value.get())


async def may_ask(plane: Client) -> bool:
    """Whether the plane's API server knows the rights of everyone who has an identity."""
    verb = {"verb": "create", "group": "certificates.k8s.io", "resource": "certificatesigningrequests"}
    asked = [{"spec": {"user": who, "resourceAttributes": verb}} for who in (ADA, BOB, CORP)]
    return all([(await plane.create(REVIEWS, each))["status"]["allowed"] for each in asked])


@pytest.fixture
async def bed(host_client: Client, plane_client: Client, apiservers: Pair) -> AsyncIterator[Bed]:
    await install(host_client)
    tenant = f"t-{secrets.token_hex(4)}"
    authorities = Authorities(host_client, SystemClock())
    desks = Desks(host_client, SystemClock(), lambda turn: Plane(plane_client, turn), authorities, budget=Budget(), period=0.1)
    made = Bed(host_client, plane_client, apiservers, tenant, desks)
    spec = {"class": "standard", "scheduling": {"mode": "Slurm", "slurm": {"users": USERS}}}
    body = {"apiVersion": names.API_VERSION, "kind": "Tenant", "metadata": {"name": made.tenant}, "spec": spec}
    await host_client.create(kinds.TENANTS, body)
    namespace = names.plane_namespace(made.tenant)
    await host_client.create(kinds.NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    keys = {"metadata": {"name": "slurm-keys", "namespace": namespace}, "data": to_data(KEYS)}
    await host_client.create(kinds.SECRETS, {"apiVersion": "v1", "kind": "Secret"} | keys)
    await made.authorities()
    wanted = slurm_spec({"users": USERS})
    assert wanted.login is not None
    await plane_client.apply(kinds.NAMESPACES, render.namespace())
    for obj in ssh.rights(wanted, wanted.login):
        await plane_client.apply(kinds.resource_of(obj["apiVersion"], obj["kind"]), obj)
    await until(lambda: may_ask(plane_client), "the rights to be known")
    desks.open(made.tenant, Forwarding())
    yield made
    await desks.close()
    for obj in (await plane_client.list(CSR)).items:
        await plane_client.delete(CSR, obj["metadata"]["name"])


async def test_an_identity_gets_all_that_the_tenant_lets_it_be_and_nothing_that_it_asks_for(bed: Bed) -> None:
    key = ed25519.Ed25519PrivateKey.generate()
    annotations = {"slurm.bulkhead.dev/user": "root", "principals": "root,carol"}
    labels = {"bulkhead.dev/tenant": "another"}
    asked = datetime.now(UTC).timestamp()
    answer = await bed.asks(BOB, key=key, subject="root", annotations=annotations, labels=labels)
    answered = datetime.now(UTC).timestamp()
    found = certificate(answer)
    assert users_of(answer) == ["bob"]
    assert found.key_id.decode() == BOB
    assert found.public_key().public_bytes_raw() == key.public_key().public_bytes_raw()  # type: ignore[union-attr]
    assert (found.extensions, found.critical_options) == ({b"permit-pty": b""}, {})
    assert asked - 1 <= found.valid_before - timedelta(minutes=15).total_seconds() <= answered
    authority = await bed.authorities()
    signed_by = found.signature_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    assert (signed_by.decode(),) == authority.trusted
    assert answer[names.SSH_HOST_KEY] == KEYS.ssh_host_key_public.strip()
    # Administrators of the cluster may become root.
    assert users_of(await bed.asks(ADA)) == ["alice", "bob", "root"]


async def test_a_user_without_identity_may_not_ask_and_no_user_sees_the_others(bed: Bed) -> None:
    body = request(ed25519.Ed25519PrivateKey.generate())
    for stranger in ("bulkhead:host:eve", "eve", "bulkhead:host:ada2"):
        async with bed.client(stranger) as client:
            with pytest.raises(Forbidden):
                await client.create(CSR, body)
    async with bed.client(BOB) as bob:
        made = await bob.create(CSR, body)
        with pytest.raises(Forbidden):
            await bob.list(CSR)
        with pytest.raises(Forbidden):
            await bob.patch(CSR, made["metadata"]["name"], {"metadata": {"annotations": {names.SSH_CERTIFICATE: "x"}}})
        # In the name of another: the API server writes down who asks.
        forged = request(ed25519.Ed25519PrivateKey.generate())
        forged["spec"] |= {"username": ADA, "groups": ["system:masters"]}
        named = await bob.create(CSR, forged)
    assert users_of(await bed.answer(named["metadata"]["name"])) == ["bob"]


async def test_an_admin_of_the_plane_that_the_tenant_does_not_name_is_refused(bed: Bed) -> None:
    denied = counted("denied")
    answer = await bed.asks("bulkhead:host:root", "system:masters")
    assert "is not in the identities of any Slurm user" in answer[names.SSH_REFUSED]
    assert names.SSH_CERTIFICATE not in answer
    assert counted("denied") == denied + 1


async def test_a_certificate_ends_with_the_token_that_it_was_got_by(bed: Bed) -> None:
    now = int(datetime.now(UTC).timestamp())
    found = certificate(await bed.asks_as(CORP, {names.TOKEN_ENDS: str(now + 300)}))
    assert found.valid_before == now + 300
    found = certificate(await bed.asks_as(CORP, {names.TOKEN_ENDS: str(now + 36000)}))
    assert found.valid_before <= datetime.now(UTC).timestamp() + 15 * 60
    # Who was not signed in by a provider, but only named, is not believed to be one of its users.
    assert "did not sign in" in (await bed.asks_as(CORP, {}))[names.SSH_REFUSED]
    for broken in ("", "soon", "1e9", "-1", "9" * 30):
        assert names.SSH_REFUSED in await bed.asks_as(CORP, {names.TOKEN_ENDS: broken})
    assert "expires within seconds" in (await bed.asks_as(CORP, {names.TOKEN_ENDS: str(now - 5)}))[names.SSH_REFUSED]


async def test_a_revoked_user_gets_no_other_certificate_and_others_do(bed: Bed) -> None:
    ends = {names.TOKEN_ENDS: str(int(datetime.now(UTC).timestamp()) + 300)}
    await bed.change(revoked=[{"name": CORP}], revokedUsers=["bob"])
    for refused in (await bed.asks_as(CORP, ends), await bed.asks(BOB)):
        assert "is revoked" in refused[names.SSH_REFUSED]
    assert users_of(await bed.asks(ADA)) == ["alice", "bob", "root"]
    await bed.change(revoked=[{"kind": "Group", "name": "corp:left"}], revokedUsers=None)
    assert "is revoked" in (await bed.asks_as(CORP, ends, "corp:left"))[names.SSH_REFUSED]
    assert users_of(await bed.asks_as(CORP, ends, "corp:stays")) == ["bob"]
    assert users_of(await bed.asks(BOB)) == ["bob"]


async def test_after_all_certificates_are_revoked_only_the_next_authority_signs(bed: Bed) -> None:
    before = (await bed.authorities()).trusted
    await bed.change(certificatesRevoked="now")
    async with bed.client(ADA) as client:
        made = await client.create(CSR, request(ed25519.Ed25519PrivateKey.generate()))
    # Nothing is signed by what is to be replaced: the desk answers others meanwhile, a whole round after the first of them.
    for _ in range(2):
        assert names.SSH_REFUSED in await bed.asks("bulkhead:host:root", "system:masters")
    obj = await bed.plane.get(CSR, made["metadata"]["name"])
    assert not obj["metadata"].get("annotations")
    after = (await bed.authorities()).trusted
    assert len(after) == 1
    assert not set(after) & set(before)
    found = certificate(await bed.answer(made["metadata"]["name"]))
    signed_by = found.signature_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    assert signed_by.decode() in after


async def test_keys_that_are_weak_and_requests_that_are_none_are_refused(bed: Bed) -> None:
    weak = rsa.generate_private_key(public_exponent=65537, key_size=1024)  # noqa: S505 - it is to be refused
    assert "too weak" in (await bed.asks(BOB, key=weak))[names.SSH_REFUSED]
    fine = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    assert users_of(await bed.asks(BOB, key=fine)) == ["bob"]
    key = ed25519.Ed25519PrivateKey.generate()
    large = pem_of(key) + b"# padding that PEM allows around a block\n" * (1 << 14)
    assert len(large) > 600_000
    assert "larger than" in (await bed.asks(BOB, key=key, pem=large))[names.SSH_REFUSED]
    # Another's public key, with a signature that is not its own.
    raw = bytearray(x509.load_pem_x509_csr(pem_of(key)).public_bytes(serialization.Encoding.DER))
    raw[-1] ^= 1
    body = base64.encodebytes(bytes(raw)).decode()
    stolen = f"-----BEGIN CERTIFICATE REQUEST-----\n{body}-----END CERTIFICATE REQUEST-----\n".encode()
    try:
        answer = await bed.asks(BOB, pem=stolen)
    except ApiError:
        return  # the API server looks at signatures too
    assert "not signed with its own key" in answer[names.SSH_REFUSED]


async def test_a_user_who_asks_without_end_waits(bed: Bed) -> None:
    # They are there before the first is answered: that minute is none of a slow machine's.
    await bed.desks.forget(bed.tenant)
    async with bed.client(BOB) as client:
        made = [await client.create(CSR, request(ed25519.Ed25519PrivateKey.generate())) for _ in range(31)]
    bed.desks.open(bed.tenant, Forwarding())
    answers = [await bed.answer(each["metadata"]["name"]) for each in made]
    assert sum(names.SSH_CERTIFICATE in each for each in answers) == 30
    (refused,) = [each for each in answers if names.SSH_CERTIFICATE not in each]
    assert "within a minute" in refused[names.SSH_REFUSED]
    assert users_of(await bed.asks(ADA))


async def test_a_flood_is_swept_away_and_the_next_request_is_answered(bed: Bed) -> None:
    unread = counted("unread")
    body = "x" * 200_000

    async def one(client: Client) -> None:
        filed = request(ed25519.Ed25519PrivateKey.generate(), annotations={names.SSH_REFUSED: "mine", "note": body})
        await client.create(CSR, filed)

    # A sweep amid the flood would leave what came after it, and those few are answered and kept like any others.
    await bed.desks.forget(bed.tenant)
    async with bed.client(BOB) as client:
        for _ in range(6):
            await asyncio.gather(*(one(client) for _ in range(10)))
    assert counted("unread") == unread
    bed.desks.open(bed.tenant, Forwarding())

    async def swept() -> bool:
        return counted("unread") > unread and not (await bed.plane.list(CSR)).items

    await until(swept, "the flood swept away")
    assert users_of(await bed.asks(ADA))
    assert MOST_REQUESTS_WAITING > 60, "what swept it away was its size"


async def test_requests_of_other_signers_are_not_touched(bed: Bed) -> None:
    body = request(ed25519.Ed25519PrivateKey.generate())
    body["spec"]["signerName"] = "example.org/theirs"
    await bed.plane.create(CSR, body)
    assert users_of(await bed.asks(ADA))
    there = await bed.plane.get(CSR, body["metadata"]["name"])
    assert not there["metadata"].get("annotations")


async def test_the_key_of_the_authority_is_on_the_host_alone_and_rotates_in_two_steps(bed: Bed) -> None:
    with pytest.raises(NotFound):
        await bed.plane.get(kinds.SECRETS, "slurm-ssh-ca", "slurm")
    before = await bed.authorities()
    await bed.host.patch(kinds.TENANTS, bed.tenant, {"metadata": {"annotations": {"bulkhead.dev/rotate-keys": "1"}}})
    staged = await bed.authorities()
    assert staged.trusted[0] == before.trusted[0]
    assert len(staged.trusted) == 2
    assert await bed.authorities() == staged
    trust = render.render(slurm_spec({"users": USERS}), KEYS, staged.trusted)
    assert not any(staged.signing.private[60:100] in str(obj) for obj in trust)
    assert any(staged.trusted[1] in str(obj) for obj in trust)
