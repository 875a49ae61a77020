"""The enforcer against a real API server; what it hands to the kernel is caught before it gets there."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bulkhead.kube.client import Client
from bulkhead.kube.resources import NETWORK_POLICIES, PODS
from tests.kit.background import background
from tests.kit.syncerbed import until
from workstation.hostcluster.netpol import enforcer
from workstation.hostcluster.netpol.attachments import Attachments

NODE = "netpol-node"


class Kernel:
    """Keeps what was loaded; refuses a given number of times."""

    def __init__(self) -> None:
        self.loaded: list[str] = []
        self.refusals = 0

    async def load(self, text: str) -> None:
        if self.refusals:
            self.refusals -= 1
            raise enforcer.FilterError("nft: refused")
        self.loaded.append(text)

    async def holds(self, *parts: str) -> bool:
        return bool(self.loaded) and all(part in self.loaded[-1] for part in parts)


@pytest.fixture
async def kernel(host_client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Kernel]:
    kernel = Kernel()
    monkeypatch.setattr(enforcer, "load", kernel.load)
    async with background(enforcer.Enforcer(host_client, NODE, Attachments(tmp_path)).run()):
        yield kernel


async def make_pod(client: Client, namespace: str, name: str) -> None:
    spec = {"nodeName": NODE, "containers": [{"name": "c", "image": "x"}]}
    await client.create(PODS, {"metadata": {"namespace": namespace, "name": name}, "spec": spec})


async def test_a_pod_has_rules_from_its_attachment_on(
    host_client: Client, namespace: str, kernel: Kernel, tmp_path: Path
) -> None:
    deny = {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    await host_client.create(NETWORK_POLICIES, {"metadata": {"namespace": namespace, "name": "deny"}, "spec": deny})
    await make_pod(host_client, namespace, "p")
    await until(lambda: kernel.holds("chain forward"), "the first rules")
    assert not await kernel.holds("10.244.7.7")

    document = {
        "cniArgs": [["K8S_POD_NAMESPACE", namespace], ["K8S_POD_NAME", "p"]],
        "result": {"ips": [{"address": "10.244.7.7/17"}]},
    }
    (tmp_path / "bulkhead-1-eth0").write_text(json.dumps(document))
    await until(lambda: kernel.holds("10.244.7.7 : jump in-", "10.244.7.7 : jump out-"), "rules for the attached address")


async def test_rules_that_the_kernel_refused_are_tried_again(host_client: Client, namespace: str, kernel: Kernel) -> None:
    await until(lambda: kernel.holds("chain forward"), "the first rules")
    kernel.refusals = 1
    await make_pod(host_client, namespace, "late")
    await host_client.patch(PODS, "late", {"status": {"podIP": "10.244.8.8"}}, namespace, subresource="status")
    await until(lambda: kernel.holds("10.244.8.8"), "the rules after a refusal")
