"""`bulkhead audit` against a real API server; the tests write the pods, and a script plays kubectl."""

import json
import os
import shlex
from pathlib import Path
from typing import Any

import pytest

from bulkhead.api import labels, names
from bulkhead.api.auditevents import Choice
from bulkhead.kube import podlog
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from tests.api.test_auditevents import line
from tests.kit.commandline import Cli, Controller
from workstation.cli import audit
from workstation.cli.arguments import Host

pytestmark = pytest.mark.commands

ALWAYS = ("--since", "3650d")


async def plane_pod(client: Client, tenant: str, ordinal: int, *containers: dict[str, Any]) -> None:
    meta = {"name": f"plane-{ordinal}", "labels": labels.made_for(tenant, "plane")}
    pod = {"metadata": meta, "spec": {"containers": list(containers)}}
    await client.create(kinds.PODS, pod, names.plane_namespace(tenant))


def kubectl(folder: Path, said: bytes, code: int = 0) -> dict[str, str]:
    """A kubectl that prints this, and writes down its arguments."""
    programs = folder / "bin"
    programs.mkdir()
    (programs / "said").write_bytes(said)
    script = (
        f'#!/bin/sh\nprintf "%s\\n" "$@" > {shlex.quote(str(folder / "asked"))}\ncat {shlex.quote(str(programs / "said"))}\n'
    )
    (programs / "kubectl").write_text(f"{script}echo trouble >&2\nexit {code}\n")
    (programs / "kubectl").chmod(0o755)
    return {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}


@pytest.fixture
async def tenant(controller: Controller, name: str) -> str:
    await controller.tenant(name)
    await controller.plane(name)
    return name


async def test_files_are_read_in_every_pod_and_merged(cli: Cli, tenant: str, host_client: Client, tmp_path: Path) -> None:
    for ordinal in (0, 1):
        await plane_pod(host_client, tenant, ordinal, {"name": "audit", "image": "x"})
    await host_client.create(
        kinds.PODS,
        {
            "metadata": {"name": "syncer-1", "labels": labels.made_for(tenant)},
            "spec": {"containers": [{"name": "audit"} | {"image": "x"}]},
        },
        names.plane_namespace(tenant),
    )
    hostile = line(7, verb="\x1b[2Jget", user={"username": "eve\n2026 root"}, requestURI="/\x07" + "x" * 5000)
    path = kubectl(tmp_path, hostile + line(9) + b'{"large": 1, "leftOut": 2}\n')
    done = await cli("audit", tenant, *ALWAYS, "--user", "a b;c", **path)
    assert done.code == 0
    asked = (tmp_path / "asked").read_text().splitlines()
    assert asked[:6] == ["-n", names.plane_namespace(tenant), "exec", "--quiet", "plane-1", "-c"]
    assert "--user=a b;c" in asked
    assert "2 events are too large" in done.err
    assert "4 older events are not shown" in done.err
    done = await cli("audit", tenant, *ALWAYS, **path)
    rows = done.out.splitlines()
    assert [row.split()[0] for row in rows[1:]] == ["2026-01-01T00:00:07"] * 2 + ["2026-01-01T00:00:09"] * 2
    assert all(character.isprintable() or character == "\n" for character in done.out)
    assert max(map(len, rows)) < 1000
    done = await cli("audit", tenant, *ALWAYS, "-o", "json", "--limit", "1", **path)
    assert [json.loads(each)["auditID"] for each in done.out.splitlines()] == ["9"]


@pytest.mark.parametrize("said", [(b"", 0), (line(1), 1)])
async def test_a_reader_that_fails_is_named(
    cli: Cli, tenant: str, host_client: Client, tmp_path: Path, said: tuple[bytes, int]
) -> None:
    await plane_pod(host_client, tenant, 0, {"name": "audit", "image": "x"})
    done = await cli("audit", tenant, **kubectl(tmp_path, *said))
    assert (done.code, done.out) == (1, "")
    assert "pod plane-0: its trail cannot be read: trouble" in done.err


async def test_without_a_trail_the_next_step_is_told(cli: Cli, tenant: str, host_client: Client) -> None:
    nothing = await cli("audit", tenant)
    assert (nothing.code, "its plane does not run" in nothing.err) == (1, True)
    await plane_pod(host_client, tenant, 0, {"name": "kube-apiserver", "image": "x", "command": ["x"]})
    done = await cli("audit", tenant)
    assert (done.code, "set spec.audit of its TenantClass" in done.err) == (1, True)
    assert (await cli("audit", "nobody")).code == 3


async def test_a_trail_on_stdout_is_asked_of_the_log(cli: Cli, tenant: str, host_client: Client) -> None:
    """The pod has no node here, so its log is empty; what it answers is e2e/scenarios/core/test_audit.py's."""
    await plane_pod(host_client, tenant, 0, {"name": "kube-apiserver", "image": "x", "command": ["x", "--audit-log-path=-"]})
    done = await cli("audit", tenant)
    assert (done.code, len(done.out.splitlines()), done.err) == (0, 1, "")


@pytest.mark.parametrize("is_cut", [True, False])
async def test_a_log_with_older_lines_than_were_read_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], host_client: Client, is_cut: bool
) -> None:
    async def newest(*_: object, **bounds: Any) -> podlog.Tail:
        assert bounds["query"] == {"sinceSeconds": "3601"}
        return podlog.Tail(line(1), is_cut)

    monkeypatch.setattr(podlog, "newest", newest)
    request, choice = audit.AuditRequest(Host(), "red", 3600, "", "", 5, "table"), Choice()
    container = {"name": "kube-apiserver", "command": ["x", "--audit-log-path=-"]}
    pod = {"metadata": {"name": "plane-0", "namespace": "bh-red"}, "spec": {"containers": [container]}}
    trail = await audit._trail(host_client, request, pod, choice)
    audit.show(request, choice, [trail], [])
    shown = capsys.readouterr()
    assert ("older lines than were read" in shown.err) is is_cut
    assert len(shown.out.splitlines()) == 2


@pytest.mark.parametrize(
    "wrong",
    [("--since", "5x"), ("--since", "-1d"), ("--since", "nand"), ("--limit", "0"), ("--limit", "99999"), ("--user", "a\nb")],
)
async def test_wrong_options_are_refused(cli: Cli, wrong: tuple[str, str]) -> None:
    assert (await cli("audit", "x", *wrong)).code == 2
