"""`bulkhead tenant restore` up to the sending, against a real API server; what is stored is a real plane's, in a directory.

The tests play the controller: no kubelet is here, to which a port could be forwarded (`make e2e SUITE=durable`).
"""

import asyncio
import signal
from pathlib import Path

import pytest

from bulkhead.api import labels, names
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.snapshots import bundle
from bulkhead.snapshots.layout import STORE, folder
from controller.pki.material import files_of
from controller.restores import status
from controller.restores.decide import Step
from controller.restores.status import Compared
from tests.kit import sickserver
from tests.kit.commandline import Cli, finish, reads, start
from tests.kit.kubeconfigs import to_yaml
from tests.kit.storedsnapshot import ID, Backups, asked, say
from tests.kit.syncerbed import until
from tests.kit.tenantsamples import NOW

pytestmark = pytest.mark.stores


async def mirror(client: Client, tenant: str, virtual: str, uid: str) -> None:
    """A pod of the host as the syncer makes it."""
    noted = {labels.VIRTUAL_NAMESPACE: "default", labels.VIRTUAL_NAME: virtual, labels.VIRTUAL_UID: uid}
    meta = {"name": f"{virtual}-x", "labels": {labels.SYNCED: labels.SYNCED_BY_SYNCER}, "annotations": noted}
    pod = {"metadata": meta, "spec": {"containers": [{"name": "a", "image": "a"}], "automountServiceAccountToken": False}}
    space = names.work_namespace(tenant)
    await client.apply(kinds.SERVICE_ACCOUNTS, {"metadata": {"name": "default", "namespace": space}})
    await client.create(kinds.PODS, pod, space)


async def test_a_dry_run_says_what_is_lost_and_changes_nothing(cli: Cli, backups: Backups, name: str) -> None:
    await mirror(backups.client, name, "known", backups.pod_uid)
    await mirror(backups.client, name, "younger", "11111111-0000-0000-0000-000000000000")
    done = await cli("tenant", "restore", name, "--from", f"{name}-one", *backups.where(), "--dry-run")
    assert done.code == 0, done
    assert "1 pods: on the host and in the snapshot" in done.err
    assert "1 pods: not in the snapshot: default/younger" in done.err
    assert "everything that was written to its API after" in done.err
    assert "nothing was changed" in done.out
    assert [r for r in (await backups.client.list(kinds.TENANT_RESTORES)).items if r["spec"]["tenant"] == name] == []
    # It asks before it replaces anything, and there is no terminal here.
    done = await cli("tenant", "restore", name, "--from", f"{name}-one", *backups.where())
    assert (done.code, "--yes" in done.err) == (2, True), done
    # By its stored name it is found without the TenantSnapshot.
    done = await cli("tenant", "restore", name, "--from", f"{ID}/{name}-one", *backups.where(), "--dry-run")
    assert done.code == 0, done


