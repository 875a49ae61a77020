"""Waits for the controller, on a host whose API answers 429 for a while: they go on to their deadline, and say what goes on."""

import asyncio
import contextlib
import io
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import pytest

from bulkhead.api import names, planeidentity, planemembers
from bulkhead.api.conditions import ConditionType, Reason
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import ApiError, Forbidden, KubeError, Throttled, Timeout, Unauthorized, Unavailable, unreachable
from bulkhead.kube.kubeconfig import KubeConfig
from controller.restores import status as restorestatus
from controller.restores.decide import Step
from controller.restores.status import Compared
from controller.snapshots import status as snapshotstatus
from tests.kit import sickserver
from tests.kit.commandline import Cli, Controller
from tests.kit.sickserver import Sick
from tests.kit.syncerbed import until
from tests.kit.tenantsamples import NOW
from tests.snapshots.samples import BUNDLE, GOLDEN
from workstation.cli.arguments import Host, Wait
from workstation.cli.failures import CliError, Exit
from workstation.cli.output import Progress
from workstation.cli.renewal import LastingClient
from workstation.cli.tenant import acceptdata, patience, recover, snapshot, waiting
from workstation.cli.tenant.patience import LateError, Waits
from workstation.cli.tenant.restoreplan import RestorePlan
from workstation.cli.tenant.restorework import Restoring
from workstation.cli.tenant.snapshot import SnapshotRequest

SILENCE: Final = "the host's API does not answer: TooManyRequests"


# -- the wait itself


class Looks:
    """Looks that end as they are listed; the last one repeats."""

    def __init__(self, *ends: str | Waits | KubeError) -> None:
        self._ends = list(ends)
        self.shown = io.StringIO()

    async def look(self) -> str | Waits:
        found = self._ends.pop(0) if len(self._ends) > 1 else self._ends[0]
        if isinstance(found, KubeError):
            raise found
        return found

    async def until(self, seconds: float, client: Client | None = None) -> str:
        plain: Any = client or object()
        progress = Progress(self.shown)
        return await patience.until(plain, self.look, "tenant red", seconds=seconds, every=0.01, progress=progress)

    def lines(self) -> list[str]:
        return [line.partition("] ")[2] for line in self.shown.getvalue().splitlines()]


async def test_an_api_that_does_not_answer_ends_no_wait() -> None:
    looks = Looks(
        Throttled(429, "TooManyRequests", "later"),
        unreachable("refused"),
        Waits("etcd starts"),
        Unavailable(503, "", "no leader"),
        Timeout("nothing for 15 s"),
        ApiError(500, "InternalError", "etcdserver: request timed out"),
        "done",
    )
    assert await looks.until(60) == "done"
    assert looks.lines() == [
        "tenant red: the host's API does not answer: TooManyRequests: later",
        "tenant red: the host's API does not answer: Unreachable: refused",
        "tenant red: etcd starts",
        "tenant red: the host's API does not answer: 503: no leader",
        "tenant red: the host's API does not answer: nothing for 15 s",
        "tenant red: the host's API does not answer: InternalError: etcdserver: request timed out",
    ]


async def test_any_other_error_ends_it() -> None:
    with pytest.raises(Forbidden):
        await Looks(Waits("etcd starts"), Forbidden(403, "Forbidden", "no"), "done").until(60)


REFUSED: Final = Unauthorized(401, "Unauthorized", "the token has ended")


def with_plugin() -> Client:
    """A client that has a plugin to ask, and asks none here."""
    made = LastingClient.__new__(LastingClient)
    made._answered = cast("Any", object())
    return made


async def test_credentials_that_are_renewed_end_no_wait() -> None:
    looks = Looks(REFUSED, REFUSED, Waits("etcd starts"), REFUSED, "done")
    assert await looks.until(60, with_plugin()) == "done"
    refused = "tenant red: the kubeconfig's plugin is asked for other credentials: Unauthorized: the token has ended"
    assert looks.lines() == [refused, "tenant red: etcd starts", refused]
    with pytest.raises(Unauthorized):
        await Looks(REFUSED, "done").until(60)


async def test_credentials_that_stay_refused_end_a_wait_before_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "_RENEWAL_SECONDS", 0.05)
    with pytest.raises(Unauthorized):
        await Looks(REFUSED).until(60, with_plugin())


@pytest.mark.parametrize(
    ("end", "last", "silent"),
    [(Waits("etcd starts"), "etcd starts", False), (Timeout("nothing"), "the host's API does not answer: nothing", True)],
)
async def test_its_deadline_says_what_it_waited_for(end: Waits | KubeError, last: str, silent: bool) -> None:
    with pytest.raises(LateError) as late:
        await Looks(end).until(0.05)
    assert (late.value.last, late.value.silent) == (last, silent)


