"""`bulkhead console` of a tenant's user shows the jobs of the tenant's own slurmctld, by slurmrestd and the plane's API."""

from typing import Any

import pytest

from e2e.consolepage import Page, console
from e2e.poll import until
from e2e.slurm import jobs, rest
from e2e.slurm.clusters import ALICE, BOB, Cluster
from e2e.workloads import expect

HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(autouse=True)
def _emptied(red: Cluster) -> None:
    jobs.cancel_all(red)


def shown(page: Page, number: int, part: str, *, judged: bool = False) -> dict[str, Any]:
    """Wait until the page has a job among those that run, or wait, and says why it waits if it is to be judged."""

    def probe() -> dict[str, Any]:
        told: dict[str, Any] = page.picture.get("jobs") or {"missing": "not asked yet"}
        expect(not told["missing"], f"no jobs on the page: {told['missing']}")
        rows: dict[str, dict[str, Any]] = {row["job"]: row for row in told[part]}
        expect(str(number) in rows, f"{part}: {sorted(rows)}")
        expect(not judged or rows[str(number)]["reason"] != "", "Slurm has not judged it yet")
        return rows[str(number)]

    # It asks slurmrestd every ten seconds, and slurmctld judges what waits every half minute.
    return until(f"job {number} among those that are {part}", probe, seconds=120)


def test_a_tenants_user_sees_which_jobs_run_and_why_the_others_wait(red: Cluster) -> None:
    runs = jobs.submit(red, "sleep 600", "--job-name", HOSTILE, "--partition=gpu", "--gres=gpu:2", "--time=20")
    jobs.wait(red, runs, "RUNNING")
    waits = jobs.submit(red, "sleep 600", "--job-name=next", "--partition=gpu", "--gres=gpu:2", "--time=20", user=BOB)
    held = jobs.submit(red, "sleep 600", "--job-name=later", "--hold")
    kubeconfig = red.tenant.kubeconfig
    with console(kubeconfig, "-f", str(kubeconfig)) as page:
        running = shown(page, runs, "running")
        assert (running["name"], running["user"], running["gpus"]) == (HOSTILE, ALICE, 2)
        assert running["ends"], "it has a time limit"
        waiting = shown(page, waits, "waiting", judged=True)
        assert (waiting["name"], waiting["user"], waiting["gpus"]) == ("next", BOB, 2)
        assert waiting["reason"] in {"Resources", "Priority"}, waiting
        assert shown(page, held, "waiting")["reason"] == "JobHeldUser"
        # A job that ends leaves the page, and the next one runs.
        red.run("scancel", str(runs))
        assert shown(page, waits, "running")["user"] == BOB
        told = page.picture["jobs"]
        assert str(runs) not in {row["job"] for part in ("running", "waiting") for row in told[part]}


def test_with_a_token_of_slurm_the_page_needs_no_key_of_the_cluster(red: Cluster) -> None:
    number = jobs.submit(red, "sleep 600", "--job-name=mine", "--hold")
    kubeconfig = red.tenant.kubeconfig
    with console(kubeconfig, "-f", str(kubeconfig), environment={"SLURM_JWT": rest.token(red, ALICE)}) as page:
        assert shown(page, number, "waiting")["user"] == ALICE
    with console(kubeconfig, "-f", str(kubeconfig), environment={"SLURM_JWT": "forged"}) as page:

        def refused() -> None:
            told = page.picture.get("jobs")
            expect(bool(told and told["missing"]), f"not asked yet: {told}")

        until("the page to say that the token is refused", refused, seconds=60)
        told = page.picture["jobs"]
        assert "scontrol token" in told["missing"]
        assert told["waiting"] == told["running"] == []
