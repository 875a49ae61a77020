"""Users log in to tenants: one-hour certificates through kubectl's own plugin, whose they are, and how they end."""

import base64
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from e2e import commands, machine
from e2e.api import Api, ApiError
from e2e.commands import kubectl
from e2e.poll import NotYetError, until
from e2e.tenants import Tenant

RBAC = "rbac.authorization.k8s.io"
# The kubelet updates a changed Secret in a running pod with its next round, and the API server reads it then.
REVOKED_SECONDS = 150.0


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each test has its own cache of credentials, also for the processes that it starts."""
    commands.tool("kubernetes", "kubectl")  # looked up now: the binaries are in the cache that this test leaves
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def carol(host: Api, alice: Tenant, fresh_name: str, tmp_path: Path) -> Iterator[Path]:
    """The kubeconfig of a user of the host who may log in to two tenants, and nothing else."""
    named = [alice.name, fresh_name]
    rules = [
        {"apiGroups": ["bulkhead.dev"], "resources": ["tenants"], "verbs": ["get"]},
        {"apiGroups": ["bulkhead.dev"], "resources": ["tenants"], "verbs": ["login"], "resourceNames": named},
        {"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests"], "verbs": ["create", "get"]},
    ]
    meta: dict[str, Any] = {"apiVersion": f"{RBAC}/v1", "metadata": {"name": "e2e-carol"}}
    host.apply(meta | {"kind": "ClusterRole", "rules": rules})
    subject = {"kind": "User", "apiGroup": RBAC, "name": "carol"}
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "e2e-carol"}
    host.apply(meta | {"kind": "ClusterRoleBinding", "roleRef": reference, "subjects": [subject]})
    document = yaml.safe_load(machine.KUBECONFIG.read_text())
    document["users"][0]["user"] = _person_of_the_host("carol")
    path = tmp_path / "carol.host.yaml"
    path.write_text(yaml.safe_dump(document))
    yield path
    for kind in ("ClusterRoleBinding", "ClusterRole"):
        host.delete(kind, "e2e-carol")


def _person_of_the_host(user: str) -> dict[str, str]:
    """The host's own signer issues the certificate, as for any of its users."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, user)])
    request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    name = f"e2e-{user}-{time.time_ns()}"
    spec = {
        "request": base64.b64encode(request.public_bytes(serialization.Encoding.PEM)).decode(),
        "signerName": "kubernetes.io/kube-apiserver-client",
        "usages": ["client auth"],
    }
    body = {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name}}
    kubectl(machine.KUBECONFIG, "create", "-f", "-", given=yaml.safe_dump(body | {"spec": spec}))
    kubectl(machine.KUBECONFIG, "certificate", "approve", name)

    def signed() -> str:
        found = kubectl(machine.KUBECONFIG, "get", "csr", name, "-o", "jsonpath={.status.certificate}").out
        if not found:
            raise NotYetError("not signed")
        return found

    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    certificate = until(f"{user}'s certificate of the host", signed, seconds=30)
    return {"client-certificate-data": certificate, "client-key-data": base64.b64encode(private).decode()}


def log_in(tenant: str, target: Path, host: Path = machine.KUBECONFIG, *, check: bool = True) -> commands.Outcome:
    return commands.bulkhead("login", tenant, "--write", str(target), kubeconfig=host, check=check)


def let_in(tenant: str, target: Path, host: Path) -> None:
    """Log in as a user who got the right a moment ago."""

    def probe() -> None:
        done = log_in(tenant, target, host, check=False)
        if done.code:
            raise NotYetError(done.text)

    until(f"a login to {tenant}", probe, seconds=30)


def whoami(config: Path) -> str:
    """The user name that the plane sees."""
    return kubectl(config, "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}").out


def kept(cache: Path) -> int:
    return len(list(cache.rglob("*.json")))


def test_kubectl_gets_its_certificates_through_the_plugin(alice: Tenant, cache: Path, tmp_path: Path) -> None:
    path = tmp_path / "alice.yaml"
    log_in(alice.name, path)
    assert list(yaml.safe_load(path.read_text())["users"][0]["user"]) == ["exec"]
    assert whoami(path).startswith("bulkhead:host:")
    commands.bulkhead("logout", alice.name)
    assert kept(cache) == 0
    # The cache is empty: kubectl asks the plugin, and the plugin asks the host.
    assert whoami(path).startswith("bulkhead:host:")
    assert kept(cache) == 1


