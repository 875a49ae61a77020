"""Tenants cannot reach each other: by pod address, Service address, plane or name. Every refusal has a positive control."""

import base64
import socket
from functools import partial
from pathlib import Path

import pytest
import yaml

from e2e import names, tenants, workloads
from e2e.api import Api, ApiError, UnreachableError
from e2e.commands import Outcome, kubectl
from e2e.poll import holds, until
from e2e.tenants import Tenant

PORT = 8080
TIMED_OUT = 143  # the exit code of a command that `timeout` ended


@pytest.fixture(scope="module")
def server(alice: Tenant) -> str:
    """The address of alice's web server, behind a Service of the same name."""
    alice.api.apply(workloads.pod("site", workloads.pod_spec(workloads.web_server("alice"), ports=[PORT])))
    alice.api.apply(workloads.service("site", "site", PORT))
    alice.api.apply(workloads.pod("friend"))
    workloads.wait_running(alice.api, "friend")
    return str(workloads.wait_running(alice.api, "site")["status"]["podIP"])


@pytest.fixture(scope="module")
def visitor(bob: Tenant) -> Tenant:
    """Bob, with a pod that connects, and a web server behind a Service, like alice's."""
    bob.api.apply(workloads.pod("home", workloads.pod_spec(workloads.web_server("bob"), ports=[PORT])))
    bob.api.apply(workloads.service("home", "home", PORT))
    bob.api.apply(workloads.pod("visitor"))
    workloads.wait_running(bob.api, "visitor")
    workloads.wait_running(bob.api, "home")
    return bob


def test_a_pod_of_another_tenant_reaches_neither_pod_nor_service(alice: Tenant, visitor: Tenant, server: str) -> None:
    service = str(alice.api.get("Service", "site", "default")["spec"]["clusterIP"])
    home = str(visitor.api.get("Pod", "home", "default")["status"]["podIP"])
    home_service = str(visitor.api.get("Service", "home", "default")["spec"]["clusterIP"])
    for address, at_home in ((server, home), (service, home_service)):
        own = partial(reaches, alice, "friend", address, wanted=True)
        same = partial(reaches, visitor, "visitor", at_home, wanted=True)
        other = partial(reaches, visitor, "visitor", address, wanted=False)
        until(f"alice's own pod to reach {address}", own, seconds=30)
        until(f"bob's pod to reach {at_home}, its own server", same, seconds=30)
        holds(f"bob's pod kept away from {address}", other, seconds=2)
        until(f"alice's own pod to reach {address} again", own, seconds=30)
        until(f"bob's pod to reach {at_home} again", same, seconds=30)


def test_a_name_of_another_tenant_does_not_resolve(alice: Tenant, visitor: Tenant, server: str) -> None:
    assert server
    until("alice's name to resolve in alice's pod", lambda: resolves(alice, "friend", "site"), seconds=30)
    until("bob's name to resolve in bob's pod", lambda: resolves(visitor, "visitor", "home"), seconds=30)
    for tenant, pod, name in ((visitor, "visitor", "site"), (alice, "friend", "home")):
        answer = lookup(tenant, pod, name)
        assert answer.code != 0, answer.text
        assert "NXDOMAIN" in answer.text, answer.text


def test_a_pod_reaches_its_own_plane_and_no_other(host: Api, alice: Tenant, visitor: Tenant, server: str) -> None:
    assert server
    own, others = (str(host.get("Service", "plane", item.plane)["spec"]["clusterIP"]) for item in (alice, visitor))
    until("alice's pod to reach its own API", lambda: opens(alice, "friend", own, 443, wanted=True), seconds=20)
    until("bob's pod to reach its own API", lambda: opens(visitor, "visitor", others, 443, wanted=True), seconds=20)
    holds("bob's pod kept away from alice's API", lambda: opens(visitor, "visitor", own, 443, wanted=False), seconds=2)
    holds("alice's pod kept away from bob's", lambda: opens(alice, "friend", others, 443, wanted=False), seconds=2)
    # On the same pod: the port of the API server, and that of etcd.
    plane = str(host.get("Pod", "plane-0", alice.plane)["status"]["podIP"])
    until("alice's pod to reach the pod of its plane", lambda: opens(alice, "friend", plane, 6443, wanted=True), seconds=20)
    holds("alice's pod kept away from etcd", lambda: opens(alice, "friend", plane, 2379, wanted=False), seconds=2)
    holds("alice's pod kept away from etcd's HTTP", lambda: opens(alice, "friend", plane, 2382, wanted=False), seconds=2)


def test_a_pod_does_not_reach_the_host_api(host: Api, alice: Tenant, server: str) -> None:
    assert server
    own = str(host.get("Service", "plane", alice.plane)["spec"]["clusterIP"])
    address = str(host.get("Service", "kubernetes", "default")["spec"]["clusterIP"])
    with socket.create_connection((address, 443), timeout=5):
        pass  # it answers clients that may reach it, such as the node
    until("alice's pod to reach its own API", lambda: opens(alice, "friend", own, 443, wanted=True), seconds=20)
    holds("the host's API out of reach", lambda: opens(alice, "friend", address, 443, wanted=False), seconds=2)


