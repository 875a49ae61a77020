"""Users of an identity provider (Dex) sign in to a tenant's API while they may; a broken provider affects no other.

A plane uses a changed configuration after its kubelet has synced (90 s, here at once) and its API server has polled (70 s).
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e import commands, machine, names, tenants, workloads
from e2e.api import Api, ApiError, Obj
from e2e.fleet import Fleet
from e2e.poll import NotYetError, holds, until
from e2e.scenarios.core.shared import AUDITED
from e2e.scenarios.core.shared import audited as ahead
from e2e.tenants import Tenant
from tests.kit.dex import Dex, running
from tests.kit.people import Browser
from workstation.hostcluster.component import NODE_ADDRESS

OURS, THEIRS = f"{AUDITED}-a", f"{AUDITED}-b"
ADA = "corp:ada@example.org"
ADMINS = [{"kind": "Group", "name": "corp:platform"}]
_TAKEN_OVER = 200.0


@pytest.fixture(scope="module")
def dex(host: Api, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dex]:
    """A provider outside the cluster that only the controller can reach."""
    host.apply(way("e2e-issuers", names.SYSTEM_NAMESPACE, "app.kubernetes.io/name", "bulkhead"))
    audiences = [f"bulkhead-{name}" for name in (OURS, THEIRS)]
    with running(tmp_path_factory.mktemp("dex"), address=NODE_ADDRESS, audiences=audiences) as started:
        yield started
    host.delete("NetworkPolicy", "e2e-issuers", names.SYSTEM_NAMESPACE)


def way(name: str, namespace: str, label: str, value: str) -> Obj:
    """A policy that lets some pods reach the host's address, where the provider listens."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "podSelector": {"matchLabels": {label: value}},
            "policyTypes": ["Egress"],
            "egress": [{"to": [{"ipBlock": {"cidr": f"{NODE_ADDRESS}/32"}}]}],
        },
    }


@pytest.fixture(scope="module")
def both(host: Api, fleet: Fleet, dex: Dex) -> tuple[Tenant, Tenant]:
    """Two tenants whose class has this provider from now on, and another that does not exist."""
    corp: Obj = {"name": "corp", "url": dex.url, "certificateAuthority": dex.ca, "audiences": ["bulkhead-{tenant}"]}
    corp |= {"claims": {"username": "email", "groups": "groups"}}
    silent = {"name": "silent", "url": f"https://{NODE_ADDRESS}:9/dex", "audiences": ["x"], "everyTenant": True}
    ours, theirs = (fleet.take(manifest) for manifest in ahead(fleet))
    host.patch("TenantClass", AUDITED, {"spec": {"access": {"issuers": [corp, silent]}}})
    for tenant in (ours, theirs):
        host.patch("Tenant", tenant.name, {"spec": {"access": {"admins": ADMINS, "oidc": [{"issuer": "corp"}]}}})
    tenants.wait_ready(host, [OURS, THEIRS])
    return ours, theirs


@pytest.fixture(scope="module")
def ours(both: tuple[Tenant, Tenant]) -> Tenant:
    return both[0]


def name_of(tenant: Tenant, token: str) -> str:
    return tenants.who(tenants.with_token(tenant.api, token))


def becomes(host: Api, tenant: Tenant, token: str, wanted: str) -> None:
    """Wait until the API accepts a token as this user; empty: until it accepts it as no user."""

    def probe() -> None:
        if (found := name_of(tenant, token)) != wanted:
            tenants.hurry(host, tenant.name)
            raise NotYetError(found or "nobody")

    until(f"the token at {tenant.name} to be of {wanted or 'nobody'}", probe, seconds=_TAKEN_OVER, interval=1)


def counts(tenant: Tenant, token: str) -> None:
    if (found := name_of(tenant, token)) != ADA:
        raise NotYetError(found or "nobody")


def may_list_secrets(tenant: Tenant, token: str) -> bool:
    try:
        tenants.with_token(tenant.api, token).list("Secret", "kube-system")
    except ApiError as error:
        if error.status == 403:
            return False
        raise
    return True


def may(tenant: Tenant, token: str, *, wanted: bool) -> None:
    def probe() -> None:
        if may_list_secrets(tenant, token) is not wanted:
            raise NotYetError(f"{not wanted}")

    until(f"reading Secrets: {wanted}", probe, seconds=30)


def change(host: Api, **access: object) -> None:
    host.patch("Tenant", OURS, {"spec": {"access": access}})


def plane_pod(host: Api) -> Obj:
    return host.get("Pod", "plane-0", names.plane_namespace(OURS))


def test_users_sign_in_to_their_tenant_alone_and_its_admins_are_admins(
    host: Api, dex: Dex, both: tuple[Tenant, Tenant]
) -> None:
    ours, theirs = both
    ada, admin = dex.password("ada", f"bulkhead-{OURS}"), dex.browser("root", ["platform"], f"bulkhead-{OURS}")
    before = plane_pod(host)
    becomes(host, ours, ada, ADA)
    assert not may_list_secrets(ours, ada)
    may(ours, admin, wanted=True)
    assert name_of(theirs, ada) == ""
    stranger = dex.password("ada", f"bulkhead-{THEIRS}")
    becomes(host, theirs, stranger, ADA)
    assert name_of(ours, stranger) == ""
    change(host, admins=[{"name": ADA}])
    may(ours, admin, wanted=False)
    may(ours, ada, wanted=True)
    change(host, admins=ADMINS)
    may(ours, ada, wanted=False)
    pod = plane_pod(host)
    assert pod["metadata"]["uid"] == before["metadata"]["uid"]
    assert workloads.restarts(pod) == workloads.restarts(before)


