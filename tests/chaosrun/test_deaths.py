"""A run that is killed with SIGKILL after any of its writes: `chaos stop`, or the next run, leaves nothing of it."""

import asyncio
import json
import re
import signal
import sys
from pathlib import Path

import pytest

from bulkhead.api import names
from bulkhead.kube import resources as kinds
from tests.chaosrun.bed import SYSTEM, TARGET, Bed, left
from tests.chaosrun.test_run import SHORT
from tests.kit.commandline import Cli, reads, start
from tests.kit.syncerbed import until
from workstation.chaos import objects

pytestmark = pytest.mark.outage

_OWN_NAMES = re.compile(r"(chaos|beat)-[0-9a-f]+(-\d+)?")


async def died(number: int, host_file: Path) -> list[str]:
    """Run until the n-th write: all writes without the run's own names; empty if it was not killed, unless n is 0."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "tests.chaosrun.dying", str(number), str(host_file)),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    _, err = await process.communicate()
    lines = [line.removeprefix("write ") for line in err.decode().splitlines() if line.startswith("write ")]
    killed = process.returncode == -signal.SIGKILL
    return [_OWN_NAMES.sub("X", line) for line in lines] if killed or number == 0 else []


async def test_killed_after_a_write_of_each_kind_a_run_is_undone_by_stop(chaos: Cli, bed: Bed, host_file: Path) -> None:
    writes = await died(0, host_file)
    assert await left(bed.host, bed.plane) == []
    # Renewals come at any time, so that a later run may do another write at this place: that is as good.
    first = [place for place, write in enumerate(writes, 1) if write not in writes[: place - 1]]
    assert len(first) >= 15, writes
    deaths = 0
    for number in first:
        what = (await died(number, host_file))[-1:]
        deaths += bool(what)
        done = await chaos("stop", "--now", "-o", "json")
        assert (done.code, json.loads(done.out)["left"]) == (0, []), (number, what, done.err)
        assert await left(bed.host, bed.plane) == [], (number, what)
    # A run with fewer writes, because it waited less, ends before the last ones.
    assert deaths >= len(first) - 3
    assert (await bed.host.get(kinds.TENANTS, TARGET))["metadata"].get("deletionTimestamp") is None


async def test_the_next_run_undoes_a_dead_one_once_its_lease_has_ended(chaos: Cli, bed: Bed, host_file: Path) -> None:
    words = ("run", "--experiment", "webhook-fails", "--target", TARGET, "--confirm", TARGET, *SHORT, "--yes")
    process = await start("chaos", *words, environment={"KUBECONFIG": str(host_file)})
    await reads(process, "webhook-fails: a webhook in the target")

    async def broken() -> bool:
        return any(text.startswith("Validating") for text in await left(bed.host, bed.plane))

    await until(broken, "the webhook to be there")
    process.send_signal(signal.SIGKILL)
    await process.wait()
    assert await broken()
    done = await chaos(*words)
    assert done.code == 0, (done.out, done.err)
    assert "which had not undone itself" in done.err
    assert await left(bed.host, bed.plane) == []


async def test_stop_waits_until_a_dead_run_is_known_to_be_dead(chaos: Cli, bed: Bed, host_file: Path) -> None:
    assert await died(4, host_file)
    done = await chaos("stop")
    assert (done.code, "waiting until it ends, or has been dead for 30 s" in done.err) == (0, True)
    assert await left(bed.host, bed.plane) == []


async def test_a_record_that_no_run_wrote_is_named_and_not_carried_out(chaos: Cli, bed: Bed) -> None:
    made = {
        "metadata": {"name": "bulkhead-chaos-aaaaaa", "labels": {objects.RUN: "chaos-aaaaaa"}},
        "data": {"record.json": "{"},
    }
    await bed.host.create(kinds.CONFIG_MAPS, made, SYSTEM)
    try:
        done = await chaos("stop", "-o", "json")
        assert done.code == 1
        (text,) = json.loads(done.out)["left"]
        assert "bulkhead-chaos-aaaaaa: the record is not JSON" in text
        refused = await chaos("run", "--experiment", "webhook-fails", "--yes", *SHORT)
        assert (refused.code, "an earlier run is not undone" in refused.err) == (2, True)
    finally:
        await bed.host.delete(kinds.CONFIG_MAPS, "bulkhead-chaos-aaaaaa", SYSTEM)


async def test_a_copy_of_a_runs_tenant_is_somebodys_and_stays(chaos: Cli, bed: Bed) -> None:
    """Labels go along when a Tenant is copied."""
    run = "chaos-bbbbbb"
    for name in (f"{run}-1", "copied"):
        tenant = {"apiVersion": names.API_VERSION, "kind": "Tenant", "metadata": {"name": name, "labels": {objects.RUN: run}}}
        await bed.host.create(kinds.TENANTS, tenant | {"spec": {"class": "standard"}})
    try:
        stopped = await chaos("stop")
        assert stopped.code == 0, stopped
        left = {item["metadata"]["name"] for item in (await bed.host.list(kinds.TENANTS, label_selector=objects.RUN)).items}
        assert left == {"copied"}
        again = await chaos("stop")
        assert (again.code, run in again.out) == (0, False)
    finally:
        await bed.host.delete(kinds.TENANTS, "copied")
