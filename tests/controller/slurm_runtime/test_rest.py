"""The client of slurmrestd: what it sends, what it believes, and that no kind of silence or nonsense becomes a view."""

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from bulkhead.api.slurmtext import as_utf8
from bulkhead.kube.transport import Transport
from controller.inside.calls import Plane
from controller.slurm.answers import parse
from controller.slurm.client import rest as module
from controller.slurm.client.rest import SlurmError, SlurmRefused, SlurmRest, SlurmTooLarge, SlurmUnreachable
from controller.slurm.client.tokens import TOKEN_LIFE, TokenSource, mint
from tests.controller.slurm_runtime.plane import FakePlane
from tests.controller.slurm_runtime.slurmrestd import KEY, FakeSlurmrestd, job, node, number


class Bed:
    """A fake slurmrestd and a client of it."""

    def __init__(self, fake: FakeSlurmrestd, transport: Transport) -> None:
        self.fake = fake
        self.tokens = TokenSource(KEY, lambda: datetime.now(UTC))
        self.rest = SlurmRest(cast(Plane, FakePlane(transport)), self.tokens, jobs_read=50)


@pytest.fixture
def bed(slurmrestd: tuple[FakeSlurmrestd, Transport]) -> Bed:
    return Bed(*slurmrestd)


async def test_a_view_holds_nodes_jobs_and_sizes(bed: Bed) -> None:
    bed.fake.nodes = {"gpu-0": node("gpu-0", "MIXED", "DRAIN", "DYNAMIC_NORM", reason="bulkhead: x", used=1)}
    bed.fake.jobs = {
        1: job(1, "RUNNING", nodes="gpu-[0-1]", node_count=number(2), end_time=number(1_780_318_800)),
        2: job(
            2,
            partition="gpu,cpu",
            tres_req_str="cpu=8,mem=2G,node=2,billing=8,gres/gpu=4,gres/gpu:h100=4",
            node_count=number(2),
            cpus=number(8),
            memory_per_node=number(1024),
            features="fast&big",
            shared=["none"],
        ),
        3: job(3, array_task_string="1-10,20%4", array_max_tasks=number(4)),
        4: job(4, array_task_string="1-3", hold=True, priority=number(None)),
    }
    view = await bed.rest.view()
    (found,) = view.nodes
    assert (found.gpus, found.gpus_used, found.base, found.draining, found.ours) == (2, 1, "MIXED", True, True)
    assert view.jobs_on("gpu-1") == view.jobs_on("gpu-0") == (view.jobs or ())[:1]
    assert (view.pending, view.running) == (8, 1)
    one, two, three, four = view.jobs or ()
    assert one.ends == datetime(2026, 6, 1, 13, 0, tzinfo=UTC)
    assert (two.gpus, two.cpus, two.memory_mib, two.node_count, two.partitions) == (4, 8, 2048, 2, ("gpu", "cpu"))
    assert two.exclusive
    assert not one.exclusive
    assert (three.copies, four.copies, four.held) == (4, 3, True)


async def test_more_jobs_than_are_worth_reading_are_only_counted(bed: Bed) -> None:
    bed.fake.jobs = {each: job(each) for each in range(1, 60)}
    view = await bed.rest.view()
    assert view.jobs is None
    assert view.pending == 59
    assert not bed.fake.called("GET", "/jobs/")
    assert view.jobs_on("gpu-0") is None


