"""`bulkhead console` of a tenant's user shows what their simulated GPUs do, through virtual nodes, and no others' GPUs."""

import re

from e2e import machine, workloads
from e2e.consolepage import Page, console
from e2e.poll import until
from e2e.tenants import Tenant

BUSY, QUIET = 93, 11  # percent


def device_of(tenant: Tenant, space: str, pod: str) -> str:
    """The GPU that a pod holds, as its virtual node tells the tenant."""
    tenant.api.create(workloads.pod(pod, workloads.pod_spec(gpus=1), namespace=space))
    node = workloads.wait_running(tenant.api, pod, namespace=space)["spec"]["nodeName"]

    def probe() -> str:
        page = tenant.api.text(f"/api/v1/nodes/{node}/proxy/metrics/gpus")
        lines = re.findall(r"^DCGM_FI_DEV_GPU_UTIL\{(.*)\} \S+$", page, re.MULTILINE)
        labels: list[dict[str, str]] = [dict(re.findall(r'(\w+)="([^"]*)"', line)) for line in lines]
        found: list[str] = [gpu["UUID"] for gpu in labels if (gpu.get("namespace"), gpu.get("pod")) == (space, pod)]
        workloads.expect(len(found) == 1, f"shown so far: {labels}")
        return found[0]

    return until(f"the GPU of {pod}", probe, seconds=90, interval=1.0)


def load(device: str, percent: int | None) -> None:
    """What a simulated GPU does from now on; None: what it did before."""
    path = machine.DATA / "gpu" / f"nvidia{device.rpartition('-')[2]}.load"
    if percent is None:
        path.unlink(missing_ok=True)
    else:
        path.write_text(str(percent))


def busy(page: Page, pod: str, percent: int) -> None:
    """Wait until the page has this use of a pod's device, and of all devices together."""

    def probe() -> None:
        picture = page.picture
        rows = {row["name"]: row.get("use") or {} for row in picture.get("holding") or []}
        workloads.expect(rows.get(pod, {}).get("busyPercent") == percent, f"holding: {rows}")
        workloads.expect((picture["use"] or {}).get("busyPercent") == percent, f"together: {picture['use']}")

    # Measured every three seconds, shown once it has settled, and asked for every ten.
    until(f"the page to show {pod} at {percent} %", probe, seconds=90)


def test_each_user_sees_the_use_of_their_own_gpus(alice: Tenant, bob: Tenant, space: str, bobs: str) -> None:
    hers, his = device_of(alice, space, "train"), device_of(bob, bobs, "serve")
    assert hers != his
    try:
        load(hers, BUSY)
        load(his, QUIET)
        with console(alice.kubeconfig, "-f", str(alice.kubeconfig)) as page:
            busy(page, f"{space}/train", BUSY)
            assert page.picture["use"]["simulated"] is True
            assert page.picture["use"]["devices"] == 1
            assert not page.picture["use"]["missing"]
            assert not [word for word in (bobs, bob.name, his) if word in str(page.picture)]
            load(hers, QUIET)
            busy(page, f"{space}/train", QUIET)
        with console(bob.kubeconfig, "-f", str(bob.kubeconfig)) as page:
            busy(page, f"{bobs}/serve", QUIET)
            assert not [word for word in (space, alice.name, hers) if word in str(page.picture)]
    finally:
        load(hers, None)
        load(his, None)
