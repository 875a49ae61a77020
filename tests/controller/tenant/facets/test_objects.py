"""The report on syncer and DNS has why a syncer waits that cannot know its whole plane."""

import pytest

from bulkhead.api.conditions import ConditionType
from bulkhead.api.objects import Obj
from controller.tenant.facets.objects.report import followers

WHY = "the plane's objects of kind Pod take more than 128 MiB"


def deployment(*, available: bool) -> Obj:
    return {
        "metadata": {"generation": 1},
        "status": {"observedGeneration": 1, "updatedReplicas": 1, "availableReplicas": available},
    }


@pytest.mark.parametrize(
    ("syncer", "dns", "why", "verdict"),
    [
        (True, True, "", ("True", "the syncer and the tenant's DNS are ready")),
        (True, True, WHY, ("True", f"the syncer and the tenant's DNS are ready, but {WHY}")),
        (False, True, WHY, ("False", f"not ready: syncer; {WHY}")),
        (False, False, "", ("False", "not ready: syncer, dns")),
        (True, False, WHY, ("False", "not ready: dns")),
    ],
)
def test_why_a_syncer_waits_is_in_the_message(syncer: bool, dns: bool, why: str, verdict: tuple[str, str]) -> None:
    deployments = {"syncer": deployment(available=syncer), "dns": deployment(available=dns)}
    report = followers(deployments, (), was=False, incomplete=why)
    found = report.conditions[ConditionType.SYNCER_READY]
    assert found is not None
    assert (found.status, found.message) == verdict
