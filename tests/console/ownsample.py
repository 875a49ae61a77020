"""A plane as its user sees it, constructed without a server: two teams' work, a Slurm cluster, GPUs at work and idle."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from bulkhead.api import ownquota, ownusage
from bulkhead.api.ledger import Place, moment
from bulkhead.api.ownquota import Limit, OwnLine, OwnQuota
from bulkhead.api.ownusage import DayUse, OwnUsage
from tests.console.sample import GPU, NOW
from tests.controller.slurm_runtime.slurmrestd import job, number
from workstation.cli.console import own
from workstation.cli.console.own import OwnPod
from workstation.cli.quotas import ownjobs
from workstation.cli.quotas.owngpus import PodUse, Uses
from workstation.cli.quotas.ownjobs import Jobs

_GIB = 1024.0


def _pod(name: str, node: str = "", devices: int = 8, minutes: int = 90, **told: str) -> OwnPod:
    namespace, _, short = name.partition("/")
    return OwnPod(
        namespace=namespace, name=short, uid=f"uid-{short}", phase="Running" if node else "Pending", node=node,
        created=moment(NOW - 60 * minutes), reason=told.get("reason", ""), text=told.get("text", ""), asks={GPU: devices},
    )  # fmt: skip


def _job(number_of: int, name: str, user: str, state: str = "PENDING", gpus: int = 8, **more: Any) -> dict[str, Any]:
    at = round(NOW)
    asks = {"tres_req_str": f"cpu=32,gres/gpu={gpus}", "submit_time": number(at - 5400), "start_time": number(None)}
    return job(number_of, state, name=name, user_name=user, **(asks | more))


def _hours() -> OwnUsage:
    today = datetime.fromtimestamp(NOW, UTC).date()
    rows = [
        DayUse(
            (today - timedelta(days=ago)).isoformat(),
            GPU,
            "h100",
            used=used * 3600,
            idle=idle * 3600,
            measured=used * 3600,
            busy=used * 2200,
        )
        for ago, (used, idle) in enumerate(
            ((180, 22), (402, 40), (391, 12), (120, 60), (96, 48), (377, 5), (365, 30), (388, 8), (352, 20))
        )
    ]
    return OwnUsage(NOW - 130, tuple(rows))


def own_work() -> dict[str, Any]:
    """The picture of the user's page."""
    quota = OwnQuota(
        lines=(OwnLine(GPU, "h100", nominal=24, ceiling=40, used=28, borrowed=4, lent=0, borrowable=4),),
        limits=(Limit("pods", "500", "31"), Limit("requests.memory", "4Ti", "2816Gi")),
        queue={"uid-eval-nightly": Place(3, NOW + 2700), "uid-gpu-1": Place(5, NOW + 5400)},
    )  # fmt: skip
    waits = "requests 8 nvidia.com/gpu; your tenant uses 28 of 24, and 4 can be borrowed now"
    pods = [
        _pod("ml/eval-nightly", minutes=42, reason="CohortExhausted", text=waits),
        _pod("slurm/gpu-1", minutes=20, reason="CohortExhausted", text=waits),
        _pod("ml/llm-pretrain-0", "gpu-a-07", minutes=3000),
        _pod("ml/llm-pretrain-1", "gpu-a-08", minutes=3000),
        _pod("notebooks/ana", "gpu-b-02", 4, minutes=700),
        _pod("slurm/gpu-0", "gpu-b-03", minutes=500),
    ]
    uses = {
        ("ml", "llm-pretrain-0"): PodUse(8, 93.0, 0, 590 * _GIB, 640 * _GIB, 5200.0, 71.0),
        ("ml", "llm-pretrain-1"): PodUse(8, 91.0, 0, 588 * _GIB, 640 * _GIB, 5100.0, 73.0),
        ("notebooks", "ana"): PodUse(4, 0.5, 4, 2 * _GIB, 320 * _GIB, 310.0, 38.0),
        ("slurm", "gpu-0"): PodUse(8, 64.0, 0, 410 * _GIB, 640 * _GIB, 3900.0, 66.0, xids=(63,)),
    }
    at = round(NOW)
    note = f"bulkhead: waits for a worker of gpu: CohortExhausted: {waits}"
    jobs = [
        _job(812, "protein-fold", "ana", admin_comment=note, priority=number(90)),
        _job(815, "ablation", "ben", gpus=2, priority=number(40), start_time=number(at + 4000), state_reason="Priority"),
        _job(
            801, "sweep", "ben", "RUNNING", array_job_id=number(801), array_task_id=number(7), nodes="gpu-0",
            start_time=number(at - 5000), end_time=number(at + 9000), tres_alloc_str="cpu=32,gres/gpu=8",
        ),
    ]  # fmt: skip
    asked = own.Asked(Uses(uses), Jobs(ownjobs.parse(json.dumps({"jobs": jobs}).encode())))
    stored = {"data": {ownquota.FILE: ownquota.write(quota, NOW), ownusage.FILE: ownusage.write(_hours())}}
    return own.picture_of(stored, pods, "team-a", moment(NOW), [], asked=asked)
