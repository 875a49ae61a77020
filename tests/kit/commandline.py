"""The real command as a process of its own, against a real API server; the tests play the controller by writing status."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from bulkhead.api import names
from bulkhead.api.conditions import ConditionType, Reason
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.kube.objects import Obj
from tests.kit.pki import Authority
from tests.kit.syncerbed import until


@dataclass(frozen=True, slots=True)
class Outcome:
    code: int
    out: str
    err: str


Cli = Callable[..., Awaitable[Outcome]]


async def start(*arguments: str, environment: dict[str, str] | None = None) -> asyncio.subprocess.Process:
    """The command as a process; HOME points nowhere, so that nothing of this machine leaks in."""
    plain = {key: value for key, value in os.environ.items() if key not in {"KUBECONFIG", "BULKHEAD_TENANT"}}
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "bulkhead.cli.main",
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=plain | {"HOME": "/nonexistent"} | (environment or {}),
    )


async def reads(process: asyncio.subprocess.Process, *texts: str) -> str:
    """Read what the command says on its way until it has said all of this."""
    assert process.stderr is not None
    said = ""
    while not all(text in said for text in texts):
        line = await asyncio.wait_for(process.stderr.readline(), 180)
        assert line, said
        said += line.decode()
    return said


async def finish(process: asyncio.subprocess.Process) -> Outcome:
    """Wait for the command's end."""
    out, err = await asyncio.wait_for(process.communicate(), 180)
    assert process.returncode is not None
    assert "Traceback" not in err.decode()
    return Outcome(process.returncode, out.decode(), err.decode())


@dataclass(frozen=True, slots=True)
class Controller:
    """Stands in for the controller: makes a plane's namespace, the CA of its people, and status; requests it really answers."""

    client: Client
    people: Authority

    async def tenant(self, name: str, **spec: Any) -> Obj:
        body = {
            "apiVersion": names.API_VERSION,
            "kind": "Tenant",
            "metadata": {"name": name},
            "spec": {"class": "standard"} | spec,
        }
        return await self.client.create(kinds.TENANTS, body)

    async def plane(self, name: str, config: KubeConfig | None = None) -> None:
        namespace = names.plane_namespace(name)
        await self.client.create(kinds.NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        if config is not None and config.ca is not None:
            files = {"tls.crt": self.people.pem.decode(), "tls.key": self.people.key.decode()}
            secret = {"metadata": {"name": "pki-ca-users", "namespace": namespace}, "stringData": files}
            await self.client.create(kinds.SECRETS, {"apiVersion": "v1", "kind": "Secret"} | secret)
            status = {"endpoint": config.server, "certificateAuthority": config.ca.decode()}
            await self.client.patch(kinds.TENANTS, name, {"status": status}, subresource="status")

    async def say(
        self,
        name: str,
        status: str,
        reason: Reason,
        message: str,
        *,
        type_: ConditionType = ConditionType.READY,
        **more: Any,
    ) -> None:
        tenant = await self.client.get(kinds.TENANTS, name)
        item = {
            "type": str(type_),
            "status": status,
            "reason": str(reason),
            "message": message,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
            "observedGeneration": tenant["metadata"]["generation"],
        }
        await self.client.patch(kinds.TENANTS, name, {"status": {"conditions": [item]} | more}, subresource="status")

    async def exists(self, name: str) -> None:
        """Return once the command has created the tenant."""

        async def there() -> bool:
            return any(item["metadata"]["name"] == name for item in (await self.client.list(kinds.TENANTS)).items)

        await until(there, f"{name} created")
