"""Tenants do not reach each other: by pod address, Service address, plane or name. Every refusal has a positive control."""

import base64
from functools import partial

import pytest

from e2e import names, tenants, workloads
from e2e.api import Api, ApiError
from e2e.commands import kubectl
from e2e.poll import holds, until
from e2e.tenants import Tenant

PORT = 8080


@pytest.fixture(scope="module")
def server(alice: Tenant) -> str:
    """The address of alice's web server, behind a Service of the same name."""
    alice.api.apply(workloads.pod("site", workloads.pod_spec(workloads.web_server("alice"), ports=[PORT])))
    alice.api.apply(workloads.service("site", "site", PORT))
    alice.api.apply(workloads.pod("friend"))
    workloads.wait_running(alice.api, "friend")
    return str(workloads.wait_running(alice.api, "site")["status"]["podIP"])


@pytest.fixture(scope="module")
def stranger(bob: Tenant) -> Tenant:
    bob.api.apply(workloads.pod("stranger"))
    workloads.wait_running(bob.api, "stranger")
    return bob


def test_a_pod_of_another_tenant_reaches_neither_pod_nor_service(alice: Tenant, stranger: Tenant, server: str) -> None:
    service = str(alice.api.get("Service", "site", "default")["spec"]["clusterIP"])
    for address in (server, service):
        own = partial(reaches, alice, "friend", address, wanted=True)
        other = partial(reaches, stranger, "stranger", address, wanted=False)
        until(f"alice's own pod to reach {address}", own, seconds=30)
        holds(f"bob's pod kept away from {address}", other, seconds=2)
        own()


def test_a_name_of_another_tenant_does_not_resolve(alice: Tenant, stranger: Tenant, server: str) -> None:
    assert server
    lookup = ("exec", "friend", "--", "nslookup", "site.default.svc.cluster.local")

    def probe() -> None:
        outcome = kubectl(alice.kubeconfig, *lookup, check=False)
        workloads.expect(outcome.code == 0, f"exit code {outcome.code}: {outcome.text}")

    until("the own name to resolve", probe, seconds=30)
    there = kubectl(stranger.kubeconfig, "exec", "stranger", "--", "nslookup", "site.default.svc.cluster.local", check=False)
    assert there.code != 0


def test_a_pod_reaches_its_own_plane_and_no_other(host: Api, alice: Tenant, stranger: Tenant, server: str) -> None:
    assert server
    own = host.get("Service", "plane", alice.plane)["spec"]["clusterIP"]
    until("alice's pod to reach its own API", lambda: opens(alice, "friend", own, 443, wanted=True), seconds=20)
    holds("bob's pod kept away from alice's API", lambda: opens(stranger, "stranger", own, 443, wanted=False), seconds=2)
    etcd = host.get("Pod", "plane-0", alice.plane)["status"]["podIP"]
    holds("alice's pod kept away from etcd", lambda: opens(alice, "friend", etcd, 2379, wanted=False), seconds=2)


def test_a_pod_does_not_reach_the_host_api(host: Api, alice: Tenant, server: str) -> None:
    assert server
    address = host.get("Service", "kubernetes", "default")["spec"]["clusterIP"]
    holds("the host's API out of reach", lambda: opens(alice, "friend", address, 443, wanted=False), seconds=2)


def test_the_kubeconfig_of_one_tenant_opens_no_other_plane(alice: Tenant, bob: Tenant) -> None:
    other = Api(alice.kubeconfig)
    other.host, other.port = bob.api.host, bob.api.port
    assert not other.ready()
    token = alice.api.token("default", "default")
    assert not tenants.who(tenants.with_token(bob.api, token)).startswith("system:serviceaccount")


def test_no_private_key_of_a_ca_is_mounted_by_any_pod(host: Api, alice: Tenant) -> None:
    kept = {item["metadata"]["name"] for item in host.list("Secret", alice.plane)}
    authorities = {name for name in kept if name.startswith("pki-ca-")}
    assert len(authorities) >= 4
    for pod in host.list("Pod", alice.plane):
        volumes = pod["spec"].get("volumes") or []
        mounted = {volume.get("secret", {}).get("secretName") for volume in volumes}
        sources = [source for volume in volumes for source in volume.get("projected", {}).get("sources") or []]
        mounted |= {source.get("secret", {}).get("name") for source in sources}
        assert not mounted & authorities


def test_the_syncers_account_may_do_nothing_outside_its_namespaces(host: Api, alice: Tenant, bob: Tenant) -> None:
    user = f"--as=system:serviceaccount:{alice.plane}:syncer"
    allowed = kubectl(host.kubeconfig, user, "-n", alice.work, "auth", "can-i", "create", "pods", check=False)
    assert allowed.out.strip() == "yes"
    for namespace in (bob.work, bob.plane, names.SYSTEM_NAMESPACE, "default", "kube-system"):
        for verb, kind in (("create", "pods"), ("get", "secrets"), ("delete", "pods"), ("create", "services")):
            denied = kubectl(host.kubeconfig, user, "-n", namespace, "auth", "can-i", verb, kind, check=False)
            assert denied.out.strip() == "no", f"{verb} {kind} in {namespace}"
    for question in (("update", "nodes"), ("get", "nodes", "--subresource=proxy"), ("create", "clusterrolebindings")):
        assert kubectl(host.kubeconfig, user, "auth", "can-i", *question, check=False).out.strip() == "no", question


def test_a_secret_stays_in_its_tenant(host: Api, alice: Tenant, stranger: Tenant) -> None:
    value = base64.b64encode(b"for alice alone").decode()
    metadata = {"name": "private", "namespace": "default"}
    alice.api.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"key": value}})
    with pytest.raises(ApiError) as refusal:
        stranger.api.get("Secret", "private", "default")
    assert refusal.value.status == 404
    found = [item["metadata"]["namespace"] for item in host.list("Secret") if value in str(item.get("data"))]
    assert set(found) <= {alice.work}


def reaches(tenant: Tenant, pod: str, address: str, *, wanted: bool) -> None:
    wget = ("exec", pod, "--", "timeout", "2", "wget", "-q", "-O", "-", f"http://{address}:{PORT}")
    outcome = kubectl(tenant.kubeconfig, *wget, check=False)
    workloads.expect((outcome.code == 0) == wanted, f"exit code {outcome.code}: {outcome.text}")


def opens(tenant: Tenant, pod: str, address: str, port: int, *, wanted: bool) -> None:
    probe = ("exec", pod, "--", "sh", "-c", f"nc -w 2 {address} {port} </dev/null")
    outcome = kubectl(tenant.kubeconfig, *probe, check=False)
    workloads.expect((outcome.code == 0) == wanted, f"exit code {outcome.code}: {outcome.text}")
