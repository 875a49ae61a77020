"""Commands for the one on call, on a host whose API answers 429 or nothing for some kinds: what can be read is shown."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bulkhead.api import ownquota
from bulkhead.api.conditions import Reason
from bulkhead.api.ownquota import OwnLine, OwnQuota
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import Unauthorized
from bulkhead.kube.kubeconfig import KubeConfig
from syncer.quota import picture
from tests.kit import sickserver
from tests.kit.commandline import Cli, Controller, finish, reads, start
from tests.kit.kubeconfigs import to_yaml
from tests.kit.sickserver import Sick
from workstation.cli.tenant import reading

pytestmark = [pytest.mark.apiserver, pytest.mark.commands]


@pytest.fixture
async def sick(host_config: KubeConfig, tmp_path: Path) -> AsyncIterator[Sick]:
    async with sickserver.before(host_config, tmp_path) as made:
        yield made


@pytest.fixture
def file(sick: Sick, tmp_path: Path) -> str:
    path = tmp_path / "sick.kubeconfig"
    path.write_bytes(to_yaml(sick.config))
    return str(path)


async def test_the_first_cause_is_named_although_some_kinds_are_not_read(
    cli: Cli, controller: Controller, name: str, sick: Sick, file: str
) -> None:
    await controller.tenant(name)
    await controller.plane(name)
    await controller.say(name, "False", Reason.DATA_LOST, "the volume is empty")
    sick.throttled = {"events", "deployments", "resourcequotas"}
    why = await cli("tenant", "why", name, "--kubeconfig", file)
    assert why.code == 1, why.err
    assert "cause:  Ready: the volume is empty" in why.out
    assert {line.partition(": TooMany")[0] for line in why.err.splitlines()} == {
        "not shown: events",
        "not shown: deployments.apps",
    }
    shown = await cli("tenant", "describe", name, "--kubeconfig", file)
    assert shown.code == 0, shown.err
    assert "DataLost" in shown.out
    assert "not shown: resourcequotas: TooManyRequests" in shown.err


async def test_a_kind_that_hangs_is_named_and_unknown_credentials_end_the_command(
    host_config: KubeConfig, sick: Sick, capsys: pytest.CaptureFixture[str]
) -> None:
    sick.hanging = {"events"}
    async with Client(sick.config, user_agent="tests", field_manager="tests", timeout=1.0) as client:
        assert await reading.known(client, kinds.EVENTS, "default") is None
        assert await reading.readable(client, kinds.EVENTS, "default") == []
        assert "not shown: events: " in capsys.readouterr().err
        assert await reading.known(client, kinds.CONFIG_MAPS, "default") is not None
    stranger = KubeConfig(server=host_config.server, ca=host_config.ca, token="wrong")
    async with Client(stranger, user_agent="tests", field_manager="tests") as client:
        with pytest.raises(Unauthorized):
            await reading.known(client, kinds.EVENTS, "default")


async def test_the_frames_of_ones_own_top_go_on(host_client: Client, cli: Cli, sick: Sick, file: str) -> None:
    own = OwnQuota((OwnLine("nvidia.com/gpu", "", nominal=4, ceiling=16, used=6, borrowed=2, lent=0, borrowable=8),))
    await host_client.apply(kinds.CONFIG_MAPS, picture.config_map(own, 1_800_000_000.0))
    try:
        assert (await cli("quota", "show", "--kubeconfig", file)).code == 0
        process = await start("top", "--watch", "--interval", "0.5", environment={"KUBECONFIG": file})
        frame = b"your quota"
        assert frame in await process.stdout.readuntil(frame)
        sick.throttled = {"configmaps"}
        assert "not read: TooManyRequests" in await reads(process, "not read")
        sick.throttled = set()
        assert frame in await process.stdout.readuntil(frame)
        await host_client.delete(kinds.CONFIG_MAPS, ownquota.CONFIG_MAP, ownquota.NAMESPACE)
        assert "not read: this cluster has no ConfigMap" in await reads(process, "no ConfigMap")
        await host_client.apply(kinds.CONFIG_MAPS, picture.config_map(own, 1_800_000_000.0))
        assert frame in await process.stdout.readuntil(frame)
        process.send_signal(2)
        assert (await finish(process)).code == 130
    finally:
        await host_client.delete(kinds.CONFIG_MAPS, ownquota.CONFIG_MAP, ownquota.NAMESPACE)


async def test_why_of_ones_own_pod_needs_no_events(host_client: Client, cli: Cli, sick: Sick, file: str, name: str) -> None:
    own = OwnQuota((OwnLine("nvidia.com/gpu", "", nominal=4, ceiling=16, used=6, borrowed=2, lent=0, borrowable=8),))
    await host_client.apply(kinds.CONFIG_MAPS, picture.config_map(own, 1_800_000_000.0))
    await host_client.apply(kinds.SERVICE_ACCOUNTS, {"metadata": {"name": "default", "namespace": "default"}})
    spec = {"containers": [{"name": "main", "image": "x"}]}
    await host_client.create(kinds.PODS, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})
    ended = {"exitCode": 137, "reason": "OOMKilled", "startedAt": None, "finishedAt": None}
    container = {"name": "main", "ready": False, "restartCount": 0, "image": "x", "imageID": "", "state": {"terminated": ended}}
    status = {"status": {"phase": "Failed", "containerStatuses": [container]}}
    await host_client.patch(kinds.PODS, name, status, "default", subresource="status")
    sick.throttled = {"events"}
    try:
        why = await cli("why", name, "--kubeconfig", file)
        assert why.code == 0, why.err
        assert "it has ended: Failed: container main: OOMKilled, exit code 137" in why.out
        assert "not shown: events: TooManyRequests" in why.err
    finally:
        await host_client.delete(kinds.PODS, name, "default", grace_seconds=0)
        await host_client.delete(kinds.CONFIG_MAPS, ownquota.CONFIG_MAP, ownquota.NAMESPACE)
