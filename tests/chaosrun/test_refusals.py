"""A target that accepts nothing of a fault, as with a policy of its own: the report says why. No server."""

from typing import Any, cast

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube.errors import Forbidden
from bulkhead.kube.objects import ObjList
from workstation.chaos.experiments import BY_NAME
from workstation.chaos.faults import floods, pending
from workstation.chaos.faults.scene import Scene
from workstation.chaos.faults.table import FAULTS


class Refusing:
    """A plane with a policy, and its host."""

    async def create(self, *_: object) -> Obj:
        raise Forbidden(403, "Forbidden", 'webhook "validate.kyverno.svc" denied the request: label "team" is required')

    async def list_metadata(self, *_: object, **__: object) -> ObjList:
        return ObjList([], "1")

    async def intend(self, *_: object) -> None:
        return


@pytest.mark.parametrize("name", ["gpu-never-fits", "objects-flood"])
async def test_what_a_target_refuses_is_reported_with_its_reason(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It read "the fault was not injected within 170 s", three minutes later, or "0 of 2000 objects"."""
    monkeypatch.setattr(pending, "_TRIES", 2)
    monkeypatch.setattr(pending, "_POLL_SECONDS", 0.01)
    monkeypatch.setattr(floods, "_SLOW_SECONDS", 0.0)
    plane = cast("Any", Refusing())
    scene = Scene(plane, plane, "chaos-0a1b2c", "red", False, "bulkhead-system", "", 0.3, BY_NAME[name], plane.intend)
    (proof,) = await FAULTS[name].inject(scene)
    assert (proof.shown, 'label "team" is required' in proof.text) == (False, True), proof
