"""The leader's metrics of one tenant in its archive: the state of its etcd is known while its API is dead."""

from typing import Any

from bulkhead.kube.client import Client
from tests.console.test_certificates import controllers
from workstation.collect import sources
from workstation.collect.archive import Collected
from workstation.collect.gather import Gatherer, NotReadError

PAGE = """# HELP bulkhead_tenant_store_bytes x
bulkhead_tenant_store_bytes{tenant="red",what="used"} 700.0
bulkhead_tenant_store_bytes{tenant="red-2",what="used"} 1.0
bulkhead_tenant_store_bytes{what="used",tenant="red"} 900.0
bulkhead_tenant_ready{tenant="blue",reason="tenant=\\"red\\""} 1.0
process_cpu_seconds_total{tenant="red"} 5.0
bulkhead_controller_leading 1.0
"""
KEPT = PAGE.splitlines()[1:4:2]


async def collected(client: Client) -> Collected:
    async def none() -> Any:
        raise NotReadError("not asked")

    return await Gatherer(client, "red", lambda _: None, none, none).run(20)


def test_only_the_lines_of_the_tenant_are_kept() -> None:
    assert sources.lines_of_tenant(PAGE.encode(), "red").decode().splitlines() == KEPT
    assert sources.lines_of_tenant(b"\xff{\nbulkhead_x\n", "red").strip() == b""


async def test_the_leader_tells_them_whichever_pod_it_is() -> None:
    async with controllers(standby=(200, "bulkhead_controller_leading 0\n"), leader=(200, PAGE)) as client:
        found = await collected(client)
    assert found.files["controller-metrics.txt"].decode().splitlines() == KEPT
    assert "controller-metrics.txt" not in found.failures


async def test_why_they_are_missing_is_said() -> None:
    async with controllers(leader=(503, "down")) as client:
        assert "HTTP 503" in (await collected(client)).failures["controller-metrics.txt"]
    async with controllers(leader=(200, "")) as client:
        assert "nothing of the tenant yet" in (await collected(client)).failures["controller-metrics.txt"]
