"""The console of a tenant's user in a real browser: their own plane, with the rights that they have there."""

import base64
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from bulkhead.api import ownusage
from bulkhead.api.ownusage import DayUse, OwnUsage
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.objects import Resource
from bulkhead.kube.resources import CONFIG_MAPS, NAMESPACES, PODS
from tests.console.answering import Answering, answering, gpu, waiting_job
from tests.console.browser import Browser, serving
from tests.console.conftest import PICTURES
from tests.console.sample import HOSTILE
from tests.console.site import change
from tests.console.test_own import QUOTA
from tests.controller.slurm_runtime.slurmrestd import KEY, job, number
from tests.kit import machine
from tests.kit.beside import beside
from tests.kit.kubeconfigs import to_yaml
from tests.kit.servers import ApiServer, running

pytestmark = pytest.mark.browser
GPU = "nvidia.com/gpu"
_ENDPOINTS = Resource("", "v1", "endpoints", "Endpoints", True)


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """A plane with pods that wait, one of which has a hostile reason, and two users."""
    with running("plane-own", tmp_path_factory.mktemp("plane")) as started:
        change(started, fill)
        yield started


async def fill(client: Client) -> None:
    await client.create(NAMESPACES, {"metadata": {"name": "ml"}})
    await client.create(NAMESPACES, {"metadata": {"name": "other"}})
    for space, name in (("ml", "train-0"), ("ml", "train-1"), ("other", "eval")):
        container = {"name": "main", "image": "x", "resources": {"limits": {GPU: "8"}}}
        made = await client.create(PODS, {"metadata": {"name": name}, "spec": {"containers": [container]}}, space)
        about = {"type": "PodScheduled", "status": "False", "reason": "CohortExhausted", "message": f"waits {HOSTILE[0]}"}
        await client.patch(PODS, name, {"status": {"conditions": [about]}}, space, subresource="status")
        if name == "train-1":
            queue = {made["metadata"]["uid"]: {"place": 2, "startsBy": "2030-01-01T00:00:00Z"}}
    content = {"quota.json": json.dumps(QUOTA | {"queue": queue})}
    await client.create(CONFIG_MAPS, {"metadata": {"name": "bulkhead-quota"}, "data": content}, "kube-public")
    read = {"verbs": ["get", "list", "watch"], "apiGroups": [""]}
    pods, quota = read | {"resources": ["pods"]}, read | {"resources": ["configmaps"], "resourceNames": ["bulkhead-quota"]}
    group = "rbac.authorization.k8s.io"
    await client.create(kinds.CLUSTER_ROLES, {"metadata": {"name": "pods"}, "rules": [pods]})
    await client.create(kinds.ROLES, {"metadata": {"name": "quota"}, "rules": [quota]}, "kube-public")

    def bound(role: str, kind: str, *users: str) -> dict[str, Any]:
        subjects = [{"kind": "User", "name": user, "apiGroup": group} for user in users]
        return {"metadata": {"name": role}, "roleRef": {"apiGroup": group, "kind": kind, "name": role}, "subjects": subjects}

    await client.create(kinds.CLUSTER_ROLE_BINDINGS, bound("pods", "ClusterRole", "alice"))
    await client.create(kinds.ROLE_BINDINGS, bound("pods", "ClusterRole", "bob"), "ml")
    await client.create(kinds.ROLE_BINDINGS, bound("quota", "Role", "alice"), "kube-public")


def file_of(plane: ApiServer, user: str, folder: Path, namespace: str = "default") -> Path:
    found = yaml.safe_load(to_yaml(plane.config_for(user)))
    found["contexts"][0]["context"]["namespace"] = namespace
    path = folder / f"{user}.yaml"
    path.write_text(yaml.safe_dump(found))
    return path


def test_a_user_sees_their_own_quota_and_why_their_pods_wait(plane: ApiServer, browser: Browser, tmp_path: Path) -> None:
    path = file_of(plane, "alice", tmp_path)
    browser.size(1400, 1000)
    with serving(path, "-f", str(path)) as served:
        browser.open(served.link)
        browser.shows("Your pods that wait (3)")
        text = browser.text()
        for words in (
            "nvidia.com/gpu@h100",
            "ml/train-1",
            "other/eval",
            "CohortExhausted",
            "(in ",
            "<script>document.title='broken'",
        ):
            assert words in text, words
        assert browser.run("return document.title") == "Bulkhead"
        first = browser.run("return document.querySelector('#queue tbody tr').innerText")
        assert "ml/train-1" in str(first)
        assert "not shown" not in text
        browser.picture(PICTURES / "own.png")

        async def end(client: Client) -> None:
            await client.delete(PODS, "eval", "other", grace_seconds=0)

        change(plane, end)
        browser.shows("Your pods that wait (2)")
        assert served.end()[0] == 0


