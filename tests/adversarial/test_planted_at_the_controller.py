"""Level 2: the controller tells no secret (D11): not in logs at level DEBUG, figures, events, statuses or objects of others.

    planted in two tenants' objects on the host, in pull Secrets, in receivers of audit trails ──> the controller as a process
    keys that the controller itself draws for planes ──────────────────────────────────────────┘      └─> all that it writes

The ledger sees the tenants' pods, with secrets in their specs and malformed notes. The controls: what a plane needs arrived in
its Secrets, the ledger judged the pods, and the unusable receiver was reported.
"""

import asyncio
import base64
import contextlib
import json
import os
import secrets
import sys
import urllib.request
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from bulkhead.api import labels, ledger, names
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import NotFound
from bulkhead.kube.objects import Resource
from controller.pki.receivers import TYPE
from tests.adversarial.test_planted_secrets import coded, found_in
from tests.kit.crds import install
from tests.kit.kubeconfigs import to_yaml
from tests.kit.ledgerhost import GPU
from tests.kit.pki import Authority
from tests.kit.ports import free_port
from tests.kit.servers import ApiServer, running
from tests.kit.syncerbed import until
from tests.kit.tenantsamples import tenant_class

pytestmark = pytest.mark.apiserver
SHARED: Final = "bulkhead-shared"
TENANTS: Final = ("alice", "bob")
WAIT_SECONDS: Final = 240.0  # a controller starts, and makes two planes
PLACES: Final = ("pull", "receiver", "unusable", "secret", "config", "variable", "argument", "note", "own")
# All kinds that the controller writes, but Secrets; of pods only what it writes.
WRITTEN: Final = (
    kinds.NAMESPACES, kinds.CONFIG_MAPS, kinds.SERVICES, kinds.RESOURCE_QUOTAS, kinds.LIMIT_RANGES, kinds.STATEFUL_SETS,
    kinds.DEPLOYMENTS, kinds.NETWORK_POLICIES, kinds.TENANTS, kinds.TENANT_CLASSES, kinds.COHORTS, kinds.EVENTS, kinds.NODES,
)  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with running("planted", tmp_path_factory.mktemp("planted")) as made:
        yield made


def planted() -> dict[str, str]:
    """A text for each place that stands nowhere else."""
    return {place: f"canary-{place}-{secrets.token_hex(12)}" for place in PLACES}


async def prepare(client: Client, canary: Mapping[str, str]) -> None:
    """What an admin makes: two tenants of one Cohort, a pull Secret, a usable and an unusable receiver."""
    await install(client)
    for space in (names.SYSTEM_NAMESPACE, SHARED):
        await client.apply(kinds.NAMESPACES, {"metadata": {"name": space}})
    login = json.dumps({"auths": {"registry.example": {"username": "user", "password": canary["pull"]}}})
    pull = {"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": coded(login)}}
    await client.create(kinds.SECRETS, {"metadata": {"name": "registry"}} | pull, names.SYSTEM_NAMESPACE)
    for name, data in (("receiver", {"token": canary["receiver"]}), ("unusable", {"password": canary["unusable"]})):
        body = {"metadata": {"name": name}, "type": TYPE, "data": {key: coded(value) for key, value in data.items()}}
        await client.create(kinds.SECRETS, body, SHARED)
    for number, (name, receiver) in enumerate(zip(TENANTS, ("receiver", "unusable"), strict=True)):
        webhook = {
            "url": "https://audit.example.org:8443/events/{tenant}",
            "address": "203.0.113.7",
            "secretName": receiver,
            "certificateAuthority": Authority("receiver").pem.decode(),
        }
        offer = tenant_class(audit={"sink": "Webhook", "webhook": webhook}, quota={"cohorts": ["c"]})["spec"]
        await client.apply(kinds.TENANT_CLASSES, {"metadata": {"name": f"class-{name}"}, "spec": offer})
        quota = {"cohort": "c", "resources": {GPU: {"nominal": number}}}
        await client.apply(kinds.TENANTS, {"metadata": {"name": name}, "spec": {"class": f"class-{name}", "quota": quota}})


def pod(tenant: str, name: str, canary: Mapping[str, str], **notes: str) -> Obj:
    """A host pod at the gate with a secret in every place that a tenant chooses."""
    container: Obj = {
        "name": "main",
        "image": "busybox:1.36",
        "args": [f"--password={canary['argument']}"],
        "env": [{"name": "PASSWORD", "value": canary["variable"]}],
        "resources": {"limits": {GPU: "1"}},
    }
    marks = {labels.TENANT: tenant, labels.SYNCED: labels.SYNCED_BY_SYNCER}
    notes = {labels.VIRTUAL_NAMESPACE: "default", labels.VIRTUAL_NAME: name, "example.org/key": canary["note"]} | notes
    meta = {"name": name, "labels": marks, "annotations": notes}
    return {"metadata": meta, "spec": {"containers": [container], "schedulingGates": [{"name": ledger.GATE}]}}


