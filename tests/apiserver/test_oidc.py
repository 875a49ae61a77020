"""A real kube-apiserver trusts the identity providers of its configuration, follows their changes, and trusts no other.

`test_oidc_rules` tests the providers in a configuration, and `test_oidc_asking` how the controller asks them.
"""

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from bulkhead.api.providers import Provider
from controller.plane.ways import Revoked
from tests.kit.believing import NASTY, OURS, THEIRS, Believer, issuer_of, keys_of, resolved
from tests.kit.dex import Dex, running

pytestmark = [pytest.mark.apiserver, pytest.mark.signin, pytest.mark.asyncio(loop_scope="module")]
ADA, GRACE, MALLORY = (f"corp:{user}@example.org" for user in ("ada", "grace", "mallory"))


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


def issued(token: str) -> int:
    return int(json.loads(_decoded(token.split(".")[1]))["iat"])


def group(name: str) -> Revoked:
    return Revoked("Group", name)


async def test_rotated_keys_are_taken_and_those_that_are_gone_forgotten(plane: Believer, dex: Dex) -> None:
    corp = provider(dex)
    old = dex.password("ada", OURS)
    assert await plane.who(old) is None
    await plane.anew((corp, before := await keys_of(corp)))
    await plane.becomes(old, ADA)
    dex.kill()
    dex.start()
    new = dex.password("ada", OURS)
    assert await plane.who(new) is None
    after = await keys_of(corp)
    assert before != after
    # The API server looks for a key that it does not know, long before it reads its configuration again.
    await plane.serve((corp, after))
    await plane.becomes(new, ADA)
    await plane.believe((corp, after))
    await plane.becomes(old, None)
    await plane.becomes(new, ADA)


async def test_while_the_provider_is_away_its_tokens_count_also_after_a_restart(plane: Believer, dex: Dex) -> None:
    corp = provider(dex)
    await plane.anew((corp, await keys_of(corp)))
    token = dex.password("ada", OURS)
    await plane.becomes(token, ADA)
    dex.kill()
    await plane.becomes(token, ADA)
    await plane.restart()
    await plane.becomes(token, ADA)
    # And others come and go meanwhile.
    await plane.believe((corp, await _dead_keys()), revoked=[group("corp:none")])


async def test_an_api_server_starts_without_the_syncer_and_believes_once_it_is_there(plane: Believer, dex: Dex) -> None:
    corp = provider(dex)
    await plane.tell((corp, await keys_of(corp)))
    token = dex.password("ada", OURS)
    await plane.silence()
    await plane.restart()
    assert await plane.who(token) is None
    plane.speak()
    await plane.becomes(token, ADA)


async def test_a_foreign_key_under_a_known_name_is_refused(plane: Believer, dex: Dex) -> None:
    corp = provider(dex)
    await plane.anew((corp, keys := await keys_of(corp)))
    known = json.loads(keys)["keys"][0]["kid"]
    now = int(time.time())
    claims = {"iss": dex.url, "aud": OURS, "sub": "x", "iat": now, "exp": now + 600}
    claims |= {"email": "ada@example.org", "email_verified": True}
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    token = dex.password("ada", OURS)
    await plane.becomes(token, ADA)
    for kid in (known, "foreign"):
        assert await plane.who(_signed(key, kid, claims)) is None
    header, body, signature = token.split(".")
    forged = json.loads(_decoded(body)) | {"email": "root@example.org"}
    assert await plane.who(f"{header}.{_encoded(forged)}.{signature}") is None
    assert await plane.who(f"{_encoded({'alg': 'none'})}.{body}.") is None
    # The positive control: with this key among the provider's, the very same token counts.
    await plane.anew((corp, _with(keys, key, "foreign")))
    await plane.becomes(_signed(key, "foreign", claims), ADA)


async def test_what_is_revoked_is_refused_and_only_that(plane: Believer, dex: Dex) -> None:
    corp = provider(dex)
    keys = await keys_of(corp)
    ada, grace, mallory = (dex.password(user, OURS) for user in ("ada", "grace", "mallory"))
    leaver, late, stays = (dex.browser("linus", groups, OURS) for groups in (["left", "gpu"], ["late", "gpu"], ["gpu"]))
    rules = [
        Revoked("User", ADA),
        group("corp:left"),
        # To the second: what was issued in the one that is named is not meant.
        Revoked("User", GRACE, issued(grace)),
        Revoked("User", MALLORY, issued(mallory) + 1),
        Revoked("Group", "corp:late", issued(late) + 3600),
        *(Revoked("Group", "corp:none", before) for before in (None, issued(ada), issued(ada) + 1)),
    ]
    nasty = [Revoked(kind, name, before) for kind in ("User", "Group") for name in NASTY for before in (None, 1)]
    # As many and as long as they may be, of what takes the most room when it is escaped.
    most = [
        Revoked(kind, f"corp:{sign * 240}{number}", 1) for kind in ("User", "Group") for sign in '"\a' for number in range(128)
    ]
    await plane.anew((corp, keys), revoked=[*rules, *nasty, *most])
    await plane.becomes(grace, GRACE)
    assert ((await plane.who(stays)) or {})["username"].startswith("corp:linus")
    refused = ada, mallory, leaver, late
    assert [await plane.who(each) for each in refused] == [None] * len(refused)
    await plane.anew((corp, keys))
    await plane.becomes(ada, ADA)
    assert None not in [await plane.who(each) for each in refused]


async def test_two_providers_stand_beside_each_other(
    plane: Believer, dex: Dex, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with running(tmp_path_factory.mktemp("other"), audiences=(OURS,)) as other:
        corp, partners = resolved("team-a", issuer_of(dex), issuer_of(other, name="partners", prefix="example.com:"))
        # A provider whose keys were never seen is left out, and affects no other provider.
        await plane.anew((corp, await keys_of(corp)), (partners, ""))
        tokens = dex.password("ada", OURS), other.password("ada", OURS)
        await plane.becomes(tokens[0], ADA)
        assert await plane.who(tokens[1]) is None
        await plane.anew((corp, await keys_of(corp)), (partners, await keys_of(partners)))
        await plane.becomes(tokens[1], "example.com:ada@example.org")
        assert await plane.who(tokens[0]) is not None


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
