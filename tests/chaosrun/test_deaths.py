"""A run that is killed with SIGKILL after any of its writes: `chaos stop`, or the next run, leaves nothing of it."""

import asyncio
import json
import signal
import sys
from pathlib import Path

from bulkhead.kube import resources as kinds
from tests.chaosrun.bed import SYSTEM, TARGET, Bed, left
from tests.chaosrun.test_run import SHORT
from tests.kit.commandline import Cli, reads, start
from workstation.chaos import objects

MOST_WRITES = 60
# The writes of a flood are all the same: of the many, these are tried.
FIRST_WRITES = 22
EVERY_THEN = 9


async def died(number: int, host_file: Path) -> str:
    """Run until the n-th write: what it was; empty if the run ended before."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.chaosrun.dying", str(number), str(host_file), stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, _ = await process.communicate()
    return out.decode().strip() if process.returncode == -signal.SIGKILL else ""


async def test_killed_after_each_write_a_run_is_undone_by_stop(chaos: Cli, bed: Bed, host_file: Path) -> None:
    kinds_of_writes = set()
    for number in [*range(1, FIRST_WRITES + 1), *range(FIRST_WRITES + 1, 2000, EVERY_THEN)]:
        what = await died(number, host_file)
        if not what or number > FIRST_WRITES + MOST_WRITES:
            break
        kinds_of_writes.add(what.rpartition("/")[0])
        done = await chaos("stop", "--now", "-o", "json")
        assert (done.code, json.loads(done.out)["left"]) == (0, []), (number, what, done.err)
        assert await left(bed.host, bed.plane) == [], (number, what)
    assert number > FIRST_WRITES
    assert len(kinds_of_writes) >= 6, kinds_of_writes
    assert (await bed.host.get(kinds.TENANTS, TARGET))["metadata"].get("deletionTimestamp") is None


async def test_the_next_run_undoes_a_dead_one_once_its_lease_has_ended(chaos: Cli, bed: Bed, host_file: Path) -> None:
    words = ("run", "--experiment", "webhook-fails", "--target", TARGET, "--confirm", TARGET, *SHORT, "--yes")
    process = await start("chaos", *words, environment={"KUBECONFIG": str(host_file)})
    await reads(process, "webhook-fails: a webhook in the target")
    process.send_signal(signal.SIGKILL)
    await process.wait()
    assert [text for text in await left(bed.host, bed.plane) if text.startswith("Validating")]
    done = await chaos(*words)
    assert done.code == 0, (done.out, done.err)
    assert "which had not undone itself" in done.err
    assert await left(bed.host, bed.plane) == []


async def test_stop_waits_until_a_dead_run_is_known_to_be_dead(chaos: Cli, bed: Bed, host_file: Path) -> None:
    assert await died(4, host_file)
    done = await chaos("stop")
    assert (done.code, "waiting until it ends, or has been dead for 15 s" in done.err) == (0, True)
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