@pytest.mark.parametrize("mood", ["gone", "garbage", "huge", "errors", "failing", "silent"])
async def test_no_kind_of_failure_becomes_a_view(bed: Bed, mood: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_REQUEST_DEADLINE_SECONDS", 0.5 if mood == "silent" else 60.0)
    bed.fake.nodes = {"gpu-0": node("gpu-0")}
    bed.fake.mood = mood
    with pytest.raises(SlurmError) as caught:
        await bed.rest.view()
    assert isinstance(caught.value, SlurmUnreachable if mood in {"gone", "silent", "huge"} else SlurmRefused)


async def test_an_error_says_what_slurm_said(bed: Bed) -> None:
    bed.fake.mood = "failing"
    with pytest.raises(SlurmRefused, match="Protocol authentication error"):
        await bed.rest.view()
    bed.fake.mood = "gone"
    with pytest.raises(SlurmUnreachable, match="no endpoints available"):
        await bed.rest.drain("gpu-0", "bulkhead: x")


ASKED: list[tuple[dict[str, Any], int, int]] = [
    ({"tres_per_node": "gres/gpu:2", "node_count": number(3)}, 6, 0),
    ({"tres_per_node": "gres/gpu:h100:2"}, 2, 0),
    ({"tres_per_node": "gpu"}, 1, 0),
    ({"tres_per_job": "gres/gpu:5"}, 5, 0),
    ({"tres_per_node": "gres/gpu:1k"}, 1024, 0),
    ({"tres_per_job": "gpu:h100:2K"}, 2048, 0),
    ({"tres_per_node": "gres/gpu:99999999999"}, 99_999_999_999, 0),
    ({"tres_per_node": "gres/gpu:4090:2,gpu:h100"}, 3, 0),
    ({"tres_per_node": "gres/gpu:0"}, 0, 0),
    ({"tres_per_task": "gres/gpu:h100:1", "tasks": number(4)}, 4, 0),
    ({"tres_req_str": "cpu=1,mem=1.50G,node=1,billing=1,gres/gpu=3"}, 3, 1536),
    ({"tres_req_str": "cpu=1,mem=512M,node=1"}, 0, 512),
    ({"memory_per_cpu": number(100), "cpus": number(4)}, 0, 400),
]


@pytest.mark.parametrize(("asked", "gpus", "memory"), ASKED)
async def test_the_sizes_of_a_job_are_read_however_its_user_wrote_them(
    bed: Bed, asked: dict[str, Any], gpus: int, memory: int
) -> None:
    bed.fake.jobs = {1: job(1, tres_req_str="cpu=1,node=1,billing=1") | asked}
    (found,) = (await bed.rest.view()).jobs or ()
    assert (found.gpus, found.memory_mib) == (gpus, memory)


ARRAYS: list[tuple[str, int]] = [
    ("7", 1),
    ("1-10,20", 11),
    ("0-100:10", 11),
    ("1-1001:2%3", 501),
    ("0-99999", parse.MOST_JOBS),
    ("1,4,9,16,...", parse.MOST_JOBS),
    ("0," * 5000, parse.MOST_JOBS),
    ("1-3,next", 4),
]


@pytest.mark.parametrize(("tasks", "copies"), ARRAYS, ids=[tasks[:20] for tasks, _ in ARRAYS])
async def test_a_job_array_of_any_form_is_counted_and_spoils_no_view(bed: Bed, tasks: str, copies: int) -> None:
    bed.fake.jobs = {1: job(1, array_task_string=tasks), 2: job(2)}
    assert [found.copies for found in (await bed.rest.view()).jobs or ()] == [copies, 1]


def test_a_text_of_a_user_that_is_not_utf_8_spoils_no_view() -> None:
    """As they are, slurmrestd writes the bytes of a command line."""
    line = b"sbatch --signal=USR1 " + "entraîné.sh".encode("latin-1")
    first = b'{"job_id": 1, "submit_line": "%b", "comment": "\xff"}' % line
    one, two = parse.parse_jobs(b'{"jobs": [%b, {"job_id": 2, "admin_comment": "\xc3\xa9"}]}' % first)
    assert one.signal is not None
    assert two.note == "é"
    (found,) = parse.parse_nodes(b'{"nodes": [{"name": "gpu-0", "reason": "\xe9", "features": ["gpu", "\xe9"]}]}')
    assert (found.reason, found.features) == ("?", {"gpu", "?"})
    assert len(as_utf8(b"\xff" * 200_000)) == 200_000
    whole = "é…" * 50_000
    assert as_utf8(whole.encode()).decode() == whole


async def test_ended_jobs_that_fill_the_answer_leave_the_counts(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records of ended jobs stay in slurmctld for minutes, and its counts are those of the others."""
    monkeypatch.setattr(module, "_JOBS_BYTES", 10_000)
    bed.fake.nodes = {"gpu-0": node("gpu-0")}
    bed.fake.jobs = {job_id: job(job_id, "COMPLETED") for job_id in range(100)} | {100: job(100), 101: job(101, "RUNNING")}
    view = await bed.rest.view()
    assert (view.jobs, view.pending, view.running, len(view.nodes)) == (None, 1, 1, 1)


async def test_the_types_of_gpus_that_a_job_names_are_known(bed: Bed) -> None:
    bed.fake.jobs = {
        1: job(1, tres_per_node="gres/gpu:H100:2,gpu:4090:1"),
        2: job(2, tres_per_job="gres/gpu:2", tres_per_task="gres/gpu:a100"),
        3: job(3, tres_per_node="gres/gpu:a100:0"),
    }
    jobs = (await bed.rest.view()).jobs or ()
    assert [found.gpu_types for found in jobs] == [{"h100", "4090"}, {"a100"}, set()]


async def test_gpus_of_a_node_are_counted_without_accounting_too(bed: Bed) -> None:
    bed.fake.nodes = {
        "gpu-0": node("gpu-0") | {"tres": "cpu=8", "gres": "gpu:h100:4(S:0-1)", "gres_used": "gpu:h100:1(IDX:0,2)"}
    }
    (found,) = (await bed.rest.view()).nodes
    assert (found.gpus, found.gpus_used) == (4, 1)


async def test_a_job_that_asked_for_a_node_to_itself_is_known_by_its_command(bed: Bed) -> None:
    bed.fake.jobs = {1: job(1, submit_line="sbatch --exclusive -N1 x.sh"), 2: job(2, submit_line="sbatch x.sh")}
    view = await bed.rest.view()
    assert [each.exclusive for each in view.jobs or ()] == [True, False]


BROKEN: list[tuple[str, dict[str, Any]]] = [
    ("nodes in brackets without end", {"nodes": "gpu-[0-99999999]"}),
    ("brackets that do not match", {"nodes": "gpu-[[0]"}),
    ("a job without a number", {"job_id": None}),
    ("states that are not a list", {"job_state": "RUNNING"}),
]


@pytest.mark.parametrize(("name", "change"), BROKEN, ids=[name for name, _ in BROKEN])
async def test_a_job_that_cannot_be_read_spoils_the_view(bed: Bed, name: str, change: dict[str, Any]) -> None:
    bed.fake.jobs = {1: job(1, "RUNNING") | change}
    bed.fake.jobs[1]["job_state"] = change.get("job_state", ["RUNNING"])
    bed.fake._diag = lambda *_: {"statistics": {"jobs_pending": 0, "jobs_running": 1}}  # type: ignore[method-assign]
    with pytest.raises(SlurmRefused):
        await bed.rest.view()


async def test_records_of_other_accounts_are_not_read(bed: Bed) -> None:
    bed.fake.database = {
        "qos": [{"name": "normal"}],
        "associations": [
            {"account": "users", "cluster": "red", "user": ""},
            {"account": "team", "cluster": "red", "user": "bob"},
        ],
        "users": [{"name": "root"}],
    }
    assert (await bed.rest.records("users")).associations == {("red", "users", "")}


async def test_more_records_than_are_read_are_an_error_that_says_what_to_do(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    bed.fake.database = {"users": [{"name": f"user-{number}"} for number in range(20_001)]}
    with pytest.raises(SlurmTooLarge, match=r"has more than 20000 records, too many to read; remove .*\(sacctmgr show qos"):
        await bed.rest.records("users")
    monkeypatch.setattr(module, "_DATABASE_BYTES", 100_000)
    with pytest.raises(SlurmTooLarge, match=r"records of users in the accounting database take .*; remove .*\(sacctmgr"):
        await bed.rest.records("users")


async def test_writes_reach_the_node_that_is_meant(bed: Bed) -> None:
    bed.fake.nodes = {"gpu-0": node("gpu-0")}
    await bed.rest.drain("gpu-0", "bulkhead: because")
    assert (bed.fake.nodes["gpu-0"]["state"], bed.fake.nodes["gpu-0"]["reason"]) == (
        ["DRAIN", "DYNAMIC_NORM", "IDLE"],
        "bulkhead: because",
    )
    await bed.rest.undrain("gpu-0")
    assert "DRAIN" not in bed.fake.nodes["gpu-0"]["state"]
    await bed.rest.down("gpu-0", "bulkhead: gone")
    assert "DOWN" in bed.fake.nodes["gpu-0"]["state"]
    await bed.rest.delete_node("gpu-0")
    assert not bed.fake.nodes


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 300, "../job/7", "a%2Fb", "a b", "a?b", "a\n"])
async def test_a_name_that_is_not_a_path_segment_is_refused(bed: Bed, name: str) -> None:
    with pytest.raises(SlurmRefused):
        await bed.rest.drain(name, "bulkhead: x")
    assert not bed.fake.calls


async def test_a_requeue_that_slurm_refuses_is_an_error(bed: Bed) -> None:
    bed.fake.jobs = {1: job(1, "RUNNING"), 2: job(2, "RUNNING", requeue=False)}
    await bed.rest.requeue("1")
    assert bed.fake.jobs[1]["job_state"] == ["PENDING"]
    with pytest.raises(SlurmRefused, match="presently disabled"):
        await bed.rest.requeue("2")


@pytest.mark.parametrize("handle", ["", "0", "-1", "1_", "_1", "1_2_3", "1/requeue", "../node/gpu-0", "1.batch", "1\n"])
async def test_what_is_not_a_job_or_a_task_is_refused(bed: Bed, handle: str) -> None:
    for call in (bed.rest.requeue(handle), bed.rest.cancel(handle), bed.rest.signal(handle, "USR1", batch=True)):
        with pytest.raises(SlurmRefused):
            await call
    assert not bed.fake.calls


async def test_a_token_that_is_not_taken_is_renewed_once(bed: Bed) -> None:
    bed.fake.key = b"another key, of another cluster!"
    with pytest.raises(SlurmRefused, match="401"):
        await bed.rest.view()
    assert bed.fake.unauthorized == 2


def claims(token: str) -> dict[str, Any]:
    part = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))  # type: ignore[no-any-return]


def test_tokens_are_short_lived_and_renewed_before_they_end() -> None:
    now = [datetime(2026, 6, 1, tzinfo=UTC)]
    source = TokenSource(KEY, lambda: now[0])
    first = source.token()
    assert claims(first)["exp"] - claims(first)["iat"] == TOKEN_LIFE.total_seconds()
    assert claims(first)["sun"] == "slurm"
    now[0] += TOKEN_LIFE / 2
    assert source.token() == first
    now[0] += timedelta(seconds=1)
    second = source.token()
    assert second != first
    source.renew()
    now[0] += timedelta(seconds=1)
    assert source.token() != second
    now[0] -= timedelta(days=1)
    assert claims(source.token())["iat"] == int(now[0].timestamp())


def test_a_token_is_never_shown() -> None:
    assert "eyJ" not in repr(mint(KEY, "slurm", datetime(2026, 6, 1, tzinfo=UTC)))
