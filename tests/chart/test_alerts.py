"""The alerts: each fires for its fault and is silent in a healthy fleet, names metrics that exist, and leads to a runbook.

promtool evaluates them, as Prometheus would. Costs 3 s in all.
"""

import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from prometheus_client import REGISTRY

from syncer.metrics import REGISTRY as OF_SYNCER
from tests.kit import promtool
from tests.kit.helmchart import CHART, ROOT, rendered
from tests.observing.exported import exported

pytestmark = pytest.mark.charts

RULES: Final = CHART / "rules" / "alerts.yaml"
T: Final = 'tenant="red"'
DAY: Final = 86400
# What a healthy fleet shows for three hours, one value a minute.
HEALTHY: Final = {
    "bulkhead_controller_leading": "1x180",
    'bulkhead_controller_reconciles_total{result="ok"}': "0+60x180",
    'bulkhead_controller_reconciles_total{result="failed"}': "0x180",
    "bulkhead_controller_queue_depth": "1x180",
    "bulkhead_controller_clock_wrong": "0x180",
    "bulkhead_controller_issuers_silent": "0x180",
    f"bulkhead_tenant_data_lost{{{T}}}": "0x180",
    f"bulkhead_tenant_quorum_lost{{{T}}}": "0x180",
    f"bulkhead_tenant_ready{{{T}}}": "1x180",
    f"bulkhead_tenant_snapshot_overdue_timestamp_seconds{{{T}}}": "99999x180",
    'bulkhead_retained_until_timestamp_seconds{tenant="green"}': "999999x180",
    'bulkhead_retained_until_timestamp_seconds{tenant="kept"}': "0x180",
    f"bulkhead_tenant_plane_down{{{T}}}": "0x180",
    f"bulkhead_tenant_store_full{{{T}}}": "0x180",
    f"bulkhead_tenant_store_corrupt{{{T}}}": "0x180",
    f'bulkhead_tenant_store_bytes{{{T},what="used"}}': "700x180",
    f'bulkhead_tenant_store_bytes{{{T},what="quota"}}': "1000x180",
    # promtool's time begins at 1970: in two and a half hours, 30 days are left.
    f'bulkhead_tenant_certificate_end_seconds{{{T},certificate="pki-dns/client"}}': f"{30 * DAY + 9000}x180",
    f"bulkhead_tenant_members_down{{{T}}}": "0x180",
    f'bulkhead_tenant_audit_lost{{{T},why="buffered"}}': "3x180",
    'bulkhead_ledger_waiting_pods{reason="NoRoom"}': "2x180",
    "bulkhead_ledger_turn_seconds_count": "0+60x180",
    'bulkhead_ledger_turn_seconds_bucket{le="1"}': "0+60x180",
    'bulkhead_ledger_turn_seconds_bucket{le="15"}': "0+60x180",
    'bulkhead_ledger_turn_seconds_bucket{le="+Inf"}': "0+60x180",
    f'bulkhead_gpu_seconds_total{{{T},state="used"}}': "0+400x180",
    f'bulkhead_gpu_seconds_total{{{T},state="idle"}}': "0+60x180",
    'bulkhead_usage_writes_total{result="ok"}': "0+1x180",
    'bulkhead_usage_writes_total{result="failed"}': "0x180",
    'bulkhead_usage_writes_total{result="repaired"}': "0x180",
    f"bulkhead_syncer_quarantined{{{T}}}": "0x180",
    f"bulkhead_syncer_mass_delete_breaker_open{{{T}}}": "0x180",
    f'bulkhead_syncer_synced{{{T},side="host"}}': "1x180",
    f'bulkhead_syncer_synced{{{T},side="virtual"}}': "1x180",
    f"process_start_time_seconds{{{T}}}": "1000x180",
    f"bulkhead_syncer_settings_refused{{{T}}}": "0x180",
    "bulkhead_proxy_commands_pending": "0x180",
    "bulkhead_proxy_left_out": "0x180",
    'bulkhead_proxy_refused_total{tenant="",reason="no-hello"}': "0+6x180",
}
# What is otherwise in the fault of an alert.
FAULTS: Final[dict[str, dict[str, str]]] = {
    "BulkheadNoLeader": {"bulkhead_controller_leading": "0x180"},
    "BulkheadReconcilesFail": {'bulkhead_controller_reconciles_total{result="failed"}': "0+90x180"},
    "BulkheadControllerBehind": {"bulkhead_controller_queue_depth": "51x180"},
    "BulkheadClockWrong": {"bulkhead_controller_clock_wrong": "1x180"},
    "BulkheadIssuerSilent": {"bulkhead_controller_issuers_silent": "1x180"},
    "BulkheadTenantDataLost": {f"bulkhead_tenant_data_lost{{{T}}}": "1x180"},
    "BulkheadPlaneDown": {f"bulkhead_tenant_plane_down{{{T}}}": "1x180"},
    "BulkheadStoreCorrupt": {f"bulkhead_tenant_store_corrupt{{{T}}}": "1x180"},
    "BulkheadStoreFull": {f"bulkhead_tenant_store_full{{{T}}}": "1x180"},
    "BulkheadStoreFilling": {f'bulkhead_tenant_store_bytes{{{T},what="used"}}': "810x180"},
    "BulkheadCertificateEnds": {
        f'bulkhead_tenant_certificate_end_seconds{{{T},certificate="pki-dns/client"}}': f"{20 * DAY + 5000}x180"
    },
    "BulkheadProxyRefuses": {'bulkhead_proxy_refused_total{tenant="",reason="no-hello"}': "0+66x180"},
    "BulkheadTenantNotReady": {f"bulkhead_tenant_ready{{{T}}}": "0x180"},
    "BulkheadManyTenantsNotReady": {
        f"bulkhead_tenant_ready{{{T}}}": "0x180",
        'bulkhead_tenant_ready{tenant="blue"}': "0x180",
        'bulkhead_tenant_ready{tenant="green"}': "0x180",
    },
    "BulkheadSnapshotOverdue": {f"bulkhead_tenant_snapshot_overdue_timestamp_seconds{{{T}}}": "3600x180"},
    "BulkheadRetainedPlaneEnds": {'bulkhead_retained_until_timestamp_seconds{tenant="green"}': "50000x180"},
    "BulkheadQuorumLost": {f"bulkhead_tenant_quorum_lost{{{T}}}": "1x180"},
    "BulkheadMembersDown": {f"bulkhead_tenant_members_down{{{T}}}": "1x180"},
    "BulkheadAuditLost": {f'bulkhead_tenant_audit_lost{{{T},why="buffered"}}': "0+5x180"},
    "BulkheadLedgerStands": {"bulkhead_ledger_turn_seconds_count": "60x180"},
    "BulkheadLedgerBehind": {'bulkhead_ledger_turn_seconds_bucket{le="1"}': "0+6x180"},
    "BulkheadGPUsIdleWhileWanted": {f'bulkhead_gpu_seconds_total{{{T},state="idle"}}': "0+900x180"},
    "BulkheadUsageNotStored": {'bulkhead_usage_writes_total{result="failed"}': "0+1x180"},
    "BulkheadUsageDamaged": {'bulkhead_usage_writes_total{result="repaired"}': "0+1x180"},
    "BulkheadSyncerQuarantined": {f"bulkhead_syncer_quarantined{{{T}}}": "1x180"},
    "BulkheadMassDeletion": {f"bulkhead_syncer_mass_delete_breaker_open{{{T}}}": "1x180"},
    "BulkheadSyncerNotSynced": {f'bulkhead_syncer_synced{{{T},side="host"}}': "0x180"},
    "BulkheadSyncerRestarts": {f"process_start_time_seconds{{{T}}}": "1000+600x180"},
    "BulkheadSettingsRefused": {f"bulkhead_syncer_settings_refused{{{T}}}": "1x180"},
    "BulkheadProxyBehind": {"bulkhead_proxy_commands_pending": "2x180"},
    "BulkheadProxyLeavesOut": {"bulkhead_proxy_left_out": "1x180"},
}
# An alert that the fault of another fires as well, since it is a part of it.
WITH_IT: Final = {"BulkheadManyTenantsNotReady": {"BulkheadTenantNotReady"}}


