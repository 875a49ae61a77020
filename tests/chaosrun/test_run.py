"""The whole command between real API servers: what it touches, what it refuses, and that it undoes everything."""

import asyncio
import json
import signal
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from bulkhead.kube import resources as kinds
from tests.chaosrun.bed import SYSTEM, TARGET, Bed, left
from tests.kit.commandline import Cli, finish, reads, start
from workstation.chaos import objects

pytestmark = pytest.mark.chaosrun
SHORT = (
    "--tenants",
    "2",
    "--baseline",
    "5s",
    "--duration",
    "5s",
    "--p99-factor",
    "100",
    "--p99-allowance",
    "60000",
    "--request-timeout",
    "60s",
)


async def test_without_yes_nothing_is_changed(chaos: Cli, bed: Bed) -> None:
    before = [(await bed.host.list(r)).resource_version for r in (kinds.TENANTS, kinds.LEASES)]
    done = await chaos("run", "--experiment", "webhook-fails", "--target", TARGET)
    assert done.code == 0
    for text in (f"breaks tenant {TARGET}, WHICH IT DOES NOT CREATE", "creates a ValidatingWebhookConfiguration", "claim: "):
        assert text in done.out
    assert "nothing was changed" in done.err
    assert await left(bed.host, bed.plane) == []
    assert len(before) == 2
    assert [item["metadata"]["name"] for item in (await bed.host.list(kinds.TENANTS)).items].count(TARGET) == 1


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("--target", TARGET), 2, f"refused: tenant {TARGET} was not created by this run"),
        (("--target", TARGET, "--confirm", "blue"), 2, "--confirm blue names another tenant"),
        (("--target", "absent", "--confirm", "absent"), 3, "refused: tenant absent: not found"),
        (("--class", "gold"), 3, "there is no TenantClass gold"),
        (("--junit", "/nonexistent/x.xml"), 1, "--junit /nonexistent/x.xml: cannot be written"),
    ],
)
async def test_a_refusal_changes_nothing(chaos: Cli, bed: Bed, words: tuple[str, ...], code: int, says: str) -> None:
    done = await chaos("run", "--experiment", "webhook-fails", "--yes", *words)
    assert (done.code, says in done.err) == (code, True), done.err
    assert await left(bed.host, bed.plane) == []


async def test_experiments_hold_in_tenants_of_its_own(chaos: Cli, bed: Bed, tmp_path: Path) -> None:
    bed.first_is_broken = True
    path = tmp_path / "chaos.xml"
    names = ("webhook-fails", "syncer-deleted", "objects-flood", "definitions-flood", "events-flood", "watch-storm")
    words = [word for name in names for word in ("--experiment", name)]
    done = await chaos("run", *words, *SHORT, "--yes", "-o", "json", "--junit", str(path))
    found = json.loads(done.out)
    states = {result["experiment"]: (result["state"], result["violations"], result["proofs"]) for result in found["results"]}
    assert {name: state[0] for name, state in states.items()} == dict.fromkeys(names, "held"), states
    assert (done.code, found["held"], found["left"]) == (0, True, [])
    assert "webhook" in states["webhook-fails"][2][0]["text"]
    subjects = found["results"][0]["subjects"]
    assert [subject["name"] for subject in subjects] == [f"{found['plan']['run']}-2", "host"]
    assert all(subject["before"]["requests"] >= 20 and subject["during"]["errors"] == 0 for subject in subjects)
    assert ET.parse(path).getroot().get("tests") == str(len(names))  # noqa: S314 - our own
    assert await left(bed.host, bed.plane) == [] or await _only_planes(bed)


async def _only_planes(bed: Bed) -> bool:
    """The planes of deleted tenants are gone with all that was in them; here the server stays, with the run's namespace."""
    return all(text.startswith(("Namespace bulkhead-chaos-", "CustomRes")) for text in await left(bed.host, bed.plane))


