"""A tenant's user and their own work: GPUs, Slurm jobs, device-hours. What answers there may be any program of the tenant's."""

import asyncio
import base64
import contextlib
import json
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from bulkhead.api.ledger import Place
from bulkhead.api.ownquota import OwnLine, OwnQuota
from bulkhead.api.ownusage import DayUse, OwnUsage
from bulkhead.api.slurmtoken import sign
from bulkhead.gpus import fields
from bulkhead.kube.client import Client
from bulkhead.kube.kubeconfig import KubeConfig
from tests.controller.slurm_runtime.slurmrestd import KEY, MOODS, FakeSlurmrestd, job, number
from workstation.cli.quotas import owngpus, ownhours, ownjobs, ownreading, owntext
from workstation.cli.quotas.owngpus import PodUse, Uses
from workstation.cli.quotas.ownjobs import Jobs, JobsAnswerError
from workstation.cli.quotas.owntext import OwnPod, OwnView

GPU = "nvidia.com/gpu"
NOW = 1_780_320_000.0


# -- GPUs


def line(name: str, value: float | str, gpu: str = "g0", pod: str = "train", **more: str) -> str:
    labels = {"UUID": gpu, "namespace": "ml", "pod": pod} | more
    return f"{name}{{{','.join(f'{key}={json.dumps(text)}' for key, text in labels.items())}}} {value}"


def used(*lines: str) -> dict[owngpus.PodName, PodUse]:
    return owngpus.uses(owngpus.samples("\n".join(lines).encode()))


def test_a_pods_devices_are_averaged_and_added_up() -> None:
    found = used(
        line(fields.UTILISATION, 90), line(fields.UTILISATION, 2, "g1"),
        line(fields.MEMORY_USED, 1000), line(fields.MEMORY_USED, 500, "g1"),
        line(fields.MEMORY_FREE, 1000), line(fields.MEMORY_FREE, 1500, "g1"),
        line(fields.POWER, 300), line(fields.POWER, 100, "g1"), line(fields.TEMPERATURE, 70), line(fields.XID, 79, "g1"),
        line(fields.UTILISATION, 5, "g2", "other", simulated="true"),
    )  # fmt: skip
    assert found["ml", "train"] == PodUse(2, 46.0, 1, 1500.0, 4000.0, 400.0, 70.0, (79,))
    assert found["ml", "other"] == PodUse(1, 5.0, simulated=True)


def test_a_slice_is_as_busy_as_its_own_engine_and_a_device_that_was_not_measured_gives_no_average() -> None:
    found = used(line(fields.ENGINE_ACTIVE, 0.25, GPU_I_ID="3"), line(fields.ENGINE_ACTIVE, 0.75, GPU_I_ID="4"))
    assert found["ml", "train"].busy == 50.0
    assert used(line(fields.UTILISATION, 90), line(fields.POWER, 90, "g1"))["ml", "train"].busy is None


@pytest.mark.parametrize(
    "text",
    [
        line(fields.UTILISATION, "NaN"), line(fields.UTILISATION, -5), line(fields.UTILISATION, "1e300"), "x" * 10_000,
        line(fields.UTILISATION, 5, ""), line(fields.UTILISATION, 5, pod=""), line("node_secret", 5), "\x00\xff{",
        line(fields.UTILISATION, 5, "g" * 300),
    ],
)  # fmt: skip
def test_a_line_that_no_exporter_writes_is_left_out(text: str) -> None:
    assert used(text) == {}
    # The control.
    assert used(text, line(fields.UTILISATION, 5))["ml", "train"].busy == 5.0


def test_a_page_has_a_bound() -> None:
    many = "\n".join(line(fields.UTILISATION, 5, f"g{at}", f"p{at}") for at in range(30_000))
    assert len(used(many)) <= owngpus.MAX_SAMPLES


# -- Slurm jobs


def parsed(*jobs: dict[str, Any]) -> list[ownjobs.OwnJob]:
    return list(ownjobs.parse(json.dumps({"jobs": jobs, "errors": []}).encode()))


