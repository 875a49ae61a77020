"""A user's first hour, as they copy it from the page: each YAML saved under its name, each line typed, in their order.

docs/first-hour.md ── its sections after the sign-in ──> files, lines ──> what the page promises of some of them
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e import commands, machine, workloads
from e2e.poll import until
from e2e.tenants import Tenant

PAGE = Path("docs/first-hour.md")
_PART = re.compile(r"`([a-z]+\.yaml)`|^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
# What a line prints, by its beginning.
PROMISED = {
    "kubectl get nodes": [machine.NODE],
    "bulkhead quota show": ["nvidia.com/gpu", "NOMINAL"],
    "kubectl logs first": ["I run"],
    "bulkhead why first": [f"it is on {machine.NODE}"],
    "bulkhead why large": ["QuotaExceeded", "1000"],
    "kubectl logs job/count": ["1\n2\n3"],
    "kubectl exec first -- wget": ["it works"],
    "kubectl describe pod node": ["hostPath is not allowed", "use a PersistentVolumeClaim"],
    "bulkhead top": ["nvidia.com/gpu", "CAN BORROW"],
}


def steps() -> Iterator[tuple[str, str]]:
    """The page's files (`name.yaml`, text) and lines (`sh`, line), from the first section after the sign-in on."""
    name = ""
    for found in _PART.finditer(PAGE.read_text().partition("## See where you are")[2]):
        saved, kind, text = found.groups()
        if saved:
            name = saved
        elif kind == "yaml" and name:
            yield name, text
            name = ""
        elif kind == "sh":
            yield from (("sh", line) for line in text.splitlines())


@pytest.fixture
def folder(alice: Tenant, tmp_path: Path) -> Iterator[Path]:
    """Where a user works, with the programs of this tree."""
    programs = tmp_path / "bin"
    programs.mkdir()
    tools = {"kubectl": commands.tool("kubernetes", "kubectl"), "bulkhead": f"{sys.executable} -m workstation.cli.main"}
    for name, target in tools.items():
        (programs / name).write_text(f'#!/bin/sh\nexec {target} "$@"\n')
        (programs / name).chmod(0o755)
    yield tmp_path
    for kind, name in (
        ("Pod", "first"),
        ("Pod", "large"),
        ("Pod", "node"),
        ("Job", "count"),
        ("Deployment", "web"),
        ("Service", "web"),
    ):
        alice.api.delete(kind, name, "default")


def typed(line: str, folder: Path, kubeconfig: Path) -> str:
    environment = {
        "PATH": f"{folder}/bin:/usr/bin:/bin",
        "KUBECONFIG": str(kubeconfig.resolve()),
        "PYTHONPATH": str(Path.cwd()),
    }
    return commands.run(["sh", "-ec", f"cd {folder} && {line}"], seconds=180, environment=environment).text


def test_each_line_of_the_page_does_what_the_page_says(alice: Tenant, folder: Path) -> None:
    done = []
    for kind, text in steps():
        if kind != "sh":
            (folder / kind).write_text(text)
            continue
        wanted = next((words for begin, words in PROMISED.items() if text.startswith(begin)), [])

        def promised(line: str = text, wanted: list[str] = wanted) -> None:
            printed = typed(line, folder, alice.kubeconfig)
            missing = [word for word in wanted if word not in printed]
            workloads.expect(not missing, f"{line}: no {missing} in:\n{printed}")

        # What the page promises of a line is there within seconds; a line that fails is not tried again.
        until(text, promised, seconds=30) if wanted else typed(text, folder, alice.kubeconfig)
        done.append(text)
    assert all(any(line.startswith(begin) for line in done) for begin in PROMISED), done


def test_a_tenants_own_prometheus_sees_its_own_pods_alone(alice: Tenant, bob: Tenant, space: str, tmp_path: Path) -> None:
    alice.api.create(workloads.pod("measured", namespace=space))
    bob.api.create(workloads.pod("of-bob", namespace="default"))
    workloads.wait_running(alice.api, "measured", namespace=space)
    workloads.wait_running(bob.api, "of-bob", namespace="default")

    def page(tenant: Tenant, about: str) -> str:
        path = f"/api/v1/nodes/{machine.NODE}/proxy/metrics/{about}"
        return commands.kubectl(tenant.kubeconfig, "get", "--raw", path.rstrip("/"), check=False).text

    def measured(tenant: Tenant, pod: str, about: str) -> None:
        def shown() -> None:
            workloads.expect(f'pod="{pod}"' in page(tenant, about), page(tenant, about)[:2000])

        until(f"{about} of {pod}", shown, seconds=120, interval=2.0)

    try:
        for about in ("cadvisor", "resource"):
            measured(alice, "measured", about)
            measured(bob, "of-bob", about)
            assert "of-bob" not in page(alice, about)
            assert alice.work not in page(alice, about)
        assert "kubelet_running_pods" in page(alice, "")
        assert "no series" in page(alice, "probes")
        assert "NotFound" in page(alice, "slis") or "not found" in page(alice, "slis")
        _by_prometheus(alice, space, tmp_path)
    finally:
        bob.api.delete("Pod", "of-bob", "default", grace=0)


def _by_prometheus(tenant: Tenant, space: str, folder: Path) -> None:
    """Let Debian's Prometheus scrape through the plane's API server, and ask it."""
    from tests.kit.promtool import promtool  # noqa: PLC0415 -- fetches the package

    program = promtool().with_name("prometheus")
    if not program.is_file():
        pytest.skip("promtool is installed here without its Prometheus")
    forwarded = subprocess.Popen(
        [commands.tool("kubernetes", "kubectl"), f"--kubeconfig={tenant.kubeconfig}", "proxy", "--port=18097"]
    )
    path = f"/api/v1/nodes/{machine.NODE}/proxy/metrics/cadvisor"
    (folder / "prometheus.yml").write_text(
        "global: {scrape_interval: 2s}\nscrape_configs:\n"
        f"  - {{job_name: kubelet, metrics_path: {path}, static_configs: [{{targets: ['127.0.0.1:18097']}}]}}\n"
    )
    running = subprocess.Popen(
        [
            program,
            f"--config.file={folder}/prometheus.yml",
            f"--storage.tsdb.path={folder}/data",
            "--web.listen-address=127.0.0.1:18098",
        ]
    )
    try:

        def scraped() -> None:
            query = f'container_memory_working_set_bytes{{namespace="{space}",pod="measured"}}'
            found = commands.run(
                ["curl", "-sG", "http://127.0.0.1:18098/api/v1/query", "--data-urlencode", f"query={query}"], check=False
            ).text
            workloads.expect('"pod":"measured"' in found, found)

        until("Prometheus to have the pod's memory", scraped, seconds=60, interval=2.0)
    finally:
        for process in (running, forwarded):
            process.terminate()
            process.wait(30)
