"""A real kube-apiserver believes a real identity provider as it is told, and nobody else."""

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
import pytest_asyncio
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from bulkhead.api.providers import Provider
from bulkhead.kube.proxy import splice
from controller.decide.keysets import Fault
from controller.host.issuers import over_https
from controller.plane.ways import Revoked
from tests.kit.believing import Believer, issuer_of, keys_of, resolved
from tests.kit.dex import PUBLIC, Dex, running
from tests.kit.pki import Authority

pytestmark = [pytest.mark.apiserver, pytest.mark.asyncio(loop_scope="module")]
OURS, THEIRS = "bulkhead-team-a", "bulkhead-team-b"
ADA = "corp:ada@example.org"
# Texts that would end a literal of CEL, or have a meaning in it.
NASTY = ("corp:'||true||'", 'corp:"])||(true', "corp:\\", "corp:\N{SNOWMAN}\U0001f600", "corp:{tenant}", "corp:\\u0041")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Believer]:
    async with Believer(tmp_path_factory.mktemp("plane")) as started:
        yield started


@pytest.fixture
def dex(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dex]:
    with running(tmp_path_factory.mktemp("dex"), audiences=(OURS, THEIRS)) as started:
        yield started


def provider(dex: Dex, **more: Any) -> Provider:
    (made,) = resolved("team-a", issuer_of(dex, **more))
    return made


def group(name: str) -> Revoked:
    return Revoked("Group", name)


async def test_who_signs_in_has_the_prefixed_name_and_groups(plane: Believer, dex: Dex) -> None:
    ours, theirs = dex.browser("linus", ["system:masters", "gpu"], OURS), dex.password("ada", THEIRS)
    assert await plane.who(ours) is None
    corp = provider(dex)
    await plane.believe((corp, await keys_of(corp)))
    found = await plane.who(ours)
    assert found is not None
    assert found["username"].startswith("corp:linus")
    assert set(found["groups"]) == {"corp:system:masters", "corp:gpu", "system:authenticated"}
    # What is issued upon the token (an ssh certificate) ends with it.
    assert found["extra"]["bulkhead.dev/token-ends"] == [str(json.loads(_decoded(ours.split(".")[1]))["exp"])]
    # What is for another tenant, or for no tenant, is refused.
    assert await plane.who(theirs) is None
    assert await plane.who(dex.password("ada", PUBLIC)) is None
    assert ((await plane.who(dex.password("ada", OURS))) or {})["username"] == ADA


