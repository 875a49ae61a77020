"""`bulkhead quota show`, `why POD` and `top` with nothing but a tenant's kubeconfig; a real API server plays the plane."""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from bulkhead.api import ledger, ownquota
from bulkhead.api.ownquota import Limit, OwnLine, OwnQuota
from bulkhead.api.ownusage import DayUse, OwnUsage
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.kubeconfig import KubeConfig
from syncer.quota import picture
from tests.kit.commandline import Cli
from tests.kit.servers import ApiServer, running, with_pod_groups
from tests.kit.syncerbed import until
from workstation.cli.quotas import owntext
from workstation.cli.quotas.owntext import OwnPod, OwnView

GPU = "nvidia.com/gpu"
LINE = OwnLine(GPU, "", nominal=4, ceiling=16, used=6, borrowed=2, lent=0, borrowable=8)


def pod(name: str, gpus: int = 2, **status: Any) -> dict[str, Any]:
    limits = {"limits": {GPU: str(gpus)}}
    containers = [{"name": "main", "image": "busybox", "resources": limits}]
    return {"metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"}, "spec": {"containers": containers}} | (
        {"status": status} if status else {}
    )


def waits(reason: str, message: str) -> dict[str, Any]:
    return {"name": "main", "state": {"waiting": {"reason": reason, "message": message}}}


def unscheduled(reason: str, message: str) -> list[dict[str, Any]]:
    return [{"type": "PodScheduled", "status": "False", "reason": reason, "message": message}]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """A plane of this file's own."""
    with running("own", tmp_path_factory.mktemp("own"), with_pod_groups("10.96.0.0/16")) as started:
        yield started


@pytest.fixture
def host_config(server: ApiServer) -> KubeConfig:
    """The command's only kubeconfig is the plane's."""
    return server.admin


@pytest.mark.apiserver
@pytest.mark.commands
async def test_a_tenants_kubeconfig_is_enough(host_client: Client, cli: Cli) -> None:
    missing = await cli("quota", "show")
    assert (missing.code, "bulkhead login -f FILE" in missing.err) == (3, True)
    assert (await cli("why", "train-0")).code == 3
    for name in ("train-0", "train-1"):
        body = pod(name)
        del body["metadata"]["uid"]
        await until(lambda body=body: made(host_client, body), name)
        status = {"status": {"conditions": unscheduled("CohortExhausted", "requests 2 nvidia.com/gpu; 0 are free")}}
        await host_client.patch(kinds.PODS, name, status, "default", subresource="status")
    uid = (await host_client.get(kinds.PODS, "train-0", "default"))["metadata"]["uid"]
    own = OwnQuota(
        (LINE,), (Limit("pods", "50", "3"),), {"CohortExhausted": 2}, {uid: ledger.Place(7, 1_900_000_000.0)}, in_cohort=True
    )
    await host_client.apply(kinds.CONFIG_MAPS, picture.config_map(own, 1_800_000_000.0))

    shown = await cli("quota", "show")
    assert shown.code == 0, shown.err
    assert shown.out.splitlines()[1].split() == [GPU, "4", "6", "2", "0", "8", "16"]
    assert "2 pods wait: 2 CohortExhausted" in shown.out
    assert json.loads((await cli("quota", "show", "-o", "json")).out)["lines"][0]["borrowable"] == 8
    why = (await cli("why", "train-0")).out
    assert "CohortExhausted: requests 2 nvidia.com/gpu; 0 are free" in why
    assert "queue: place 7" in why
    assert "it starts by 2030-03-17 17:46:40Z at the latest" in why
    assert "no place among the first" in (await cli("why", "train-1")).out
    missed = await cli("why", "train-8")
    assert (missed.code, "did you mean train-" in missed.err) == (3, True)
    top = (await cli("top")).out
    assert [row.split()[:4] for row in top.splitlines() if "default/train" in row] == [
        ["default/train-0", "2", GPU, "7"],
        ["default/train-1", "2", GPU, "-"],
    ]
    assert {found["pod"] for found in json.loads((await cli("top", "-o", "json")).out)["pods"]} == {"train-0", "train-1"}

    one = await cli("top", "--resource", GPU)
    assert (one.code, "default/train-0" in one.out) == (0, True), one.err
    other = await cli("top", "--resource", "nvidia.com/gpus")
    assert (other.code, f"quota has no nvidia.com/gpus; it has: {GPU}" in other.err) == (3, True)

    early = await cli("usage")
    assert (early.code, early.out, "has not noted any device-hours" in early.err) == (0, "", True)
    today = datetime.now(UTC).date().isoformat()
    usage = OwnUsage(time.time(), (DayUse(today, GPU, "", used=7200, idle=3600), DayUse("2020-01-01", GPU, "", used=60)))
    await host_client.apply(kinds.CONFIG_MAPS, picture.config_map(own, 1_800_000_000.0, usage))
    hours = await cli("usage")
    assert [row.split() for row in hours.out.splitlines()[-2:]] == [
        [today, GPU, "3.00", "2.00", "1.00", "0.00", "-"], ["all", GPU, "3.00", "2.00", "1.00", "0.00", "-"],
    ]  # fmt: skip
    assert json.loads((await cli("usage", "-o", "json")).out)["items"][0]["idleSeconds"] == 3600
    assert "3.02 hours of nvidia.com/gpu in two weeks" in (await cli("top")).out


