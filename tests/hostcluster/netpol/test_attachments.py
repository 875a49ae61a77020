"""Which pod got which address, from the CNI library's files."""

import asyncio
import json
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from bulkhead.kube.objects import Key
from workstation.hostcluster.netpol.attachments import Attachments, attachment
from workstation.hostcluster.netpol.cluster import cluster_from


def result(name: str, address: str) -> dict[str, Any]:
    arguments = [["IgnoreUnknown", "1"], ["K8S_POD_NAMESPACE", "red"], ["K8S_POD_NAME", name]]
    return {"cniArgs": arguments, "result": {"ips": [{"address": address}]}}


def test_an_attachment_names_its_pod() -> None:
    assert attachment(result("p", "10.244.0.2/17")) == (Key("red", "p"), IPv4Address("10.244.0.2"))
    assert attachment(result("p", "127.0.0.1/8")) is None
    assert attachment({"result": {"ips": [{"address": "10.244.0.2/17"}]}}) is None


async def test_changes_are_told_and_half_written_files_are_absent(tmp_path: Path) -> None:
    attachments, changed = Attachments(tmp_path), asyncio.Event()
    stop = attachments.watch(changed.set)
    try:
        async with asyncio.timeout(60):
            (tmp_path / "one").write_text(json.dumps(result("p", "10.244.0.2/17")))
            await changed.wait()
            assert attachments.addresses() == {Key("red", "p"): IPv4Address("10.244.0.2")}
            (tmp_path / "two").write_text('{"cniArgs": [')
            assert attachments.addresses() == {Key("red", "p"): IPv4Address("10.244.0.2")}
            changed.clear()
            (tmp_path / "one").unlink()
            await changed.wait()
            assert attachments.addresses() == {}
    finally:
        stop()


def test_an_attached_address_belongs_to_no_other_pod() -> None:
    def pod(name: str, status: dict[str, str]) -> dict[str, Any]:
        return {
            "metadata": {"namespace": "red", "name": name},
            "spec": {"nodeName": "node", "containers": []},
            "status": status,
        }

    old, new = pod("old", {"phase": "Running", "podIP": "10.244.0.2"}), pod("new", {"phase": "Pending"})
    cluster = cluster_from([old, new], [], [], {Key("red", "new"): IPv4Address("10.244.0.2")})
    assert [(one.name, str(one.address)) for one in cluster.pods] == [("new", "10.244.0.2")]
