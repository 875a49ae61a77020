"""What the line of a wait says of a Tenant, by its conditions."""

from typing import Any

import pytest

from workstation.cli.tenant.waiting import describe

GENERATION = 3
NOT_YET = "the controller has not reconciled it yet"


def condition(kind: str, status: str, reason: str, message: str = "", generation: int = GENERATION) -> dict[str, Any]:
    return {"type": kind, "status": status, "reason": reason, "message": message, "observedGeneration": generation}


SPREAD = condition("MembersSpread", "False", "SameNode", "give the host another node")
PLANE = condition("PlaneReady", "False", "WaitingForPlane", "the plane's pod has no address yet")
SYNCER = condition("SyncerReady", "False", "WaitingForPlane", "the plane does not serve")


@pytest.mark.parametrize(
    ("conditions", "shown"),
    [
        ([], "the controller has not reconciled it yet"),
        (
            [condition("Ready", "False", "WaitingForPlane", generation=GENERATION - 1), PLANE],
            "the controller has not reconciled",
        ),
        (
            [condition("Ready", "False", "WaitingForPlane", "x"), SPREAD, PLANE, SYNCER],
            "PlaneReady: WaitingForPlane: the plane's",
        ),
        ([condition("Ready", "False", "Terminating", "stopping the plane"), SPREAD], "Ready: Terminating: stopping the plane"),
        ([condition("Ready", "True", "Ready", "all is well"), SPREAD], "Ready: Ready: all is well"),
        ([condition("Ready", "False", "OutOfBounds")], "Ready: OutOfBounds: no message"),
    ],
)
def test_a_wait_tells_what_it_waits_for_and_no_advice(conditions: list[dict[str, Any]], shown: str) -> None:
    """A deletion told its admin to delete a member of the plane, because members on one node are not spread."""
    tenant = {"metadata": {"name": "red", "generation": GENERATION}, "status": {"conditions": conditions}}
    assert describe(tenant).startswith(shown)
