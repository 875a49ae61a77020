"""Users sign in with ssh certificates: the Tenant maps their identity on the host or at their provider to Slurm users.

Nothing is exposed: every connection goes through the tenant's API. Each refusal has a positive control next to it.
"""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from e2e import commands, machine, names, tenants
from e2e.api import Api, Obj
from e2e.commands import Outcome
from e2e.poll import NotYetError, until
from e2e.scenarios.core.test_oidc import way
from e2e.scenarios.slurm.test_slurm_home import forwarded, ssh
from e2e.slurm import clusters
from e2e.slurm.clusters import ALICE, BOB, Cluster, node_set
from tests.kit.dex import Dex, running
from workstation.hostcluster.component import NODE_ADDRESS

CLASS, NAME = "e2e-ssh", "e2e-slurm-ssh"
ADA = "corp:ada@example.org"
# The longest time until a former member is out; the measured time is printed.
OUT_SECONDS = 15 * 60.0


@pytest.fixture(scope="module")
def dex(host: Api, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dex]:
    """A provider outside the cluster that only the controller can reach."""
    host.apply(way("e2e-ssh-issuers", names.SYSTEM_NAMESPACE, "app.kubernetes.io/name", "bulkhead"))
    with running(tmp_path_factory.mktemp("dex"), address=NODE_ADDRESS, audiences=[f"bulkhead-{NAME}"]) as started:
        yield started
    host.delete("NetworkPolicy", "e2e-ssh-issuers", names.SYSTEM_NAMESPACE)


@pytest.fixture(scope="module")
def admin() -> str:
    """The user name that the host has for its admin."""
    shown = commands.kubectl(machine.KUBECONFIG, "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}")
    return names.host_user(shown.out.strip())


