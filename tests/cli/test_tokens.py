"""Signing in to a real identity provider (Dex) by the real command: browser, device code, what is kept and what is renewed."""

import asyncio
import base64
import hashlib
import json
import os
import re
import stat
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bulkhead.kube import resources as kinds
from bulkhead.kube.kubeconfig import KubeConfig
from tests.kit.commandline import Cli, Controller, Outcome, finish, start
from tests.kit.dex import PUBLIC, Dex, running
from tests.kit.people import Browser
from workstation.cli.credentials import browser as browsing
from workstation.cli.credentials import device, provider, token
from workstation.cli.credentials.arguments import SignIn
from workstation.cli.failures import CliError

OURS = "bulkhead-red"


@pytest.fixture(scope="module")
def dex(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dex]:
    with running(tmp_path_factory.mktemp("dex"), audiences=(OURS,)) as started:
        yield started


@pytest.fixture
def browser(dex: Dex, tmp_path: Path) -> Browser:
    return Browser(dex, tmp_path)


def words(dex: Dex, *more: str, tenant: str = "red") -> list[str]:
    where = ["--issuer-url", dex.url, "--client-id", OURS, "--issuer-ca", str(dex.folder / "ca.crt")]
    return ["credential", "token", tenant, *where, *more]


async def ask(dex: Dex, browser: Browser, *more: str) -> Outcome:
    return await finish(await start(*words(dex, *more), environment=browser.environment))


def claims(text: str) -> dict[str, Any]:
    body = json.loads(text)["status"]["token"].split(".")[1]
    return dict(json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))))


def files(folder: Path) -> list[Path]:
    return [*folder.rglob("*.json")]


def kept(folder: Path) -> Path:
    (found,) = files(folder)
    return found


def change(folder: Path, **values: Any) -> None:
    path = kept(folder)
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


async def test_a_browser_signs_in_and_the_token_is_kept_for_this_user_alone(
    dex: Dex, browser: Browser, own_cache: Path
) -> None:
    done = await ask(dex, browser)
    assert done.code == 0, done.err
    found = claims(done.out)
    assert (found["iss"], found["aud"], found["email"]) == (dex.url, OURS, "ada@example.org")
    query = urllib.parse.parse_qs(urllib.parse.urlsplit(browser.shown[0]).query)
    assert query["code_challenge_method"] == ["S256"]
    assert "groups" in query["scope"][0]
    assert found["nonce"] == query["nonce"][0]
    path = kept(own_cache)
    assert (stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(path.parent.stat().st_mode)) == (0o600, 0o700)
    assert json.loads(path.read_text())["refresh"]


@pytest.mark.commands
async def test_ten_at_once_sign_in_once(dex: Dex, browser: Browser) -> None:
    command = " ".join([sys.executable, "-m", "workstation.cli.main", *words(dex), "; exit $?"])

    async def one() -> bytes:
        process = await asyncio.create_subprocess_exec(
            "sh", "-c", command,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL, env=dict(os.environ) | browser.environment,
        )  # fmt: skip
        out, _ = await asyncio.wait_for(process.communicate(), 300)
        assert process.returncode == 0
        return out

    assert len(set(await asyncio.gather(*(one() for _ in range(10))))) == 1
    assert len(browser.shown) == 1


async def test_what_ends_is_renewed_without_the_person(dex: Dex, browser: Browser, own_cache: Path) -> None:
    first = await ask(dex, browser)
    change(own_cache, ends=time.time() + 5, given=None)
    second = await ask(dex, browser)
    assert second.code == 0, second.err
    assert json.loads(first.out)["status"] != json.loads(second.out)["status"]
    # The process that was given it asks again: it was refused.
    third = await ask(dex, browser)
    assert json.loads(third.out)["status"] != json.loads(second.out)["status"]
    assert len(browser.shown) == 1
    change(own_cache, ends=time.time() + 5, refresh="withdrawn")
    last = await ask(dex, browser)
    assert (last.code, claims(last.out)["email"]) == (0, "ada@example.org")
    assert len(browser.shown) == 2


async def test_one_that_is_refused_at_once_and_cannot_be_renewed_costs_no_second_login(
    dex: Dex, browser: Browser, own_cache: Path
) -> None:
    first = await ask(dex, browser)
    change(own_cache, refresh="")
    second = await ask(dex, browser)
    assert json.loads(first.out) == json.loads(second.out)
    assert len(browser.shown) == 1


async def test_another_device_signs_in_by_a_code(dex: Dex, browser: Browser) -> None:
    process = await start(*words(dex, "--device"), environment=browser.environment)
    assert process.stderr is not None
    text = ""
    while not (found := re.search(r"code: (\S+)", text)):
        line = await asyncio.wait_for(process.stderr.readline(), 180)
        assert line, text
        text += line.decode()
    await asyncio.to_thread(_enter, dex, found[1])
    done = await finish(process)
    assert done.code == 0, done.err
    assert claims(done.out)["name"] == "linus"
    assert browser.shown == []