async def made(client: Client, body: dict[str, Any]) -> bool:
    """Create a pod, once the namespace's account is there."""
    try:
        await client.create(kinds.PODS, body)
    except Exception as error:
        if "serviceaccount" not in str(error):
            raise
        await client.apply(kinds.SERVICE_ACCOUNTS, {"metadata": {"name": "default", "namespace": "default"}})
        return False
    return True


def view(*pods: dict[str, Any], **own: Any) -> OwnView:
    return OwnView(OwnQuota((LINE,), **own), "2026-01-01T00:00:00Z", 1_767_225_660.0).with_pods(
        [OwnPod.of(found, (GPU,)) for found in pods]
    )


def test_hostile_text_is_shown_as_text_and_lists_are_cut() -> None:
    nasty = pod("x" * 253, conditions=unscheduled("Q\x1b[31m", "clear\x1b[2J\u202e\u3164screen\n" * 500))
    many = [pod(f"p-{number}") for number in range(400)]
    for lines in (owntext.top_lines(view(nasty, *many)), owntext.pod_lines(view(), OwnPod.of(nasty, (GPU,)), ())):
        text = "\n".join(lines)
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert "\u3164" not in text
        assert len(lines) < 50
    assert "and 371 more" in "\n".join(owntext.top_lines(view(nasty, *many)))


@pytest.mark.parametrize(
    ("found", "shown"),
    [
        (pod("done", phase="Succeeded"), "it has ended: Succeeded"),
        (
            pod("evicted", phase="Failed", reason="Evicted", message="low on disk\x1b[2J"),
            "it has ended: Failed: Evicted: low on disk [2J",
        ),
        (
            pod("fails", phase="Failed", containerStatuses=[{"name": "main", "state": {"terminated": {"exitCode": 3}}}]),
            "it has ended: Failed: container main: exit code 3",
        ),
        (
            pod("image", phase="Pending", containerStatuses=[waits("ImagePullBackOff", "no such \x1b[31mimage")])
            | {"spec": {"nodeName": "n0", "containers": []}},
            "it does not run: ImagePullBackOff: container main: no such [31mimage",
        ),
        (pod("new"), "nothing has judged it yet"),
        (pod("on", phase="Running") | {"spec": {"nodeName": "n0", "containers": []}}, "it is on n0, Running"),
        (pod("two", conditions=unscheduled("CohortExhausted", "m")), "forecast: none"),
    ],
)
def test_each_state_of_a_pod_has_its_words(found: dict[str, Any], shown: str) -> None:
    queued = view(queue={"uid-two": ledger.Place(2)})
    assert shown in "\n".join(owntext.pod_lines(queued, OwnPod.of(found, (GPU,)), ()))


def test_the_newest_warnings_are_shown_and_the_schedulers_are_among_them() -> None:
    found = OwnPod.of(pod("web", conditions=unscheduled("Unschedulable", "m")), (GPU,))
    old = [{"type": "Warning", "reason": f"Old{at}", "lastTimestamp": f"2026-01-01T00:00:0{at}Z"} for at in range(7)]
    new = {"type": "Warning", "reason": "FailedScheduling", "lastTimestamp": None, "eventTime": "2026-01-01T00:01:00.5Z"}
    normal = {"type": "Normal", "reason": "Pulled", "lastTimestamp": "2026-01-01T00:02:00Z"}
    lines = owntext.pod_lines(view(), found, [new, normal, *old])
    assert [line.split(":")[0].strip() for line in lines[-5:]] == ["Old3", "Old4", "Old5", "Old6", "FailedScheduling"]
    shown = owntext.pod_json(view(), found, [new])["events"]
    assert shown == [{"reason": "FailedScheduling", "message": "", "lastTimestamp": "2026-01-01T00:01:00.5Z"}]


def test_a_user_who_may_not_list_all_pods_still_sees_the_quota() -> None:
    shown = view().with_pods(None)
    lines = owntext.top_lines(shown)
    assert "you may not list pods of all namespaces" in lines[-1]
    assert owntext.top_json(shown)["pods"] is None


@pytest.mark.parametrize(
    "written",
    [
        "", "[]", "{", '{"version": 2}', "[" * 100_000,
        '{"version": 1, "lines": 5, "queue": [], "waiting": "x", "limits": {}}',
        json.dumps({"version": 1, "lines": [{"resource": "x", "nominal": -1}, {"resource": 5}], "queue": {"a": {"place": 0}}}),
    ],
)  # fmt: skip
def test_what_a_tenant_writes_there_is_read_without_belief(written: str) -> None:
    found = ownquota.read({"data": {ownquota.FILE: written}})
    assert found is None or found[0] == OwnQuota()


def test_the_object_is_bounded_whatever_it_is_made_from() -> None:
    lines = tuple(OwnLine(f"example.com/r{number}", "f" * 200, 1, 1, 1) for number in range(500))
    limits = tuple(Limit(f"count/{number}.{'x' * 200}", "1" * 64, "1" * 64) for number in range(500))
    queue = {f"{number:036}": ledger.Place(number + 1, 1.8e9) for number in range(5000)}
    own = OwnQuota(lines, limits, {chr(65 + number % 26) * (1 + number // 26): 1 for number in range(500)}, queue)
    text = ownquota.write(own, 0.0)
    assert len(text) <= ownquota.ANSWER_LIMIT_BYTES
    found = ownquota.read({"data": {ownquota.FILE: text}})
    assert found is not None
    assert [len(part) for part in (found[0].lines, found[0].limits, found[0].queue)] == [64, 64, 48]
