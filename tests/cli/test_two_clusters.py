"""`bulkhead login` to tenants of one name on two clusters: the file of the first is not lost. No server, no provider."""

import json
import time
from pathlib import Path
from typing import Any, Final

import pytest

from workstation.cli import arrival
from workstation.cli.arguments import Host, Target
from workstation.cli.credentials import document, handed, token
from workstation.cli.credentials.arguments import SignIn
from workstation.cli.credentials.choice import Wanted
from workstation.cli.credentials.provider import Issuer
from workstation.cli.credentials.token import Tokens
from workstation.cli.failures import CliError
from workstation.cli.login import LoginRequest, login

FIRST: Final = "https://red.first.example.org"
SECOND: Final = "https://red.second.example.org"


def file_of(folder: Path, server: str) -> Path:
    """The file that an admin hands out."""
    status = {"endpoint": server, "certificateAuthority": "x", "tlsServerName": None}
    tenant: dict[str, Any] = {"metadata": {"name": "red"}, "status": status}
    path = folder / "handed.yaml"
    path.write_bytes(document.with_tokens(tenant, Issuer("https://login.example.org", "bulkhead-red"), ["bulkhead"]))
    return path


class SignIns:
    """How often the user was asked to sign in."""

    def __init__(self) -> None:
        self.count = 0

    def current(self, *_: object) -> Tokens:
        self.count += 1
        return Tokens("x", "", time.time(), time.time() + 3600)


@pytest.fixture
def signs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SignIns:
    made = SignIns()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(token, "current", made.current)
    monkeypatch.setattr(arrival, "proxied", lambda _: True)  # no tenant is looked for
    return made


def ask(folder: Path, server: str, write: str | None = None) -> LoginRequest:
    return LoginRequest(Host(), None, str(file_of(folder, server)), Wanted(), None, None, SignIn(), Target(write))


def test_a_login_to_another_cluster_does_not_replace_the_first(signs: SignIns, tmp_path: Path) -> None:
    assert login(ask(tmp_path, FIRST)) == 0
    usual = handed.default_file("red")
    with pytest.raises(CliError, match=f"{usual} is of a cluster at {FIRST}, and tenant red is at {SECOND}") as refused:
        login(ask(tmp_path, SECOND))
    assert "--write FILE" in refused.value.next_step
    assert f"rm {usual}" in refused.value.next_step
    assert handed.addresses_in(usual) == (FIRST,)
    assert signs.count == 1, "before the user signs in"
    # Both ways on.
    other = tmp_path / "second.yaml"
    assert login(ask(tmp_path, SECOND, str(other))) == 0
    assert (handed.addresses_in(usual), handed.addresses_in(other)) == ((FIRST,), (SECOND,))
    usual.unlink()
    assert login(ask(tmp_path, SECOND)) == 0
    assert handed.addresses_in(usual) == (SECOND,)


@pytest.mark.parametrize("there", ["", "not a kubeconfig", "{", "a: &a [*a]", "clusters: [x, {cluster: 1}]"])
def test_the_same_address_and_what_is_not_a_kubeconfig_are_overwritten(signs: SignIns, tmp_path: Path, there: str) -> None:
    usual = handed.default_file("red")
    usual.parent.mkdir(parents=True)
    usual.write_text(there)
    assert login(ask(tmp_path, FIRST)) == 0
    assert login(ask(tmp_path, f"{FIRST}/")) == 0
    assert json.loads(usual.read_text())["clusters"][0]["name"] == "red"
    assert signs.count == 2


def test_a_file_that_also_names_another_cluster_is_kept(signs: SignIns, tmp_path: Path) -> None:
    """A user may have added to it."""
    usual = handed.default_file("red")
    usual.parent.mkdir(parents=True)
    clusters = [{"name": name, "cluster": {"server": server}} for name, server in (("red", FIRST), ("mine", SECOND))]
    usual.write_text(json.dumps({"clusters": clusters}))
    with pytest.raises(CliError, match=SECOND):
        login(ask(tmp_path, FIRST))
    assert signs.count == 0
