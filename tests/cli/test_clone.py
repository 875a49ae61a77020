"""`bulkhead tenant restore NAME --as CLONE` up to the sending, against a real API server; the tests play the controller."""

import asyncio
import signal
from pathlib import Path
from typing import Final

import pytest

from bulkhead.api import labels, names
from bulkhead.api.conditions import ConditionType, Reason
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.snapshots import bundle
from bulkhead.snapshots.layout import folder
from controller.pki.material import files_of
from controller.restores import status
from controller.restores.status import Compared
from tests.kit.commandline import Cli, finish, start
from tests.kit.storedsnapshot import ID, Backups, asked, say
from tests.kit.syncerbed import until
from tests.kit.tenantsamples import NOW

pytestmark = pytest.mark.stores

FORBIDDEN: Final = {"spec": {"backup": {"clones": "Forbidden"}}}


def wanted(backups: Backups, name: str, *more: str, clone: str = "") -> tuple[str, ...]:
    return ("tenant", "restore", name, "--from", f"{name}-one", "--as", clone or f"{name}2", *backups.where(), *more)


async def there(backups: Backups, name: str) -> list[str]:
    """Everything that a clone of this name would leave behind."""
    client = backups.client
    requests = [obj["spec"]["tenant"] for obj in (await client.list(kinds.TENANT_RESTORES)).items]
    tenants = [obj["metadata"]["name"] for obj in (await client.list(kinds.TENANTS)).items]
    return [found for found in (*requests, *tenants) if found == name]


async def test_a_dry_run_says_what_becomes_the_clones_own_and_makes_nothing(cli: Cli, backups: Backups, name: str) -> None:
    done = await cli(*wanted(backups, name, "--dry-run"))
    assert done.code == 0, done
    for words in (
        f"tenant {name}2: a clone of {name}, from snapshot {name}-one",
        "Its own: identity, slice",
        f"Kubeconfigs and tokens of {name} are worth nothing here, and those of {name}2 nothing there",
        "1 pods that no controller makes again: default/known",
        "1 Services that get addresses of the clone's own slice",
        "all volumes of the clone are empty",
    ):
        assert words in done.err, words
    assert "nothing was changed" in done.out
    assert await there(backups, f"{name}2") == []


@pytest.mark.parametrize("hostile", ["Red", "../red", "red/../blue", "kube-red", "system", "-red", "r" * 41, "red red", "röd"])
async def test_a_hostile_name_is_refused_before_anything_is_read(cli: Cli, hostile: str) -> None:
    done = await cli("tenant", "restore", "red", "--from", "red-one", f"--as={hostile}", "--key", "there-is-none")
    assert (done.code, "must be the name of a tenant" in done.err) == (2, True), done


async def test_options_that_contradict_each_other_are_refused(cli: Cli, backups: Backups, name: str) -> None:
    done = await cli(*wanted(backups, name, clone=name))
    assert (done.code, "another name than its original" in done.err) == (2, True), done
    done = await cli(*wanted(backups, name, "--discard-old-data"))
    assert (done.code, "a clone takes the place of no data" in done.err) == (2, True), done
    for more in (("--as", "red2"), ("--storage", "4Gi")):
        done = await cli("tenant", "restore", "--all", *more, *backups.where())
        assert (done.code, "--all takes neither" in done.err) == (2, True), done
    for hostile in ("4", "0", "1k", "0Gi", "4GiB", "-4Gi", "4e3", "4Gi\n", "1234567Gi"):
        done = await cli(*wanted(backups, name, f"--storage={hostile}"))
        assert (done.code, "--storage must be a size such as 4Gi" in done.err) == (2, True), done


async def test_everything_that_is_wrong_is_said_at_once_and_nothing_is_made(cli: Cli, backups: Backups, name: str) -> None:
    client, clone = backups.client, f"{name}2"

    async def refused(*more: str, of: str = "") -> str:
        done = await cli("tenant", "restore", of or name, "--from", f"{name}-one", "--as", clone, *backups.where(), *more)
        assert (done.code, "nothing was changed" in done.err) == (1, True), done
        return done.err

    assert f"it is of Tenant {name}" in await refused(of="another")
    await client.create(kinds.NAMESPACES, {"metadata": {"name": names.work_namespace(clone)}})
    await client.patch(kinds.TENANT_CLASSES, "standard", FORBIDDEN)
    try:
        message = await refused()
        assert f"namespace {names.work_namespace(clone)} is there already" in message
        assert "TenantClass standard forbids clones" in message
    finally:
        await client.patch(kinds.TENANT_CLASSES, "standard", {"spec": {"backup": None}})
    await client.create(
        kinds.TENANTS,
        {"apiVersion": names.API_VERSION, "kind": "Tenant", "metadata": {"name": clone}, "spec": {"class": "standard"}},
    )
    assert f"there is a Tenant {clone} already" in await refused()
    await client.delete(kinds.TENANTS, clone)
    assert await there(backups, clone) == []


