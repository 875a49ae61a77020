"""A certificate of an hour: asked for by the real command, signed by the controller's own part, used on a real plane."""

import asyncio
import contextlib
import json
import os
import stat
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from bulkhead.api import names
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import Forbidden
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.kube.resources import Resource
from tests.kit.commandline import Cli, Controller
from tests.kit.kubeconfigs import to_yaml
from tests.kit.servers import Pair
from tests.kit.syncerbed import until
from workstation.cli.arguments import Host
from workstation.cli.credentials import cache, certificate
from workstation.cli.failures import CliError

pytestmark = pytest.mark.commands

REVIEWS = Resource("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", False)


@pytest.fixture
async def tenant(cli: Cli, controller: Controller, plane_config: KubeConfig, name: str) -> str:
    await controller.tenant(name)
    await controller.plane(name, plane_config)
    return name


async def who(config: KubeConfig) -> dict[str, Any]:
    async with Client(config, user_agent="tests", field_manager="tests") as client:
        answer = await client.create(
            REVIEWS, {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview", "metadata": {}}
        )
        return dict(answer["status"]["userInfo"])


def kept_in(folder: Path) -> list[Path]:
    return [*folder.rglob("*.json")]


def leaf(pem: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pem.encode())


async def test_the_certificate_lasts_an_hour_and_names_the_hosts_user(cli: Cli, tenant: str) -> None:
    done = await cli("kubeconfig", tenant, "--static")
    assert (done.code, done.err) == (0, "")
    config = KubeConfig.from_bytes(done.out.encode(), hostile=True)
    assert config.client_cert is not None
    found = leaf(config.client_cert.decode())
    assert found.not_valid_after_utc - datetime.now(UTC) <= timedelta(hours=1)
    said = await who(config)
    assert said["username"] == "bulkhead:host:admin"
    assert "bulkhead:host-admins" in said["groups"]
    assert "system:masters" not in said["groups"]


async def test_the_kubeconfig_names_a_command_that_gives_kubectl_a_certificate(cli: Cli, tenant: str, own_cache: Path) -> None:
    user = json.loads((await cli("kubeconfig", tenant)).out)["users"][0]["user"]
    plugin = user["exec"]
    words = [plugin["command"], *plugin["args"]]
    assert words[:3] == [sys.executable, "-m", "workstation.cli.main"]
    # Called without the host's kubeconfig in the environment, as kubectl does in a shell of `connect`.
    done = await cli(*words[3:], KUBECONFIG="/nonexistent")
    answer = json.loads(done.out)
    assert (answer["kind"], answer["apiVersion"]) == ("ExecCredential", plugin["apiVersion"])
    ends = datetime.fromisoformat(answer["status"]["expirationTimestamp"])
    assert timedelta(minutes=50) < ends - datetime.now(UTC) < timedelta(hours=1)
    assert leaf(answer["status"]["clientCertificateData"])
    kept = kept_in(own_cache)
    assert [stat.S_IMODE(each.stat().st_mode) for each in kept] == [0o600]
    assert stat.S_IMODE(kept[0].parent.stat().st_mode) == 0o700


async def test_ten_at_once_ask_the_host_once(tenant: str, host_file: Path, host_client: Client) -> None:
    # Each asked by a process of its own, as by one kubectl each.
    words = f"{sys.executable} -m workstation.cli.main credential certificate {tenant} --kubeconfig {host_file}; exit $?"

    async def ask() -> bytes:
        process = await asyncio.create_subprocess_exec("sh", "-c", words, stdout=asyncio.subprocess.PIPE)
        out, _ = await asyncio.wait_for(process.communicate(), 300)
        assert process.returncode == 0
        return out

    assert len(set(await asyncio.gather(*(ask() for _ in range(10))))) == 1
    filed = (await host_client.list(kinds.CERTIFICATE_SIGNING_REQUESTS, label_selector=f"bulkhead.dev/tenant={tenant}")).items
    assert len(filed) == 1


async def test_a_process_that_asks_again_was_refused_and_gets_another(cli: Cli, tenant: str) -> None:
    # Both are children of this process.
    words = ("credential", "certificate", tenant)
    first, second = [json.loads((await cli(*words)).out)["status"]["clientCertificateData"] for _ in range(2)]
    assert first != second


async def test_none_is_kept_of_a_former_tenant_of_the_name_nor_one_that_was_revoked(
    controller: Controller, host_client: Client, host_file: Path, own_cache: Path, tenant: str
) -> None:
    options = Host(str(host_file))

    async def current() -> str:
        found = await certificate.current(host_client, options, await host_client.get(kinds.TENANTS, tenant))
        return found.certificate

    first = await current()
    # Positive control: while the tenant is the same, so is the certificate.
    assert await current() == first
    # Another admin's doing, of which this cache knows nothing.
    await host_client.patch(kinds.TENANTS, tenant, {"spec": {"access": {"certificatesRevoked": "now"}}})
    revoked = {"stringData": {"revoked": "now"}}
    await host_client.patch(kinds.SECRETS, "pki-ca-users", revoked, names.plane_namespace(tenant))
    second = await current()
    await host_client.delete(kinds.TENANTS, tenant)
    await controller.tenant(tenant, access={"certificatesRevoked": "now"})
    third = await current()
    assert len({first, second, third}) == 3
    assert await current() == third
    assert len(kept_in(own_cache)) == 1


async def test_a_user_without_the_right_to_log_in_is_told_to_ask_an_admin(
    cli: Cli, tenant: str, apiservers: Pair, host_client: Client, tmp_path: Path
) -> None:
    for name in ("files-requests", "may-log-in"):
        rules = [
            {"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests"], "verbs": ["create", "get"]},
            {"apiGroups": ["bulkhead.dev"], "resources": ["tenants"], "verbs": ["get"]},
        ]
        if name == "may-log-in":
            rules.append(
                {"apiGroups": ["bulkhead.dev"], "resources": ["tenants"], "verbs": ["login"], "resourceNames": [tenant]}
            )
        await host_client.apply(kinds.CLUSTER_ROLES, {"metadata": {"name": name}, "rules": rules})
        await host_client.apply(
            kinds.CLUSTER_ROLE_BINDINGS,
            {
                "metadata": {"name": name},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
                "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": name}],
            },
        )
        (tmp_path / name).write_bytes(to_yaml(apiservers.host.config_for(name)))

    async def known() -> bool:
        """The right that was given last."""
        config = apiservers.host.config_for("may-log-in")
        async with Client(config, user_agent="tests", field_manager="tests") as client:
            with contextlib.suppress(Forbidden):
                return bool(await client.get(kinds.TENANTS, tenant))
        return False

    await until(known, "the rights to be known")
    (tmp_path / "nobody").write_bytes(to_yaml(apiservers.host.config_for("nobody")))
    refused = await cli("kubeconfig", tenant, "--static", "--kubeconfig", str(tmp_path / "files-requests"))
    assert (refused.code, "'files-requests' may not login to tenant" in refused.err) == (1, True)
    assert "ClusterRole bulkhead-login" in refused.err
    assert (await cli("kubeconfig", tenant, "--static", "--kubeconfig", str(tmp_path / "nobody"))).code == 1
    done = await cli("kubeconfig", tenant, "--static", "--kubeconfig", str(tmp_path / "may-log-in"))
    assert done.code == 0, done.err
    said = await who(KubeConfig.from_bytes(done.out.encode(), hostile=True))
    assert said["username"] == "bulkhead:host:may-log-in"