async def test_everything_that_is_wrong_is_said_at_once_and_before_anything_is_asked_for(
    cli: Cli, backups: Backups, name: str
) -> None:
    client = backups.client

    async def refused() -> str:
        done = await cli("tenant", "restore", name, "--from", f"{name}-one", *backups.where(), "--yes")
        assert done.code == 1, done
        assert "nothing was changed" in done.err
        return done.err

    path = backups.root / folder(ID, f"{name}-one") / backups.manifest.attempt / STORE
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    assert "truncated" in await refused()
    path.write_bytes(whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:])
    await refused()
    path.write_bytes(whole)
    status_of = {"planeIdentity": ID.replace("9", "8"), "versions": {"kubernetes": "v1.30.0"}}
    await client.patch(kinds.TENANTS, name, {"status": status_of}, subresource="status")
    message = await refused()
    assert "is of plane" in message
    assert "newer minor" in message
    await client.patch(kinds.TENANTS, name, {"status": {"planeIdentity": ID, "versions": None}}, subresource="status")
    cidr = {"metadata": {"name": f"bh-{name}"}, "spec": {"cidrs": ["10.112.8.0/22"]}}
    await client.create(kinds.SERVICE_CIDRS, cidr)
    spec = {"tenant": name, "manifest": "that of another snapshot"}
    body = {"apiVersion": names.API_VERSION, "kind": "TenantRestore", "metadata": {"name": f"{name}-other"}, "spec": spec}
    await client.create(kinds.TENANT_RESTORES, body)
    claim = {
        "metadata": {"name": "data-plane-0"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}},
    }
    await client.create(kinds.PERSISTENT_VOLUME_CLAIMS, claim, names.plane_namespace(name))
    bound = {"status": {"phase": "Bound", "capacity": {"storage": "1Mi"}}}
    space = names.plane_namespace(name)
    await client.patch(kinds.PERSISTENT_VOLUME_CLAIMS, "data-plane-0", bound, space, subresource="status")
    message = await refused()
    for words in ("10.112.8.0/22", f"restore {name}-other", "data-plane-0 has 1 MiB", "--discard-old-data"):
        assert words in message
    await client.delete(kinds.SERVICE_CIDRS, f"bh-{name}")
    # An earlier Tenant went, though another Service of the host has an address in its slice.
    left = {
        "metadata": {"name": f"left-{name}", "labels": {labels.LEFT_BY: name}},
        "spec": {"cidrs": [backups.manifest.service_slice]},
    }
    await client.create(kinds.SERVICE_CIDRS, left)
    assert f"Services of the host have addresses in its slice {backups.manifest.service_slice}" in await refused()
    await client.delete(kinds.SERVICE_CIDRS, f"left-{name}")
    backups.key.write_text("AGE-SECRET-KEY-1")
    done = await cli("tenant", "restore", name, "--from", f"{name}-one", *backups.where(), "--yes")
    assert (done.code, "not an age private key" in done.err) == (2, True), done


async def test_it_brings_keys_goes_on_after_an_interruption_and_lists_what_is_unknown(
    cli: Cli, backups: Backups, name: str, host_file: Path
) -> None:
    client = backups.client
    kubeconfig = ("--from", f"{name}-one", *backups.where(), "--yes")
    process = await start("tenant", "restore", name, *kubeconfig, environment={"KUBECONFIG": str(host_file)})
    request = await asked(client, name)
    assert request["spec"]["manifest"] == (backups.root / folder(ID, f"{name}-one") / "manifest.json").read_text()

    async def brought() -> dict[str, bytes]:
        found = (await client.list(kinds.SECRETS, names.plane_namespace(name))).items
        return next((files_of(secret) for secret in found if secret["metadata"]["name"] == "plane-restore"), {})

    files = await until(brought, "the keys")
    assert files["restore"].decode() == request["metadata"]["uid"]
    assert bundle.read(files["plane.json"]).secrets["pki-service-account"]["encryption.key"]
    process.send_signal(signal.SIGINT)
    ended = await finish(process)
    assert (ended.code, "it goes on" in ended.err) == (130, True), ended

    async def restored() -> None:
        await say(client, request, status.at_work(request, backups.manifest, Step.STOP, NOW))
        await asyncio.sleep(1.5)
        compared = Compared(("pod default/younger",))
        await say(client, request, status.restored(request, backups.manifest, compared, NOW))

    done, _ = await asyncio.gather(cli("tenant", "restore", name, *kubeconfig), restored())
    assert done.code == 0, done
    assert f"going on with restore {request['metadata']['name']}" in done.err
    assert "pod default/younger" in done.err
    assert f"bulkhead tenant accept-data {name}" in done.err
    assert len([r for r in (await client.list(kinds.TENANT_RESTORES)).items if r["spec"]["tenant"] == name]) == 1


