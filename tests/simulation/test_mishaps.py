"""Each of the short stories, and a handful of storms."""

import os
from functools import partial

import pytest

from tests.simulation import mishaps, storms, virtualtime


@pytest.mark.parametrize("name", mishaps.STORIES)
def test_story(name: str) -> None:
    mishaps.play(name)


@pytest.mark.parametrize("seed", [1, 2, 3, 4, 5, 6])
def test_storm(seed: int) -> None:
    virtualtime.run(lambda: storms.rage(seed))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_storm_over_a_tenant_who_waits_for_the_ledger(seed: int) -> None:
    virtualtime.run(lambda: storms.rage(seed, gated=True))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_storm_over_a_tenant_who_binds_pods_itself(seed: int) -> None:
    virtualtime.run(lambda: storms.rage(seed, binds=True))


@pytest.mark.simulation
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("gated", [False, True])
def test_many_storms(gated: bool) -> None:
    """Seeds from SIMULATION_SEED on, SIMULATION_STORMS of them."""
    first, count = int(os.environ.get("SIMULATION_SEED", "1000")), int(os.environ.get("SIMULATION_STORMS", "150"))
    failed: list[str] = []
    for seed in range(first, first + count):
        try:
            virtualtime.run(partial(storms.rage, seed, gated=gated))
        except AssertionError as error:
            failed.append(f"storm {seed}: {error}")
    assert not failed, "\n".join(failed)


def test_a_storm_has_all_kinds_of_faults() -> None:
    happened = [virtualtime.run(partial(storms.rage, seed)).world for seed in (1, 2)]
    kinds = {kind for world in happened for faults in (world.host_faults, world.plane_faults) for kind in faults.happened}
    assert kinds >= {"call lost", "call throttled", "watch cut", "watch double"}
