"""`bulkhead preflight` on a real cluster: it accepts a suitable one, and reports what is wrong with another."""

import contextlib
import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e import machine, workloads
from e2e.api import Api
from e2e.commands import Outcome, bulkhead, run
from e2e.poll import until
from workstation.hostcluster.component import POD_RANGE
from workstation.hostcluster.netpol.render import TABLE

# Images of Slurm are imported only for the Slurm suite.
VALUES = f"slurmVersions: []\npodNetworks: [{POD_RANGE}]\n"
PROBES = "bulkhead.dev/preflight=true"


@pytest.fixture
def values(tmp_path: Path) -> str:
    path = tmp_path / "values.yaml"
    path.write_text(VALUES)
    return str(path)


def preflight(host: Api, *arguments: str) -> tuple[int, dict[str, Any]]:
    """Its exit code, and its report by check; in any case its probes must be gone."""
    done = bulkhead("preflight", "-o", "json", *arguments, kubeconfig=machine.KUBECONFIG, check=False)
    report = json.loads(done.out)
    until("no probe to be left", lambda: workloads.expect(not host.list("Namespace", labels=PROBES), "left"), seconds=60)
    return done.code, {check["check"]: check for check in report["checks"]} | {"": report}


def finds(host: Api, what: str, judged: Callable[[int, dict[str, Any]], bool], *arguments: str) -> None:
    """Wait until preflight reports this; on a busy machine its minute may end before, which it then reports."""

    def probe() -> None:
        code, found = preflight(host, *arguments)
        said = {name: (each["state"], each.get("cause")) for name, each in found.items() if name}
        workloads.expect(judged(code, found), f"{code}, after {found['']['seconds']} s, left {found['']['left']}: {said}")

    until(what, probe, seconds=180)


@contextlib.contextmanager
def unenforced() -> Iterator[None]:
    """A host without enforcement of policies: no rules in the kernel, and no program that would add them."""
    # The rules are missing for 30 s, in which the supervisor would restart the enforcer.
    supervisor, enforcer = running("workstation.hostcluster.supervisor"), running("workstation.hostcluster.netpol.enforcer")
    for item in (supervisor, enforcer):
        item.send(signal.SIGSTOP)
    try:
        until("no change of the rules to be under way", _ended, seconds=20)
        rules("delete", check=True)
        yield
        assert rules("list").code != 0, "another process restored the rules"
    finally:
        enforcer.send(signal.SIGKILL)  # the supervisor restarts it, and it restores all rules
        supervisor.send(signal.SIGCONT)
        until("the rules to be back", lambda: workloads.expect(rules("list").code == 0, "none"), seconds=60)


def running(program: str) -> machine.Process:
    """The only process of the host that runs this program."""
    (found,) = [item for item in machine.processes_of_host() if program in item.program]
    return found


def _ended() -> None:
    """What a stopped program had begun would restore rules."""
    left = [item for item in machine.processes_of_host() if item.program == "nft"]
    for item in left:
        item.send(signal.SIGKILL)
    workloads.expect(not left, f"{len(left)} of nft")


def rules(verb: str, *, check: bool = False) -> Outcome:
    """Run nft for all rules of policies: list or delete them."""
    return run(["nft", verb, "table", *TABLE.split()], check=check)


def test_this_host_is_fit(host: Api, values: str) -> None:
    checks = ("network.ingress", "network.egress", "network.hostapi", "storage.provisioning", "nodes.seccomp", "images.pull")

    def fit(code: int, found: dict[str, Any]) -> bool:
        bad = [name for name, each in found.items() if name and each["state"] == "failed"]
        well = all(found[check]["state"] == "ok" for check in checks)
        return (code, bad, found[""]["left"]) == (0, [], []) and well and found[""]["seconds"] <= 60

    finds(host, "the host to be fit", fit, "--values", values)


def test_policies_that_are_not_enforced_are_found_out(host: Api, values: str) -> None:
    def found_out(code: int, found: dict[str, Any]) -> bool:
        causes = {way: str(found[f"network.{way}"].get("cause")) for way in ("ingress", "egress")}
        open_ways = all(f"({way}) is not enforced" in cause for way, cause in causes.items())
        return (code, found["network.pods"]["state"]) == (1, "ok") and open_ways

    with unenforced():
        finds(host, "both ways not to be enforced", found_out, "--values", values)


def test_an_overlap_and_an_image_that_is_nowhere_are_named(host: Api, tmp_path: Path) -> None:
    path = tmp_path / "values.yaml"
    path.write_text(f"{VALUES}services: {{range: {POD_RANGE}}}\nimages: {{etcd: 'registry.invalid/etcd:none'}}\n")

    def named(code: int, found: dict[str, Any]) -> bool:
        overlap, pull = found["ranges.overlap"], found["images.pull"]
        overlaps = {"reserved (10.0.0.0/8)", f"podNetworks ({POD_RANGE})"} <= set(overlap.get("details") or ())
        missing = "registry.invalid/etcd:none" in str(pull.get("details"))
        return (code, overlap["state"], overlaps, pull["state"], missing) == (1, "failed", True, "failed", True)

    finds(host, "overlap and image to be named", named, "--values", str(path), "--range", "10.0.0.0/8")


def test_a_run_without_a_usable_image_leaves_nothing(host: Api, values: str) -> None:
    def without(code: int, found: dict[str, Any]) -> bool:
        return (code, found["network.pods"]["state"], found["network.ingress"]["state"]) == (1, "failed", "skipped")

    finds(host, "no probe to run", without, "--values", values, "--image", "registry.invalid/probe:none")
