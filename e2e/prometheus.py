"""A real Prometheus on this machine, Debian's, that scrapes Bulkhead's pods and judges the chart's alerts.

    controller and syncers ──> a Prometheus for a while ──> queries, alerts ──> gone with its data

The package is unpacked and not installed: that would start a Prometheus on the machine. The labels are those that the chart's
ServiceMonitor and PodMonitors give.
"""

import contextlib
import json
import shutil
import socket
import subprocess
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from e2e.api import Api
from e2e.poll import NotYetError, until

_CACHE: Final = Path("build/e2e/prometheus")
_METRICS_PORT: Final = 8080
_SCRAPE_SECONDS: Final = 5
_CONTROLLER: Final = "app.kubernetes.io/name=bulkhead,app.kubernetes.io/component=controller"
_SYNCERS: Final = "app.kubernetes.io/managed-by=bulkhead,bulkhead.dev/component=syncer"


@dataclass(frozen=True, slots=True)
class Prometheus:
    """One that runs."""

    folder: Path
    tenants: tuple[str, ...]
    address: str

    def query(self, text: str) -> list[dict[str, Any]]:
        """The series of an instant query. Raises ValueError, with its words, for one that it refuses."""
        found = self._get("query", query=text)
        if found["status"] != "success":
            raise ValueError(f"{text}: {found.get('error')}")
        result: list[dict[str, Any]] = found["data"]["result"]
        return result

    def firing(self) -> set[str]:
        """The names of the alerts that fire for its tenants, or for no tenant in particular."""
        firing = [alert["labels"] for alert in self._get("alerts")["data"]["alerts"] if alert["state"] == "firing"]
        return {labels["alertname"] for labels in firing if labels.get("tenant") in {None, *self.tenants}}

    def look_again(self, host: Api) -> None:
        """Scrape the pods that there are now."""
        (self.folder / "targets.json").write_text(json.dumps(_targets(host, self.tenants)))

    def _get(self, path: str, **params: str) -> dict[str, Any]:
        asked = f"http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(params)}"
        try:
            with urllib.request.urlopen(asked, timeout=30) as answer:
                found: dict[str, Any] = json.load(answer)
        except urllib.error.HTTPError as error:
            found = json.load(error)
        return found


@contextlib.contextmanager
def running(host: Api, tenants: Iterable[str], rules: Path | None = None, *, hold: float = 1.0) -> Iterator[Prometheus]:
    """A Prometheus that scrapes the controller and the syncers of some tenants. Others come and go, and may be in trouble.

    `hold`: alerts wait for this part of the time that the rules want.
    """
    program = _program()
    with tempfile.TemporaryDirectory(prefix="bulkhead-prometheus-") as made:
        folder = Path(made)
        config: dict[str, Any] = {
            "global": {"scrape_interval": f"{_SCRAPE_SECONDS}s", "evaluation_interval": f"{_SCRAPE_SECONDS}s"},
            "scrape_configs": [
                {"job_name": "bulkhead", "file_sd_configs": [{"files": ["targets.json"], "refresh_interval": "5s"}]}
            ],
        }
        if rules is not None:
            (folder / "rules.yaml").write_text(yaml.safe_dump(_sooner(yaml.safe_load(rules.read_text()), hold)))
            config["rule_files"] = ["rules.yaml"]
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        prometheus = Prometheus(folder, tuple(tenants), _free_address())
        prometheus.look_again(host)
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [
                    program,
                    "--config.file=prometheus.yml",
                    "--storage.tsdb.path=data",
                    f"--web.listen-address={prometheus.address}",
                ],
                cwd=folder,
                stdout=log,
                stderr=log,
            )
        try:
            until("Prometheus to scrape", lambda: _scrapes(prometheus, host), seconds=60, interval=1.0)
            yield prometheus
        finally:
            process.terminate()
            process.wait(30)


def _free_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def _scrapes(prometheus: Prometheus, host: Api) -> None:
    prometheus.look_again(host)  # an earlier pod may be gone
    try:
        down = [found["metric"]["instance"] for found in prometheus.query("up") if found["value"][1] != "1"]
        there = len(prometheus.query("up"))
    except (OSError, ValueError) as error:
        raise NotYetError(str(error)) from error
    if not there or down:
        raise NotYetError(f"{there} targets, not reached: {down}")


def _targets(host: Api, tenants: Collection[str]) -> list[dict[str, Any]]:
    """Each pod with metrics of the platform and of these tenants, and the tenant of a syncer."""
    found = []
    for pod in [*host.list("Pod", labels=_CONTROLLER), *host.list("Pod", labels=_SYNCERS)]:
        address = pod.get("status", {}).get("podIP")
        tenant = pod["metadata"]["labels"].get("bulkhead.dev/tenant")
        if tenant and tenant not in tenants:
            continue
        if address and pod["status"].get("phase") == "Running" and not pod["metadata"].get("deletionTimestamp"):
            labels = {"namespace": pod["metadata"]["namespace"], "pod": pod["metadata"]["name"]}
            found.append({"targets": [f"{address}:{_METRICS_PORT}"], "labels": labels | ({"tenant": tenant} if tenant else {})})
    return found


def _sooner(rules: dict[str, Any], hold: float) -> dict[str, Any]:
    """The rules with shorter times until an alert fires."""
    for group in rules["groups"]:
        for rule in group["rules"]:
            if "for" in rule:
                number, unit = float(rule["for"][:-1]), {"m": 60, "h": 3600}[rule["for"][-1]]
                rule["for"] = f"{max(1, round(number * unit * hold))}s"
    return rules


def _program() -> str:
    if installed := shutil.which("prometheus"):
        return installed
    program = _CACHE.resolve() / "usr" / "bin" / "prometheus"
    if not program.is_file():
        _CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["apt-get", "download", "prometheus"], cwd=folder, capture_output=True, timeout=120, check=True)
            (package,) = Path(folder).glob("prometheus_*.deb")
            subprocess.run(["dpkg-deb", "-x", str(package), str(_CACHE)], capture_output=True, timeout=120, check=True)
    return str(program)
