"""The dashboards before a real Prometheus that scrapes the host while tenants work and lend.

A panel without data fails, unless its board says why it may be empty. Other tests run beside it, so what is judged is the host
and the two tenants of this file.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e import prometheus, tenants, workloads
from e2e.api import Api, Obj
from e2e.fleet import Fleet
from e2e.names import GPU
from e2e.poll import until
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


@cache
def ahead(fleet: Fleet) -> list[Obj]:
    """Two tenants of a cohort, as in the demo."""
    quota = fleet.host.get("TenantClass", "standard")["spec"]["quota"] | {"cohorts": [COHORT]}
    fleet.offer(CLASS, scheduling={"gangs": True}, quota=quota)
    fleet.lend(COHORT, {"reclaim": {"minRuntime": "0s", "within": "30s"}})
    own = {"cohort": COHORT, "resources": {GPU: {"nominal": NOMINAL}}}
    wanted = [tenants.manifest(name, tenant_class=CLASS, quota=own) for name in (LENDER, BORROWER)]
    for manifest in wanted:
        fleet.order(manifest)
    return wanted


@pytest.fixture(scope="module")
def lender(fleet: Fleet) -> Tenant:
    return fleet.take(ahead(fleet)[0])


@pytest.fixture(scope="module")
def borrower(fleet: Fleet) -> Tenant:
    return fleet.take(ahead(fleet)[1])


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
        until("every panel to have data", filled, seconds=420, interval=5.0)
        # A panel that may be empty is asked as well: Prometheus refuses what it does not understand.
        empty = {where: reasons[where] for where in reasons if not any(map(scraping.query, queries[where]))}
        print(f"{len(queries)} panels; without data, as reviewed: {sorted(empty)}")
        assert not scraping.query(f'bulkhead_ledger_tenant_wait_seconds{{tenant="{LENDER}"}}')
        wrong = scraping.firing() - {"BulkheadGPUsIdleWhileWanted"}
        assert wrong == set(), "tenants at work fire alerts, or the host does"


def _has_data(series: list[dict[str, Any]]) -> bool:
    """Whether any series has a number."""
    return any(found["value"][1] != "NaN" for found in series)
