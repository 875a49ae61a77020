"""`bulkhead debug collect` against a real API server, with canaries in everything that a tenant can write. One server, 10 s."""

import json
import secrets
import socket
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from bulkhead.api import labels, names
from bulkhead.api.conditions import Reason
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.kubeconfig import KubeConfig
from tests.kit.commandline import Cli, Controller

pytestmark = pytest.mark.commands

CANARY = "canary-0815-in-a-text"


async def plant(client: Client, tenant: str) -> None:
    """A canary in each text that a tenant can bring to the host."""
    work = names.work_namespace(tenant)
    await client.create(kinds.NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": work}})
    mirrored = {"labels": {"app": CANARY, labels.VIRTUAL_UID: "u-1", labels.SYNCED: "syncer"}, "annotations": {"n": CANARY}}
    container = {"name": "main", "image": CANARY, "args": [CANARY], "env": [{"name": "A", "value": CANARY}]}
    pod = {"metadata": {"name": "web-0-host", **mirrored}, "spec": {"containers": [container]}}
    await client.create(kinds.PODS, {"apiVersion": "v1", "kind": "Pod", **pod}, work)
    for r in (kinds.SECRETS, kinds.CONFIG_MAPS):
        field = "stringData" if r is kinds.SECRETS else "data"
        obj = {"apiVersion": "v1", "kind": r.kind, "metadata": {"name": "mine", **mirrored}, field: {"key": CANARY}}
        await client.create(r, obj, work)
    about = {"kind": "Pod", "name": "web-0-host", "namespace": work}
    event = {"metadata": {"name": "e"}, "involvedObject": about, "reason": "Failed", "message": CANARY, "type": "Warning"}
    await client.create(kinds.EVENTS, {"apiVersion": "v1", "kind": "Event", **event}, work)


async def test_an_archive_has_no_secret_and_says_what_it_could_not_read(
    cli: Cli, controller: Controller, plane_config: KubeConfig, host_client: Client, tmp_path: Path
) -> None:
    name = f"t-{secrets.token_hex(4)}"
    await controller.tenant(name, access={"admins": [{"kind": "User", "name": CANARY}]})
    await controller.plane(name, replace(plane_config, server="https://127.0.0.1:1"))
    await controller.say(name, "False", Reason.WAITING_FOR_PLANE, "etcd is starting")
    await plant(host_client, name)
    path = tmp_path / "out.tar.gz"
    done = await cli("debug", "collect", name, "--write", str(path), "--timeout", "40s")
    assert done.code == 0, done.err
    assert f"wrote {path}: " in done.out
    assert "not read: plane-api: " in done.err
    with tarfile.open(path) as archive:
        files = {member.name.partition("/")[2]: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr]
    manifest = json.loads(files["manifest.json"])
    assert "plane-api" in manifest["notRead"]
    for file, content in files.items():
        assert CANARY.encode() not in content, file
    # The positive control: what was planted was read, and only its texts are gone.
    assert json.loads(files["work/secrets.json"])[0]["bytes"] == {"key": len(CANARY)}
    assert [item["metadata"]["name"] for item in json.loads(files["work/pods.json"])] == ["web-0-host"]
    assert json.loads(files["work/events.json"])[0]["reason"] == "Failed"
    assert json.loads(files["ledger.json"]) == {}, "the ledger was asked, and counts nothing for a tenant without a quota"
    assert json.loads(files["host/tenant.json"])["status"]["conditions"][0]["message"] == "etcd is starting"


async def test_a_plane_that_hangs_delays_the_archive_by_less_than_a_minute(
    cli: Cli, controller: Controller, plane_config: KubeConfig, host_client: Client, tmp_path: Path
) -> None:
    name = f"t-{secrets.token_hex(4)}"
    await controller.tenant(name)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections and never answers, as a stopped process does
        await controller.plane(name, replace(plane_config, server=f"https://127.0.0.1:{silent.getsockname()[1]}"))
        await controller.say(name, "False", Reason.PLANE_UNREACHABLE, "the plane's API server does not answer")
        await plant(host_client, name)
        path = tmp_path / "out.tar.gz"
        done = await cli("debug", "collect", name, "--write", str(path))
    assert done.code == 0, done.err
    with tarfile.open(path) as archive:
        files = {member.name.partition("/")[2]: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr]
    manifest = json.loads(files["manifest.json"])
    assert manifest["seconds"] <= 60
    assert manifest["notRead"].keys() == {"plane-api", "controller-metrics.txt"}, "the host is read whole"
    assert manifest["notRead"]["controller-metrics.txt"] == "no pod of the controller runs"
    assert [item["metadata"]["name"] for item in json.loads(files["work/pods.json"])] == ["web-0-host"]


async def test_an_answering_plane_tells_its_state_and_what_differs(
    cli: Cli, controller: Controller, plane_client: Client, namespace: str, tmp_path: Path
) -> None:
    name = f"t-{secrets.token_hex(4)}"
    await controller.tenant(name)
    await controller.plane(name, plane_client.config)
    await controller.say(name, "True", Reason.READY, "fine")
    await plant(controller.client, name)
    alone = {"metadata": {"name": "alone"}, "spec": {"containers": [{"name": "a", "image": "x"}]}}
    await plane_client.create(kinds.PODS, {"apiVersion": "v1", "kind": "Pod", **alone}, namespace)
    path = tmp_path / "out.tar.gz"
    done = await cli("debug", "collect", name, "--write", str(path))
    assert done.code == 0, done.err
    with tarfile.open(path) as archive:
        files = {member.name.partition("/")[2]: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr]
    assert b"readyz check passed" in files["plane-api/readyz.txt"]
    assert b"apiserver_storage_size_bytes" in files["plane-api/metrics.txt"]
    drift = json.loads(files["drift.json"])
    assert f"{namespace}/alone" in drift["withoutMirror"]
    assert drift["withoutPod"] == [f"{names.work_namespace(name)}/web-0-host"]


async def test_a_folder_that_does_not_exist_is_a_usage_error(cli: Cli, name: str) -> None:
    done = await cli("debug", "collect", name, "--write", "/nonexistent/x.tar.gz")
    assert (done.code, "does not exist" in done.err) == (2, True)
    assert (await cli("debug", "collect", name)).code == 3