@pytest.fixture(scope="module")
def cluster(host: Api, dex: Dex, admin: str) -> Iterator[Cluster]:
    """Alice is the host's admin, bob is the provider's ada, and carol is mapped to no user."""
    corp: Obj = {"name": "corp", "url": dex.url, "certificateAuthority": dex.ca, "audiences": ["bulkhead-{tenant}"]}
    corp |= {"claims": {"username": "email", "groups": "groups"}}
    spec = host.get("TenantClass", "standard")["spec"] | {"access": {"issuers": [corp]}}
    host.apply({"apiVersion": names.API_VERSION, "kind": "TenantClass", "metadata": {"name": CLASS}, "spec": spec})
    tenants.remove(host, NAME)
    users: list[Obj] = [
        {"name": ALICE, "uid": 10001, "admin": True, "identities": [admin]},
        {"name": BOB, "uid": 10002, "identities": [ADA]},
        {"name": "carol", "uid": 10003},
    ]
    slurm = clusters.slurm(node_set("cpu"), users=users)
    access = {"oidc": [{"issuer": "corp"}]}
    host.create(tenants.manifest(NAME, tenant_class=CLASS, access=access, **clusters.spec(slurm)))
    made = clusters.wait_ready(host, NAME, note=lambda text: print(f"    {NAME}: {text[:200]}", flush=True))
    yield made
    tenants.remove(host, NAME)
    host.delete("TenantClass", CLASS)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each test has its own cache of keys and certificates."""
    commands.tool("kubernetes", "kubectl")  # looked up now: the binaries are in the cache that this test leaves
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "bulkhead" / "credentials"


@pytest.fixture
def ada(host: Api, cluster: Cluster, dex: Dex, tmp_path: Path) -> Path:
    """The kubeconfig of ada, who has no rights on the host, and in the tenant only the right to sign in."""
    status = host.get("Tenant", NAME)["status"]
    document = yaml.safe_load(cluster.tenant.kubeconfig.read_text())
    assert document["clusters"][0]["cluster"]["server"] == status["endpoint"]
    document["users"][0]["user"] = {"token": dex.password("ada", f"bulkhead-{NAME}")}
    path = tmp_path / "ada.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


def as_admin(*words: str, check: bool = True) -> Outcome:
    return commands.bulkhead("ssh", NAME, "--certificate", *words, kubeconfig=machine.KUBECONFIG, check=check)


def as_ada(ada: Path, *words: str, check: bool = True) -> Outcome:
    return commands.bulkhead("ssh", NAME, "--login", str(ada), *words, kubeconfig=Path("/nonexistent"), check=check)


def log_of_sshd(cluster: Cluster) -> str:
    return commands.kubectl(cluster.tenant.kubeconfig, "-n", "slurm", "logs", "login-0", "--tail=400").out


def test_an_admin_of_the_host_comes_in_as_their_slurm_user(cluster: Cluster, admin: str) -> None:
    begin = time.monotonic()
    assert as_admin("--", "sh", "-c", "whoami; hostname; echo 'two  words'").out.splitlines() == [
        "alice", "login-0", "two  words",
    ]  # fmt: skip
    print(f"    first ssh after {time.monotonic() - begin:.1f} s", flush=True)
    begin = time.monotonic()
    assert as_admin("--", "sinfo", "-h", "-o", "%R").out.split() == ["cpu"]
    print(f"    the next after {time.monotonic() - begin:.1f} s", flush=True)
    assert as_admin("--", "sh", "-c", "exit 7", check=False).code == 7
    assert as_admin("--user", "root", "--", "id", "-u").out.strip() == "0", "an administrator is root on login nodes"
    other = as_admin("--user", BOB, "--", "true", check=False)
    assert (other.code, f"{admin} may be alice, root, not bob" in other.err) == (1, True)
    assert f"ID {admin}" in log_of_sshd(cluster)


def test_a_user_of_the_provider_comes_in_without_any_right_on_the_host(cluster: Cluster, ada: Path) -> None:
    assert as_ada(ada, "--", "whoami").out.strip() == BOB
    for user in (ALICE, "root", "carol"):
        assert f"{ADA} may be bob, not {user}" in as_ada(ada, "--user", user, "--", "true", check=False).err
    assert f"ID {ADA}" in log_of_sshd(cluster)
    # The rights of ada's group are these and no others.
    may = {
        ("get", "secrets", "-n", "slurm"): False,
        ("list", "certificatesigningrequests"): False,
        ("create", "pods/exec", "-n", "slurm"): False,
        ("get", "pods/slurmctld-0", "--subresource=portforward", "-n", "slurm"): False,
        ("get", "pods/login-0", "--subresource=portforward", "-n", "slurm"): True,
    }
    for words, wanted in may.items():
        shown = commands.kubectl(ada, "auth", "can-i", *words, check=False).out.strip()
        assert shown == ("yes" if wanted else "no"), words


def test_a_user_without_a_slurm_user_is_told_so(dex: Dex, ada: Path) -> None:
    document = yaml.safe_load(ada.read_text())
    document["users"][0]["user"] = {"token": dex.password("grace", f"bulkhead-{NAME}")}
    ada.write_text(yaml.safe_dump(document))
    refused = as_ada(ada, "--", "true", check=False)
    assert refused.code == 1
    assert "corp:grace@example.org is not mapped to any of its Slurm users" in refused.err


def test_plain_ssh_scp_and_sftp_by_the_configuration(ada: Path, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(as_ada(ada, "--print-config").out)
    (tmp_path / "sent").write_text("there and back\n")
    where = f"{NAME}.slurm"
    for words in (
        ["scp", "-F", str(config), str(tmp_path / "sent"), f"{where}:arrived"],
        ["scp", "-F", str(config), f"{where}:arrived", str(tmp_path / "back")],
    ):
        commands.run(words, seconds=60)
    assert (tmp_path / "back").read_text() == "there and back\n"
    assert commands.run(["ssh", "-F", str(config), where, "whoami"]).out.strip() == BOB


def test_certificates_of_another_authority_or_for_another_user_open_nothing(cluster: Cluster, ada: Path, cache: Path) -> None:
    as_ada(ada, "--renew")
    key = kept(cache)
    forged = key.parent / "forged"
    for path in (forged, key.parent / "authority"):
        commands.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)])
    with forwarded(cluster):
        assert ssh_with(key, BOB).code == 0
        for user in (ALICE, "root", "carol"):
            assert ssh_with(key, user).code == 255, user
        sign = ["ssh-keygen", "-q", "-s", str(key.parent / "authority"), "-I", ADA, "-n", f"{BOB},{ALICE},root"]
        commands.run([*sign, "-V", "+1h", f"{forged}.pub"])
        for user in (BOB, ALICE, "root"):
            assert ssh_with(forged, user).code == 255, user


def test_a_revoked_user_is_out_although_the_certificate_is_valid(host: Api, cluster: Cluster, ada: Path, cache: Path) -> None:
    as_ada(ada, "--renew")
    key = kept(cache)
    copied = key.parent.parent / "kept"
    subprocess.run(["cp", "-a", str(key.parent), str(copied)], check=True, timeout=10)
    key = copied / key.name
    with forwarded(cluster):
        assert ssh_with(key, BOB).code == 0
        host.patch("Tenant", NAME, {"spec": {"access": {"revoked": [{"name": ADA}]}}})
        begin = time.monotonic()

        def refused() -> None:
            done = ssh_with(key, BOB)
            if done.code != 255 or "Permission denied" not in done.err:
                raise NotYetError(f"ada is still let in, or something else fails: {done.text}")

        until("the certificate from before to be refused", refused, seconds=OUT_SECONDS, interval=2, patience=1)
        print(f"    refused {time.monotonic() - begin:.0f} s after the revocation", flush=True)
    # Other names are refused, and ada cannot become another user.
    assert as_admin("--", "whoami").out.strip() == ALICE
    commands.bulkhead("logout", NAME)
    assert as_ada(ada, "--renew", check=False).code != 0
    host.patch("Tenant", NAME, {"spec": {"access": {"revoked": None}}})


def kept(cache: Path) -> Path:
    """The private key in the cache, with its certificate next to it."""
    (key,) = cache.glob("ssh-*.key")
    certificate = key.with_suffix(".certificate")
    assert [item.stat().st_mode & 0o777 for item in (key, certificate)] == [0o600, 0o600]
    key.with_name(f"{key.name}-cert.pub").write_text(certificate.read_text())
    return key


def ssh_with(key: Path, user: str) -> Outcome:
    return ssh(key, user, "true", check=False)