async def test_a_tenant_that_is_gone_is_made_again_after_the_request(cli: Cli, backups: Backups, name: str) -> None:
    client = backups.client
    await client.delete(kinds.TENANTS, name)
    wanted = ("tenant", "restore", name, "--from", f"{ID}/{name}-one", *backups.where())

    async def fail() -> None:
        request = await asked(client, name)

        async def made() -> Obj | None:
            found = (await client.list(kinds.TENANTS)).items
            return next((tenant for tenant in found if tenant["metadata"]["name"] == name), None)

        tenant = await until(made, "the Tenant")
        assert (tenant["spec"]["class"], tenant["metadata"]["labels"]) == ("standard", {"team": "red"})
        assert tenant["metadata"]["creationTimestamp"] >= request["metadata"]["creationTimestamp"]
        await say(client, request, status.failed(request, "its slice is taken", NOW))

    done, _ = await asyncio.gather(cli(*wanted), fail())
    assert (done.code, "not restored: its slice is taken" in done.err) == (1, True), done
    assert "revoke again what was revoked since" in done.err


async def test_all_brings_back_what_is_missing_and_replaces_nothing(cli: Cli, backups: Backups, name: str) -> None:
    client = backups.client
    wanted = ("tenant", "restore", "--all", *backups.where())
    strange = backups.root / ID.replace("9", "7") / "one"
    strange.mkdir(parents=True)
    (strange / "manifest.json").write_text('{"text": "x", "key": "y", "signature": ""}')
    done = await cli(*wanted)
    assert (done.code, "0 tenants are not here" in done.out, "left out:" in done.err) == (0, True, True), done
    assert "revoke again" not in done.err
    await client.delete(kinds.TENANTS, name)
    done = await cli(*wanted, "--dry-run")
    assert (done.code, "1 tenants are not here" in done.out) == (0, True), done
    assert "revoke again what was revoked since" in done.err
    assert f"{name}-one" in done.err

    async def answer() -> None:
        request = await asked(client, name)
        await say(client, request, status.restored(request, backups.manifest, Compared(), NOW))

    done, _ = await asyncio.gather(cli(*wanted), answer())
    assert (done.code, "1 of 1 tenants are back" in done.out) == (0, True), done
    # Interrupted or not: what is back is left alone.
    done = await cli(*wanted)
    assert (done.code, "0 tenants are not here" in done.out) == (0, True), done


async def test_all_counts_no_tenant_as_failed_while_the_api_does_not_answer(
    cli: Cli, backups: Backups, name: str, host_config: KubeConfig, tmp_path: Path
) -> None:
    client = backups.client
    await client.delete(kinds.TENANTS, name)
    async with sickserver.before(host_config, tmp_path) as sick:
        path = tmp_path / "sick.kubeconfig"
        path.write_bytes(to_yaml(sick.config))
        sick.throttled = {"servicecidrs"}  # before the restore is asked for
        process = await start("tenant", "restore", "--all", *backups.where(), environment={"KUBECONFIG": str(path)})
        await reads(process, "the host's API does not answer")
        assert [r for r in (await client.list(kinds.TENANT_RESTORES)).items if r["spec"]["tenant"] == name] == []
        sick.throttled = set()
        request = await asked(client, name)
        sick.throttled = {"tenantrestores"}  # while it is at work
        await reads(process, "the host's API does not answer")
        sick.throttled = set()
        await say(client, request, status.restored(request, backups.manifest, Compared(), NOW))
        done = await finish(process)
    assert (done.code, "1 of 1 tenants are back" in done.out) == (0, True), done


async def test_one_that_is_refused_keeps_no_other_from_coming_back(cli: Cli, backups: Backups, name: str) -> None:
    client = backups.client
    await client.delete(kinds.TENANTS, name)
    path = backups.root / folder(ID, f"{name}-one") / backups.manifest.attempt / STORE
    path.write_bytes(path.read_bytes()[:-1])
    done = await cli("tenant", "restore", "--all", *backups.where())
    assert (done.code, "truncated" in done.err, "0 of 1 tenants are back" in done.out) == (1, True, True), done
    assert name not in {tenant["metadata"]["name"] for tenant in (await client.list(kinds.TENANTS)).items}
