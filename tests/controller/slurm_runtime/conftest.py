"""A slurmrestd that is served, and the bed around one."""

from collections.abc import AsyncIterator

import pytest

from bulkhead.kube.transport import Transport
from tests.controller.slurm_runtime.bed import Bed
from tests.controller.slurm_runtime.plane import FakePlane
from tests.controller.slurm_runtime.slurmrestd import FakeSlurmrestd, served


@pytest.fixture
async def slurmrestd() -> AsyncIterator[tuple[FakeSlurmrestd, Transport]]:
    async with served(FakeSlurmrestd()) as found:
        yield found


@pytest.fixture
async def bed(slurmrestd: tuple[FakeSlurmrestd, Transport]) -> Bed:
    fake, transport = slurmrestd
    return Bed(FakePlane(transport), fake)