class Failing:
    """A host that answers no list."""

    def __init__(self, error: KubeError) -> None:
        self._error = error

    async def list(self, *_: object, **__: object) -> Any:
        raise self._error


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (Throttled(429, "TooManyRequests", "later"), ""),
        (ApiError(500, "InternalError", "etcdserver: request timed out"), ""),
        (Forbidden(403, "Forbidden", "no"), ""),
        (ApiError(400, "BadRequest", "no such field"), "BadRequest: no such field"),
    ],
)
async def test_troubles_that_cannot_be_read_for_now_cause_no_warning(error: KubeError, shown: str) -> None:
    stream = io.StringIO()
    await waiting._warn(cast("Any", Failing(error)), "red", set(), Progress(stream))
    assert (shown in stream.getvalue(), bool(stream.getvalue())) == (True, bool(shown))


async def test_it_looks_once_however_short_it_is() -> None:
    assert await Looks("done").until(0) == "done"


async def test_an_overloaded_api_is_asked_when_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    paused: list[float] = []

    async def sleep(seconds: float) -> None:
        paused.append(round(seconds))

    monkeypatch.setattr(asyncio, "sleep", sleep)
    busy = Throttled(429, "TooManyRequests", "later", retry_after=7.0)
    assert await Looks(busy, Waits("etcd starts"), "done").until(3600) == "done"
    assert await Looks(busy, "done").until(3) == "done"
    assert paused == [7, 0, 3], "and a last time at the deadline"


# -- the commands


@dataclass
class Bed:
    """A command's client on a host in trouble, and what the command shows."""

    client: Client
    sick: Sick
    shown: io.StringIO
    progress: Progress

    async def goes_on(self, work: Awaitable[Any], kind: str, then: Callable[[], Awaitable[object]]) -> Any:
        """The wait's result, if one kind is not served for a while, and `then` is done when it is served again."""
        self.sick.throttled = {kind}
        self.progress.show("another wait")  # the same line twice is shown once
        before = len(self.shown.getvalue())
        task = asyncio.ensure_future(work)

        async def silent() -> bool:
            return task.done() or SILENCE in self.shown.getvalue()[before:]

        try:
            await until(silent, "the silence to be shown")
            assert not task.done(), task
            self.sick.throttled = set()
            await then()
            async with asyncio.timeout(60):
                return await task
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task

    async def gives_up(self, work: Awaitable[object], kind: str) -> CliError:
        """The error of a wait whose kind is not served before its deadline."""
        self.sick.throttled = {kind}
        with pytest.raises(CliError) as error:
            await work
        assert (error.value.code, SILENCE in error.value.cause) == (Exit.TIMEOUT, True), error.value
        return error.value


@pytest.fixture
async def bed(cli: Cli, host_config: KubeConfig, tmp_path: Path) -> AsyncIterator[Bed]:
    assert cli is not None  # the definitions are installed
    async with (
        sickserver.before(host_config, tmp_path) as sick,
        Client(sick.config, user_agent="tests", field_manager="tests") as client,
    ):
        shown = io.StringIO()
        yield Bed(client, sick, shown, Progress(shown))


async def nothing() -> None: ...


@pytest.mark.apiserver
@pytest.mark.commands
async def test_a_created_tenant_is_waited_for(bed: Bed, controller: Controller, name: str) -> None:
    await controller.tenant(name)
    ready = waiting.until_ready(bed.client, name, seconds=60, progress=bed.progress)
    await bed.goes_on(ready, "tenants", lambda: controller.say(name, "True", Reason.READY, "fine"))
    gone = waiting.until_gone(bed.client, name, "1", seconds=60, progress=bed.progress)
    await bed.goes_on(gone, "tenants", nothing)


@pytest.mark.apiserver
@pytest.mark.commands
async def test_a_snapshot_is_waited_for(bed: Bed, controller: Controller, host_client: Client, name: str) -> None:
    await controller.tenant(name)
    body = {"apiVersion": names.API_VERSION, "kind": "TenantSnapshot", "metadata": {"name": name}, "spec": {"tenant": name}}
    made = await host_client.create(kinds.TENANT_SNAPSHOTS, body)

    def wait(seconds: float) -> Awaitable[str]:
        request = SnapshotRequest(Host(None, None), name, name, Wait(True, seconds))
        return snapshot._until_stored(bed.client, request, bed.progress)

    error = await bed.gives_up(wait(0.1), "tenantsnapshots")
    assert error.next_step == f"the controller goes on: kubectl get tenantsnapshot {name}"
    status = snapshotstatus.stored(made, GOLDEN, "s3://bucket/x/manifest.json", NOW)

    async def store() -> None:
        await host_client.patch(kinds.TENANT_SNAPSHOTS, name, {"status": status}, subresource="status")

    assert "s3://bucket/x/manifest.json" in await bed.goes_on(wait(60), "tenantsnapshots", store)


