"""The worst alerts before a real Prometheus: each fires for its fault, and ends with it."""

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path

from e2e import commands, machine, prometheus, tenants, workloads
from e2e.api import Api
from e2e.names import SYSTEM_NAMESPACE
from e2e.poll import until
from e2e.prometheus import Prometheus
from e2e.tenants import Tenant

RULES = Path(__file__).parents[3] / "charts" / "bulkhead" / "rules" / "alerts.yaml"


def test_the_worst_alerts_fire_for_their_faults_and_end(host: Api, alice: Tenant) -> None:
    # A twentieth of the times: a minute becomes three seconds.
    with prometheus.running(host, (alice.name,), RULES, hold=0.05) as scraping, _thawed(host, alice):

        def down() -> None:
            _freeze(host, alice)
            _fires(scraping, "BulkheadPlaneDown")

        until("the plane to be told down", down, seconds=300, interval=1.0)
    with prometheus.running(host, (alice.name,), RULES, hold=0.05) as scraping:
        until("the plane to be told up", lambda: _silent(scraping, "BulkheadPlaneDown"), seconds=300, interval=1.0)
        with _without_controller(host):
            until("no leader to be told", lambda: _fires(scraping, "BulkheadNoLeader"), seconds=180, interval=1.0)

        def back() -> None:
            scraping.look_again(host)
            _silent(scraping, "BulkheadNoLeader")

        until("the leader to be back", back, seconds=300, interval=1.0)


def _fires(scraping: Prometheus, name: str) -> None:
    workloads.expect(name in scraping.firing(), f"firing: {sorted(scraping.firing())}")


def _silent(scraping: Prometheus, name: str) -> None:
    # Until the first scrape it does not fire either.
    workloads.expect(bool(scraping.query("bulkhead_tenant_ready")), "nothing is scraped")
    workloads.expect(name not in scraping.firing(), f"firing: {sorted(scraping.firing())}")


@contextlib.contextmanager
def _thawed(host: Api, tenant: Tenant) -> Iterator[None]:
    """At the end nothing of the plane is frozen, and it is Ready."""
    try:
        yield
    finally:
        for process in _api_servers(host, tenant):
            process.send(signal.SIGCONT)
        tenants.wait_ready(host, [tenant.name], seconds=240)


def _freeze(host: Api, tenant: Tenant) -> None:
    """Stop the plane's API server; the kubelet ends one that hangs, and starts another."""
    for process in _api_servers(host, tenant):
        process.send(signal.SIGSTOP)


def _api_servers(host: Api, tenant: Tenant) -> list[machine.Process]:
    uid = host.get("Pod", "plane-0", tenant.plane)["metadata"]["uid"]
    return list(machine.processes_of_pod(uid, "kube-apiserver"))


@contextlib.contextmanager
def _without_controller(host: Api) -> Iterator[None]:
    """No pod of the controller runs."""
    scale = ("-n", SYSTEM_NAMESPACE, "scale", "deploy/bulkhead-controller")
    replicas = host.get("Deployment", "bulkhead-controller", SYSTEM_NAMESPACE)["spec"]["replicas"]
    commands.kubectl(machine.KUBECONFIG, *scale, "--replicas=0")
    try:
        yield
    finally:
        commands.kubectl(machine.KUBECONFIG, *scale, f"--replicas={replicas}")
        commands.kubectl(
            machine.KUBECONFIG,
            "-n",
            SYSTEM_NAMESPACE,
            "rollout",
            "status",
            "deploy/bulkhead-controller",
            "--timeout=180s",
            seconds=200,
        )