async def test_a_clone_whose_volumes_are_too_small_is_refused_with_what_to_type(cli: Cli, backups: Backups, name: str) -> None:
    client, clone = backups.client, f"{name}2"
    of_class = {"spec": {"controlPlane": {"storage": {"size": "100Mi", "maxSize": "1Gi"}}}}
    await client.patch(kinds.TENANT_CLASSES, "standard", of_class)
    try:
        for more in ((), ("--dry-run",)):
            done = await cli(*wanted(backups, name, *more))
            assert (done.code, "nothing was changed" in done.err) == (1, True), done
            assert "its volumes have 100Mi" in done.err
            assert "are needed (3 times the store of" in done.err
            assert "--storage 1Gi" in done.err
            assert await there(backups, clone) == []
        done = await cli(*wanted(backups, name, "--storage", "2Gi", "--dry-run"))
        assert (done.code, "its volumes would have 2Gi, and its class allows 1Gi" in done.err) == (1, True), done
        done = await cli(*wanted(backups, name, "--storage", "1Gi", "--dry-run"))
        assert done.code == 0, done
    finally:
        await client.patch(kinds.TENANT_CLASSES, "standard", {"spec": {"controlPlane": {"storage": None}}})


async def test_the_volumes_of_a_clone_have_the_size_that_is_asked_for(
    cli: Cli, backups: Backups, name: str, host_file: Path
) -> None:
    assert cli is not None
    client, clone = backups.client, f"{name}2"
    process = await start(*wanted(backups, name, "--storage", "2048Mi"), environment={"KUBECONFIG": str(host_file)})

    async def made() -> Obj | None:
        found = (await client.list(kinds.TENANTS)).items
        return next((tenant for tenant in found if tenant["metadata"]["name"] == clone), None)

    tenant: Obj = await until(made, "the Tenant of the clone")
    assert tenant["spec"]["controlPlane"]["storage"]["size"] == "2048Mi"
    process.send_signal(signal.SIGINT)
    await finish(process)
    await client.delete(kinds.TENANTS, clone)


async def test_it_makes_request_and_tenant_brings_keys_and_goes_on_after_an_interruption(
    cli: Cli, backups: Backups, name: str, host_file: Path
) -> None:
    client, clone = backups.client, f"{name}2"
    process = await start(*wanted(backups, name), environment={"KUBECONFIG": str(host_file)})
    request = await asked(client, clone)
    assert request["spec"]["manifest"] == (backups.root / folder(ID, f"{name}-one") / "manifest.json").read_text()
    assert request["spec"]["cloneOf"] == name

    async def made() -> Obj | None:
        found = (await client.list(kinds.TENANTS)).items
        return next((tenant for tenant in found if tenant["metadata"]["name"] == clone), None)

    tenant: Obj = await until(made, "the Tenant of the clone")
    # No labels of what manages the original: it would prune the clone.
    assert "labels" not in tenant["metadata"]
    assert tenant["metadata"]["annotations"][labels.CLONE_OF] == f"{name}/{name}-one"
    await client.create(kinds.NAMESPACES, {"metadata": {"name": names.plane_namespace(clone)}})

    async def brought() -> dict[str, bytes]:
        found = (await client.list(kinds.SECRETS, names.plane_namespace(clone))).items
        return next((files_of(secret) for secret in found if secret["metadata"]["name"] == "plane-restore"), {})

    files = await until(brought, "the keys")
    assert bundle.read(files["plane.json"]).secrets["pki-service-account"]["encryption.key"]
    process.send_signal(signal.SIGINT)
    ended = await finish(process)
    assert (ended.code, "it goes on" in ended.err) == (130, True), ended

    async def answer() -> None:
        await asyncio.sleep(1.5)
        await say(client, request, status.restored(request, backups.manifest, Compared(), NOW))

    done, _ = await asyncio.gather(cli(*wanted(backups, name)), answer())
    assert done.code == 0, done
    assert f"going on with restore {request['metadata']['name']}" in done.err
    assert f"the clone of {name} runs with snapshot" in done.err
    assert len(await there(backups, clone)) == 2
    await client.delete(kinds.TENANTS, clone)


async def test_a_tenant_that_the_controller_refuses_ends_the_command(cli: Cli, backups: Backups, name: str) -> None:
    client, clone = backups.client, f"{name}2"

    async def refuse() -> None:
        await asked(client, clone)
        condition = {
            "type": ConditionType.READY,
            "status": "False",
            "reason": Reason.ADDRESSES_EXHAUSTED,
            "message": "the service range has no free /22",
            "lastTransitionTime": "2026-06-01T12:00:00Z",
        }

        async def reported() -> bool:
            found = [tenant["metadata"]["name"] for tenant in (await client.list(kinds.TENANTS)).items]
            if clone not in found:
                return False
            await client.patch(kinds.TENANTS, clone, {"status": {"conditions": [condition]}}, subresource="status")
            return True

        await until(reported, "the Tenant of the clone")

    done, _ = await asyncio.gather(cli(*wanted(backups, name)), refuse())
    assert (done.code, "refused: the service range has no free /22" in done.err) == (1, True), done
    assert f"kubectl delete tenant {clone}" in done.err
    await client.delete(kinds.TENANTS, clone)
