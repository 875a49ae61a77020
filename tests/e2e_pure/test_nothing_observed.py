"""Nothing observed is a failure: what the scenarios, the demo and the conformance runs judge by says so when it saw nothing."""

from pathlib import Path
from typing import Any, cast

import pytest

from e2e import poll, tenants
from e2e.api import Api
from e2e.chaos.faults import Scene
from e2e.chaos.faults.syncers import KillSyncerBeforeStatus
from e2e.conformance import comparison, suite
from e2e.demo import table
from e2e.demo.context import PodPlace
from e2e.scenarios.upgrade import seen
from e2e.slurm import clusters
from e2e.slurm.clusters import Cluster

READY: dict[str, Any] = {"tenant": "team-a", "ready": True}
PLACE = PodPlace("team-a", "web", "Running", 0, "node-1", "web-abc")
NO_API = cast("Api", None)


def test_what_holds_was_looked_at_however_short_the_time() -> None:
    looks = 0

    def probe() -> None:
        nonlocal looks
        looks += 1

    poll.holds("it", probe, seconds=0, interval=0)
    assert looks == 2

    def fails() -> None:
        if looks:
            raise poll.NotYetError("it went")

    with pytest.raises(AssertionError, match="it did not hold for 0 s: it went"):
        poll.holds("it", fails, seconds=0, interval=0)


def test_a_syncer_whose_pods_are_all_lost_has_not_recovered() -> None:
    class Empty:
        def list(self, *_: object) -> list[object]:
            return []

    scene = Scene(NO_API, tenants.Tenant("red", cast("Api", Empty())), "new", print)
    with pytest.raises(poll.NotYetError, match="no pod is left"):
        KillSyncerBeforeStatus().recovered(scene)


def test_waiting_for_an_empty_list_is_an_error() -> None:
    with pytest.raises(ValueError, match="no tenant is named"):
        tenants.wait_ready(NO_API, [])
    with pytest.raises(ValueError, match="no node is named"):
        clusters.wait_nodes(Cluster(tenants.Tenant("red", NO_API)))


def test_an_upgrade_that_had_nothing_to_keep_kept_nothing() -> None:
    assert seen.replaced({}, {}) == ["nothing ran before that had to stay"]
    syncer = {"u-1": seen.Running("team-a", seen.SYNCER, "syncer-x", frozenset())}
    assert seen.replaced(syncer, syncer, but=(seen.SYNCER,)) == ["nothing ran before that had to stay"]


def test_a_conformance_run_without_results_complains() -> None:
    assert comparison.complaints(comparison.summary([], [], ())) == [
        f"0 specs passed on the host, {comparison.HOST_WANTED} are wanted",
        "0.0% of what passes on the host passes in the tenant, 98% are wanted",
    ]


@pytest.mark.parametrize(
    "written", ["[]", '[{"SpecReports": []}]', '[{"SpecReports": [{"LeafNodeType": "It", "State": "skipped"}]}]']
)
def test_a_suite_that_ran_no_spec_is_an_error(tmp_path: Path, written: str) -> None:
    ginkgo = tmp_path / "ginkgo"
    ginkgo.write_text(f"#!/bin/sh\ncat > {tmp_path}/report.ginkgo.json <<'END'\n{written}\nEND\n")
    ginkgo.chmod(0o755)
    programs = {"ginkgo": ginkgo, "e2e.test": tmp_path / "e2e.test"}
    with pytest.raises(suite.SuiteError, match="ran no spec: nothing matches 'focus'"):
        suite.run(programs, tmp_path / "config", focus="focus", skip="", report=tmp_path / "report.json", seconds=10)


@pytest.mark.parametrize(
    ("rows", "pods", "complaints"),
    [
        ([READY], [PLACE], []),
        ([READY], [PLACE, PodPlace("team-a", "too-much", "Pending", 1, "-", "-")], []),
        ([], [], ["no plane is there", "no pod runs"]),
        ([READY], [], ["no pod runs"]),
        ([READY | {"ready": False}], [PLACE], ["the plane of team-a is not ready"]),
        ([READY], [PLACE, PodPlace("team-a", "ghost", "Running", 0, "-", "-")], ["pod team-a/ghost runs and has no host pod"]),
    ],
    ids=["good", "one waits", "empty", "no pods", "not ready", "a pod on no host"],
)
def test_the_demos_tables_say_whether_it_worked(
    rows: list[dict[str, Any]], pods: list[PodPlace], complaints: list[str]
) -> None:
    assert table.complaints(rows, pods) == complaints
