"""A user without any right on the host, with the one file that an admin hands out; a real API server, Dex, and command."""

import asyncio
import contextlib
import json
import operator
import os
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import ConfigError
from controller.plane.ways import Revoked
from tests.kit.believing import OURS, Believer, issuer_of, keys_of, resolved
from tests.kit.beside import beside
from tests.kit.commandline import Cli, Controller, Outcome, finish, start
from tests.kit.dex import Dex, running
from tests.kit.people import Browser
from tests.kit.pki import Authority
from workstation.cli import arrival, hostfile
from workstation.cli.credentials import document, handed, provider
from workstation.cli.credentials.token import Tokens
from workstation.cli.failures import CliError
from workstation.cli.main import main
from workstation.hostcluster import binaries

pytestmark = [pytest.mark.apiserver, pytest.mark.signin]


@pytest.fixture(scope="module")
def dex(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dex]:
    with running(tmp_path_factory.mktemp("dex"), audiences=(OURS,)) as started:
        yield started


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path) -> Path:
    """In place of the folder's: servers are started here, whose programs lie in this machine's cache; a person has a home."""
    return tmp_path / "home" / ".cache"


@pytest.fixture(scope="module")
def plane(dex: Dex, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Believer]:
    """The tenant's API server, which believes the provider, but for Grace."""

    @contextlib.asynccontextmanager
    async def believing() -> AsyncIterator[Believer]:
        async with Believer(tmp_path_factory.mktemp("plane")) as believer:
            (corp,) = resolved("team-a", issuer_of(dex))
            # A start takes a second, and a running server ten until it reads its configuration again.
            await believer.anew((corp, await keys_of(corp)), revoked=[Revoked("User", "corp:grace@example.org")])
            await believer.becomes(dex.password("ada", OURS), "corp:ada@example.org")
            yield believer

    with beside(believing) as believer:
        yield believer


def tenant_at(server: str, authority: str, name: str | None = None) -> dict[str, Any]:
    status = {"endpoint": server, "certificateAuthority": authority, "tlsServerName": name}
    return {"metadata": {"name": "team-a"}, "status": status}


def file_of(folder: Path, dex: Dex, tenant: dict[str, Any], **issuer: Any) -> Path:
    made = provider.Issuer(dex.url, "bulkhead-team-a", certificate_authority=issuer.pop("ca", dex.ca), **issuer)
    path = folder / "team-a.yaml"
    path.write_bytes(document.with_tokens(tenant, made, ["bulkhead"]))
    return path


class Person:
    """Nothing but a home of their own, a browser, and kubectl."""

    def __init__(self, dex: Dex, folder: Path, user: str = "ada") -> None:
        self.home = folder / "home"
        self.home.mkdir()
        self.browser = Browser(dex, folder, user)
        programs = folder / "programs"
        programs.mkdir()
        command = programs / "bulkhead"
        command.write_text(f'#!/bin/sh\nexec {sys.executable} -m workstation.cli.main "$@"\n')
        command.chmod(0o700)
        (programs / "kubectl").symlink_to(binaries.ensure("kubernetes")["kubectl"])
        self.environment = self.browser.environment | {"HOME": str(self.home), "XDG_CACHE_HOME": str(self.home / ".cache")}
        self.environment["PATH"] = f"{programs}{os.pathsep}{os.environ['PATH']}"

    async def __call__(self, *words: str, **environment: str) -> Outcome:
        return await finish(await start(*words, environment=self.environment | environment))