def alerts() -> dict[str, dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def fired(faults: dict[str, str], folder: Path) -> set[str]:
    """The alerts that fire two and a half hours after the series began, by promtool's word."""
    series = [{"series": name, "values": values} for name, values in (HEALTHY | faults).items()]
    query = {"expr": "count by (alertname) (ALERTS{alertstate='firing'}) > 0", "eval_time": "150m", "exp_samples": []}
    case = {"interval": "1m", "input_series": series, "promql_expr_test": [query]}
    path = folder / "case.yaml"
    path.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [case]}))
    code, output = promtool.run("test", "rules", str(path))
    assert code == 0 or "FAILED" in output, output
    return set(re.findall(r'alertname="(\w+)"', output))


def test_the_rules_are_well_formed() -> None:
    code, output = promtool.run("check", "rules", str(RULES))
    assert code == 0, output
    assert f"{len(alerts())} rules found" in output


def test_in_a_healthy_fleet_no_alert_fires(tmp_path: Path) -> None:
    assert fired({}, tmp_path) == set()


@pytest.mark.parametrize("name", sorted(alerts()))
def test_each_alert_fires_for_its_fault_and_alone(name: str, tmp_path: Path) -> None:
    assert fired(FAULTS[name], tmp_path) == {name} | WITH_IT.get(name, set())


def test_the_metrics_of_all_alerts_exist() -> None:
    """Of the programs themselves: what is only known by name is exported by each program that has its own registry."""
    known = {series for metric in exported() for series in metric.series} | _of_processes()
    for name, rule in alerts().items():
        for metric in re.findall(r"\b(?:bulkhead|process)_[a-z_]+\b", rule["expr"]):
            assert metric in known, f"{name} reads {metric}"


def _of_processes() -> set[str]:
    """What the syncer and the controller export of their processes, if both do."""
    return {metric.name for metric in REGISTRY.collect()} & {metric.name for metric in OF_SYNCER.collect()}


def test_each_alert_leads_to_its_runbook() -> None:
    page = (ROOT / "docs" / "runbooks.md").read_text()
    sections = set(re.findall(r"^### (\w+)$", page, re.MULTILINE))
    assert sections == set(alerts())
    for name, rule in alerts().items():
        assert rule["annotations"]["runbook"] == f"docs/runbooks.md#{name.lower()}"
        assert rule["labels"]["severity"] in {"critical", "warning"}
        assert {"summary", "description"} <= rule["annotations"].keys()


def test_the_chart_ships_them_unless_they_are_turned_off() -> None:
    on = ("--set", "monitoring.enabled=true")
    (made,) = [obj for obj in rendered(*on) if obj["kind"] == "PrometheusRule"]
    assert made["spec"] == yaml.safe_load(RULES.read_text())
    assert not [obj for obj in rendered(*on, "--set", "monitoring.alerts=false") if obj["kind"] == "PrometheusRule"]