def test_jobs_that_wait_come_first_in_slurms_order_and_ended_ones_are_gone() -> None:
    found = parsed(
        job(7, "RUNNING", start_time=number(5000), nodes="gpu-[0-1]", node_count=number(2), tres_alloc_str="cpu=8,gres/gpu=4"),
        job(3, priority=number(1)), job(4, priority=number(9), user_name="alice"), job(1, "COMPLETED"), job(2, "CANCELLED"),
        job(9, array_job_id=number(9), array_task_id=number(None), array_task_string="4-9"),
        job(12, "RUNNING", array_job_id=number(9), array_task_id=number(3)),
    )  # fmt: skip
    assert [(item.job, item.waits) for item in found] == [
        ("4", True), ("3", True), ("9_[4-9]", True), ("7", False), ("9_3", False),
    ]  # fmt: skip
    assert (found[3].gpus, found[3].hosts, found[3].reason, found[0].reason) == (4, "gpu-[0-1]", "", "Resources")


@pytest.mark.parametrize(
    ("more", "gpus"),
    [
        ({"tres_req_str": "cpu=8,gres/gpu=4,gres/gpu:h100=4"}, 4),
        ({"tres_req_str": "cpu=8,gres/gpu:h100=3,gres/gpu:a100=2"}, 5),
        ({"tres_per_node": "gres/gpu:h100:2", "node_count": number(3)}, 6),
        ({"tres_per_task": "gres/gpu:1", "tasks": number(8)}, 8),
        ({"tres_req_str": "cpu=8"}, 0),
        ({"tres_per_job": "gres/gpu=999999999,gres/gpu=999999999"}, 1_000_000),
    ],
)
def test_the_gpus_of_a_job_are_counted_once(more: dict[str, Any], gpus: int) -> None:
    assert parsed(job(1, **more))[0].gpus == gpus


@pytest.mark.parametrize(
    "data",
    [
        b"", b"[]", b"{}", b"[" * 100_000, b'{"jobs": 5}', b'{"jobs": [{"job_id": "1"}]}', b'{"jobs": [null]}',
        json.dumps({"jobs": [job(1, name=7)]}).encode(), MOODS["garbage"][1], MOODS["errors"][1], MOODS["failing"][1],
    ],
)  # fmt: skip
def test_another_answer_is_an_error_with_a_short_text(data: bytes) -> None:
    with pytest.raises(JobsAnswerError) as refused:
        ownjobs.parse(data)
    assert len(str(refused.value)) < 1000


def test_a_name_that_is_not_utf_8_hides_no_job() -> None:
    found = ownjobs.parse(b'{"jobs": [{"job_id": 1, "name": "entra\xeen\xe9"}, {"job_id": 2, "name": "caf\xc3\xa9"}]}')
    assert [item.name for item in found] == ["entra?n?", "café"]


def test_texts_of_a_job_are_bounded_and_only_the_platforms_note_is_a_note() -> None:
    found = parsed(
        job(1, name="n" * 9999, user_name="u" * 9999, state_reason="r" * 9999, admin_comment="a" * 9999),
        job(2, admin_comment=f"{ownjobs.WAITS}gpu: {'x' * 9999}", priority=number(None), submit_time=number(1 << 60)),
    )
    assert (len(found[0].name), len(found[0].user), len(found[0].reason), found[0].note) == (253, 253, 200, "")
    assert len(found[1].note) == 1024
    assert found[1].submitted is None


WAITS = job(1, admin_comment=f"{ownjobs.WAITS}gpu: CohortExhausted: 2 requested", node_count=number(2))


@pytest.mark.parametrize(
    ("workers", "expected"),
    [
        ({}, None),
        ({"other-0": Place(1, 5.0), "gpu": Place(1, 5.0), "gpu-x": Place(1, 5.0)}, None),
        ({"gpu-0": Place(4, NOW + 60), "gpu-1": Place(5, NOW + 600), "gpu-2": Place(9, NOW + 9000)}, Place(4, NOW + 600)),
        # Of two workers one has no forecast, or is not in the queue: nothing is known of the job.
        ({"gpu-0": Place(4, NOW + 60), "gpu-1": Place(5)}, Place(4)),
        ({"gpu-0": Place(4, NOW + 60)}, Place(4)),
    ],
)
def test_a_job_starts_with_the_last_of_the_workers_that_it_waits_for(workers: dict[str, Place], expected: Place | None) -> None:
    assert ownjobs.worker_forecast(parsed(WAITS)[0], workers) == expected