@pytest.mark.apiserver
@pytest.mark.commands
async def test_a_recovery_is_waited_for(bed: Bed, controller: Controller, host_client: Client, name: str) -> None:
    await controller.tenant(name)
    await controller.plane(name)
    await controller.say(name, "False", Reason.QUORUM_LOST, "1 of 3 serves", type_=ConditionType.PLANE_READY)
    meta, space = {"name": planemembers.NAME}, names.plane_namespace(name)
    await host_client.create(kinds.CONFIG_MAPS, {"metadata": meta, "data": {planemembers.RECOVER: "plane-2"}}, space)

    def wait(seconds: float) -> Awaitable[Any]:
        return recover._until_recovered(bed.client, name, seconds, bed.progress)

    for kind in ("tenants", "configmaps"):
        error = await bed.gives_up(wait(0.1), kind)
        assert error.next_step == f"the controller goes on: bulkhead tenant recover {name}"

    async def serve() -> None:
        await controller.say(name, "False", Reason.DATA_LOST, "recovered", type_=ConditionType.PLANE_READY)
        await host_client.patch(kinds.CONFIG_MAPS, planemembers.NAME, {"data": {planemembers.RECOVER: ""}}, space)

    plane = await bed.goes_on(wait(60), "configmaps", serve)
    assert plane["reason"] == Reason.DATA_LOST


@pytest.mark.apiserver
@pytest.mark.commands
async def test_accepted_data_is_waited_for(
    bed: Bed, controller: Controller, host_client: Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await controller.tenant(name)
    await controller.plane(name)
    await controller.say(name, "False", Reason.DATA_LOST, "it was lost", type_=ConditionType.PLANE_READY)
    meta, space = {"name": planeidentity.NAME}, names.plane_namespace(name)
    await host_client.create(kinds.CONFIG_MAPS, {"metadata": meta, "data": {planeidentity.UID_KEY: "old"}}, space)

    async def notice() -> None:
        seen = {"data": {planeidentity.QUARANTINE_KEY: "it was lost"}}
        await host_client.patch(kinds.CONFIG_MAPS, planeidentity.NAME, seen, space)

    async def accept() -> None:
        await controller.say(name, "True", Reason.READY, "it answers", type_=ConditionType.PLANE_READY)

    await bed.goes_on(acceptdata._until_noticed(bed.client, name, bed.progress), "configmaps", notice)
    monkeypatch.setattr(acceptdata, "_NOTICED_WITHIN", 0.1)
    error = await bed.gives_up(acceptdata._until_noticed(bed.client, name, bed.progress), "configmaps")
    assert "nothing was changed" in error.cause, "a syncer that is not heard may run"
    error = await bed.gives_up(acceptdata._until_accepted(bed.client, name, None, 0.1, bed.progress), "tenants")
    assert error.next_step == f"its syncer goes on, if it runs; look: bulkhead tenant describe {name}"
    await bed.goes_on(acceptdata._until_accepted(bed.client, name, None, 60, bed.progress), "tenants", accept)


@pytest.mark.apiserver
@pytest.mark.commands
async def test_a_restore_is_waited_for_in_each_of_its_steps(
    bed: Bed, controller: Controller, host_client: Client, name: str
) -> None:
    await controller.tenant(name)
    await controller.plane(name)
    body = {"apiVersion": names.API_VERSION, "kind": "TenantRestore", "spec": {"tenant": name, "manifest": "that of another"}}
    request = await host_client.create(kinds.TENANT_RESTORES, body | {"metadata": {"name": f"{name}-{secrets.token_hex(2)}"}})
    called = str(request["metadata"]["name"])
    plan = RestorePlan(manifest=GOLDEN, bundle=BUNDLE)

    def finish(seconds: float) -> Awaitable[Obj]:
        return Restoring(bed.client, name, plan, io.BytesIO(), bed.progress).finish(request, seconds)

    async def say(status: Obj) -> None:
        await host_client.patch(kinds.TENANT_RESTORES, called, {"status": status}, subresource="status")

    async def restored() -> None:
        await say(restorestatus.restored(request, GOLDEN, Compared(), NOW))

    async def brought() -> None:
        async def there() -> bool:
            return any(
                secret["metadata"]["name"] == "plane-restore"
                for secret in (await host_client.list(kinds.SECRETS, names.plane_namespace(name))).items
            )

        await until(there, "the keys")
        await restored()

    error = await bed.gives_up(finish(0.1), "tenantrestores")
    assert error.next_step.startswith("run the same command again: it goes on. The controller goes on by itself")
    assert f"kubectl get tenantrestore {called}" in error.next_step
    assert await bed.goes_on(finish(60), "secrets", brought)
    await say(restorestatus.at_work(request, GOLDEN, Step.FILL, NOW))
    assert await bed.goes_on(finish(60), "pods", restored)
    await say(restorestatus.at_work(request, GOLDEN, Step.FILL, NOW))
    done = await bed.goes_on(finish(60), "tenantrestores", restored)
    assert done["metadata"]["name"] == called
    await host_client.delete(kinds.TENANT_RESTORES, called)
