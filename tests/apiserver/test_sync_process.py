"""The syncer as the process that it is in a pod: starts before its plane, gets ready, serves, ends on SIGTERM."""

import asyncio
import json
import signal
import sys
from pathlib import Path

from bulkhead.kube.client import Client
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.kube.resources import CONFIG_MAPS
from syncer.write import identity
from tests.apiserver.syncerprocess import probe, resident_mib, running_syncer, write_files
from tests.kit.ports import free_port
from tests.kit.syncerbed import SyncerBed, until

LIMIT_MIB = 64  # a gross leak shows here; the benchmark holds the real limit


async def test_the_process_syncs_and_ends(
    host_client: Client, plane_client: Client, plane_config: KubeConfig, host_config: KubeConfig, tmp_path: Path
) -> None:
    async with SyncerBed.open(host_client, plane_client, start=False) as bed:
        port, kubelet_port = free_port(), free_port()
        arguments = write_files(tmp_path, bed, plane_config, host_config, kubelet_port)
        async with running_syncer(arguments, port, tmp_path / "log") as process:
            assert (await probe(port, "/livez"))[0] == 200
            await bed.create(bed.pod("web"))

            async def mirrored() -> bool:
                return len(await bed.host_pods()) == 1

            await until(mirrored, "host pod")
            assert "bulkhead_syncer_host_writes_total" in (await probe(port, "/metrics"))[1]
            assert resident_mib(process.pid) < LIMIT_MIB
            process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(60):
                assert await process.wait() == 0, (tmp_path / "log").read_text()
        lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
        assert all(line["tenant"] == bed.tenant for line in lines)
        data = (await bed.host.get(CONFIG_MAPS, identity.NAME, bed.settings.plane_namespace))["data"]
        assert int(data[identity.REVISION_KEY]) > 0


async def test_broken_settings_end_the_process_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text('{"tenant": "a", "surprise": 1}')
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "syncer", f"--settings={tmp_path / 'settings.json'}", stderr=asyncio.subprocess.PIPE
    )
    _, text = await process.communicate()
    assert process.returncode == 2
    assert b"settings:" in text
