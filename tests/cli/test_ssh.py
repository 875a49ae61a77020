"""`bulkhead ssh` up to the ssh that it starts: asked for in a real plane, and signed by the controller's own part."""

import contextlib
import json
import os
import shlex
import stat
import subprocess
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from bulkhead.api import names
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.work.clock import SystemClock
from controller.inside.budget import Budget
from controller.inside.calls import Plane
from controller.slurm.keygen import make_ssh_key
from controller.slurm.objects import render, ssh
from controller.slurm.spec import Forwarding
from controller.slurm.spec.keys import to_data
from controller.slurm.ssh.authorities import Authorities
from controller.slurm.ssh.certify import certify
from controller.slurm.ssh.desks import Desks
from tests.kit.commandline import Cli, Controller
from tests.kit.crds import install
from tests.kit.kubeconfigs import to_yaml
from tests.kit.servers import Pair
from tests.kit.slurmsamples import KEYS, slurm_spec
from tests.kit.tenantsamples import plane_spec
from workstation.cli.arguments import Host
from workstation.cli.credentials import cache
from workstation.cli.failures import CliError
from workstation.cli.ssh import certificate, command, plane
from workstation.cli.ssh.plane import Way

CSR = kinds.CERTIFICATE_SIGNING_REQUESTS
HOST_KEY = make_ssh_key().public
USERS = [
    {"name": "alice", "uid": 10001, "identities": ["bulkhead:host:admin"]},
    {"name": "bob", "uid": 10002, "identities": ["bulkhead:host:bob"]},
]


@pytest.fixture
async def red(
    controller: Controller, plane_config: KubeConfig, host_client: Client, plane_client: Client, name: str
) -> AsyncIterator[str]:
    """A tenant whose requests for ssh certificates are answered."""
    await install(host_client)
    await controller.tenant(name, scheduling={"mode": "Slurm", "slurm": {"users": USERS}})
    await controller.plane(name, plane_config)
    keys = to_data(KEYS) | {"ssh_host_ed25519_key.pub": to_data(KEYS)["ssh_host_ed25519_key.pub"]}
    secret = {"metadata": {"name": "slurm-keys", "namespace": names.plane_namespace(name)}, "data": keys}
    secret["stringData"] = {"ssh_host_ed25519_key.pub": f"{HOST_KEY} slurm-login\n"}
    await host_client.create(kinds.SECRETS, {"apiVersion": "v1", "kind": "Secret"} | secret)
    spec = slurm_spec({"users": USERS})
    assert spec.login is not None
    for obj in (render.namespace(), *ssh.rights(spec, spec.login)):
        await plane_client.apply(kinds.resource_of(obj["apiVersion"], obj["kind"]), obj)
    clock, authorities = SystemClock(), Authorities(host_client, SystemClock())
    await authorities.current(plane_spec(tenant=name), await host_client.get(kinds.TENANTS, name), {})
    desks = Desks(host_client, clock, lambda turn: Plane(plane_client, turn), authorities, budget=Budget(), period=0.1)
    desks.open(name, Forwarding())
    yield name
    await desks.close()
    for obj in (await plane_client.list(CSR)).items:
        await plane_client.delete(CSR, obj["metadata"]["name"])
    with contextlib.suppress(Exception):
        await plane_client.delete(kinds.NAMESPACES, names.SLURM_NAMESPACE)