def test_it_is_a_subcommand_of_kubectl(alice: Tenant, tmp_path: Path) -> None:
    plugin = tmp_path / "bin" / "kubectl-bulkhead"
    plugin.parent.mkdir()
    plugin.write_text(f'#!/bin/sh\nexec {sys.executable} -m workstation.cli.main "$@"\n')
    plugin.chmod(0o755)
    environment = {"PATH": f"{plugin.parent}:/usr/bin:/bin", "KUBECONFIG": str(machine.KUBECONFIG)}
    target = tmp_path / "alice.yaml"
    words = [commands.tool("kubernetes", "kubectl"), "bulkhead", "login", alice.name, "--write", str(target)]
    assert f"logged in to tenant {alice.name}" in commands.run(words, environment=environment).out
    assert whoami(target).startswith("bulkhead:host:")


def test_a_person_of_the_host_is_that_person_inside_and_only_where_allowed(
    alice: Tenant, bob: Tenant, carol: Path, tmp_path: Path
) -> None:
    path = tmp_path / "mine.yaml"
    let_in(alice.name, path, carol)
    assert whoami(path) == "bulkhead:host:carol"
    refused = log_in(bob.name, tmp_path / "other.yaml", carol, check=False)
    assert (refused.code, f"'carol' may not login to tenant {bob.name}" in refused.text) == (1, True)


def test_a_certificate_of_one_tenant_opens_no_other_plane(alice: Tenant, bob: Tenant, tmp_path: Path) -> None:
    document = yaml.safe_load(alice.kubeconfig.read_text())
    document["clusters"] = yaml.safe_load(bob.kubeconfig.read_text())["clusters"]
    path = tmp_path / "stolen.yaml"
    path.write_text(yaml.safe_dump(document))
    with pytest.raises(ApiError) as refusal:
        Api(path).list("Namespace")
    assert refusal.value.status == 401
    assert bob.api.list("Namespace")


@pytest.mark.fresh(gpus=0)
def test_a_revoked_user_is_out_and_all_others_go_on(host: Api, tenant: Tenant, carol: Path, tmp_path: Path) -> None:
    path, copied, admins = (tmp_path / f"{item}.yaml" for item in ("carol", "copied", "admins"))
    let_in(tenant.name, path, carol)
    log_in(tenant.name, admins)
    copied.write_text(commands.bulkhead("kubeconfig", tenant.name, "--static", kubeconfig=carol).out)
    leaver = Api(copied)
    assert leaver.list("Namespace")
    assert whoami(admins)
    before = _containers(host, tenant)

    words = ("revoke", tenant.name, "carol")
    done = commands.bulkhead(*words, kubeconfig=machine.KUBECONFIG, seconds=REVOKED_SECONDS)
    assert "all earlier certificates are refused" in done.out

    with pytest.raises(ApiError) as refusal:
        leaver.list("Namespace")
    assert refusal.value.status == 401
    out = kubectl(path, "get", "namespaces", check=False)
    assert (out.code, "revokedUsers" in out.text) == (1, True)
    # The admin's own certificate was revoked too: kubectl is refused with it once, requests another, and uses that from then
    # on.
    until("an admin's next certificate", lambda: _as_host(admins), seconds=30)
    assert _containers(host, tenant) == before

    commands.bulkhead("revoke", tenant.name, "--lift", "carol", kubeconfig=machine.KUBECONFIG)
    until("the next login of the revoked user", lambda: _as_host(path), seconds=60)
    assert whoami(path) == "bulkhead:host:carol"
    with pytest.raises(ApiError) as refusal:
        leaver.list("Namespace")
    assert refusal.value.status == 401


def _as_host(config: Path) -> None:
    done = kubectl(config, "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}", check=False)
    if not done.out.startswith("bulkhead:host:"):
        raise NotYetError(done.text)


def _containers(host: Api, tenant: Tenant) -> list[tuple[str, str, int]]:
    """Every container of the plane's namespace, and how often it has started."""
    return sorted(
        (pod["metadata"]["uid"], container["name"], container["restartCount"])
        for pod in host.list("Pod", tenant.plane)
        for container in pod["status"].get("containerStatuses") or ()
    )
