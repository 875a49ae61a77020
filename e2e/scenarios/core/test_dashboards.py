"""The dashboards and the alerts before a real Prometheus that scrapes the host while tenants work and lend.

A panel without data fails, unless its board says why it may be empty. The worst alerts are fired by their fault. Other tests
run beside it, so what is judged is the host and the two tenants of this file.
"""

import contextlib
import json
import signal
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e import commands, machine, prometheus, tenants, workloads
from e2e.api import Api, Obj
from e2e.fleet import Fleet
from e2e.names import GPU
from e2e.poll import until
from e2e.prometheus import Prometheus
from e2e.tenants import Tenant

CLASS = COHORT = "e2e-observed"
LENDER, BORROWER = "e2e-lends", "e2e-borrows"
NOMINAL = 2
NODE = "gpu-sim-3"  # one node for all pods, so that tests that need whole nodes find three others
ROOT = Path(__file__).parents[3]
SHIPPED = ROOT / "charts" / "bulkhead" / "dashboards"
REVIEWED = ROOT / "tests" / "observing" / "boards"
RULES = ROOT / "charts" / "bulkhead" / "rules" / "alerts.yaml"
# Grafana's variables, as for all tenants.
INSTEAD = {"$__rate_interval": "1m", "$tenant": ".+"}
SYSTEM = "bulkhead-system"


@cache
def ahead(fleet: Fleet) -> dict[str, Obj]:
    """Two tenants of a cohort, as in the demo."""
    quota = fleet.host.get("TenantClass", "standard")["spec"]["quota"] | {"cohorts": [COHORT]}
    fleet.offer(CLASS, scheduling={"gangs": True}, quota=quota)
    fleet.lend(COHORT, {"reclaim": {"minRuntime": "0s", "within": "30s"}})
    own = {"cohort": COHORT, "resources": {GPU: {"nominal": NOMINAL}}}
    wanted = {name: tenants.manifest(name, tenant_class=CLASS, quota=own) for name in (LENDER, BORROWER)}
    for manifest in wanted.values():
        fleet.order(manifest)
    return wanted


@pytest.fixture(scope="module")
def lender(fleet: Fleet) -> Iterator[Tenant]:
    yield fleet.take(ahead(fleet)[LENDER])
    fleet.leave(LENDER)


@pytest.fixture(scope="module")
def borrower(fleet: Fleet) -> Iterator[Tenant]:
    yield fleet.take(ahead(fleet)[BORROWER])
    fleet.leave(BORROWER)


def load(lender: Tenant, borrower: Tenant) -> None:
    """The borrower uses half of the lender's quota, the lender the other half, and one more pod of the borrower waits."""
    for number in range(3):
        _pod(borrower, f"train-{number}")
        workloads.wait_running(borrower.api, f"train-{number}", seconds=90)
    _pod(lender, "own")
    workloads.wait_running(lender.api, "own", seconds=90)
    _pod(borrower, "waits")


def _pod(tenant: Tenant, name: str) -> None:
    spec = workloads.pod_spec(gpus=1, where={"kubernetes.io/hostname": NODE}, tolerations=[workloads.TOLERATION])
    tenant.api.create(workloads.pod(name, spec))


def shipped() -> dict[tuple[str, str], list[str]]:
    """The queries of each panel that the chart ships, by dashboard and title."""
    found: dict[tuple[str, str], list[str]] = {}
    for path in sorted(SHIPPED.glob("*.json")):
        for panel in json.loads(path.read_text())["panels"]:
            for target in panel.get("targets", []):
                text = target["expr"]
                for variable, value in INSTEAD.items():
                    text = text.replace(variable, value)
                found.setdefault((path.stem, panel["title"]), []).append(text)
    return found


