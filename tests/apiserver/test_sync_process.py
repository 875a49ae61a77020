"""The syncer as the process that it is in a pod: starts before its plane, gets ready, serves, ends on SIGTERM."""

import asyncio
import json
import os
import signal
import socket
import sys
from pathlib import Path

import msgspec
import pytest

from bulkhead.kube.client import Client
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.kube.resources import CONFIG_MAPS
from syncer import identity
from tests.apiserver.bed import Bed, until
from tests.apiserver.pki import Authority

LIMIT_MIB = 64  # a gross leak shows here; the benchmark holds the real limit


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def resident_memory(pid: int) -> str:
    return next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))


async def probe(port: int, path: str) -> tuple[int, str]:
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return 0, ""
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    answer = (await reader.read()).decode()
    writer.close()
    return int(answer.split(" ")[1]), answer.partition("\r\n\r\n")[2]


def write_files(folder: Path, bed: Bed, plane: KubeConfig, host: KubeConfig, shim_port: int) -> list[str]:
    settings = {
        "tenant": bed.tenant,
        "tenantUID": bed.settings.tenant_uid,
        "planeNamespace": bed.settings.plane_namespace,
        "workNamespace": bed.work,
        "shimPort": shim_port,
        "dnsAddress": bed.settings.dns_address,
        "apiAddress": bed.settings.api_address,
        "nodes": {"selector": {"pool": bed.tenant}},
    }
    (folder / "settings.json").write_bytes(msgspec.json.encode(settings))
    (folder / "kubeconfig").write_bytes(plane.to_yaml())
    (folder / "host").write_bytes(host.to_yaml())
    authority = Authority("kubelet")
    cert, key = authority.issue("shim", addresses=("127.0.0.1",))
    (folder / "shim.crt").write_bytes(cert)
    (folder / "shim.key").write_bytes(key)
    (folder / "shim-client-ca.crt").write_bytes(authority.pem)
    return [
        f"--settings={folder / 'settings.json'}",
        f"--pki={folder}",
        f"--host-kubeconfig={folder / 'host'}",
        "--listen=127.0.0.1",
    ]


@pytest.mark.timeout(90)
async def test_the_process_syncs_and_ends(
    host_client: Client, plane_client: Client, plane_config: KubeConfig, host_config: KubeConfig, tmp_path: Path
) -> None:
    async with Bed.open(host_client, plane_client, start=False) as bed:
        port, shim_port = free_port(), free_port()
        arguments = write_files(tmp_path, bed, plane_config, host_config, shim_port)
        log = (tmp_path / "log").open("wb")
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "syncer",
            *arguments,
            f"--probe-port={port}",
            stderr=log,
            env=os.environ | {"MALLOC_ARENA_MAX": "2"},
        )
        try:

            async def ready() -> bool:
                assert process.returncode is None, (tmp_path / "log").read_text()
                return (await probe(port, "/readyz"))[0] == 200

            await until(ready, "ready")
            assert (await probe(port, "/livez"))[0] == 200
            await bed.create(bed.pod("web"))

            async def mirrored() -> bool:
                return len(await bed.host_pods()) == 1

            await until(mirrored, "host pod")
            assert "bulkhead_syncer_host_writes_total" in (await probe(port, "/metrics"))[1]
            resident = resident_memory(process.pid)
            assert int(resident.split()[1]) / 1024 < LIMIT_MIB, resident
            process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(20):
                assert await process.wait() == 0, (tmp_path / "log").read_text()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
            log.close()
        lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
        assert all(line["tenant"] == bed.tenant for line in lines)
        data = (await bed.host.get(CONFIG_MAPS, identity.NAME, bed.settings.plane_namespace))["data"]
        assert int(data[identity.REVISION_KEY]) > 0
        (tmp_path / "resident").write_text(resident)


async def test_broken_settings_end_the_process_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text('{"tenant": "a", "surprise": 1}')
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "syncer", f"--settings={tmp_path / 'settings.json'}", stderr=asyncio.subprocess.PIPE
    )
    _, text = await process.communicate()
    assert process.returncode == 2
    assert b"settings:" in text
