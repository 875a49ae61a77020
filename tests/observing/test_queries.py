"""Every query of every dashboard has data before a real Prometheus, as soon as its metrics have.

A Prometheus scrapes the registries of controller, syncer and proxy, which something is reported to with each scrape, and what
HAProxy would export. So a misspelt label, or a join that matches nothing, is an empty panel here, also of panels that may be
empty in a cluster. Costs 20 s.
"""

import json
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

import pytest
import yaml
from prometheus_client import generate_latest

from controller import metrics as of_controller
from controller.dispatch import metrics as of_ledger
from controller.metering import metrics as of_metering
from frontdoor import metrics as of_proxy
from syncer import metrics as of_syncer
from tests.controller.test_series import report_all
from tests.kit import promtool, started
from tests.kit.ports import free_port
from tests.observing.boards import boards

_HAPROXY: Final = """\
haproxy_frontend_current_sessions{{proxy="tenants-in"}} 5
haproxy_frontend_limit_sessions{{proxy="tenants-in"}} 100
haproxy_frontend_connections_total{{proxy="tenants-in"}} {0}
haproxy_server_current_sessions{{proxy="planes",server="red"}} 5
haproxy_server_sessions_total{{proxy="planes",server="red"}} {0}
haproxy_server_bytes_in_total{{proxy="planes",server="red"}} {0}
haproxy_server_bytes_out_total{{proxy="planes",server="red"}} {0}
haproxy_server_connection_errors_total{{proxy="planes",server="red"}} {0}
"""
_TARGETS: Final = 3
_started: Final = time.monotonic()


def _controller() -> bytes:
    report_all()
    of_controller.leading.set(1)
    of_controller.report("down", {"conditions": [], "planeClusterUID": "u"})
    of_controller.report_certificates("down", {"pki-dns/client": datetime.now(UTC)})
    for result in ("ok", "failed"):
        of_controller.reconciled(result)
        of_metering.pages.labels(result).inc()
    of_controller.reconcile_took(0.1)
    of_controller.facet_seconds.labels("keys").observe(0.1)
    of_controller.ssh_certificates.labels("signed").inc()
    of_ledger.waiting.labels("NoRoom").set(3)
    for histogram in (of_ledger.turn_seconds, of_ledger.decide_seconds, of_ledger.admission_seconds):
        histogram.observe(0.1)
    of_ledger.count_reclaim("Consolidated")
    of_ledger.writes.labels("admit", "ok").inc()
    of_proxy.routes.set(3)
    of_proxy.take({"red": int(time.monotonic())}, {"no-hello": int(time.monotonic())})
    return generate_latest()


def _syncer() -> bytes:
    for result in ("done", "error"):
        of_syncer.RECONCILES.labels("Pod", result).inc()
    of_syncer.RECONCILE_SECONDS.labels("Pod").observe(0.1)
    of_syncer.IN_QUEUE.observe(0.1)
    of_syncer.host_write("Pod", "create")
    of_syncer.virtual_write("Pod", "status")
    of_syncer.REFUSED.labels("NotAllowed").inc()
    of_syncer.PATROL_REPAIRS.labels("Pod").inc()
    of_syncer.BUDGET_WAIT.inc(0.1)
    return of_syncer.render()


def _haproxy() -> bytes:
    return _HAPROXY.format(int(time.monotonic() - _started)).encode()


_PATHS: Final = {"/controller": _controller, "/syncer": _syncer, "/haproxy": _haproxy}


class _Exporter(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = _PATHS[self.path]()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def _job(path: str, port: int, **more: Any) -> dict[str, Any]:
    static = {"targets": [f"127.0.0.1:{port}"]} | ({"labels": more.pop("labels")} if "labels" in more else {})
    return {"job_name": path, "metrics_path": path, "static_configs": [static]} | more


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Prometheus that scrapes the three, once a second."""
    folder, port = tmp_path_factory.mktemp("prometheus"), free_port()
    program = promtool.promtool().with_name("prometheus")
    exporter = ThreadingHTTPServer(("127.0.0.1", 0), _Exporter)
    threading.Thread(target=exporter.serve_forever, daemon=True).start()
    # As the chart's PodMonitor renames it.
    rename = {"source_labels": ["proxy", "server"], "regex": "planes;(.+)", "target_label": "tenant"}
    jobs = [
        _job("/controller", exporter.server_port),
        _job("/syncer", exporter.server_port, labels={"tenant": "red"}),
        _job("/haproxy", exporter.server_port, metric_relabel_configs=[rename]),
    ]
    (folder / "prometheus.yml").write_text(yaml.safe_dump({"global": {"scrape_interval": "1s"}, "scrape_configs": jobs}))
    with (folder / "log").open("wb") as log:
        where = ("--config.file=prometheus.yml", "--storage.tsdb.path=data", f"--web.listen-address=127.0.0.1:{port}")
        process = subprocess.Popen([str(program), *where], cwd=folder, stdout=log, stderr=log)
    address = f"127.0.0.1:{port}"
    started.wait("Prometheus", process, folder / "log", lambda: len(_asked(address, "up == 1")) == _TARGETS, port=port)
    yield address
    process.terminate()
    process.wait(30)
    exporter.shutdown()
    exporter.server_close()
    of_controller.stand_down()
    of_ledger.stand_down()
    of_proxy.take({}, {})
    for metric in (of_metering.seconds, of_metering.borrowed_seconds, of_metering.reserved_seconds):
        metric.clear()


def _asked(address: str, query: str) -> list[dict[str, Any]]:
    with urllib.request.urlopen(
        f"http://{address}/api/v1/query?{urllib.parse.urlencode({'query': query})}", timeout=30
    ) as answer:
        found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
    return [series for series in found if series["value"][1] != "NaN"]


def test_each_query_has_data_once_its_metrics_have(address: str) -> None:
    queries = [
        (board.name, panel.title, query.plain) for board in boards() for panel in board.panels for query in panel.queries
    ]
    deadline, empty = time.monotonic() + 120, queries
    while empty and time.monotonic() < deadline:
        time.sleep(1)
        empty = [asked for asked in empty if not _asked(address, asked[2])]
    assert empty == []


def test_a_query_with_a_misspelt_label_has_none(address: str) -> None:
    assert _asked(address, 'bulkhead_tenant_ready{tenant=~".+"}')
    assert not _asked(address, 'bulkhead_tenant_ready{tenants=~".+"}')