@pytest.fixture
def recorder(tmp_path: Path) -> dict[str, str]:
    """A program called ssh that writes down its words, and the environment that finds it first."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "ssh"
    program.write_text(f'#!/bin/sh\nfor word in "$@"; do printf "%s\\0" "$word"; done > {tmp_path}/words\nexit 9\n')
    program.chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}"}


def words_in(tmp_path: Path) -> list[str]:
    return (tmp_path / "words").read_text().split("\0")[:-1]


def said_by(*words: str | Path) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=True, timeout=30).stdout


def option(words: list[str], name: str) -> str:
    (found,) = [word.partition("=")[2] for word in words if word.startswith(f"{name}=")]
    return found


async def test_ssh_gets_a_certificate_a_known_host_and_a_way_and_its_code_is_passed_on(
    cli: Cli, red: str, recorder: dict[str, str], tmp_path: Path, plane_client: Client
) -> None:
    done = await cli("ssh", red, "--", "echo", "two  words", **recorder)
    assert (done.code, done.err) == (9, "")
    words = words_in(tmp_path)
    assert words[-3:] == [f"{red}.slurm", "--", "echo 'two  words'"]
    assert (option(words, "User"), option(words, "StrictHostKeyChecking"), option(words, "IdentityAgent")) == (
        "alice",
        "yes",
        "none",
    )
    files = {each: Path(option(words, each).strip('"')) for each in ("IdentityFile", "CertificateFile", "UserKnownHostsFile")}
    assert {stat.S_IMODE(path.stat().st_mode) for path in files.values()} == {0o600}
    assert stat.S_IMODE(files["IdentityFile"].parent.stat().st_mode) == 0o700
    assert files["UserKnownHostsFile"].read_text() == f"{red}.slurm {HOST_KEY}\n"
    shown = said_by("ssh-keygen", "-L", "-f", files["CertificateFile"])
    assert 'Key ID: "bulkhead:host:admin"' in shown
    assert shown.split("Principals:")[1].split("Critical")[0].split() == ["alice"]
    assert shown.split("Extensions:")[1].split() == ["permit-pty"]
    proxy = shlex.split(option(words, "ProxyCommand").replace("%%", "%"))
    assert proxy[proxy.index("ssh") :][:3] == ["ssh", red, "--proxy"]
    # The next one is not asked for, until the first is forgotten; and nothing is left of it then.
    assert (await cli("ssh", red, **recorder)).code == 9
    assert len((await plane_client.list(CSR)).items) == 1
    assert (await cli("logout", red)).code == 0
    assert [path for path in files["IdentityFile"].parent.iterdir() if path.suffix not in {".lock", ".json"}] == []
    assert (await cli("ssh", red, "--renew", **recorder)).code == 0
    assert len((await plane_client.list(CSR)).items) == 2


async def test_a_user_is_only_the_slurm_user_that_the_tenant_names(
    cli: Cli, red: str, recorder: dict[str, str], tmp_path: Path, apiservers: Pair
) -> None:
    refused = await cli("ssh", red, "--user", "bob", **recorder)
    assert (refused.code, "bulkhead:host:admin may be alice, not bob" in refused.err) == (1, True)
    assert "identities of the Tenant" in refused.err
    assert not (tmp_path / "words").exists()
    for user, said in (("bulkhead:host:bob", "User=bob"), ("corp:eve", "corp:eve is not mapped to any of its Slurm users")):
        path = tmp_path / "person"
        path.write_bytes(to_yaml(apiservers.plane.config_for(user)))
        done = await cli("ssh", red, "--login", str(path), **recorder | {"KUBECONFIG": "/nonexistent"})
        shown = words_in(tmp_path) if (tmp_path / "words").exists() else []
        assert said in f"{done.err} {shown}"
        (tmp_path / "words").unlink(missing_ok=True)


async def test_a_user_who_logged_in_needs_nothing_else(cli: Cli, red: str, recorder: dict[str, str], tmp_path: Path) -> None:
    login = tmp_path / "red.yaml"
    assert (await cli("login", red, "--write", str(login))).code == 0
    environment = recorder | {"KUBECONFIG": "/nonexistent"}
    assert (await cli("ssh", red, "--login", str(login), **environment)).code == 9
    proxy = shlex.split(option(words_in(tmp_path), "ProxyCommand"))
    assert proxy[-2:] == ["--login", str(login)], "and no kubeconfig of the host"
    # The file of `bulkhead login` is found by itself.
    usual = tmp_path / "home/.kube/bulkhead" / f"{red}.yaml"
    usual.parent.mkdir(parents=True)
    login.rename(usual)
    assert (await cli("ssh", red, **environment | {"HOME": str(tmp_path / "home")})).code == 9


async def test_the_block_for_ssh_is_one_that_ssh_reads_and_renews_by_itself(cli: Cli, red: str, tmp_path: Path) -> None:
    block = (await cli("ssh", red, "--print-config")).out
    (tmp_path / "config").write_text(block)
    out = said_by("ssh", "-G", "-F", tmp_path / "config", f"{red}.slurm")
    shown = dict(line.split(" ", 1) for line in out.splitlines() if " " in line)
    assert (shown["user"], shown["hostkeyalias"], shown["stricthostkeychecking"]) == ("alice", f"{red}.slurm", "true")
    assert "--proxy" in shown["proxycommand"]
    assert said_by("cat", shown["certificatefile"].strip('"'))


async def test_what_is_missing_is_named(
    cli: Cli, red: str, controller: Controller, plane_config: KubeConfig, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    missing = await cli("ssh", red, PATH=str(tmp_path / "empty"))
    assert (missing.code, "openssh-client" in missing.err) == (1, True)
    await controller.tenant(f"{red}-k")
    await controller.plane(f"{red}-k", plane_config)
    without = await cli("ssh", f"{red}-k", "--renew")
    assert (without.code, "does not use Slurm" in without.err) == (1, True)
    unknown = await cli("ssh", red, "--login", str(tmp_path / "none"), "--renew")
    assert (unknown.code, "does not exist" in unknown.err) == (2, True)
    assert (await cli("ssh", f"{red}-x", "--renew")).code == 3


# -- what a plane answers


class Answering:
    """A plane that answers as it likes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        self.principals, self.host_key, self.text = ["alice"], f"{HOST_KEY} slurm-login", ""
        self.foreign = False
        self.at = datetime.now(UTC)
        self.asked = 0
        login = tmp_path / "login"
        login.write_text("x")
        monkeypatch.setattr(plane, "kubeconfig", lambda _: b"")
        monkeypatch.setattr(plane, "login_file", lambda _: login)
        monkeypatch.setattr(certificate.tunnel, "reachable", lambda *words: contextlib.nullcontext(words[-1]))
        monkeypatch.setattr(certificate, "_answer", self._answer)

    async def _answer(self, _: str, __: bytes, pem: bytes) -> tuple[str, str]:
        self.asked += 1
        key: Any = x509.load_pem_x509_csr(pem).public_key()
        signed, _serial = certify(
            Ed25519PrivateKey.generate().public_key() if self.foreign else key,
            identity="corp:ada",
            principals=self.principals,
            forwarding=Forwarding(),
            authority=make_ssh_key(),
            now=self.at,
            ends=self.at + timedelta(minutes=15),
        )
        return self.text or signed, self.host_key


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Answering:
    return Answering(monkeypatch, tmp_path)


