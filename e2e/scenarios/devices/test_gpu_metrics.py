"""A tenant's own GPUs, from the Service in its plane: exactly its devices, also when one changes hands."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from e2e import machine, names, workloads
from e2e.api import Api
from e2e.commands import kubectl
from e2e.poll import until
from e2e.scenarios.devices.conftest import SETTLE_SECONDS
from e2e.tenants import Tenant

BUSY, QUIET = 93, 11  # percent
SCRAPE = """
import socket, ssl, sys, urllib.request
name, token_file, ca = "bulkhead-gpu-metrics.kube-system.svc", sys.argv[1], sys.argv[2]
address = socket.gethostbyname(name)
headers = {"Authorization": "Bearer " + open(token_file).read()} if token_file else {}
request = urllib.request.Request(f"https://{address}:9400/metrics", headers=headers)
try:
    with urllib.request.urlopen(request, timeout=15, context=ssl.create_default_context(cafile=ca)) as answer:
        print(answer.read().decode())
except urllib.error.HTTPError as error:
    print("status", error.code, error.read().decode())
"""
TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"


@dataclass(frozen=True, slots=True)
class Scraper:
    """A pod of a tenant that reads metrics as its Prometheus would."""

    tenant: Tenant
    space: str

    def read(self, token: str = TOKEN) -> str:
        command = ("python3", "-c", SCRAPE, token, "/ca/ca.crt")
        return kubectl(self.tenant.kubeconfig, "-n", self.space, "exec", "scraper", "--", *command).out

    def devices(self) -> dict[str, tuple[str, float]]:
        """The pod and the utilisation of each device."""
        return {
            device: (pod, float(value))
            for device, pod, value in re.findall(
                r'^DCGM_FI_DEV_GPU_UTIL\{.*?UUID="([^"]*)".*?pod="([^"]*)".*?\} (\S+)$', self.read(), re.MULTILINE
            )
        }

    def shows(self, pod: str) -> str:
        """Wait until a pod's device is shown, and return its UUID."""

        def found() -> str:
            devices = self.devices()
            uuids = [device for device, (name, _) in devices.items() if name == pod]
            workloads.expect(len(uuids) == 1, f"shown so far: {devices}")
            return uuids[0]

        return until(f"the GPU of {pod}", found, seconds=90, interval=1.0)


@contextmanager
def scraping(host: Api, tenant: Tenant, space: str) -> Iterator[Scraper]:
    """A pod whose account may get /metrics, with the CA of the Service."""
    image = host.get("Deployment", "bulkhead-controller", names.SYSTEM_NAMESPACE)["spec"]["template"]["spec"]["containers"][0][
        "image"
    ]
    ca = tenant.api.get("ConfigMap", "bulkhead-gpu-metrics", "kube-system")["data"]
    metadata = {"name": "gpu-metrics-ca", "namespace": space}
    tenant.api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": ca})
    kubectl(tenant.kubeconfig, "create", "clusterrole", "e2e-metrics", "--verb=get", "--non-resource-url=/metrics")
    account = f"--serviceaccount={space}:default"
    kubectl(tenant.kubeconfig, "create", "clusterrolebinding", "e2e-metrics", "--clusterrole=e2e-metrics", account)
    spec = workloads.pod_spec(("python3", "-c", "import time; time.sleep(3600)"))
    spec["containers"][0] |= {"image": image, "volumeMounts": [{"name": "ca", "mountPath": "/ca"}]}
    spec["containers"][0]["resources"]["limits"]["memory"] = "128Mi"
    spec["volumes"] = [{"name": "ca", "configMap": {"name": "gpu-metrics-ca"}}]
    tenant.api.create(workloads.pod("scraper", spec, namespace=space))
    try:
        workloads.wait_running(tenant.api, "scraper", namespace=space)
        yield Scraper(tenant, space)
    finally:
        for kind in ("clusterrolebinding", "clusterrole"):
            kubectl(tenant.kubeconfig, "delete", kind, "e2e-metrics", "--ignore-not-found")


def work(tenant: Tenant, space: str, name: str) -> None:
    tenant.api.create(workloads.pod(name, workloads.pod_spec(gpus=1), namespace=space))
    workloads.wait_running(tenant.api, name, namespace=space)


def load(device: str, percent: int) -> None:
    """What a simulated GPU does from now on."""
    (machine.DATA / "gpu" / f"nvidia{device.rpartition('-')[2]}.load").write_text(str(percent))


def test_two_tenants_each_see_exactly_their_devices_and_a_device_that_changes_hands_shows_nothing_of_before(
    host: Api, alice: Tenant, bob: Tenant, space: str, bobs: str
) -> None:
    loaded = []
    with scraping(host, alice, space) as hers, scraping(host, bob, bobs) as his:
        try:
            work(alice, space, "train")
            device = hers.shows("train")
            load(device, BUSY)
            loaded.append(device)
            work(bob, bobs, "serve")
            other = his.shows("serve")
            load(other, QUIET)
            loaded.append(other)
            assert device != other
            until(
                "each tenant to see what its device does",
                lambda: workloads.expect(
                    (hers.devices(), his.devices()) == ({device: ("train", BUSY)}, {other: ("serve", QUIET)}),
                    f"{hers.devices()} and {his.devices()}",
                ),
                seconds=60,
            )
            page = hers.read()
            for field in ("FB_USED", "POWER_USAGE", "GPU_TEMP", "XID_ERRORS", "SM_CLOCK", "TOTAL_ENERGY_CONSUMPTION"):
                assert f"DCGM_FI_DEV_{field}{{" in page
            assert f'Hostname="{machine.NODE}",namespace="{space}",pod="train",container="main"' in page
            assert 'simulated="true"' in page
            assert not [word for word in (other, f'"{bobs}"', '"serve"', bob.work, alice.work, "uid=") if word in page]
            assert "status 401" in hers.read(token="")

            # It changes hands: bob's pod gets the lowest free number, which alice's pod had.
            for tenant, where, name in ((bob, bobs, "serve"), (alice, space, "train")):
                tenant.api.delete("Pod", name, where, grace=0)
            workloads.wait_pod_gone(alice.api, "train", namespace=space)
            workloads.wait_pod_gone(bob.api, "serve", namespace=bobs)
            work(bob, bobs, "next")
            began = time.monotonic()
            load(device, QUIET)
            seen = []
            while time.monotonic() - began < 2 * SETTLE_SECONDS + 10:
                seen += [(time.monotonic() - began, found) for found in (his.devices(), hers.devices()) if found]
                time.sleep(1)
            assert seen, "the positive control: bob's next pod is shown"
            assert all(found == {device: ("next", QUIET)} for _, found in seen), seen
            assert seen[0][0] > SETTLE_SECONDS - 5, "before the device has settled nothing is shown"
        finally:
            for one in loaded:
                (machine.DATA / "gpu" / f"nvidia{one.rpartition('-')[2]}.load").unlink(missing_ok=True)
