"""The syncer as the process that it is in a pod, started by a test, and what can be asked of it from outside."""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from bulkhead.kube.kubeconfig import KubeConfig
from tests.kit.kubeconfigs import to_yaml
from tests.kit.pki import Authority
from tests.kit.syncerbed import SyncerBed, until


def resident_mib(pid: int) -> float:
    """Resident memory of a process; 0 when it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except FileNotFoundError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS")), 0.0)


async def probe(port: int, path: str) -> tuple[int, str]:
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return 0, ""
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    answer = (await reader.read()).decode()
    writer.close()
    return int(answer.split(" ")[1]), answer.partition("\r\n\r\n")[2]


def write_files(folder: Path, bed: SyncerBed, plane: KubeConfig, host: KubeConfig, kubelet_port: int) -> list[str]:
    settings = {
        "tenant": bed.tenant,
        "tenantUID": bed.settings.tenant_uid,
        "planeNamespace": bed.settings.plane_namespace,
        "workNamespace": bed.work,
        "shimPort": kubelet_port,
        "dnsAddress": bed.settings.dns_address,
        "apiAddress": bed.settings.api_address,
        "nodes": {"selector": {"pool": bed.tenant}},
    }
    (folder / "settings.json").write_bytes(msgspec.json.encode(settings))
    (folder / "kubeconfig").write_bytes(to_yaml(plane))
    (folder / "host").write_bytes(to_yaml(host))
    authority = Authority("kubelet")
    cert, key = authority.issue("shim", addresses=("127.0.0.1",))
    (folder / "shim.crt").write_bytes(cert)
    (folder / "shim.key").write_bytes(key)
    (folder / "shim-client-ca.crt").write_bytes(authority.pem)
    (folder / "shim-proxy-ca.crt").write_bytes(Authority("front-proxy").pem)
    return [
        f"--settings={folder / 'settings.json'}",
        f"--pki={folder}",
        f"--host-kubeconfig={folder / 'host'}",
        "--listen=127.0.0.1",
    ]


def tail(log: Path) -> str:
    """The end of what a process logged."""
    return log.read_text(errors="replace")[-4000:]


@contextlib.asynccontextmanager
async def running_syncer(
    arguments: list[str], port: int, log: Path, program: tuple[str, ...] = ("-m", "syncer")
) -> AsyncIterator[asyncio.subprocess.Process]:
    """The process, once it is ready; killed at the end if it still runs."""
    with log.open("wb") as out:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *program,
            *arguments,
            f"--probe-port={port}",
            stderr=out,
            env=os.environ | {"MALLOC_ARENA_MAX": "2"},
        )
    try:

        async def ready() -> bool:
            assert process.returncode is None, tail(log)
            return (await probe(port, "/readyz"))[0] == 200

        await until(ready, "ready")
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