def test_a_provider_that_is_not_there_is_told_and_the_tenant_is_ready(host: Api, ours: Tenant) -> None:
    def told() -> None:
        tenant = host.get("Tenant", ours.name)
        found = tenants.conditions(tenant).get("IssuersReady", {})
        message = found.get("message", "")
        if (found.get("status"), found.get("reason")) != ("False", "IssuerSilent") or "corp" in message:
            raise NotYetError(f"{found}")
        if f"silent (https://{NODE_ADDRESS}:9/dex): " not in message or "cannot be reached" not in message:
            raise NotYetError(message)
        # An edit that the controller has not observed yet leaves what was reported for the edit before.
        if not tenants.is_ready(tenant):
            raise NotYetError("the tenant is not Ready")

    until("the condition to name it alone, of a tenant that is Ready", told, seconds=60)


def test_a_plane_has_no_way_to_the_provider(host: Api, dex: Dex, ours: Tenant) -> None:
    """If the plane could reach it, so could its tenant, by a webhook."""
    hook = {
        "name": "out.example.org",
        "clientConfig": {"url": f"{dex.url}/keys"},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "timeoutSeconds": 3,
    }
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
    ours.api.create(kind | {"metadata": {"name": "out"}, "webhooks": [hook]})
    try:
        message = until("the webhook to be called", lambda: called(ours), seconds=30)
        # With a connection, the error would be about an untrusted certificate.
        assert "x509" not in message
        assert "deadline exceeded" in message or "connect" in message
        # The positive control: with a policy that allows it, it can.
        host.apply(way("e2e-way", ours.plane, "bulkhead.dev/component", "plane"))
        until("the webhook to be answered", lambda: called(ours, "x509"), seconds=30)
    finally:
        host.delete("NetworkPolicy", "e2e-way", ours.plane)
        ours.api.delete("ValidatingWebhookConfiguration", "out")


def called(tenant: Tenant, word: str = "") -> str:
    """What the API server reports about its webhook, once it has loaded it."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "out", "namespace": "default"}}
    try:
        tenant.api.create(body)
    except ApiError as error:
        if "out.example.org" not in error.message or word not in error.message:
            raise NotYetError(error.message) from error
        return error.message
    tenant.api.delete("ConfigMap", "out", "default")
    raise NotYetError("not called yet")


def test_only_a_revoked_user_is_out(host: Api, dex: Dex, ours: Tenant) -> None:
    ada, grace = (dex.password(user, f"bulkhead-{OURS}") for user in ("ada", "grace"))
    becomes(host, ours, ada, ADA)
    change(host, revoked=[{"name": ADA}])
    becomes(host, ours, ada, "")
    assert name_of(ours, grace) == "corp:grace@example.org"
    assert name_of(ours, dex.password("ada", f"bulkhead-{OURS}")) == ""
    change(host, revoked=None)
    becomes(host, ours, ada, ADA)


def test_while_the_provider_is_away_its_tokens_count_and_its_new_keys_replace_the_old(
    host: Api, dex: Dex, ours: Tenant
) -> None:
    old = dex.password("ada", f"bulkhead-{OURS}")
    becomes(host, ours, old, ADA)
    dex.kill()

    def told(here: bool) -> None:
        message = tenants.conditions(host.get("Tenant", ours.name))["IssuersReady"]["message"]
        if ("corp (" in message) is not here:
            raise NotYetError(message)

    until("the condition to name it", lambda: told(True), seconds=60)
    holds("its token", lambda: counts(ours, old), seconds=5)
    before = plane_pod(host)["metadata"]["uid"]
    host.delete("Pod", "plane-0", ours.plane)
    tenants.wait_other_plane(host, ours.name, before)
    becomes(host, ours, old, ADA)
    dex.start()
    new = dex.password("ada", f"bulkhead-{OURS}")
    becomes(host, ours, new, ADA)
    becomes(host, ours, old, "")
    assert name_of(ours, new) == ADA
    until("the condition to name it no more", lambda: told(False), seconds=60)


@pytest.mark.usefixtures("ours")
def test_a_person_logs_in_with_a_browser_and_kubectl_goes_by_it(
    dex: Dex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands.tool("kubernetes", "kubectl")  # looked up now: the binaries are in the cache that this test leaves
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    browser, path = Browser(dex, tmp_path), tmp_path / "ours.yaml"
    monkeypatch.setenv("BROWSER", str(browser.program))
    done = commands.bulkhead("login", OURS, "--issuer", "corp", "--write", str(path), kubeconfig=machine.KUBECONFIG)
    assert f"logged in to tenant {OURS} until" in done.out

    def known() -> None:
        said = commands.kubectl(path, "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}", check=False)
        if said.out != ADA:
            raise NotYetError(said.text)

    until("the plane to know who logged in", known, seconds=_TAKEN_OVER)
    assert len(browser.shown) == 1
    commands.bulkhead("logout", OURS)
    until("the plane to know who logged in again", known, seconds=30)
    assert len(browser.shown) == 2
    commands.bulkhead("login", OURS, "--certificate", "--write", str(path), kubeconfig=machine.KUBECONFIG)
    assert "bulkhead:host:" in commands.kubectl(path, "auth", "whoami").out