WAY = Way(Host(), "red", tunnel="never")


@pytest.fixture
def logged_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of `bulkhead login red`, and one of a host."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "host"))
    (tmp_path / "host").touch()
    login = tmp_path / ".kube/bulkhead/red.yaml"
    login.parent.mkdir(parents=True)
    login.touch()
    return login


def test_a_login_counts_unless_the_user_names_a_host(logged_in: Path, tmp_path: Path) -> None:
    """The tenant of that name on another host is another one."""
    host = str(tmp_path / "host")
    assert plane.login_file(WAY) == logged_in
    for named in (Host(kubeconfig=host), Host(context="other"), Host(host, "other")):
        assert plane.login_file(replace(WAY, host=named)) is None
    assert plane.login_file(replace(WAY, host=Host(host), login=str(logged_in))) == logged_in


def test_the_commands_that_ssh_calls_go_the_same_way(logged_in: Path, tmp_path: Path) -> None:
    """They are written down, and run when a login may have come or gone."""
    host = str(tmp_path / "host")
    of_login = shlex.split(command._own(WAY, "--proxy"))
    assert of_login[-4:] == ["--login", str(logged_in), "--kubeconfig", host]
    of_host = shlex.split(command._own(replace(WAY, host=Host(host, "other")), "--proxy"))
    assert "--login" not in of_host
    assert of_host[-4:] == ["--kubeconfig", host, "--context", "other"]