@pytest.mark.parametrize("proves", [True, False], ids=["a provider that knows proofs", "one that does not"])
async def test_the_code_for_another_device_is_worthless_by_itself(proves: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keycloak refuses a client that has to prove in the browser, unless it proves here too."""
    asked: list[dict[str, str]] = []

    async def post(_issuer: provider.Issuer, address: str, form: dict[str, str]) -> dict[str, Any]:
        asked.append(dict(form))
        if address.endswith("/token"):
            return {"id_token": "x"}
        return {"device_code": "d", "user_code": "u", "verification_uri": f"{ISSUER.url}/device", "interval": 1}

    monkeypatch.setattr(device, "post", post)
    monkeypatch.setattr(device, "_PAUSES", (0.0, 0.0))
    places = (f"{ISSUER.url}/auth", f"{ISSUER.url}/token", f"{ISSUER.url}/device/code")
    await device.sign_in(ISSUER, provider.Endpoints(*places, "openid", proves=proves))
    begun, came = asked
    if not proves:
        assert begun == {"scope": "openid"}
        assert "code_verifier" not in came
        return
    digest = hashlib.sha256(came["code_verifier"].encode()).digest()
    assert begun["code_challenge"] == base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    assert begun["code_challenge_method"] == "S256"
    assert len(came["code_verifier"]) >= 43


@pytest.mark.parametrize("returns", [True, False], ids=["and comes back", "for good"])
async def test_a_code_outlives_a_provider_that_is_away(
    returns: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """RFC 8628, 3.5: a connection that breaks refuses nothing, and the user may have entered the code already."""
    away = provider.ProviderAwayError("identity provider login.example.org cannot be reached: connection refused")
    pending = provider.SignInRefusedError(ISSUER, "authorization_pending", "")
    answers: list[Exception] = [pending, away, away, pending, away]

    async def post(_issuer: provider.Issuer, address: str, _form: dict[str, str]) -> dict[str, Any]:
        if not address.endswith("/token"):
            url = f"{ISSUER.url}/device"
            return {
                "device_code": "d",
                "user_code": "u",
                "verification_uri": url,
                "interval": 1,
                "expires_in": 60 if returns else 0.1,
            }
        if answers or not returns:
            raise answers.pop(0) if answers else away
        return {"id_token": "x"}

    monkeypatch.setattr(device, "post", post)
    monkeypatch.setattr(device, "_PAUSES", (0.0, 0.0))
    endpoints = provider.Endpoints(
        f"{ISSUER.url}/auth", f"{ISSUER.url}/token", f"{ISSUER.url}/device/code", "openid", proves=False
    )
    if not returns:
        with pytest.raises(provider.ProviderAwayError, match="connection refused"):
            await device.sign_in(ISSUER, endpoints)
        return
    assert await device.sign_in(ISSUER, endpoints) == {"id_token": "x"}
    assert capsys.readouterr().err.count("trying again until the code expires") == 2, "it is told once each time"


async def test_a_renewal_without_an_id_token_ends_in_another_sign_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenID Connect Core, 12.2: the answer to a refresh token might have none."""
    asked: list[str] = []

    async def discover(_: provider.Issuer) -> provider.Endpoints:
        return provider.Endpoints(f"{ISSUER.url}/auth", f"{ISSUER.url}/token", "", "openid", proves=True)

    async def post(_issuer: provider.Issuer, _address: str, form: dict[str, str]) -> dict[str, Any]:
        asked.append(form["grant_type"])
        return {"access_token": "a", "refresh_token": "r"}

    async def sign_in(*_: object) -> tuple[dict[str, Any], str]:
        asked.append("browser")
        claims = {"iss": ISSUER.url, "aud": ISSUER.client, "exp": time.time() + 3600, "nonce": "n"}
        return {"id_token": f"x.{base64.urlsafe_b64encode(json.dumps(claims).encode()).decode()}.x"}, "n"

    monkeypatch.setattr(token, "discover", discover)
    monkeypatch.setattr(token, "post", post)
    monkeypatch.setattr(browsing, "sign_in", sign_in)
    found = await token._next(ISSUER, token.Tokens("old", "refresh", 0.0, 0.0), SignIn(browser=True))
    assert asked == ["refresh_token", "browser"]
    assert found.token.startswith("x.")


def _enter(dex: Dex, code: str) -> None:
    """Enter the code, and sign in as the user that the proxy before Dex names."""
    opener = dex._opener()
    opener.addheaders = [("X-Remote-User", "linus")]
    form = urllib.parse.urlencode({"user_code": code}).encode()
    where = opener.open(f"{dex.url}/device/auth/verify_code", data=form, timeout=10).geturl()
    assert "/auth?" in where
    opener.open(where.replace("/auth?", "/auth/proxy?"), timeout=10).close()


@pytest.mark.apiserver
async def test_login_reads_of_the_tenant_where_to_sign_in(
    cli: Cli, controller: Controller, plane_config: KubeConfig, dex: Dex, browser: Browser
) -> None:
    issuer = {"name": "corp", "url": dex.url, "audiences": ["bulkhead-{tenant}"], "certificateAuthority": dex.ca}
    await controller.tenant("red", access={"oidc": [{"issuer": "corp"}]})
    await controller.plane("red", plane_config)
    applied = {"name": "standard", "spec": {"access": {"issuers": [issuer]}}}
    await controller.client.patch(kinds.TENANTS, "red", {"status": {"class": applied}}, subresource="status")

    path = browser.program.with_name("red.yaml")
    done = await cli("login", "red", "--write", str(path), **browser.environment)
    assert done.code == 0, done.err
    assert "logged in to tenant red until" in done.out
    user = json.loads(path.read_text())["users"][0]["user"]
    assert list(user) == ["exec"]
    plugin = await finish(await start(*user["exec"]["args"][2:], environment=browser.environment))
    assert claims(plugin.out)["aud"] == OURS
    assert len(browser.shown) == 1

    given = json.loads((await cli("kubeconfig", "red", "--issuer", "corp")).out)["users"][0]["user"]["exec"]
    assert (given["command"], given["args"]) == ("bulkhead", user["exec"]["args"][2:])
    as_admin = await cli("login", "red", "--certificate", "--write", str(path))
    assert (as_admin.code, "certificate" in path.read_text()) == (0, True)
    unknown = await cli("login", "red", "--issuer", "other", "--write", str(path))
    assert (unknown.code, "it has corp" in unknown.err) == (3, True)


async def test_a_provider_that_is_another_or_not_trusted_is_refused(dex: Dex, browser: Browser, own_cache: Path) -> None:
    strange = words(dex)
    strange[strange.index("--issuer-url") + 1] = f"{dex.url}/"
    done = await finish(await start(*strange, environment=browser.environment))
    assert (done.code, "belongs to issuer" in done.err) == (1, True)
    unknown = await finish(await start(*words(dex)[:-2], environment=browser.environment))
    assert (unknown.code, "is not trusted" in unknown.err) == (1, True)
    plain = await finish(await start("credential", "token", "red", "--issuer-url", "http://x", "--client-id", "x"))
    assert (plain.code, "must be an https address" in plain.err) == (1, True)
    assert (browser.shown, files(own_cache)) == ([], [])


ISSUER = provider.Issuer("https://login.example.org", PUBLIC)
GOOD = {"iss": ISSUER.url, "aud": PUBLIC, "exp": 4e9, "nonce": "n"}


def answer(**other: Any) -> dict[str, Any]:
    body = base64.urlsafe_b64encode(json.dumps(GOOD | other).encode()).decode()
    return {"id_token": f"x.{body}.x"}


def test_a_token_is_kept_that_answers_this_sign_in() -> None:
    assert token._read(ISSUER, answer(), nonce="n").ends == 4e9


@pytest.mark.parametrize(
    "given",
    [
        {}, {"id_token": 1}, {"id_token": "x"}, {"id_token": "x.!.x"}, {"id_token": "x." + "A" * 100_000 + ".x"},
        answer(iss="https://evil.example.org"), answer(aud="other"), answer(aud=["other"]), answer(aud=None),
        answer(nonce="m"), answer(nonce=None), answer(exp=1), answer(exp="soon"), answer(exp=None),
        answer(exp=float("nan")), answer(exp=float("inf")), answer(exp=1e18),
    ],
)  # fmt: skip
def test_no_other_is(given: dict[str, Any]) -> None:
    with pytest.raises(CliError, match="gave"):
        token._read(ISSUER, given, nonce="n")


@pytest.mark.parametrize(
    "address",
    [None, 1, "", "http://x", "file:///etc/passwd", "https://", "https://a@b", "https://x/\x1b[2J", "https://[", "-x"],
)
def test_addresses_that_are_neither_asked_nor_shown(address: object) -> None:
    with pytest.raises(CliError, match="must be an https address"):
        provider.checked(ISSUER, "token_endpoint", address)


async def test_an_authority_in_letters_that_pem_has_not_is_one_error() -> None:
    issuer = provider.Issuer("https://login.example.org", PUBLIC, certificate_authority="F\u0151tan\u00fas\u00edtv\u00e1ny")
    with pytest.raises(CliError, match="characters that PEM does not allow"):
        await provider.post(issuer, "https://login.example.org/token", {})
