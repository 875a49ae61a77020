"""Does a restore together with the controller: asks for it, brings the keys, and sends the store to each pod that waits for it.

    TenantRestore ──> Tenant, if it is made ──> Secret plane-restore ──> pods of the plane's volumes, by port-forward ──> done
Everything can be repeated: a command that was interrupted is run again, and goes on from what is there.
"""

import asyncio
import base64
import contextlib
import socket
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import IO, Final

from bulkhead.api import conditions, labels, names
from bulkhead.api.conditions import (
    HOPELESS,
    ConditionType,
    Reason,
    RestoreCondition,
    RestoreReason,
    find_condition,
)
from bulkhead.api.objects import Obj
from bulkhead.api.podphase import is_pending_deletion
from bulkhead.kube import portforward
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists, KubeError, NotFound, NotServed
from bulkhead.kube.proxy import RawConnection
from bulkhead.snapshots import sending
from bulkhead.snapshots.layout import STORE
from bulkhead.snapshots.sending import SendError
from workstation.cli.failures import CliError, Exit
from workstation.cli.output import Progress, plain
from workstation.cli.tenant import patience, volumeroom
from workstation.cli.tenant.patience import LateError, Waits
from workstation.cli.tenant.restoreplan import RestorePlan

_PORT: Final = 2390  # of the pod (`controller.plane.restoring`)
_SECRET: Final = "plane-restore"  # noqa: S105 - the name of a Secret
_SECRET_BYTES: Final = 900 * 1024
_SELECTOR: Final = f"{labels.COMPONENT}=restore"
# Where the Tenant is new to the host: the API server's part of its metadata stays behind.
_KEPT: Final = ("labels", "annotations")
_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
BROUGHT: Final = "bulkhead.dev/keys-brought"
_LOOK_SECONDS: Final = 0.5
# A Tenant that is refused by one of these is not built before a person changes something.
_REFUSALS: Final = HOPELESS | {
    Reason.INVALID_CONFIGURATION,
    Reason.NODES_TAKEN,
    Reason.ADOPTION_REFUSED,
    Reason.ADDRESSES_EXHAUSTED,
}
_CHUNK_BYTES: Final = 256 * 1024
_MIB: Final = 1 << 20


