"""What pods make of their devices, on a real API server: stored beside what they held; a source that fails measures nothing."""

import pytest

from bulkhead.kube import resources as kinds
from bulkhead.kube.errors import Timeout
from bulkhead.metering.load import Load, LoadMeter
from bulkhead.metering.meter import UsageKey
from controller.metering import metrics
from controller.metering.utilisation import Utilisation
from controller.settings import Settings
from tests.controller.metering.bed import GPU, MeteredHost
from tests.kit.background import background

pytestmark = pytest.mark.apiserver


async def test_the_measured_load_of_pods_is_stored_with_what_they_held(host: MeteredHost) -> None:
    await host.run("a", gpus=2)
    uid = (await host.client.get(kinds.PODS, "a", host.work))["metadata"]["uid"]
    load = LoadMeter()
    usage = host.usage(load=load.count)
    async with background(usage.run()):
        await host.seen(usage, 1)
        load.see({uid: Load(2, 0.5), "of no tenant": Load(8, 8.0)}, round(host.moment() * 1000))
        await host.pass_time(60)
        load.see({}, round(host.moment() * 1000))
        await host.pass_time(60)
        sums = await host.sums()
    assert (sums["Pod/a"].measured, sums["Pod/a"].busy) == (120, 30)
    assert set(sums) == {"Pod/a"}
    series = (host.tenant, GPU, "")
    assert metrics.measured_seconds.labels(*series)._value.get() == 120
    assert metrics.busy_seconds.labels(*series)._value.get() == 30


async def test_a_source_that_does_not_answer_or_answers_nonsense_measures_nothing(host: MeteredHost) -> None:
    good = b'{"pods": {"a": [2, 1.0]}}'
    answers: list[bytes | Exception] = [good, b"not json", b'{"pods": {"a": ["x", 1]}}', Timeout("away"), good]

    class Source:
        async def get_raw(self, _: str) -> bytes:
            answer = answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

    utilisation = Utilisation(Settings(gpu_metrics=1), host.clock)
    account = UsageKey(host.tenant, "ml", "Pod/a", GPU, "")
    for _ in range(4):
        await utilisation.look(Source())  # type: ignore[arg-type]
        host.clock.advance(60)
        assert not utilisation.count(lambda _: account)
    # What was between the two good answers, more than two minutes apart, is not known.
    await utilisation.look(Source())  # type: ignore[arg-type]
    assert not utilisation.count(lambda _: account)
