"""The Slurm benchmark's figures and the words of scontrol, from text that real daemons printed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2e.performance import judgement, slurm_figures
from e2e.performance.slurm import LIMITS
from e2e.slurm import clusters, jobs

NODE = "NodeName=gpu-0 Arch=x86_64 CPUTot=2 Gres=gpu:h100:2 State=IDLE+DYNAMIC_NORM CfgTRES=cpu=2,mem=512M,gres/gpu=2"
JOB = "JobId=7 JobName=a State=no JobState=RUNNING Reason=None Restarts=2 NodeList=cpu-0 ExitCode=0:0"
RING = 'noise\n{"ranks": 2, "bytes": 4, "seconds": 0.5, "mb_per_s": 812.5}\n'


def test_rates_are_taken_from_the_first_submission() -> None:
    found = slurm_figures.batch("1000000000 3000000000 6000000000\n", 100)
    assert found == {"submit_per_s": 50.0, "complete_per_s": 20.0}


@pytest.mark.parametrize("text", ["", "1 2", "3 2 1", "1 1 2"])
def test_moments_that_make_no_sense_are_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"out of order|unpack"):
        slurm_figures.batch(text, 1)


@given(st.lists(st.integers(1, 10**12), min_size=1, max_size=50))
def test_the_median_was_measured(values: list[int]) -> None:
    found = slurm_figures.milliseconds("\n".join(map(str, values)))
    assert found["p50_ms"] in {round(value / 1e6, 1) for value in values}
    assert found["p50_ms"] <= found["p95_ms"]


def test_nothing_measured_is_an_error() -> None:
    with pytest.raises(ValueError, match="nothing was measured"):
        slurm_figures.milliseconds(" \n")
    with pytest.raises(ValueError, match="no result"):
        slurm_figures.ring("srun: error")


def test_ratios_say_better_by_more() -> None:
    plain = {"batch": {"submit_per_s": 50.0, "complete_per_s": 20.0}, "srun": {"p50_ms": 40.0}, "ring_mb_per_s": 1000.0}
    tenant = {"batch": {"submit_per_s": 45.0, "complete_per_s": 22.0}, "srun": {"p50_ms": 50.0}, "ring_mb_per_s": 800.0}
    assert slurm_figures.ratios(tenant, plain) == {"submit": 0.9, "complete": 1.1, "srun": 0.8, "ring": 0.8}


def test_the_ring_prints_its_bandwidth() -> None:
    assert slurm_figures.ring(RING) == 812.5


def test_the_reviewed_limits_are_for_what_is_measured() -> None:
    wanted = {f"ratio.{name}" for name in ("submit", "complete", "srun", "ring")} | {"ready_s", "idle_rss_mib", "reclaim_s"}
    assert set(judgement.load(LIMITS)) == wanted


def test_fields_of_scontrol() -> None:
    found = clusters.fields(NODE)
    assert (found["Gres"], found["CfgTRES"], found["State"]) == ("gpu:h100:2", "cpu=2,mem=512M,gres/gpu=2", "IDLE+DYNAMIC_NORM")


def test_a_state_is_read_from_its_own_field() -> None:
    assert jobs.state_of(JOB) == "RUNNING"
    assert jobs.state_of("JobName=x") == ""