async def plant(client: Client, tenant: str, canary: Mapping[str, str]) -> None:
    """What a tenant has on the host."""
    space = names.work_namespace(tenant)
    await client.create(kinds.SECRETS, {"metadata": {"name": "vault"}, "data": {"key": coded(canary["secret"])}}, space)
    await client.create(kinds.CONFIG_MAPS, {"metadata": {"name": "settings"}, "data": {"x": canary["config"]}}, space)
    malformed = {ledger.OWN_PRIORITY: canary["own"], ledger.GANG_SIZE: canary["own"], labels.VIRTUAL_OWNERS: canary["own"]}
    for body in (pod(tenant, "plain", canary), pod(tenant, "malformed", canary, **malformed)):
        await client.create(kinds.PODS, body, space)


@contextlib.asynccontextmanager
async def controller(server: ApiServer, folder: Path, port: int) -> AsyncIterator[None]:
    """The controller as the process that it is in a pod."""
    config = folder / "kubeconfig"
    config.write_bytes(to_yaml(server.admin))
    given = {
        "KUBECONFIG": str(config), "BULKHEAD_HTTP_PORT": str(port), "BULKHEAD_IDENTITY": "planted",
        "BULKHEAD_LOG_LEVEL": "DEBUG", "BULKHEAD_PULL_SECRETS": "registry", "BULKHEAD_SHARED_NAMESPACE": SHARED,
    }  # fmt: skip
    with (folder / "log").open("wb") as out:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "controller", stdout=out, stderr=out, env=os.environ | given
        )
    try:
        yield
        assert process.returncode is None, "the controller ended by itself"
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


def figures(port: int) -> str:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        text: str = answer.read().decode()
    return text


async def written(client: Client) -> dict[str, str]:
    """All that the controller has written, as text."""
    found: dict[str, list[Any]] = {}
    for resource in WRITTEN:
        for item in (await client.list(resource)).items:
            if item["metadata"].get("name") != "settings":  # the tenant's own ConfigMap
                found.setdefault(resource.plural, []).append(item)
    for item in (await client.list(kinds.PODS)).items:
        notes = {key: text for key, text in item["metadata"]["annotations"].items() if key in ledger.BY_LEDGER}
        found.setdefault("pods", []).append([notes, item.get("status")])
    return {name: json.dumps(items) for name, items in found.items()}


async def keys(client: Client) -> set[str]:
    """The private part of every key that the controller has drawn for planes: a line that stands in no certificate."""
    found: set[str] = set()
    for tenant in TENANTS:
        for secret in (await client.list(kinds.SECRETS, names.plane_namespace(tenant))).items:
            for name, value in (secret.get("data") or {}).items():
                text = base64.b64decode(value).decode(errors="replace")
                if "PRIVATE KEY" in text:
                    found.add(text.partition("PRIVATE KEY-----\n")[2].splitlines()[1])
                elif "encryption" in name or "secretbox" in text:
                    found.add(text)
    return found


async def held(client: Client, resource: Resource, space: str) -> str:
    try:
        return json.dumps((await client.list(resource, space)).items)
    except NotFound:
        return ""


async def test_the_controller_tells_no_secret(server: ApiServer, tmp_path: Path) -> None:
    canary, port = planted(), free_port()
    async with Client(server.admin, user_agent="tests", field_manager="tests") as client:
        await prepare(client, canary)
        async with controller(server, tmp_path, port):
            planes = [names.plane_namespace(tenant) for tenant in TENANTS]

            async def arrived(place: str, space: str) -> bool:
                return place in found_in(await held(client, kinds.SECRETS, space), canary)

            for place, space in (("pull", planes[0]), ("pull", planes[1]), ("receiver", planes[0])):
                await until(lambda place=place, space=space: arrived(place, space), f"{place} in {space}", WAIT_SECONDS)  # type: ignore[misc]
            for tenant in TENANTS:
                await until(lambda tenant=tenant: has_quota(client, tenant), f"the quota of {tenant}", WAIT_SECONDS)  # type: ignore[misc]
                await plant(client, tenant, canary)
            for tenant in TENANTS:
                await until(lambda tenant=tenant: judged(client, tenant), f"verdicts of {tenant}", WAIT_SECONDS)  # type: ignore[misc]
            await until(lambda: reported(client, "bob"), "the unusable receiver to be reported", WAIT_SECONDS)
            drawn = await keys(client)
            texts = await written(client) | {"figures": await asyncio.to_thread(figures, port)}
    texts["log"] = (tmp_path / "log").read_text(errors="replace")
    leaks = {where: sorted(places) for where, text in texts.items() if (places := found_in(text, canary))}
    assert leaks == {}
    assert len(drawn) > 20, "two planes have more keys than that"
    assert not [where for where, text in texts.items() if any(key in text for key in drawn)]
    assert all(
        len(texts[where]) > 100 for where in ("log", "figures", "tenants", "statefulsets", "resourcequotas", "pods", "events")
    )


async def has_quota(client: Client, tenant: str) -> bool:
    try:
        await client.get(kinds.RESOURCE_QUOTAS, names.POD_QUOTA, names.work_namespace(tenant))
    except NotFound:
        return False
    return True


async def judged(client: Client, tenant: str) -> bool:
    """Whether the ledger has admitted each pod, or has written why it waits."""
    pods = (await client.list(kinds.PODS, names.work_namespace(tenant))).items
    return all({ledger.ADMITTED, ledger.VERDICT} & item["metadata"]["annotations"].keys() for item in pods)


async def reported(client: Client, tenant: str) -> bool:
    status = (await client.get(kinds.TENANTS, tenant)).get("status") or {}
    return "unusable" in json.dumps(status.get("conditions"))