async def test_tokens_that_live_long_are_refused_unless_the_class_says_so(
    plane: Believer, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with running(tmp_path_factory.mktemp("long"), audiences=(OURS,), lifetime="1h") as dex:
        token, strict = dex.password("ada", OURS), provider(dex)
        keys = await keys_of(strict)
        await plane.believe((strict, keys))
        assert await plane.who(token) is None
        await plane.believe((provider(dex, maxTokenAge="1h"), keys))
        await plane.becomes(token, ADA)


async def test_rotated_keys_are_taken_and_those_that_are_gone_forgotten(plane: Believer, dex: Dex) -> None:
    corp = provider(dex)
    await plane.believe((corp, before := await keys_of(corp)))
    old = dex.password("ada", OURS)
    await plane.becomes(old, ADA)
    dex.kill()
    dex.start()
    new = dex.password("ada", OURS)
    assert await plane.who(new) is None
    after = await keys_of(corp)
    assert before != after
    # The API server looks for a key that it does not know, long before it reads its configuration again.
    await plane.believe((corp, after), read=False)
    await plane.becomes(new, ADA)
    await plane.believe((corp, after))
    await plane.becomes(old, None)
    await plane.becomes(new, ADA)


async def test_while_the_provider_is_away_its_tokens_count_also_after_a_restart(plane: Believer, dex: Dex) -> None:
    corp = provider(dex)
    await plane.believe((corp, await keys_of(corp)))
    token = dex.password("ada", OURS)
    dex.kill()
    await plane.becomes(token, ADA)
    await plane.restart()
    await plane.becomes(token, ADA)
    # And others come and go meanwhile.
    await plane.believe((corp, await _dead_keys()), revoked=[group("corp:none")])


async def test_an_api_server_starts_without_the_syncer_and_believes_once_it_is_there(plane: Believer, dex: Dex) -> None:
    corp = provider(dex)
    await plane.believe((corp, await keys_of(corp)))
    token = dex.password("ada", OURS)
    await plane.silence()
    await plane.restart()
    assert await plane.who(token) is None
    plane.speak()
    await plane.becomes(token, ADA)


async def test_a_foreign_key_under_a_known_name_is_refused(plane: Believer, dex: Dex) -> None:
    corp = provider(dex)
    await plane.believe((corp, keys := await keys_of(corp)))
    known = json.loads(keys)["keys"][0]["kid"]
    now = int(time.time())
    claims = {"iss": dex.url, "aud": OURS, "sub": "x", "iat": now, "exp": now + 600}
    claims |= {"email": "ada@example.org", "email_verified": True}
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    for kid in (known, "foreign"):
        assert await plane.who(_signed(key, kid, claims)) is None
    header, body, signature = dex.password("ada", OURS).split(".")
    forged = json.loads(_decoded(body)) | {"email": "root@example.org"}
    assert await plane.who(f"{header}.{_encoded(forged)}.{signature}") is None
    assert await plane.who(f"{_encoded({'alg': 'none'})}.{body}.") is None
    await plane.becomes(f"{header}.{body}.{signature}", ADA)
    # The positive control: with this key among the provider's, the very same token counts.
    await plane.believe((corp, _with(keys, key, "foreign")))
    await plane.becomes(_signed(key, "foreign", claims), ADA)


async def test_what_is_revoked_is_refused_and_only_that(plane: Believer, dex: Dex) -> None:
    corp = provider(dex)
    keys = await keys_of(corp)
    ada, grace = (dex.password(user, OURS) for user in ("ada", "grace"))
    leaver, stays = (dex.browser("linus", groups, OURS) for groups in (["left", "gpu"], ["gpu"]))
    linus = "corp:linus"
    nasty = [Revoked(kind, name, before) for kind in ("User", "Group") for name in NASTY for before in (None, 1)]
    # As many and as long as they may be, of what takes the most room when it is escaped.
    most = [
        Revoked(kind, f"corp:{sign * 240}{number}", 1) for kind in ("User", "Group") for sign in '"\a' for number in range(128)
    ]
    await plane.believe((corp, keys), revoked=[Revoked("User", ADA), group("corp:left"), *nasty, *most])
    await plane.becomes(ada, None)
    assert await plane.who(leaver) is None
    assert ((await plane.who(grace)) or {})["username"] == "corp:grace@example.org"
    assert ((await plane.who(stays)) or {})["username"].startswith(linus)
    issued = json.loads(_decoded(ada.split(".")[1]))["iat"]
    for before, name in ((issued, ADA), (issued + 1, None)):
        await plane.believe((corp, keys), revoked=[Revoked("User", ADA, before), Revoked("Group", "corp:none", before)])
        await plane.becomes(ada, name)
    await plane.believe((corp, keys), revoked=[Revoked("Group", "corp:left", issued + 3600)])
    await plane.becomes(leaver, None)
    assert await plane.who(stays) is not None
    await plane.believe((corp, keys))
    await plane.becomes(ada, ADA)


async def test_groups_domains_and_claims_are_asked_for(plane: Believer, dex: Dex) -> None:
    keys = await keys_of(provider(dex))
    inside, outside = (dex.browser("linus", groups, OURS) for groups in (["gpu-team-a", "eu"], ["gpu-team-b", "eu"]))
    ada = dex.password("ada", OURS)
    asked = {"requiredGroups": ["gpu-{tenant}", *(each.removeprefix("corp:") for each in NASTY)]}
    (corp,) = resolved("team-a", issuer_of(dex, **asked), requiredGroups=["eu"])
    await plane.believe((corp, keys))
    assert await plane.who(inside) is not None
    assert await plane.who(outside) is None
    assert await plane.who(ada) is None
    # Without a claim that has groups nobody is in one, and a few rules of each kind stand beside each other.
    (bare,) = resolved("team-a", issuer_of(dex, claims={"username": "email"}), requiredGroups=["eu"])
    await plane.believe((bare, keys), revoked=[Revoked("Group", "corp:left", 1), Revoked("User", "corp:eve", 1)])
    await plane.becomes(inside, None)
    await plane.believe((provider(dex, emailDomains=["example.com"]), keys))
    await plane.becomes(ada, None)
    await plane.believe((provider(dex, emailDomains=["Example.ORG", "example.com"], requiredClaims={"name": "ada"}), keys))
    await plane.becomes(ada, ADA)
    assert await plane.who(dex.password("grace", OURS)) is None


async def test_two_providers_stand_beside_each_other(
    plane: Believer, dex: Dex, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with running(tmp_path_factory.mktemp("other"), audiences=(OURS,)) as other:
        corp, partners = resolved("team-a", issuer_of(dex), issuer_of(other, name="partners", prefix="example.com:"))
        # One whose keys were never seen is left out, and keeps nobody else from anything.
        await plane.believe((corp, await keys_of(corp)), (partners, ""))
        tokens = dex.password("ada", OURS), other.password("ada", OURS)
        await plane.becomes(tokens[0], ADA)
        assert await plane.who(tokens[1]) is None
        await plane.believe((corp, await keys_of(corp)), (partners, await keys_of(partners)))
        await plane.becomes(tokens[1], "example.com:ada@example.org")
        assert await plane.who(tokens[0]) is not None


WRONG: dict[str, tuple[Callable[[Dex], dict[str, Any]], str]] = {
    "another name": (
        lambda dex: {"url": f"{dex.url}/", "discoveryURL": f"{dex.url}/.well-known/openid-configuration"}, "calls itself"
    ),
    "another authority": (lambda _: {"certificateAuthority": Authority("other").pem.decode()}, "certificateAuthority"),
    "no authority": (lambda _: {"certificateAuthority": None}, "certificateAuthority"),
    "a broken authority": (lambda _: {"certificateAuthority": "-----BEGIN CERTIFICATE-----"}, "can be read"),
    "nothing there": (lambda dex: {"url": dex.url.replace("/dex", "/x")}, "answers 404"),
    "nobody there": (lambda _: {"url": "https://127.0.0.1:9/dex"}, "cannot be reached"),
    "no such name": (lambda _: {"url": "https://nowhere.invalid/dex"}, "name"),
    "no document": (lambda dex: {"discoveryURL": f"{dex.url}/healthz"}, "discovery document"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
async def test_a_provider_that_is_none_is_told_with_its_cause(dex: Dex, name: str) -> None:
    wrong, word = WRONG[name]
    assert await keys_of(provider(dex))
    with pytest.raises(Fault, match=word):
        await keys_of(provider(dex, **wrong(dex)))


async def test_a_provider_is_asked_through_the_proxy_of_the_installation(dex: Dex) -> None:
    asked: list[bytes] = []

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[0])
        far = await asyncio.open_connection("127.0.0.1", dex.port)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await splice((reader, writer), far)

    server = await asyncio.start_server(connect, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        assert await over_https(f"{dex.url}/keys", dex.ca, proxy=f"http://127.0.0.1:{port}")
    assert asked == [b"CONNECT 127.0.0.1:%d HTTP/1.1" % dex.port]
    with pytest.raises(Fault, match="cannot be reached"):
        await over_https(f"{dex.url}/keys", dex.ca, proxy="http://127.0.0.1:9")


async def _dead_keys() -> str:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return await asyncio.to_thread(_with, '{"keys": []}', key, "dead")


def _with(keys: str, key: rsa.RSAPrivateKey, kid: str) -> str:
    numbers = key.public_key().public_numbers()
    made = {
        name: _encoded(value.to_bytes((value.bit_length() + 7) // 8)) for name, value in (("n", numbers.n), ("e", numbers.e))
    }
    return json.dumps({"keys": [*json.loads(keys)["keys"], {"kty": "RSA", "kid": kid, "alg": "RS256", "use": "sig"} | made]})


def _signed(key: rsa.RSAPrivateKey, kid: str, claims: dict[str, Any]) -> str:
    text = f"{_encoded({'alg': 'RS256', 'kid': kid})}.{_encoded(claims)}"
    return f"{text}.{_encoded(key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


def _encoded(value: dict[str, Any] | bytes) -> str:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