# -- the files


@pytest.fixture
def entry(own_cache: Path) -> cache.Entry:
    made = cache.entry("test", "a")
    made.write({"token": "x"})
    return made


def test_what_was_written_is_read_again_and_cleared(entry: cache.Entry) -> None:
    assert entry.read() == {"token": "x"}
    assert cache.entry("test", "b").read() == {}
    entry.clear()
    assert entry.read() == {}


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_file_that_others_may_read_is_removed(entry: cache.Entry, mode: int, capsys: pytest.CaptureFixture[str]) -> None:
    entry._path.chmod(mode)
    assert entry.read() == {}
    assert not entry._path.exists()
    assert "has another owner or is readable by others" in capsys.readouterr().err


def test_a_link_is_removed_and_never_followed(entry: cache.Entry, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.json"
    elsewhere.write_text('{"token": "of another"}')
    elsewhere.chmod(0o600)
    entry._path.unlink()
    entry._path.symlink_to(elsewhere)
    assert entry.read() == {}
    entry.write({"token": "mine"})
    assert json.loads(elsewhere.read_text()) == {"token": "of another"}
    assert entry.read() == {"token": "mine"}


def test_a_pipe_is_not_waited_for(entry: cache.Entry) -> None:
    entry._path.unlink()
    os.mkfifo(entry._path, 0o600)
    assert entry.read() == {}


def test_a_folder_that_is_a_link_is_refused(own_cache: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (own_cache / "bulkhead").mkdir(parents=True)
    (own_cache / "bulkhead" / "credentials").symlink_to(elsewhere)
    with pytest.raises(CliError, match="a link or belongs to another user"):
        cache.entry("test", "a").write({"token": "x"})
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff", b"{" + b" " * (2 << 20) + b"}"])
def test_garbage_is_nothing(entry: cache.Entry, content: bytes) -> None:
    entry._path.write_bytes(content)
    assert entry.read() == {}


def test_a_folder_that_others_may_enter_is_closed(entry: cache.Entry) -> None:
    entry._path.parent.chmod(0o755)
    entry.write({"token": "y"})
    assert stat.S_IMODE(entry._path.parent.stat().st_mode) == 0o700


def test_a_read_only_home_keeps_nothing_and_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null/x")
    made = cache.entry("test", "a")
    with made.locked():
        made.write({"token": "x"})
        assert made.read() == {}
