"""The co-tenancy benchmark's figures: the worst neighbour counts, errors are never lost, and the picture is an SVG."""

import xml.etree.ElementTree as ET
from pathlib import Path

from e2e.machine import CoreSeconds
from e2e.performance import judgement
from e2e.performance.cotenancy import LIMITS, control_plane, left_out
from e2e.performance.cotenancy_bench import Plan, Steady
from e2e.performance.cotenancy_figures import HOST, Phase, Reading, summarise
from e2e.performance.cotenancy_plot import plot
from e2e.performance.cotenancy_storm import STORMS

QUIET = Phase(tuple(float(value) for value in range(1, 101)), 0, (100.0,), reads_ms=(10.0, 20.0))


def reading(way: str, worst: float, errors: int = 0, restarts: int = 0) -> Reading:
    during = {"b": QUIET, "c": Phase((worst,) * 100, errors, (200.0,), errors, (200.0,)), HOST: QUIET}
    return Reading(way, "objects", {"b": QUIET, "c": QUIET, HOST: QUIET}, during, restarts, "5 done", 0.254, 0.956)


BOTH = [reading("planes", 198.0, errors=2, restarts=1), reading("namespaces", 990.0)]


def test_the_worst_neighbour_counts_against_its_own_baseline() -> None:
    found = summarise(BOTH)
    planes = found["planes"]["objects"]
    assert (planes["worst"], planes["p99_before_ms"], planes["p99_during_ms"]) == ("c", 99.0, 198.0)
    assert planes["p99_over_aim_ms"] == round(198 - (99 * 1.25 + 50), 1)
    assert (planes["running_p50_during_ms"], planes["host_p99_during_ms"]) == (100.0, 99.0)
    assert [planes[f"reads_{name}_ms"] for name in ("p99_before", "p99_during", "over_aim")] == [20.0, 200.0, 125.0]
    assert [planes[f"together_{name}_ms"] for name in ("p50_before", "p50_during", "p99_before", "p99_during", "over_aim")] == [
        50.0, 100.0, 99.0, 198.0, 24.2,
    ]  # fmt: skip
    assert (planes["busy_before"], planes["busy_during"]) == (0.25, 0.96)
    assert found["planes"]["all"] == {"errors": 4, "restarts": 1}
    assert found["times"]["objects"] == {"grown": 0.2, "p50_grown": 1.0}


def test_within_the_aim_nothing_is_over_it() -> None:
    assert summarise([reading("planes", 99.0)])["planes"]["objects"]["p99_over_aim_ms"] == 0


def test_a_way_that_was_not_measured_gives_no_ratio() -> None:
    assert "times" not in summarise(BOTH[:1])


def test_the_picture_is_an_svg_with_a_row_for_each_storm() -> None:
    root = ET.fromstring(plot(BOTH, 3))  # noqa: S314 - our own
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "objects" in texts
    assert "What 2 tenants notice while another one storms" in texts
    assert "198 4 errors" in texts
    assert plot([], 2).startswith("<svg")


def test_every_limit_names_a_figure_of_a_run_and_what_is_left_out_is_not_missed() -> None:
    limits = judgement.load(LIMITS)
    assert {name.split(".")[1] for name in limits} - {"all"} <= set(STORMS)
    few = Plan(3, 1.0, 1.0, ("objects",), ("planes",), Steady(10.0, 2.0), 0.6)
    assert set(limits) - set(left_out(few, limits)) == {
        "planes.objects.p99_over_aim_ms",
        "planes.all.errors",
        "planes.all.restarts",
    }
    assert Path(LIMITS).is_file()


def test_the_share_of_cpu_that_was_busy() -> None:
    begun = CoreSeconds(100, 60, 40)
    assert CoreSeconds(300, 70, 80).busy_since(begun) == 0.75, "ten were idle, and forty went to processes that give way"
    assert begun.busy_since(begun) == 1
    now = CoreSeconds.now()
    assert 0 < now.idle + now.niced <= now.total


def test_a_plane_may_use_no_more_than_its_share() -> None:
    assert control_plane(0.5, 2) == {
        "resources": {
            "apiServer": {"limits": {"cpu": "500m"}},
            "etcd": {"limits": {"cpu": "250m"}},
            "syncer": {"limits": {"cpu": "250m"}},
        }
    }