def may_be_empty() -> dict[tuple[str, str], str]:
    """The panels that may have no data, and why."""
    found: dict[tuple[str, str], str] = {}
    for path in sorted(REVIEWED.glob("*.yaml")):
        for row in yaml.safe_load(path.read_text())["rows"]:
            found |= {(path.stem, panel["title"]): panel["empty"] for panel in row["panels"] if panel.get("empty")}
    return found


def test_no_panel_is_empty_that_should_not_be(host: Api, lender: Tenant, borrower: Tenant) -> None:
    queries, reasons = shipped(), may_be_empty()
    assert len(queries) > 80
    assert reasons.keys() <= queries.keys()
    with prometheus.running(host, (LENDER, BORROWER), RULES) as scraping:
        load(lender, borrower)

        def filled() -> None:
            scraping.look_again(host)  # other tests end the controller's pods
            # Writes and reads, so that latency is that of enough requests, and reconciles of every kind go on.
            for number in range(40):
                lender.api.apply(
                    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"one-{number}", "namespace": "default"}}
                )
            empty = [
                f"{board}: {title}: {query}"
                for (board, title), texts in queries.items()
                for query in texts
                if (board, title) not in reasons and not _has_data(scraping.query(query))
            ]
            workloads.expect(not empty, f"without data: {empty}")
            waiting = scraping.query(f'bulkhead_ledger_tenant_wait_seconds{{tenant="{BORROWER}", what="longest"}}')
            workloads.expect(any(float(found["value"][1]) > 10 for found in waiting), f"the borrower's longest wait: {waiting}")

        # Figures of planes need two looks, which are a minute apart, and usage is stored every half minute.
        until("every panel to have data", filled, seconds=420, interval=10.0)
        # A panel that may be empty is asked as well: Prometheus refuses what it does not understand.
        empty = {where: reasons[where] for where in reasons if not any(map(scraping.query, queries[where]))}
        print(f"{len(queries)} panels; without data, as reviewed: {sorted(empty)}")
        assert not scraping.query(f'bulkhead_ledger_tenant_wait_seconds{{tenant="{LENDER}"}}')
        wrong = scraping.firing() - {"BulkheadGPUsIdleWhileWanted"}
        assert wrong == set(), "tenants at work fire alerts, or the host does"


def _has_data(series: list[dict[str, Any]]) -> bool:
    """Whether any series has a number."""
    return any(found["value"][1] != "NaN" for found in series)


def test_the_worst_alerts_fire_for_their_faults_and_end(host: Api, alice: Tenant) -> None:
    # A twentieth of the times: a minute becomes three seconds.
    with prometheus.running(host, (alice.name,), RULES, hold=0.05) as scraping, _thawed(host, alice):

        def down() -> None:
            _freeze(host, alice)
            _fires(scraping, "BulkheadPlaneDown")

        until("the plane to be told down", down, seconds=300, interval=5.0)
    with prometheus.running(host, (alice.name,), RULES, hold=0.05) as scraping:
        until("the plane to be told up", lambda: _silent(scraping, "BulkheadPlaneDown"), seconds=300, interval=5.0)
        with _without_controller(host):
            until("no leader to be told", lambda: _fires(scraping, "BulkheadNoLeader"), seconds=180, interval=5.0)

        def back() -> None:
            scraping.look_again(host)
            _silent(scraping, "BulkheadNoLeader")

        until("the leader to be back", back, seconds=300, interval=5.0)


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
    scale = ("-n", SYSTEM, "scale", "deploy/bulkhead-controller")
    replicas = host.get("Deployment", "bulkhead-controller", SYSTEM)["spec"]["replicas"]
    commands.kubectl(machine.KUBECONFIG, *scale, "--replicas=0")
    try:
        yield
    finally:
        commands.kubectl(machine.KUBECONFIG, *scale, f"--replicas={replicas}")
        commands.kubectl(
            machine.KUBECONFIG, "-n", SYSTEM, "rollout", "status", "deploy/bulkhead-controller", "--timeout=180s", seconds=200
        )
