"""Tenants' API servers behind the installation's proxy: a running plane gets an address, and only its own.

The chart is upgraded with a domain, only for this file. No name resolves here, so kubeconfigs contain the proxy's address and
the server name to send.
"""

import contextlib
import json
import re
import socket
import ssl
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import pytest
import yaml

from e2e import commands, install, machine, names, tenants
from e2e.api import Api, ApiError
from e2e.exposed import DOMAIN, MOST, PORT, VALUES, at_the_proxy, authority, certified, dial
from e2e.poll import NotYetError, until
from e2e.tenants import Tenant
from workstation.hostcluster.component import NODE_ADDRESS

ADMIN = "bulkhead:host:bulkhead-host-admin"  # the embedded host's admin, as planes name them
ADDRESS_SECONDS = 30.0


@dataclass(frozen=True)
class Exposed:
    """The state before a plane had an address outside, and how long it took to get one."""

    pods: dict[str, tuple[str, list[int]]]
    seconds: float


@pytest.fixture(scope="module")
def exposed(host: Api, alice: Tenant, bob: Tenant) -> Iterator[Exposed]:
    """The chart with a domain; both tenants existed before it."""
    before = pods_of(host, alice)
    install.install_chart(print, **VALUES)
    begin = time.monotonic()
    for tenant in (alice, bob):
        until(f"{tenant.name} at the proxy", partial(at_the_proxy, host, tenant.name), seconds=90)
    yield Exposed(before, time.monotonic() - begin)
    install.install_chart(print)
    for tenant in (alice, bob):
        until(f"{tenant.name} not to be exposed", partial(inside, host, tenant.name), seconds=60)
        tenants.open_tenant(tenant.name)  # the shared file leads to the inside address again


def inside(host: Api, name: str) -> None:
    status = host.get("Tenant", name)["status"]
    if status.get("tlsServerName") or "Exposed" in tenants.conditions({"status": status}):
        raise NotYetError(str(status.get("endpoint")))


def pods_of(host: Api, tenant: Tenant) -> dict[str, tuple[str, list[int]]]:
    """UID and restarts of each pod of a plane."""
    return {
        pod["metadata"]["name"]: (
            pod["metadata"]["uid"],
            [container["restartCount"] for container in pod["status"].get("containerStatuses") or []],
        )
        for pod in host.list("Pod", tenant.plane)
    }