class Restoring:
    """One restore, from the request to its end."""

    def __init__(self, client: Client, tenant: str, plan: RestorePlan, spool: IO[bytes], progress: Progress) -> None:
        self._client = client
        self._tenant = tenant
        self._plan = plan
        self._spool = spool
        self._progress = progress
        self._space = names.plane_namespace(tenant)
        self._brought = False

    async def begin(self, *, discard: bool) -> Obj:
        """The TenantRestore: the one that was not finished, or a new one. Then the Tenant, if there is none."""
        request = self._plan.resumed or await self._ask(discard=discard)
        if self._plan.tenant is None:
            await self._make_tenant()
        return request

    async def finish(self, request: Obj, seconds: float) -> Obj:
        """Bring the keys and the store, until the plane runs with it; returns the TenantRestore then."""
        name = str(request["metadata"]["name"])
        try:
            return await patience.until(
                self._client,
                lambda: self._look(name),
                f"tenant {self._tenant}",
                seconds=seconds,
                every=_LOOK_SECONDS,
                progress=self._progress,
            )
        except LateError as late:
            raise CliError(
                f"tenant {self._tenant}: not restored after {seconds:g} s: {late.last}",
                next_step="run the same command again: it goes on. The controller goes on by itself with what it has: "
                f"kubectl get tenantrestore {name}",
                code=Exit.TIMEOUT,
            ) from late

    async def _look(self, name: str) -> Obj | Waits:
        """One look at the TenantRestore, and what it asks of this command. All of it can be repeated."""
        request = await self._read(name)
        reason, message = _told(request)
        if reason == RestoreReason.RESTORED:
            return request
        if reason == RestoreReason.FAILED:
            raise CliError(f"tenant {self._tenant}: not restored: {message}")
        if not reason:
            await self._refused()
        waits = message or "the controller has not seen it yet"
        if not self._brought and reason not in {RestoreReason.FILLING, RestoreReason.STARTING}:
            self._brought = await self._bring(request)
        if reason == RestoreReason.FILLING:
            self._progress.show(f"tenant {self._tenant}: {waits}")
            waits = await self._send(str(request["metadata"]["uid"])) or waits
        return Waits(waits)

    async def _ask(self, *, discard: bool) -> Obj:
        body: Obj = {
            "apiVersion": names.API_VERSION,
            "kind": kinds.TENANT_RESTORES.kind,
            "metadata": {"name": f"{self._tenant}-{datetime.now(UTC):%Y%m%d-%H%M%S}"},
            "spec": {"tenant": self._tenant, "manifest": self._plan.envelope} | ({"discardOldData": True} if discard else {}),
        }
        if self._plan.clone_of:
            body["spec"]["cloneOf"] = self._plan.clone_of
        try:
            return await self._client.create(kinds.TENANT_RESTORES, body)
        except NotServed as error:
            raise CliError("this installation does not know restores", next_step="upgrade its chart") from error

    async def _make_tenant(self) -> None:
        bundle = self._plan.bundle
        assert bundle is not None  # noqa: S101 - a plan without reasons has one
        if self._plan.made_tenant is not None:
            with contextlib.suppress(AlreadyExists):
                await self._client.create(kinds.TENANTS, self._plan.made_tenant)
            return
        meta = {key: dict(value) for key in _KEPT if (value := bundle.tenant["metadata"].get(key))}
        if "annotations" in meta:
            meta["annotations"].pop(_APPLIED, None)
        body = {
            "apiVersion": names.API_VERSION,
            "kind": "Tenant",
            "metadata": {"name": self._tenant} | meta,
            "spec": volumeroom.sized(bundle.tenant["spec"], self._plan.storage),
        }
        with contextlib.suppress(AlreadyExists):
            await self._client.create(kinds.TENANTS, body)

    async def _refused(self) -> None:
        """Raise CliError if the controller refuses the Tenant that was made: no restore is looked at then."""
        try:
            tenant = await self._client.get(kinds.TENANTS, self._tenant)
        except NotFound:
            return
        found = conditions.condition_of(tenant, ConditionType.READY)
        if self._plan.clone_of and found.get("status") == "False" and found.get("reason") in _REFUSALS:
            raise CliError(
                f"tenant {self._tenant}: refused: {plain(found.get('message') or found['reason'], 1000)}",
                next_step="nothing was built; correct what it names, and run the same command again; or give it up: "
                f"kubectl delete tenant {self._tenant}, then delete its TenantRestore",
            )

    async def _read(self, name: str) -> Obj:
        try:
            return await self._client.get(kinds.TENANT_RESTORES, name)
        except NotFound as error:
            raise CliError(f"TenantRestore {name} was deleted: the restore has ended", code=Exit.NOT_FOUND) from error

    async def _bring(self, request: Obj) -> bool:
        """Put the keys beside the plane; False if its namespace is not there yet."""
        bundle = self._plan.bundle
        assert bundle is not None  # noqa: S101 - a plan without reasons has one
        data = bundle.data()
        if len(data) > _SECRET_BYTES:
            raise CliError(f"the keys have {len(data)} bytes, and a Secret takes {_SECRET_BYTES}")
        content = {"plane.json": data, "restore": str(request["metadata"]["uid"]).encode()}
        body: Obj = {
            "metadata": {"name": _SECRET, "namespace": self._space, "labels": labels.made_for(self._tenant)},
            "type": "Opaque",
            "data": {name: base64.b64encode(value).decode() for name, value in content.items()},
        }
        try:
            await self._client.apply(kinds.SECRETS, body)
        except NotFound:
            return False
        # The controller watches no Secrets.
        noted = {"metadata": {"annotations": {BROUGHT: f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"}}}
        await self._client.patch(kinds.TENANT_RESTORES, request["metadata"]["name"], noted)
        return True

    async def _send(self, uid: str) -> str:
        """Send the store to each pod that waits for it. What fails is tried again with the next look; returns why it failed."""
        trouble = ""
        for pod in (await self._client.list(kinds.PODS, self._space, label_selector=_SELECTOR)).items:
            if is_pending_deletion(pod) or (pod.get("status") or {}).get("phase") != "Running":
                continue
            name = str(pod["metadata"]["name"])
            try:
                await self._send_to(name, uid)
            except (SendError, KubeError) as error:
                if getattr(error, "status", 0) in {401, 403}:
                    raise CliError(
                        f"tenant {self._tenant}: the store cannot be sent: {error}",
                        next_step=f"you need the rights to get and create pods/portforward in {self._space}",
                    ) from error
                trouble = f"{name}: {error}"
                self._progress.show(f"tenant {self._tenant}: {trouble}")
        return trouble

    async def _send_to(self, pod: str, uid: str) -> None:
        found = self._plan.manifest
        assert found is not None  # noqa: S101 - a plan without reasons has one
        size = found.parts[STORE].plain
        there = await portforward.open_port(self._client, pod, self._space, _PORT)
        async with _ends(there) as (reader, writer):
            greeting = await sending.greeted(reader, uid, size)
            if greeting.filled:
                return
            if greeting.trouble:
                self._progress.warn(f"tenant {self._tenant}: {pod} did not fill its volume: {plain(greeting.trouble, 500)}")

            def show(sent: int) -> None:
                self._progress.show(f"tenant {self._tenant}: {pod} has {sent / _MIB:.1f} of {size / _MIB:.1f} MiB")

            await sending.send(reader, writer, _chunks(self._spool, size), show)


@contextlib.asynccontextmanager
async def _ends(there: RawConnection) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """The bytes of a port-forward as a plain connection."""
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=ours)
    carried_reader, carried_writer = await asyncio.open_connection(sock=theirs)
    carrying = asyncio.create_task(portforward.carry(there, carried_reader, carried_writer))
    try:
        yield reader, writer
    finally:
        writer.close()
        carrying.cancel()
        await asyncio.gather(carrying, return_exceptions=True)


async def _chunks(spool: IO[bytes], size: int) -> AsyncIterator[bytes]:
    spool.seek(0)
    left = size
    while left and (chunk := spool.read(min(_CHUNK_BYTES, left))):
        left -= len(chunk)
        yield chunk


def _told(request: Obj) -> tuple[str, str]:
    found = find_condition((request.get("status") or {}).get("conditions") or [], RestoreCondition.COMPLETE) or {}
    return str(found.get("reason") or ""), plain(found.get("message") or "", 1000)
