"""The console of a tenant's user in a real browser: their own plane, with the rights that they have there."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.resources import CONFIG_MAPS, NAMESPACES, PODS
from tests.console.browser import Browser, serving
from tests.console.conftest import PICTURES
from tests.console.sample import HOSTILE
from tests.console.site import change
from tests.console.test_own import QUOTA
from tests.kit.kubeconfigs import to_yaml
from tests.kit.servers import ApiServer, running

pytestmark = pytest.mark.browser
GPU = "nvidia.com/gpu"


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