def blind() -> ssl.SSLContext:
    """A TLS context that trusts any certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def refused(host: Api) -> dict[tuple[str, str], float]:
    """The connections that both proxy pods have refused, by tenant and reason."""
    found: dict[tuple[str, str], float] = {}
    for pod in host.list("Pod", names.SYSTEM_NAMESPACE, labels="app.kubernetes.io/component=proxy"):
        path = f"/api/v1/namespaces/{names.SYSTEM_NAMESPACE}/pods/{pod['metadata']['name']}:8080/proxy/metrics"
        for line in host.text(path).splitlines():
            if match := re.match(r'bulkhead_proxy_refused_total\{reason="([^"]*)",tenant="([^"]*)"\} (\S+)', line):
                key = (match[2], match[1])
                found[key] = found.get(key, 0.0) + float(match[3])
    return found


def test_a_plane_that_runs_gets_an_address_without_a_restart(host: Api, alice: Tenant, exposed: Exposed) -> None:
    print(f"two tenants at the proxy {exposed.seconds:.1f} s after the chart's upgrade")
    assert pods_of(host, alice)["plane-0"] == exposed.pods["plane-0"]
    assert tenants.conditions(host.get("Tenant", alice.name))["Exposed"]["status"] == "True"
    outside = tenants.open_tenant(alice.name)
    assert (outside.api.host, outside.api.port) == (NODE_ADDRESS, PORT)
    assert tenants.who(outside.api) == ADMIN
    # The real kubectl uses the same file.
    assert "default" in commands.kubectl(outside.kubeconfig, "get", "namespaces").out


@pytest.mark.usefixtures("exposed")
def test_another_address_comes_without_a_restart_while_a_watch_goes_on(host: Api, alice: Tenant) -> None:
    more = f"api.{alice.name}.{DOMAIN}"
    outside = tenants.open_tenant(alice.name).api
    watch = outside.watch("ConfigMap", "default", version=outside.collection_version("ConfigMap"), seconds=120)
    before = pods_of(host, alice)["plane-0"]
    host.patch("TenantClass", "standard", {"spec": {"exposure": {"hostnameDomains": [DOMAIN]}}})
    begin = time.monotonic()
    host.patch("Tenant", alice.name, {"spec": {"exposure": {"hostnames": [more]}}})
    until(f"the name {more}", lambda: certified(host, alice.name, more), seconds=2 * ADDRESS_SECONDS, interval=0.2)
    took = time.monotonic() - begin
    print(f"a new name in the certificate after {took:.1f} s")
    assert pods_of(host, alice)["plane-0"] == before
    outside.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "seen", "namespace": "default"}})
    assert any(event["object"]["metadata"].get("name") == "seen" for event in watch)
    outside.delete("ConfigMap", "seen", "default")
    host.patch("Tenant", alice.name, {"spec": {"exposure": None}})
    host.patch("TenantClass", "standard", {"spec": {"exposure": None}})


@pytest.mark.usefixtures("exposed")
def test_a_name_of_another_tenant_is_refused(host: Api, alice: Tenant, bob: Tenant) -> None:
    host.patch("TenantClass", "standard", {"spec": {"exposure": {"hostnameDomains": [DOMAIN]}}})
    host.patch("Tenant", alice.name, {"spec": {"exposure": {"hostnames": [f"x.{bob.name}.{DOMAIN}"]}}})
    refusal = "is not one of this tenant's names"
    tenants.wait_condition(host, alice.name, "Ready", status="False", says=refusal, seconds=30)
    certified(host, alice.name, f"{alice.name}.{DOMAIN}")
    host.patch("Tenant", alice.name, {"spec": {"exposure": None}})
    host.patch("TenantClass", "standard", {"spec": {"exposure": None}})
    tenants.wait_ready(host, [alice.name])


@pytest.mark.usefixtures("exposed")
def test_a_forged_name_meets_another_certificate_and_another_authority(host: Api, alice: Tenant, bob: Tenant) -> None:
    dial(authority(host, bob.name), f"{bob.name}.{DOMAIN}").close()
    with pytest.raises(ssl.SSLCertVerificationError, match=r"certificate verify failed: (?!Hostname)"):
        dial(authority(host, alice.name), f"{bob.name}.{DOMAIN}")
    # A client that trusts the other plane's authority is not let in either: that plane does not know the authority of alice's
    # certificate.
    config = yaml.safe_load(tenants.open_tenant(alice.name).kubeconfig.read_text())
    cluster = config["clusters"][0]["cluster"]
    cluster["tls-server-name"] = f"{bob.name}.{DOMAIN}"
    theirs = yaml.safe_load(tenants.open_tenant(bob.name).kubeconfig.read_text())["clusters"][0]["cluster"]
    cluster["certificate-authority-data"] = theirs["certificate-authority-data"]
    path = tenants.KUBECONFIGS / "forged.yaml"
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(config))
    with pytest.raises(ApiError) as caught:
        Api(path).list("Secret", "default")
    assert caught.value.status == 401


@pytest.mark.usefixtures("exposed")
def test_unknown_names_are_refused_and_counted(host: Api) -> None:
    before = refused(host)
    for asked, data in ((f"nobody.{DOMAIN}", None), (None, None), (None, b"GET / HTTP/1.0\r\n\r\n")):
        if data is None:
            with pytest.raises(OSError):  # noqa: PT011 -- reset or closed, as the kernel has it
                dial(blind(), asked)
            continue
        with socket.create_connection((NODE_ADDRESS, PORT), 10.0) as raw:
            raw.sendall(data)
            with contextlib.suppress(ConnectionResetError):
                assert raw.recv(100) == b""

    def counted() -> None:
        now = refused(host)
        grown = {reason for (tenant, reason), number in now.items() if number > before.get((tenant, reason), 0.0)}
        if not grown >= {"unknown-name", "no-name", "no-hello"}:
            raise NotYetError(json.dumps(sorted(grown)))

    until("the refusals to be counted", counted, seconds=30)


@pytest.mark.usefixtures("exposed")
def test_a_flood_of_one_tenant_costs_the_other_nothing(host: Api, alice: Tenant, bob: Tenant) -> None:
    context = authority(host, alice.name)
    held: list[ssl.SSLSocket] = []
    turned_away = 0
    try:
        for _ in range(5 * MOST):
            try:
                held.append(dial(context, f"{alice.name}.{DOMAIN}"))
            except OSError:
                turned_away += 1
        # The control: the flood is large enough to reach its limit in both pods.
        assert turned_away > 0
        assert len(held) <= 2 * MOST
        assert tenants.who(tenants.open_tenant(bob.name).api) == ADMIN
    finally:
        for item in held:
            item.close()

    def counted() -> None:
        if refused(host).get((alice.name, "limit"), 0.0) < 1:
            raise NotYetError(str(refused(host)))

    until("the refusals to be counted", counted, seconds=30)
    assert refused(host).get((bob.name, "limit"), 0.0) == 0


@pytest.mark.usefixtures("exposed")
def test_a_tenant_that_wants_none_of_it_is_reached_from_the_host_alone(host: Api, alice: Tenant) -> None:
    host.patch("Tenant", alice.name, {"spec": {"exposure": {"type": "None"}}})
    until("alice not to be exposed", lambda: inside(host, alice.name), seconds=60)

    def closed() -> None:
        try:
            dial(blind(), f"{alice.name}.{DOMAIN}").close()
        except OSError:
            return
        raise NotYetError("still led there")

    until("the name to lead nowhere", closed, seconds=30)
    assert tenants.open_tenant(alice.name).api.port == 443
    host.patch("Tenant", alice.name, {"spec": {"exposure": None}})
    until("alice at the proxy", lambda: at_the_proxy(host, alice.name), seconds=60)


@pytest.mark.usefixtures("exposed")
def test_a_proxy_that_is_gone_leaves_the_other(host: Api, bob: Tenant) -> None:
    pods = host.list("Pod", names.SYSTEM_NAMESPACE, labels="app.kubernetes.io/component=proxy")
    assert len(pods) == 2
    host.delete("Pod", pods[0]["metadata"]["name"], names.SYSTEM_NAMESPACE, grace=0)
    api = tenants.open_tenant(bob.name).api

    def led() -> None:
        if (found := tenants.who(api)) != ADMIN:
            raise NotYetError(found)

    # Until the node has noticed, it may send a new connection to the deleted pod.
    until("bob's API by the other proxy", led, seconds=30)
    assert machine.is_up()


@pytest.mark.usefixtures("exposed")
def test_without_a_route_connect_goes_through_the_hosts_api_and_finds_a_plane_again(host: Api, alice: Tenant) -> None:
    for times in range(2):
        said = commands.bulkhead(
            "connect", "--tunnel", "always", alice.name, "--", "kubectl", "get", "namespaces", "-o", "name",
            kubeconfig=machine.KUBECONFIG,
        )  # fmt: skip
        assert "namespace/default" in said.out
        assert "through the host's API" in said.err
        if times == 0:
            # The second time the address leads to another pod of the plane.
            uid = host.get("Pod", "plane-0", alice.plane)["metadata"]["uid"]
            host.delete("Pod", "plane-0", alice.plane)
            tenants.wait_other_plane(host, alice.name, uid)
