"""`bulkhead login`, `logout` and `revoke` against a real host; planes that change their CA are the e2e tests' part."""

import contextlib
import io
import json
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.kubeconfig import KubeConfig
from tests.kit.commandline import Cli, Controller
from workstation.cli import revoke
from workstation.cli.arguments import Host, Wait
from workstation.cli.credentials import certificate
from workstation.cli.failures import CliError

pytestmark = pytest.mark.commands


@pytest.fixture
async def tenant(cli: Cli, controller: Controller, plane_config: KubeConfig, name: str) -> str:
    await controller.tenant(name)
    await controller.plane(name, plane_config)
    return name


def kept_in(folder: Path) -> list[Path]:
    return [*folder.rglob("*.json")]


async def access_of(client: Client, name: str) -> dict[str, Any]:
    return dict((await client.get(kinds.TENANTS, name))["spec"].get("access") or {})


async def test_login_writes_a_kubeconfig_without_secrets_and_keeps_a_certificate(
    cli: Cli, tenant: str, tmp_path: Path, own_cache: Path
) -> None:
    done = await cli("login", tenant, HOME=str(tmp_path))
    assert done.code == 0, done.err
    path = tmp_path / ".kube" / "bulkhead" / f"{tenant}.yaml"
    assert f"logged in to tenant {tenant} until" in done.out
    assert f"export KUBECONFIG={path}" in done.err
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    user = json.loads(path.read_text())["users"][0]["user"]
    assert list(user) == ["exec"]
    assert len(kept_in(own_cache)) == 1
    again = await cli("login", tenant, "--write", str(tmp_path / "other.yaml"))
    assert json.loads((tmp_path / "other.yaml").read_text())["users"] == json.loads(path.read_text())["users"]
    assert (again.code, len(kept_in(own_cache))) == (0, 1)


async def test_logout_forgets_one_tenant_or_all(cli: Cli, tenant: str, tmp_path: Path, own_cache: Path) -> None:
    assert (await cli("login", tenant, "--write", str(tmp_path / "x"))).code == 0
    assert "no credentials were kept for tenant other" in (await cli("logout", "other")).out
    assert len(kept_in(own_cache)) == 1
    assert f"logged out of tenant {tenant}: 1 credentials removed" in (await cli("logout", tenant)).out
    assert kept_in(own_cache) == []
    assert (await cli("login", tenant, "--write", str(tmp_path / "x"))).code == 0
    assert "all tenants: 1" in (await cli("logout", "--all")).out
    assert (await cli("logout")).code == 2


@pytest.mark.parametrize(
    ("reason", "heard"), [("NamespaceTaken", False), ("InvalidName", False), ("Paused", True), ("UnknownClass", True)]
)
def test_a_revocation_of_which_the_plane_does_not_hear_is_an_error(reason: str, *, heard: bool) -> None:
    ready = {"type": "Ready", "status": "False", "reason": reason}
    found = {"metadata": {"name": "red"}, "status": {"conditions": [ready]}}
    with contextlib.nullcontext() if heard else pytest.raises(CliError, match="does not learn of it"):
        revoke._check_followed(found)


async def test_a_revoked_user_gets_no_certificate_until_that_is_lifted(cli: Cli, tenant: str, host_client: Client) -> None:
    assert (await cli("kubeconfig", tenant, "--static")).code == 0
    done = await cli("revoke", tenant, "bulkhead:host:admin", "--no-wait")
    assert done.code == 0, done.err
    first = await access_of(host_client, tenant)
    assert first["revokedUsers"] == ["admin"]
    await cli("revoke", tenant, "bob", "--no-wait")
    second = await access_of(host_client, tenant)
    assert second["revokedUsers"] == ["admin", "bob"]
    assert second["certificatesRevoked"] != first["certificatesRevoked"]
    refused = await cli("kubeconfig", tenant, "--static")
    assert (refused.code, "revokedUsers" in refused.err) == (1, True)
    lifted = await cli("revoke", tenant, "--lift", "admin")
    assert (lifted.code, lifted.out) == (0, f"tenant {tenant}: admin may log in again\n")
    third = await access_of(host_client, tenant)
    assert third == second | {"revokedUsers": ["bob"]}
    # A typing error lifts nothing, and says so; a name that is given twice is one user.
    missed = await cli("revoke", tenant, "--lift", "bop")
    assert (missed.code, missed.out) == (0, "")
    assert missed.err == f"warning: tenant {tenant}: bop: not revoked before; revoked are: bob\n"
    await cli("revoke", tenant, "bulkhead:host:eve", "eve", "bob", "--no-wait")
    assert (await access_of(host_client, tenant))["revokedUsers"] == ["eve", "bob"]
    mixed = await cli("revoke", tenant, "--lift", "bob", "--lift", "eve", "--lift", "mallory")
    assert mixed.out == f"tenant {tenant}: bob, eve may log in again\n"
    assert mixed.err == f"warning: tenant {tenant}: mallory: not revoked before; no user is revoked\n"


def test_of_a_plane_of_three_one_member_that_refuses_is_not_all() -> None:
    plain = {"metadata": {"name": "red"}, "status": {}}
    of_three = plain | {"status": {"conditions": [{"type": "MembersSpread", "status": "True", "reason": "Spread"}]}}
    assert revoke._outcome(plain, refused=True) == "tenant red: all earlier certificates are refused"
    assert "the others do within two minutes" in revoke._outcome(of_three, refused=True)
    assert revoke._outcome(of_three, refused=False) == revoke._outcome(plain, refused=False)


async def test_on_a_terminal_a_revocation_asks_because_it_ends_the_certificates_of_all(
    tenant: str,
    host_client: Client,
    host_file: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Another name than the tenant's changes nothing; its own goes on."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    request = revoke.RevokeRequest(Host(kubeconfig=str(host_file)), tenant, ("bob",), lift=False, wait=Wait(wanted=False))
    monkeypatch.setattr(sys, "stdin", Terminal("no\n"))
    with pytest.raises(CliError, match="not revoked: the name does not match"):
        await revoke._revoke(request)
    assert await access_of(host_client, tenant) == {}
    assert f"the certificates of all users of tenant {tenant}; all but bob get new ones" in capsys.readouterr().err
    monkeypatch.setattr(sys, "stdin", Terminal(f"{tenant}\n"))
    assert await revoke._revoke(request) == 0
    assert (await access_of(host_client, tenant))["revokedUsers"] == ["bob"]


async def test_while_the_ca_is_to_be_replaced_nothing_is_signed(cli: Cli, tenant: str, host_client: Client) -> None:
    """Until the controller has replaced it, a certificate of the old one would be good for an hour more."""
    assert await certificate.obtain(host_client, tenant)
    assert (await cli("revoke", tenant, "--all", "--no-wait")).code == 0
    with pytest.raises(CliError, match="did not answer") as refused:
        await certificate.obtain(host_client, tenant, patience=5.0)
    assert refused.value.code == 4


@pytest.mark.parametrize("words", [(), ("alice", "--all"), ("--lift", "x", "--all"), ("x", "--lift", "y")])
async def test_a_revocation_without_a_user_is_refused(
    cli: Cli, tenant: str, host_client: Client, words: tuple[str, ...]
) -> None:
    assert (await cli("revoke", tenant, *words)).code == 2
    assert await access_of(host_client, tenant) == {}


@pytest.mark.parametrize("word", ["login", "revoke", "logout"])
async def test_help_teaches(cli: Cli, word: str) -> None:
    done = await cli(word, "--help")
    assert (done.code, "usage: " in done.out) == (0, True)
