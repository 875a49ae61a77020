"""Level 2: what is secret is told nowhere (D11): in no log, figure, event, status or metadata, whether it passes or is refused.

    planted in Secrets, environment, arguments, probes ──> plane ──> the syncer as a process ──> host
                                                                         └─> its log at level DEBUG, its pages

The control: each secret that is to reach the host did, where it belongs, and the search finds what stands in a text.
"""

import base64
import json
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.kube.resources import CONFIG_MAPS, EVENTS, PODS, SECRETS
from tests.apiserver.syncerprocess import probe, running_syncer, write_files
from tests.kit.ports import free_port
from tests.kit.syncerbed import SyncerBed, until

PLACES: Final = (
    "secret",
    "later",
    "pull",
    "refused-secret",
    "config",
    "variable",
    "argument",
    "header",
    "note",
    "refused",
    "malformed",
)


def planted() -> dict[str, str]:
    """A text for each place, that stands nowhere else."""
    return {place: f"canary-{place}-{secrets.token_hex(12)}" for place in PLACES}


def found_in(text: str, canaries: Mapping[str, str]) -> set[str]:
    """Which of them a text tells, plain or in base64, at whatever offset that begins."""
    return {place for place, canary in canaries.items() if any(form in text for form in forms(canary))}


def forms(canary: str) -> Iterable[str]:
    yield canary
    for shift in range(3):
        coded = base64.b64encode(b"x" * shift + canary.encode()).decode().rstrip("=")
        yield coded[4 if shift else 0 : -2]


def coded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def pods(bed: SyncerBed, canary: Mapping[str, str]) -> list[Obj]:
    main: Obj = {
        "name": "main",
        "image": "busybox:1.36",
        "env": [
            {"name": "PASSWORD", "value": canary["variable"]},
            {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "vault", "key": "key"}}},
        ],
        "envFrom": [{"secretRef": {"name": "vault"}}, {"configMapRef": {"name": "settings"}}],
        "args": [f"--password={canary['argument']}"],
        "livenessProbe": {"httpGet": {"port": 80, "httpHeaders": [{"name": "Authorization", "value": canary["header"]}]}},
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
    }
    plain = {
        "containers": [main],
        "volumes": [{"name": "v", "secret": {"secretName": "vault"}}],
        "imagePullSecrets": [{"name": "registry"}],
    }
    noted = bed.pod("noted", **plain)
    noted["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps({"x": canary["note"]})}
    of_refused = {"name": "v", "secret": {"secretName": "of-the-host"}}
    variable = {"name": "PASSWORD", "value": canary["refused"]}
    broken = {"name": "A B", "value": canary["malformed"]}
    return [
        noted,
        bed.pod("refused", **plain | {"containers": [main | {"env": [variable]}], "hostNetwork": True}),
        bed.pod("large", **plain | {"containers": [main | {"env": [variable], "args": [canary["refused"] * 10_000]}]}),
        bed.pod("broken", **plain | {"containers": [main | {"env": [broken], "securityContext": {"privileged": True}}]}),
        bed.pod("of-the-host", **plain | {"volumes": [of_refused]}),
    ]


async def plant(bed: SyncerBed, canary: Mapping[str, str]) -> None:
    login = json.dumps({"auths": {"registry.example": {"auth": coded(canary["pull"])}}})
    kinds: dict[str, dict[str, Any]] = {
        "vault": {"data": {"key": coded(canary["secret"])}},
        "registry": {"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": coded(login)}},
        "of-the-host": {"type": "bootstrap.kubernetes.io/token", "data": {"token": coded(canary["refused-secret"])}},
    }
    for name, content in kinds.items():
        await bed.plane.create(SECRETS, {"metadata": {"name": name}} | content, bed.space)
    await bed.plane.create(CONFIG_MAPS, {"metadata": {"name": "settings"}, "data": {"x": canary["config"]}}, bed.space)
    for pod in pods(bed, canary):
        await bed.create(pod)


def whole(log: Path) -> str:
    return log.read_text(errors="replace")


async def told(bed: SyncerBed, port: int) -> dict[str, str]:
    """Everything that may tell nothing of it, as text."""
    spaces = ((bed.plane, bed.space), (bed.host, bed.work), (bed.host, bed.settings.plane_namespace))
    events = [event for client, space in spaces for event in (await client.list(EVENTS, space)).items]
    assert {event["involvedObject"]["name"] for event in events} >= {"refused", "large", "broken"}
    virtual, host = (await bed.plane.list(PODS, bed.space)).items, await bed.host_pods()
    own = (await bed.host.list(CONFIG_MAPS, bed.settings.plane_namespace)).items
    return {
        "figures": (await probe(port, "/metrics"))[1],
        "readiness": (await probe(port, "/readyz"))[1],
        "events": json.dumps(events),
        "statuses": json.dumps([pod.get("status") for pod in (*virtual, *host)]),
        "metadata": json.dumps([pod["metadata"] for pod in host]),
        "the syncer's own ConfigMaps": json.dumps(own),
    }


async def test_what_is_secret_is_told_nowhere(
    host_client: Client, plane_client: Client, plane_config: KubeConfig, host_config: KubeConfig, tmp_path: Path
) -> None:
    canary = planted()
    async with SyncerBed.open(host_client, plane_client, start=False) as bed:
        port, log = free_port(), tmp_path / "log"
        arguments = [*write_files(tmp_path, bed, plane_config, host_config, free_port()), "--log-level=DEBUG"]
        async with running_syncer(arguments, port, log) as process:
            await plant(bed, canary)
            for name in ("refused", "large", "broken"):
                await bed.event(name)

            async def on_the_host(place: str) -> bool:
                """Secrets and pods of the host hold it: that is what they are for."""
                held = [*(await bed.host.list(SECRETS, bed.work)).items, *(await bed.host.list(CONFIG_MAPS, bed.work)).items]
                specs = [pod["spec"] for pod in await bed.host_pods()]
                return place in found_in(json.dumps([specs, held]), canary)

            for place in ("secret", "config", "variable", "argument", "header"):
                await until(lambda place=place: on_the_host(place), f"{place} to reach the host")  # type: ignore[misc]
            await bed.plane.patch(SECRETS, "vault", {"data": {"key": coded(canary["later"])}}, bed.space)
            await until(lambda: on_the_host("later"), "the changed secret to reach the host")
            texts = await told(bed, port)
            process.terminate()
            await process.wait()
        texts["log"] = whole(log)
    leaks = {where: sorted(places) for where, text in texts.items() if (places := found_in(text, canary))}
    assert leaks == {}
    keys = [config.client_key.decode().splitlines()[1] for config in (plane_config, host_config) if config.client_key]
    assert len(keys) == 2
    assert not [where for where, text in texts.items() if any(key in text for key in keys)]
    assert all(len(texts[where]) > 100 for where in ("log", "figures", "events", "statuses", "metadata"))


def test_the_search_finds_what_stands_in_a_text() -> None:
    """The control of what is searched for."""
    canary = planted()
    for place, text in canary.items():
        for form in (text, coded(text), coded(f"a{text}"), coded(f'ab{{"{text}"}}'), coded(f"abc{text}")):
            assert found_in(f"... {form} ...", canary) == {place}