@pytest.fixture
def person(dex: Dex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Person:
    # The machine may have an embedded host, whose kubeconfig this user does not have.
    monkeypatch.delenv("KUBECONFIG", raising=False)
    return Person(dex, tmp_path)


async def test_one_file_is_all_that_a_user_needs(plane: Believer, dex: Dex, person: Person, tmp_path: Path) -> None:
    path = file_of(tmp_path, dex, tenant_at(plane.server.url, plane.server.authority.pem.decode()))
    done = await person("login", "-f", str(path))
    assert done.code == 0, done.err
    assert "logged in to tenant team-a as corp:ada@example.org until" in done.out
    written = person.home / ".kube" / "bulkhead" / "team-a.yaml"
    assert stat.S_IMODE(written.stat().st_mode) == 0o600
    assert list(json.loads(written.read_text())["users"][0]["user"]) == ["exec"]
    # One command inside, with the file, and then by the tenant's name alone, wherever $KUBECONFIG points.
    for words, environment in (
        (["-f", str(path)], {}),
        (["team-a"], {"KUBECONFIG": str(written)}),
    ):
        done = await person("connect", *words, "--", "kubectl", "auth", "whoami", "-o", "name", **environment)
        assert done.code == 0, done.err
        assert "you are corp:ada@example.org" in done.err
    # And kubectl alone, with the file as it is.
    whoami = await asyncio.to_thread(
        subprocess.run, ["kubectl", "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"],
        env=person.environment | {"KUBECONFIG": str(path)}, capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert whoami.stdout == b"corp:ada@example.org", whoami.stderr
    assert len(person.browser.shown) == 1


async def test_a_server_of_another_name(plane: Believer, dex: Dex, person: Person, tmp_path: Path) -> None:
    authority = tmp_path / "ca.crt"
    authority.write_bytes(plane.server.authority.pem)
    where = ["--server", f"https://127.0.0.1:{plane.server.port}", "--server-ca", str(authority)]
    where += ["--issuer-url", dex.url, "--client-id", "bulkhead-team-a", "--issuer-ca", str(dex.folder / "ca.crt")]
    wrong = await person("login", "team-a", *where, "--tls-server-name", "other.example.org")
    assert (wrong.code, "no certificate for other.example.org" in wrong.err) == (1, True)
    done = await person("login", "team-a", *where, "--tls-server-name", "kubernetes.default.svc")
    assert done.code == 0, done.err
    told = json.loads((person.home / ".kube" / "bulkhead" / "team-a.yaml").read_text())
    assert told["clusters"][0]["cluster"]["tls-server-name"] == "kubernetes.default.svc"
    for half in (["--tls-server-name", "x"], ["--server", "https://team-a.example.org"]):
        assert (await person("login", "team-a", *half)).code == 2


async def test_a_revoked_user_is_told_to_ask_an_admin(
    plane: Believer, dex: Dex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    grace = Person(dex, tmp_path, "grace")
    path = file_of(tmp_path, dex, tenant_at(plane.server.url, plane.server.authority.pem.decode()))
    done = await grace("login", "-f", str(path))
    assert done.code == 1
    assert "signed you in, but the tenant does not accept its token" in done.err
    assert "access.revoked" in done.err
    assert not (grace.home / ".kube").exists()


def closing() -> Iterator[int]:
    """A server that closes every connection, as the proxy does for unknown names."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with connection:
                        connection.recv(1)

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("case", ["no name", "no server listens", "closed", "another tenant", "no certificate"])
async def test_why_a_tenant_is_not_reached(case: str, dex: Dex, person: Person, tmp_path: Path) -> None:
    other = Authority("other").pem.decode()
    with contextlib.contextmanager(closing)() as port:
        server, authority, said = {
            "no name": ("https://team-a.invalid", other, "the name team-a.invalid is not known here"),
            "no server listens": ("https://127.0.0.1:9", other, "whether it is exposed"),
            "closed": (f"https://127.0.0.1:{port}", other, "the tenant is gone or is no longer exposed"),
            "another tenant": (f"https://127.0.0.1:{dex.port}", other, "not the tenant of this file, or has a new CA"),
            "no certificate": (f"https://127.0.0.1:{dex.port}", "x", "its file has no certificate"),
        }[case]
        for words in (["login"], ["connect"]):
            done = await person(*words, "-f", str(file_of(tmp_path, dex, tenant_at(server, authority))))
            assert done.code == 1, done.err
            assert said in done.err
            assert "tenant team-a: " in done.err
    # No user had to sign in for that.
    assert person.browser.shown == []


async def test_a_provider_that_is_away_or_another(plane: Believer, dex: Dex, person: Person, tmp_path: Path) -> None:
    here = tenant_at(plane.server.url, plane.server.authority.pem.decode())
    strange = file_of(tmp_path, dex, here, ca=Authority("other").pem.decode())
    done = await person("login", "-f", str(strange))
    assert (done.code, "is not trusted" in done.err, "check this machine's clock" in done.err) == (1, True, True)
    away = file_of(tmp_path, dex, here)
    away.write_text(away.read_text().replace(f":{dex.port}/", ":9/"))
    done = await person("login", "-f", str(away))
    assert (done.code, "identity provider 127.0.0.1:9 cannot be reached" in done.err) == (1, True)
    # The positive control.
    assert (await person("login", "-f", str(file_of(tmp_path, dex, here)))).code == 0


def test_without_a_file_the_way_to_one_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(hostfile, "EMBEDDED", tmp_path / "none")  # one that runs here would be asked
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    for words in (["login", "team-a"], ["connect", "team-a"]):
        assert main(words) == 1
        assert "bulkhead login -f FILE" in capsys.readouterr().err


@pytest.mark.parametrize("word", ["login", "connect", "kubeconfig"])
async def test_help_teaches(word: str, person: Person) -> None:
    done = await person(word, "--help")
    assert done.code == 0
    assert "--oidc" in done.out
    if word != "kubeconfig":
        assert f"bulkhead {word} -f red.yaml" in done.out
        assert (await person(word)).code == 2


# -- the file


def test_the_file_is_read_as_it_was_written(dex: Dex, tmp_path: Path) -> None:
    tenant = tenant_at("https://team-a.example.org:8443", dex.ca, "x.example.org")
    path = file_of(tmp_path, dex, tenant, scopes=("a", "b"), discovery_url="https://inside.example.org/x")
    found = handed.read(path.read_bytes())
    assert found.tenant == tenant
    made = document.with_tokens(found.tenant, found.issuer, ["bulkhead"], found.redirect_port)
    assert made == path.read_bytes()


Change = Callable[[dict[str, Any], dict[str, Any], list[str]], object]  # of the file, its cluster, and its command's words
CHANGES: dict[str, Change] = {
    "another command": lambda _, __, words: operator.setitem(words, 1, "certificate"),
    "no command": lambda told, _, __: told["users"][0]["user"].clear(),
    "a word more": lambda _, __, words: words.extend(["--issuer-ca", "/etc/passwd"]),
    "half a word": lambda _, __, words: words.append("--scope"),
    "a word twice": lambda _, __, words: words.extend(["--client-id", "other"]),
    "a name that leads upwards": lambda _, __, words: operator.setitem(words, 2, "../../.bashrc"),
    "a port of the system": lambda _, __, words: words.extend(["--redirect-port", "22"]),
    "a malformed authority": lambda _, __, words: words.extend(["--issuer-ca-data", "!"]),
    "no verification": lambda _, cluster, __: cluster.update({"insecure-skip-tls-verify": True}),
    "no authority": lambda _, cluster, __: cluster.pop("certificate-authority-data"),
    "an authority of this machine": lambda _, cluster, __: cluster.update(
        {"certificate-authority-data": None, "certificate-authority": "/etc/ssl/certs/ca-certificates.crt"}
    ),
    "a proxy": lambda _, cluster, __: cluster.update({"proxy-url": "http://127.0.0.1:1"}),
    "in the clear": lambda _, cluster, __: cluster.update({"server": "http://team-a.example.org"}),
    "two clusters": lambda told, _, __: told["clusters"].append(told["clusters"][0]),
    "endless": lambda told, _, __: told.update({"x": "x" * (300 << 10)}),
}


def changed(data: bytes, change: str) -> bytes:
    told = json.loads(data)
    CHANGES[change](told, told["clusters"][0]["cluster"], told["users"][0]["user"]["exec"]["args"])
    return json.dumps(told).encode()


@pytest.mark.parametrize("data", [b"", b"[]", b"[" * 100_000, b"{" * 100_000, b"\xff\xfe", b"a: &a [*a]", b"x", b"{}"])
def test_a_malformed_file_is_refused(data: bytes) -> None:
    with pytest.raises((ValueError, ConfigError)):
        handed.read(data)


@pytest.mark.parametrize("change", CHANGES)
async def test_a_file_that_says_anything_else_is_refused(change: str, dex: Dex, person: Person, tmp_path: Path) -> None:
    path = file_of(tmp_path, dex, tenant_at("https://team-a.example.org", dex.ca))
    handed.read(path.read_bytes())
    path.write_bytes(changed(path.read_bytes(), change))
    with pytest.raises(CliError, match="is not a file to log in with"):
        handed._of(path)
    done = await person("login", "-f", str(path))
    assert (done.code, "bulkhead kubeconfig TENANT --oidc" in done.err) == (2, True)


def test_clocks_that_differ_are_told_by_a_fresh_token_alone() -> None:
    body = "eyJpYXQiOiAxMDAwfQ"  # {"iat": 1000}
    assert arrival.skew(Tokens(f"x.{body}.x", "", time.time(), 0)) > 1e9
    assert arrival.skew(Tokens(f"x.{body}.x", "", 1000.0, 0)) == 0.0
    assert arrival.skew(Tokens("x", "", time.time(), 0)) == 0.0


async def test_an_admin_hands_it_out_and_is_told_that_it_reaches_no_server(
    cli: Cli, controller: Controller, plane: Believer, dex: Dex, host_client: Client
) -> None:
    issuer = {"name": "corp", "url": dex.url, "audiences": ["bulkhead-{tenant}"], "certificateAuthority": dex.ca}
    await controller.tenant("team-a", access={"oidc": [{"issuer": "corp"}]})
    await controller.plane("team-a", plane.server.admin)
    none = await cli("kubeconfig", "team-a", "--oidc")
    assert (none.code, "has no identity provider" in none.err) == (3, True)
    applied = {"name": "standard", "spec": {"access": {"issuers": [issuer]}}}
    await host_client.patch(kinds.TENANTS, "team-a", {"status": {"class": applied}}, subresource="status")
    done = await cli("kubeconfig", "team-a", "--oidc")
    assert done.code == 0, done.err
    assert "warning: tenant team-a is not exposed" in done.err
    found = handed.read(done.out.encode())
    assert (found.name, found.issuer.url) == ("team-a", dex.url)
    await host_client.delete(kinds.TENANTS, "team-a")
