"""How many pods stay: as the spec says it, and of what stands in the status no more than there are."""

from typing import Any

import pytest

from syncer.translate.kinds import disruptionbudget
from syncer.translate.view import Obj
from tests.kit import translationsamples as samples


def budget(desired: Any = 6, **spec: Any) -> Obj:
    meta = {"name": "web", "namespace": "team", "uid": "u"}
    status = {"observedGeneration": 1, "desiredHealthy": desired, "expectedPods": 8}
    return {"metadata": meta, "spec": {"selector": {"matchLabels": {"app": "web"}}} | spec, "status": status}


def stays(virtual: Obj, pods: int) -> int:
    found = disruptionbudget.to_host(virtual, samples.VIEW, lambda _selector: pods)["spec"]
    assert "maxUnavailable" not in found
    number: int = found["minAvailable"]
    return number


@pytest.mark.parametrize("said", [0, 1, 5])
def test_a_number_in_the_spec_is_the_number(said: int) -> None:
    assert stays(budget(100_000, minAvailable=said), 2) == said
    plain = budget(minAvailable=said)
    del plain["status"]
    assert disruptionbudget.is_mirrored(plain)


def test_a_number_in_the_spec_has_bounds() -> None:
    assert stays(budget(minAvailable=2**31 - 1), 2) == 100_000
    assert stays(budget(minAvailable=-1), 2) == 0


@pytest.mark.parametrize("spec", [{"maxUnavailable": "25%"}, {"maxUnavailable": 2}, {"minAvailable": "75%"}])
def test_a_status_that_a_tenant_wrote_keeps_no_more_pods_than_there_are(spec: Obj) -> None:
    assert stays(budget(6, **spec), 8) == 6
    assert stays(budget(100_000, **spec), 8) == 8
    assert stays(budget(-5, **spec), 8) == 0
    assert stays(budget(6, **spec), 0) == 0
    assert stays(budget(6, selector=None, **spec), 8) == 0


@pytest.mark.parametrize("status", [None, {}, {"observedGeneration": 1, "desiredHealthy": "6"}, {"desiredHealthy": 3}])
def test_a_share_waits_until_the_plane_has_counted(status: Any) -> None:
    assert not disruptionbudget.is_mirrored(budget(maxUnavailable="25%") | {"status": status})