async def test_a_target_with_users_is_freed_of_everything(chaos: Cli, bed: Bed) -> None:
    words = ("--experiment", "webhook-fails", "--experiment", "definitions-flood", "--target", TARGET, "--confirm", TARGET)
    done = await chaos("run", *words, *SHORT, "--yes")
    assert done.code == 0, (done.out, done.err)
    assert "2 held" in done.out
    assert await left(bed.host, bed.plane) == []
    assert (await bed.host.get(kinds.TENANTS, TARGET))["metadata"].get("deletionTimestamp") is None


async def test_a_neighbour_that_shares_what_is_broken_is_a_violation(chaos: Cli, bed: Bed) -> None:
    """The control: the measurement finds a tenant that notices."""
    bed.first_is_broken = True
    words = ("--experiment", "webhook-fails", "--target", TARGET, "--confirm", TARGET)
    done = await chaos("run", *words, *SHORT, "--yes", "-o", "json")
    (result,) = json.loads(done.out)["results"]
    assert (done.code, result["state"]) == (1, "violated")
    assert any("-1: " in text and "requests failed" in text and "webhook" in text for text in result["violations"])
    assert not any(text.startswith(("host: ", "chaos-")) and "-2: " in text for text in result["violations"])
    assert await left(bed.host, bed.plane) == []


async def test_a_fault_that_is_not_shown_has_not_held(chaos: Cli, bed: Bed) -> None:
    done = await chaos("run", "--experiment", "controller-deleted", *SHORT, "--yes")
    assert (done.code, "UNPROVEN" in done.out, "there is no pod to delete" in done.out) == (1, True, True), done.out
    assert await left(bed.host, bed.plane) == []


async def test_a_target_that_stays_broken_violates_the_claim(chaos: Cli, bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    from workstation.chaos import experiment
    from workstation.chaos.experiments import BY_NAME
    from workstation.chaos.faults.scene import works

    bed.mirrors = False
    scene = experiment.Scene(
        bed.host,
        bed.plane,
        "chaos-000000",
        TARGET,
        False,
        SYSTEM,
        "",
        1.0,
        BY_NAME["webhook-fails"],
        lambda *_: asyncio.sleep(0),
    )
    monkeypatch.setattr("workstation.chaos.faults.scene._WORKS_SECONDS", 1.0)
    await bed.plane.create(kinds.NAMESPACES, objects.namespace("chaos-000000"))
    assert "did not reach the host within 1 s" in await works(scene)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_an_interrupted_run_undoes_itself(bed: Bed, host_file: Path, number: int) -> None:
    words = ("run", "--experiment", "webhook-fails", "--target", TARGET, "--confirm", TARGET, *SHORT, "--yes", "-o", "json")
    process = await start("chaos", *words, environment={"KUBECONFIG": str(host_file)})
    await reads(process, "webhook-fails: a webhook in the target")
    await asyncio.sleep(1)
    process.send_signal(number)
    done = await finish(process)
    assert done.code == 130, done.err
    assert "undoing it" in done.err
    assert json.loads(done.out)["results"][0]["state"] == "skipped"
    assert await left(bed.host, bed.plane) == []


async def test_stop_ends_a_run_that_is_going_on(chaos: Cli, bed: Bed, host_file: Path) -> None:
    words = ("run", "--experiment", "webhook-fails", "--target", TARGET, "--confirm", TARGET, *SHORT, "--yes")
    process = await start("chaos", *words, environment={"KUBECONFIG": str(host_file)})
    await reads(process, "webhook-fails: a webhook in the target")
    stopped = await chaos("stop")
    assert (stopped.code, "ended and undone" in stopped.out) == (0, True), stopped.err
    done = await finish(process)
    assert done.code == 1
    assert "`bulkhead chaos stop` asked for it" in done.out
    assert await left(bed.host, bed.plane) == []
    again = await chaos("stop", "-o", "json")
    assert (again.code, json.loads(again.out)) == (0, {"runs": [], "left": []})