def test_what_a_user_may_not_read_is_named(plane: ApiServer, browser: Browser, tmp_path: Path) -> None:
    path = file_of(plane, "bob", tmp_path, "ml")
    with serving(path, "-f", str(path)) as served:
        browser.open(served.link)
        browser.shows("Your pods that wait (2)")
        text = browser.text()
        assert "not shown: pods of namespaces other than ml" in text
        assert "not shown: your quota" in text
        assert served.end()[0] == 0


@pytest.fixture(scope="module")
def work(plane: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Answering]:
    """Pods with devices on two nodes, a Slurm cluster, and who answers for both; alice may ask them, bob may not."""
    made = Answering(machine.address("a virtual node"))
    made.gpus = "\n".join(
        [
            gpu("llm", "gpu-a", 0, busy=91, used=70_000, free=10_000, watts=640),
            gpu("llm", "gpu-a", 1, busy=88, used=68_000, free=12_000, watts=610),
            gpu("notebook", "gpu-b", 0, busy=1, used=500, free=79_500, watts=80, xid=79),
        ]
    )
    now = round(time.time())
    made.jobs = [
        waiting_job(
            41, "train-large", admin_comment="bulkhead: waits for a worker of gpu: CohortExhausted: 4 are requested, 0 are free"
        ),
        waiting_job(42, HOSTILE[0], priority=number(0), start_time=number(now + 7200)),
        job(
            40,
            "RUNNING",
            name="sweep",
            user_name="bob",
            start_time=number(now - 3600),
            end_time=number(now + 3600),
            nodes="gpu-1",
        ),
        job(39, "COMPLETED", name="done"),
    ]
    with beside(lambda: answering(made, tmp_path_factory.mktemp("answering"))):
        change(plane, lambda client: put_to_work(client, made))
        yield made


async def put_to_work(client: Client, made: Answering) -> None:
    await client.create(NAMESPACES, {"metadata": {"name": "slurm"}})
    for node in ("gpu-a", "gpu-b"):
        await client.create(kinds.NODES, {"metadata": {"name": node}})
        endpoints = {"kubeletEndpoint": {"Port": made.kubelet_port}}
        status = {"addresses": [{"type": "InternalIP", "address": made.address}], "daemonEndpoints": endpoints}
        await client.patch(kinds.NODES, node, {"status": status}, subresource="status")
    for space, name, node, amount in (
        ("ml", "llm", "gpu-a", "2"),
        ("ml", "notebook", "gpu-b", "1"),
        ("slurm", "gpu-0", "", "4"),
    ):
        container = {"name": "main", "image": "x", "resources": {"limits": {GPU: amount}}}
        spec = {"containers": [container]} | ({"nodeName": node} if node else {})
        pod = await client.create(PODS, {"metadata": {"name": name}, "spec": spec}, space)
        waits = {"type": "PodScheduled", "status": "False", "reason": "CohortExhausted", "message": "0 are free"}
        told = {"phase": "Running"} if node else {"conditions": [waits]}
        await client.patch(PODS, name, {"status": told}, space, subresource="status")
    found = await client.get(CONFIG_MAPS, "bulkhead-quota", "kube-public")
    quota = json.loads(found["data"]["quota.json"])
    quota["queue"][pod["metadata"]["uid"]] = {"place": 5, "startsBy": "2030-01-01T00:00:00Z"}
    today = time.strftime("%Y-%m-%d", time.gmtime())
    hours = OwnUsage(time.time(), (DayUse(today, GPU, "h100", used=7_200, idle=3_600, measured=7_200, busy=3_600),))
    data = {"quota.json": json.dumps(quota), ownusage.FILE: ownusage.write(hours)}
    await client.patch(CONFIG_MAPS, "bulkhead-quota", {"data": data}, "kube-public")
    key = {"jwt_hs256.key": base64.b64encode(KEY).decode()}
    await client.create(kinds.SECRETS, {"metadata": {"name": "slurm-keys"}, "data": key}, "slurm")
    await client.create(kinds.SERVICES, {"metadata": {"name": "slurmrestd"}, "spec": {"ports": [{"port": 6820}]}}, "slurm")
    # An API server proxies to addresses of pods alone.
    body = {"metadata": {"name": "slurmrestd-0"}, "spec": {"nodeName": "gpu-a", "containers": [{"name": "main", "image": "x"}]}}
    await client.create(PODS, body, "slurm")
    told = {"phase": "Running", "podIP": made.address, "podIPs": [{"ip": made.address}]}
    await client.patch(PODS, "slurmrestd-0", {"status": told}, "slurm", subresource="status")
    found_by = {"ip": made.address, "targetRef": {"kind": "Pod", "name": "slurmrestd-0", "namespace": "slurm"}}
    where = {"addresses": [found_by], "ports": [{"port": made.slurm_port}]}
    await client.create(_ENDPOINTS, {"metadata": {"name": "slurmrestd"}, "subsets": [where]}, "slurm")
    group = "rbac.authorization.k8s.io"
    rules = [
        {"apiGroups": [""], "resources": ["nodes/proxy", "services/proxy"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]},
    ]
    await client.create(kinds.CLUSTER_ROLES, {"metadata": {"name": "work"}, "rules": rules})
    subject = {"kind": "User", "name": "alice", "apiGroup": group}
    role = {"apiGroup": group, "kind": "ClusterRole", "name": "work"}
    await client.create(kinds.CLUSTER_ROLE_BINDINGS, {"metadata": {"name": "work"}, "roleRef": role, "subjects": [subject]})