def test_an_answer_is_kept_for_its_user_until_shortly_before_its_end(
    answering: Answering, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = certificate.current(WAY)
    assert certificate.current(WAY) == first
    assert answering.asked == 1
    assert (first.users, first.identity) == (("alice",), "corp:ada")
    certificate.current(replace(WAY, tenant="blue"))
    assert answering.asked == 2
    later = time.time() + 14 * 60
    monkeypatch.setattr(certificate.time, "time", lambda: later)
    certificate.current(WAY)
    assert answering.asked == 3


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"foreign": True}, "another key"),
        ({"text": "ssh-ed25519 AAAA"}, "no readable certificate"),
        ({"text": "ö"}, "no readable certificate"),
        ({"text": HOST_KEY}, "another key"),
        ({"principals": ["alice\n  ProxyCommand evil"]}, "invalid user names"),
        ({"principals": ["-oProxyCommand=evil"]}, "invalid user names"),
        ({"host_key": ""}, "no host key"),
        ({"host_key": "@cert-authority * ssh-ed25519 AAAA"}, "no host key"),
    ],
)
def test_a_malformed_answer_is_refused_and_nothing_kept(answering: Answering, change: dict[str, Any], says: str) -> None:
    for field, value in change.items():
        setattr(answering, field, value)
    with pytest.raises(CliError, match=says):
        certificate.current(WAY)
    assert [path for path in cache.folder().iterdir() if path.suffix != ".lock"] == []


def test_of_a_host_key_one_line_is_taken(answering: Answering) -> None:
    answering.host_key = f"{HOST_KEY} x\n@cert-authority * {HOST_KEY}"
    assert certificate.current(WAY).known_hosts.read_text() == f"red.slurm {HOST_KEY}\n"


@pytest.mark.parametrize(("minutes", "says"), [(20, "20 minutes behind"), (-20, "20 minutes ahead of"), (1, "")])
def test_a_wrong_clock_is_reported_and_keeps_no_user_out(
    answering: Answering, capsys: pytest.CaptureFixture[str], minutes: int, says: str
) -> None:
    answering.at += timedelta(minutes=minutes)
    certificate.current(WAY)
    assert certificate.current(WAY).ends > time.time()
    assert answering.asked == 1
    shown = capsys.readouterr().err
    assert says in shown
    assert bool(shown) is bool(says)


def test_a_certificate_of_a_former_tenant_of_the_name_is_not_shown_to_the_present_one(
    answering: Answering, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else ssh warns of an eavesdropper for as long as the certificate is kept."""
    monkeypatch.setattr(certificate.tunnel, "authority_of", lambda data: data.decode())
    monkeypatch.setattr(plane, "kubeconfig", lambda _: b"former")
    reached: list[bytes] = []

    def reachable(*words: Any) -> contextlib.AbstractContextManager[Any]:
        reached.append(words[-1])
        return contextlib.nullcontext(words[-1])

    async def carried(*_: Any) -> int:
        return 0

    monkeypatch.setattr(command.tunnel, "reachable", reachable)
    monkeypatch.setattr(command, "_carry", carried)
    former = certificate.current(WAY).certificate.read_text()
    assert command._proxy(WAY) == 0
    reached.clear()
    monkeypatch.setattr(plane, "kubeconfig", lambda _: b"present")
    with pytest.raises(CliError, match="was made again since your ssh certificate was signed"):
        command._proxy(WAY)
    assert reached == []
    assert certificate.current(WAY).certificate.read_text() != former
    assert command._proxy(WAY) == 0


def test_files_that_others_may_read_are_rewritten(answering: Answering) -> None:
    found = certificate.current(WAY)
    kept = found.key.read_text()
    found.key.chmod(0o644)
    found.certificate.unlink()
    found.certificate.symlink_to("/etc/hostname")
    assert certificate.current(WAY) == found
    assert stat.S_IMODE(found.key.lstat().st_mode) == 0o600
    assert not found.certificate.is_symlink()
    assert serialization.load_ssh_private_key(kept.encode(), None)
    assert json.loads(next(cache.folder().glob("ssh-*.json")).read_text())["tenant"] == "red"