def test_the_kubeconfig_of_one_tenant_opens_no_other_plane(alice: Tenant, bob: Tenant, tmp_path: Path) -> None:
    assert alice.api.ready()
    assert bob.api.ready()
    other = Api(alice.kubeconfig)
    other.host, other.port = bob.api.host, bob.api.port
    # Refused because of the certificate's authority, and not because of a wrong name.
    with pytest.raises(
        UnreachableError, match=r"CERTIFICATE_VERIFY_FAILED\] certificate verify failed: (?!Hostname|IP address)"
    ):
        other.text("/readyz")
    assert tenants.who(alice.api)
    assert tenants.who(crossed(bob, bob, tmp_path))
    assert tenants.who(crossed(bob, alice, tmp_path)) == "", "bob's API server trusts a certificate of alice's"
    token = alice.api.token("default", "default")
    assert tenants.who(tenants.with_token(alice.api, token)) == "system:serviceaccount:default:default"
    assert tenants.who(tenants.with_token(bob.api, token)) == ""


def crossed(at: Tenant, user: Tenant, folder: Path) -> Api:
    """The API of one tenant, with the credentials from the other tenant's kubeconfig."""
    config = yaml.safe_load(at.kubeconfig.read_text())
    config["users"][0]["user"] = yaml.safe_load(user.kubeconfig.read_text())["users"][0]["user"]
    path = folder / f"{user.name}-at-{at.name}.yaml"
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(config))
    return Api(path)


def test_no_private_key_of_a_ca_is_mounted_by_any_pod(host: Api, alice: Tenant) -> None:
    kept = {item["metadata"]["name"] for item in host.list("Secret", alice.plane)}
    authorities = {name for name in kept if name.startswith("pki-ca-")}
    assert len(authorities) >= 4
    found: set[str] = set()
    for pod in host.list("Pod", alice.plane):
        volumes = pod["spec"].get("volumes") or []
        mounted = {volume.get("secret", {}).get("secretName") for volume in volumes}
        sources = [source for volume in volumes for source in volume.get("projected", {}).get("sources") or []]
        mounted |= {source.get("secret", {}).get("name") for source in sources}
        assert not mounted & authorities
        found |= mounted & kept
    assert {name for name in found if name.startswith("pki-")}, f"of {kept} pods mount {found}; the test looks for them wrongly"


def test_the_syncers_account_may_do_nothing_outside_its_namespaces(host: Api, alice: Tenant, bob: Tenant) -> None:
    user = f"--as=system:serviceaccount:{alice.plane}:syncer"

    def may(*question: str) -> str:
        return kubectl(host.kubeconfig, user, "auth", "can-i", *question, check=False).out.strip()

    for verb, kind in (("create", "pods"), ("get", "secrets"), ("delete", "pods"), ("create", "services")):
        assert may(verb, kind, "-n", alice.work) == "yes", f"{verb} {kind} in {alice.work}"
        for namespace in (bob.work, bob.plane, names.SYSTEM_NAMESPACE, "default", "kube-system"):
            assert may(verb, kind, "-n", namespace) == "no", f"{verb} {kind} in {namespace}"
    assert may("list", "nodes") == "yes"
    for question in (("update", "nodes"), ("get", "nodes", "--subresource=proxy"), ("create", "clusterrolebindings")):
        assert may(*question) == "no", question


def test_a_secret_stays_in_its_tenant(host: Api, alice: Tenant, visitor: Tenant) -> None:
    value = base64.b64encode(b"for alice alone").decode()
    metadata = {"name": "private", "namespace": "default"}
    alice.api.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"key": value}})
    assert alice.api.get("Secret", "private", "default")["data"]["key"] == value
    with pytest.raises(ApiError) as refusal:
        visitor.api.get("Secret", "private", "default")
    assert refusal.value.status == 404
    # On the host it exists only because a pod of alice's uses it, and only there.
    spec = workloads.pod_spec()
    spec["containers"][0]["envFrom"] = [{"secretRef": {"name": "private"}}]
    alice.api.apply(workloads.pod("confidant", spec))
    workloads.wait_running(alice.api, "confidant")
    found = [item["metadata"]["namespace"] for item in host.list("Secret") if value in str(item.get("data"))]
    assert set(found) == {alice.work}


def reaches(tenant: Tenant, pod: str, address: str, *, wanted: bool) -> None:
    wget = ("exec", pod, "--", "timeout", "2", "wget", "-q", "-O", "-", f"http://{address}:{PORT}")
    outcome = kubectl(tenant.kubeconfig, *wget, check=False)
    # The host's policies drop what they do not allow, and `timeout` ends the wait; any other failure has another cause.
    workloads.expect(outcome.code == (0 if wanted else TIMED_OUT), f"exit code {outcome.code}: {outcome.text}")


def opens(tenant: Tenant, pod: str, address: str, port: int, *, wanted: bool) -> None:
    probe = ("exec", pod, "--", "sh", "-c", f"nc -w 2 {address} {port} </dev/null")
    outcome = kubectl(tenant.kubeconfig, *probe, check=False)
    said = outcome.code == 0 if wanted else "nc: timed out" in outcome.text
    workloads.expect(said, f"exit code {outcome.code}: {outcome.text}")


def lookup(tenant: Tenant, pod: str, service: str) -> Outcome:
    return kubectl(tenant.kubeconfig, "exec", pod, "--", "nslookup", f"{service}.default.svc.cluster.local", check=False)


def resolves(tenant: Tenant, pod: str, service: str) -> None:
    outcome = lookup(tenant, pod, service)
    workloads.expect(outcome.code == 0, f"exit code {outcome.code}: {outcome.text}")