def test_a_user_sees_how_busy_their_gpus_are_their_slurm_jobs_and_their_hours(
    plane: ApiServer, work: Answering, browser: Browser, tmp_path: Path
) -> None:
    path = file_of(plane, "alice", tmp_path)
    browser.size(1400, 1500)
    with serving(path, "-f", str(path)) as served:
        browser.open(served.link)
        browser.shows("Slurm jobs that wait (2)")
        browser.shows("3 devices 60 % busy on average, 1 below 5 %, 1330 W")
        text = browser.text()
        for words in (
            "waits for a worker of gpu: CohortExhausted",
            "as Slurm plans",
            "<script>document.title='broken'",
            "Slurm jobs that run (1)",
            "134.8 GiB of 156.3 GiB",
            "XID 79",
            "idle",
            "Device-hours of your tenant",
            "3.0",
        ):
            assert words in text, words
        assert "done" not in str(browser.run("return document.querySelector('#jobs').innerText"))
        first = str(browser.run("return document.querySelector('#jobs tbody tr').innerText"))
        assert "train-large" in first
        assert first.startswith("5")
        assert browser.run("return document.title") == "Bulkhead"
        # A page of an earlier test may still look for its console.
        assert [line for line in browser.complaints() if served.origin in line or "Security" in line] == []
        browser.picture(PICTURES / "own-work.png")
        browser.dark(on=True)
        browser.size(390, 2400)
        browser.picture(PICTURES / "own-work-phone-dark.png")
        browser.dark(on=False)
        wide = browser.run("return document.documentElement.scrollWidth <= innerWidth")
        assert wide, "nothing is wider than a phone"
        browser.size(1400, 1500)

        # The jobs change, and the page follows.
        work.jobs.pop(0)
        browser.shows("Slurm jobs that wait (1)")
        assert served.end()[0] == 0


@pytest.mark.usefixtures("work")
def test_a_user_without_the_rights_is_told_which(plane: ApiServer, browser: Browser, tmp_path: Path) -> None:
    path = file_of(plane, "carol", tmp_path)

    async def may_list(client: Client) -> None:
        group = "rbac.authorization.k8s.io"
        subject = {"kind": "User", "name": "carol", "apiGroup": group}
        role = {"apiGroup": group, "kind": "ClusterRole", "name": "pods"}
        await client.create(
            kinds.CLUSTER_ROLE_BINDINGS, {"metadata": {"name": "carol"}, "roleRef": role, "subjects": [subject]}
        )

    change(plane, may_list)
    with serving(path, "-f", str(path)) as served:
        browser.open(served.link)
        browser.shows("use not shown: you may not read nodes/proxy")
        browser.shows("no token for slurmrestd: on a login node type `scontrol token`")
        assert served.end()[0] == 0
