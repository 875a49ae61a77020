"""A page of the docs, step by step as an admin copies it: from the README to two teams that lend each other GPUs.

README ── link ──> section ── its YAML and its lines of shell, in their order ──> two Ready tenants ──> one borrows
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from e2e import commands, machine, tenants, workloads
from e2e.api import Api
from e2e.fleet import Fleet
from e2e.names import GPU
from e2e.poll import NotYetError, until

TASK = "docs/tasks.md#16-gpus-that-borrow"
TEAMS = ("team-a", "team-b")
_FENCED = re.compile(r"^( {0,3})```(\w*)\n(.*?)^\1```", re.DOTALL | re.MULTILINE)


def section(link: str) -> str:
    """The section of a page that a link leads to."""
    page, _, anchor = link.partition("#")
    for part in re.split(r"^(?=## )", Path(page).read_text(), flags=re.MULTILINE):
        heading = part.partition("\n")[0].removeprefix("## ")
        if re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") == anchor:
            return part
    raise AssertionError(f"{page} has no section #{anchor}")


def blocks(text: str, kind: str) -> list[str]:
    """The fenced blocks of one kind."""
    return [dedent(match[3]) for match in _FENCED.finditer(text) if match[2] == kind]


@pytest.fixture
def clean(fleet: Fleet) -> Iterator[None]:
    """Removes what the page creates."""
    yield
    for team in TEAMS:
        fleet.leave(team)
    fleet.discard("Cohort", "gpus")
    fleet.discard("TenantClass", "lending")


def typed(line: str, folder: Path) -> str:
    """Run one line of the page in a folder, with the programs of this tree."""
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    for name, target in (
        ("kubectl", commands.tool("kubernetes", "kubectl")),
        ("bulkhead", f"{sys.executable} -m workstation.cli.main"),
    ):
        (programs / name).write_text(f'#!/bin/sh\nexec {target} "$@"\n')
        (programs / name).chmod(0o755)
    environment = {"PATH": f"{programs}:/usr/bin:/bin", "KUBECONFIG": str(machine.KUBECONFIG), "PYTHONPATH": str(Path.cwd())}
    words = line.replace(".venv/bin/bulkhead", "bulkhead")
    return commands.run(["sh", "-ec", f"cd {folder} && {words}"], seconds=120, environment=environment).out


@pytest.mark.usefixtures("clean")
def test_the_readme_leads_to_two_teams_that_lend_each_other_gpus(host: Api, tmp_path: Path) -> None:
    assert f"({TASK})" in Path("README.md").read_text()
    text = section(TASK)
    (manifest,) = blocks(text, "yaml")
    (shell,) = blocks(text, "sh")
    (tmp_path / "lending.yaml").write_text(manifest)
    for line in shell.splitlines():
        typed(line, tmp_path)
    # The page's cluster has real GPU nodes; the simulated ones of this host have a taint of their own.
    host.patch("TenantClass", "lending", {"spec": {"nodes": {"allowedTolerations": [workloads.TOLERATION]}}})
    tenants.wait_ready(host, TEAMS, seconds=180)

    # Team-b uses 24: its own 16, and 8 that team-a leaves.
    borrower = tenants.open_tenant("team-b")
    borrower.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "work"}})
    spec = workloads.pod_spec(gpus=8, where=workloads.SIMULATED)
    borrower.api.create(workloads.deployment("trainer", 3, spec, namespace="work"))
    workloads.wait_available(borrower.api, "trainer", 3, namespace="work")

    def borrowed() -> None:
        line = next(line for line in typed(".venv/bin/bulkhead top", tmp_path).splitlines() if line.startswith("team-b"))
        if line.split()[1:4] != ["16", "24", "8"]:
            raise NotYetError(line)

    until("`bulkhead top` to show what team-b borrows", borrowed, seconds=60)
    (asked,) = re.findall(r"`(bulkhead quota try [^`]+)`", text)
    assert f"if tenant team-a had {GPU} 16 -> 24" in typed(asked, tmp_path)