def test_who_expects_a_start_is_named() -> None:
    planned = job(2, start_time=number(round(NOW) + 120))
    rows = [ownjobs.row(item, {}, NOW) for item in parsed(planned, job(3, start_time=number(5000)))]
    assert [(row["forecast"], row["starts"][:16]) for row in rows] == [("Slurm", "2026-06-01T13:22"), ("", "")]
    both = parsed(WAITS | {"start_time": number(round(NOW) + 5)})[0]
    row = ownjobs.row(both, {"gpu-0": Place(1, NOW + 60), "gpu-1": Place(2, NOW + 90)}, NOW)
    assert (row["forecast"], row["place"]) == ("ledger", 1)
    # A job that has no note of the platform waits for something else.
    assert ownjobs.worker_forecast(parsed(job(5))[0], {"gpu-0": Place(1, 5.0), "login": Place(2, 5.0)}) is None


# -- reading both, from what may be any program


class Plane:
    """The paths of a plane's API server behind which programs of the tenant answer."""

    def __init__(self) -> None:
        self.slurm = FakeSlurmrestd()
        self.secret = True
        self.gpus: tuple[int, bytes] = (200, line(fields.UTILISATION, 50).encode())
        self.pause = 0.0
        self.asked: list[str] = []

    async def page(self, request: web.Request) -> web.Response:
        self.asked.append(request.match_info["node"])
        await asyncio.sleep(self.pause)
        return web.Response(status=self.gpus[0], body=self.gpus[1])

    async def key(self, _: web.Request) -> web.Response:
        if not self.secret:
            status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403}
            return web.json_response(status | {"message": "secrets is forbidden"}, status=403)
        data = {"jwt_hs256.key": base64.b64encode(KEY).decode()}
        return web.json_response({"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "slurm-keys"}, "data": data})

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[Client]:
        app = web.Application()
        app.add_routes(
            [
                *self.slurm.routes(),
                web.get("/api/v1/nodes/{node}/proxy/metrics/gpus", self.page),
                web.get("/api/v1/namespaces/slurm/secrets/slurm-keys", self.key),
            ]
        )
        async with TestServer(app) as server:
            config = KubeConfig(server=f"http://127.0.0.1:{server.port}")
            async with Client(config, user_agent="tests", field_manager="tests") as client:
                yield client


@pytest.fixture(autouse=True)
def no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_JWT", raising=False)


async def test_each_node_is_asked_once_and_only_so_many() -> None:
    plane = Plane()
    async with plane.serving() as client:
        found = await ownreading.gpu_uses(client, {"n1", "n2"})
        assert (found.pods["ml", "train"].busy, found.missing) == (50.0, "")
        assert sorted(plane.asked) == ["n1", "n2"]
        plane.asked.clear()
        found = await ownreading.gpu_uses(client, {f"n{at:03}" for at in range(ownreading.MAX_NODES + 3)})
        assert len(plane.asked) == ownreading.MAX_NODES
        assert found.missing == "3 of 131 nodes were not asked"


@pytest.mark.parametrize(
    ("status", "body", "missing"),
    [
        (404, b"metrics of GPUs: the platform does not measure them\n", "does not measure"),
        (403, b'{"kind":"Status","reason":"Forbidden","code":403,"message":"no"}', "you may not read nodes/proxy"),
        (503, b"try again\n", "HTTP 503: try again"),
        (200, b"#" * (3 << 20), "bytes"),
    ],
)
async def test_why_the_use_of_gpus_is_missing_is_said_and_one_refusal_is_enough(status: int, body: bytes, missing: str) -> None:
    plane = Plane()
    plane.gpus = status, body
    async with plane.serving() as client:
        found = await ownreading.gpu_uses(client, {f"n{at}" for at in range(100)})
    assert found.pods == {}
    assert missing in found.missing
    assert len(plane.asked) <= 16


async def test_a_node_that_is_silent_costs_no_more_than_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ownreading, "_NODE_SECONDS", 0.2)
    plane = Plane()
    plane.pause = 30.0
    async with plane.serving() as client:
        async with asyncio.timeout(10):
            found = await ownreading.gpu_uses(client, {f"n{at}" for at in range(100)})
        assert found.missing
        assert len(plane.asked) <= 16


async def test_jobs_are_read_with_the_clusters_key_or_with_the_users_token(monkeypatch: pytest.MonkeyPatch) -> None:
    plane = Plane()
    plane.slurm.jobs[5] = job(5, user_name="alice")
    async with plane.serving() as client:
        found = await ownreading.slurm_jobs(client)
        assert ([item.user for item in found.jobs], found.missing) == (["alice"], "")
        plane.secret = False
        assert "scontrol token" in (await ownreading.slurm_jobs(client)).missing
        now = int(time.time())
        monkeypatch.setenv("SLURM_JWT", sign(b"another key", "slurm", issued=now, expires=now + 60))
        assert "slurmrestd does not accept the token" in (await ownreading.slurm_jobs(client)).missing
        monkeypatch.setenv("SLURM_JWT", sign(KEY, "slurm", issued=now, expires=now + 60))
        assert (await ownreading.slurm_jobs(client)).missing == ""
        monkeypatch.setenv("SLURM_JWT", "no token\r\nX-Remote-User: admin")
        assert (await ownreading.slurm_jobs(client)).missing == "SLURM_JWT is not a token"


@pytest.mark.parametrize("mood", sorted({*MOODS, "silent"}))
async def test_a_cluster_that_answers_anything_is_a_line_of_text(mood: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ownreading, "_JOBS_SECONDS", 5.0 if mood != "silent" else 0.3)
    plane = Plane()
    plane.slurm.mood = mood
    async with plane.serving() as client:
        found = await ownreading.slurm_jobs(client)
        plane.slurm.stuck.set()
    assert found.jobs == ()
    assert 0 < len(found.missing) < 1000


# -- what is shown


def view(**more: Any) -> OwnView:
    pods = [
        {"metadata": {"name": "train", "namespace": "ml", "uid": "u-train"},
         "spec": {"nodeName": "n1", "containers": [{"resources": {"limits": {GPU: "2"}}}]}, "status": {"phase": "Running"}},
        {"metadata": {"name": "gpu-0", "namespace": "slurm", "uid": "u-gpu"},
         "spec": {"containers": [{"resources": {"limits": {GPU: "2"}}}]}, "status": {"phase": "Pending"}},
    ]  # fmt: skip
    own = OwnQuota((OwnLine(GPU, "", 4, 8, 2),), queue={"u-gpu": Place(3, NOW + 600)})
    return replace(OwnView(own, "2026-06-01T00:00:00Z", NOW).with_pods([OwnPod.of(pod, (GPU,)) for pod in pods]), **more)


USAGE = OwnUsage(NOW, (DayUse("2026-06-01", GPU, "", 7200, 3600, 0, 3600, 900), DayUse("2026-05-31", GPU, "", 3600, 0, 0)))


def test_top_shows_use_jobs_and_hours() -> None:
    jobs = Jobs(tuple(parsed(WAITS | {"node_count": number(1)}, job(2, "RUNNING", user_name="\x1b[31mbob"))))
    uses = Uses({("ml", "train"): PodUse(2, 46.0, xids=(79,))})
    shown = view(uses=uses, jobs=jobs, usage=USAGE)
    text = "\n".join(owntext.top_lines(shown))
    assert "46 % XID 79" in text
    assert "2 Slurm jobs, 1 of which wait" in text
    assert "waits for a worker of gpu: CohortExhausted" in text
    assert "4.00 hours of nvidia.com/gpu in two weeks, 1.00 of them idle, 25 % busy while measured" in text
    assert "\x1b" not in text
    told = owntext.top_json(shown)
    assert [(item["job"], item["place"]) for item in told["slurmJobs"]["items"]] == [("1", 3), ("2", None)]
    assert told["pods"][0]["use"]["busyPercent"] == 46.0
    assert told["usage"]["items"][0]["seconds"] == 10_800
    json.dumps(told)


def test_what_is_missing_has_its_reason_and_what_was_not_asked_for_has_no_line() -> None:
    text = "\n".join(owntext.top_lines(view(uses=Uses({}, "it is silent"), jobs=Jobs(missing="no token"))))
    assert "use not shown: it is silent" in text
    assert "Slurm jobs not shown: no token" in text
    assert "Slurm" not in "\n".join(owntext.top_lines(view()))


def test_hours_are_listed_by_day_and_summed_up() -> None:
    assert ownhours.table_rows(USAGE, since="2026-06-01") == [
        ("2026-06-01", GPU, "3.00", "2.00", "1.00", "0.00", "0.25"), ("all", GPU, "3.00", "2.00", "1.00", "0.00", "0.25"),
    ]  # fmt: skip
    assert ownhours.table_rows(USAGE)[1][-1] == "-"
    chart = ownhours.chart(USAGE, NOW)
    assert chart is not None
    assert [(row["day"], row["used"]) for row in chart["rows"]] == [("2026-05-31", 1.0), ("2026-06-01", 2.0)]
    assert chart["since"].startswith("2026-05-19")
    assert chart["totals"] == [{"name": GPU, "held": 4.0, "idle": 1.0, "busyPercent": 25.0}]
    assert ownhours.chart(None, NOW) is None
