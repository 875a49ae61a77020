"""`bulkhead preflight` on a real cluster: it finds it fit, and finds out when it is not."""

import contextlib
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bulkhead.hostcluster.component import POD_RANGE
from bulkhead.hostcluster.netpol.render import TABLE
from e2e import machine, workloads
from e2e.api import Api
from e2e.commands import Outcome, bulkhead, run
from e2e.poll import until

# Images of Slurm are imported only for its own tests.
VALUES = f"slurmVersions: []\npodNetworks: [{POD_RANGE}]\n"
PROBES = "bulkhead.dev/preflight=true"


@pytest.fixture
def values(tmp_path: Path) -> str:
    path = tmp_path / "values.yaml"
    path.write_text(VALUES)
    return str(path)


def preflight(host: Api, *arguments: str) -> tuple[int, dict[str, Any]]:
    """Its exit code, and its report by check; whatever came of it, its probes are gone."""
    done = bulkhead("preflight", "--json", *arguments, kubeconfig=machine.KUBECONFIG, check=False)
    report = json.loads(done.out)
    assert (report["left"], host.list("Namespace", labels=PROBES)) == ([], [])
    return done.code, {each["check"]: each for each in report["checks"]} | {"": report}


@contextlib.contextmanager
def unenforced() -> Iterator[None]:
    """A host whose policies nobody enforces: no rules in the kernel, and no program that would put them there."""
    program = "bulkhead.hostcluster.netpol.enforcer"
    found = [each for each in machine.processes_of_host() if program in each.program]
    assert found, f"{program} does not run"
    for each in found:
        each.send(signal.SIGSTOP)
    try:
        rules("delete", check=True)
        yield
    finally:
        for each in found:  # the supervisor starts it again, and it puts all rules back
            each.send(signal.SIGKILL)
        until("the rules to be back", lambda: workloads.expect(rules("list").code == 0, "none"), seconds=60)


def rules(verb: str, *, check: bool = False) -> Outcome:
    """What nft does to, or says of, all rules of policies."""
    return run(["nft", verb, "table", *TABLE.split()], check=check)


def test_this_host_is_fit(host: Api, values: str) -> None:
    code, found = preflight(host, "--values", values)
    bad = {name: each for name, each in found.items() if name and each["state"] == "failed"}
    assert (code, bad) == (0, {})
    for check in (
        "network.ingress",
        "network.egress",
        "network.hostapi",
        "storage.provisioning",
        "nodes.seccomp",
        "images.pull",
    ):
        assert found[check]["state"] == "ok", found[check]
    assert found[""]["seconds"] <= 60


def test_policies_that_nobody_enforces_are_found_out(host: Api, values: str) -> None:
    with unenforced():
        code, found = preflight(host, "--values", values)
    assert code == 1
    assert found["network.pods"]["state"] == "ok"
    for way in ("ingress", "egress"):
        assert f"({way}) is not enforced" in found[f"network.{way}"]["cause"]


def test_an_overlap_and_an_image_that_is_nowhere_are_named(host: Api, tmp_path: Path) -> None:
    path = tmp_path / "values.yaml"
    path.write_text(f"{VALUES}services: {{range: {POD_RANGE}}}\nimages: {{etcd: 'registry.invalid/etcd:none'}}\n")
    code, found = preflight(host, "--values", str(path), "--range", "10.0.0.0/8")
    overlap = found["ranges.overlap"]
    assert (code, overlap["state"]) == (1, "failed")
    assert {"reserved (10.0.0.0/8)", f"podNetworks ({POD_RANGE})"} <= set(overlap["details"])
    assert (found["images.pull"]["state"], "registry.invalid/etcd:none" in str(found["images.pull"]["details"])) == (
        "failed",
        True,
    )


def test_a_run_without_a_usable_image_leaves_nothing(host: Api, values: str) -> None:
    code, found = preflight(host, "--values", values, "--image", "registry.invalid/probe:none")
    assert (code, found["network.pods"]["state"], found["network.ingress"]["state"]) == (1, "failed", "skipped")
    until("no probe to be left", lambda: workloads.expect(not host.list("Namespace", labels=PROBES), "left"), seconds=30)
