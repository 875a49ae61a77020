"""Which pods of a cluster are recreated because their image is not pulled."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from controller.slurm.decide.hanging import LONGEST_IMAGE_PULL, MOST_PODS_A_RECONCILE, Hanging, hanging

NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)
LONG_AGO = (NOW - LONGEST_IMAGE_PULL - timedelta(seconds=1)).isoformat()


def waiting(reason: str, **more: Any) -> dict[str, Any]:
    return {"name": "slurmd", "restartCount": 0, "state": {"waiting": {"reason": reason}}, **more}


def pod(*containers: dict[str, Any], since: object = LONG_AGO, scheduled: str = "True", **meta: Any) -> dict[str, Any]:
    conditions = [{"type": "PodScheduled", "status": scheduled, "lastTransitionTime": since}]
    status = {"phase": "Pending", "conditions": conditions, "containerStatuses": list(containers)}
    return {"metadata": {"name": "cpu-0", "uid": "1", **meta}, "status": status}


@pytest.mark.parametrize("reason", ["ErrImagePull", "ImagePullBackOff"])
def test_a_pod_that_never_got_its_image_is_recreated(reason: str) -> None:
    assert hanging([pod(waiting(reason))], NOW) == (Hanging("cpu-0", "1"),)
    assert hanging([pod(waiting(reason), waiting("ContainerCreating"))], NOW) == (Hanging("cpu-0", "1"),)


@pytest.mark.parametrize(
    "left_alone",
    [
        pod(waiting("ErrImagePull"), since=(NOW - LONGEST_IMAGE_PULL).isoformat()),
        pod(waiting("ErrImagePull"), scheduled="False"),
        pod(waiting("ErrImagePull"), since=None),
        pod(waiting("ErrImagePull"), since="yesterday"),
        pod(waiting("ErrImagePull"), since="2026-11-24T10:00:00"),
        pod(waiting("ErrImagePull"), deletionTimestamp=LONG_AGO),
        pod(waiting("ErrImagePull", restartCount=1)),
        pod(waiting("ErrImagePull"), {"name": "other", "restartCount": 0, "state": {"running": {}}}),
        pod(waiting("CrashLoopBackOff")),
        pod(waiting("CreateContainerConfigError")),
        pod(),
        {"metadata": {"name": "cpu-0", "uid": "1"}},
    ],
)
def test_others_are_left_alone(left_alone: dict[str, Any]) -> None:
    assert hanging([left_alone], NOW) == ()


def test_not_all_at_once() -> None:
    assert len(hanging([pod(waiting("ErrImagePull"))] * 100, NOW)) == MOST_PODS_A_RECONCILE
