"""The upstream test driver for dynamic resource allocation, run on the embedded host's node as a real driver would be.

    built from the suite's module -> kubelet plugin: publishes ResourceSlices, answers the kubelet, writes CDI files

Its devices have no hardware: a container gets an environment variable for each of them.
"""

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

from e2e import machine
from e2e.api import Api
from e2e.conformance import suite
from e2e.poll import NotYetError, until
from workstation.hostcluster import binaries
from workstation.hostcluster.component import RUN_DIR

NAME = "test-driver.cdi.k8s.io"
_KUBELET = machine.DATA / "kubelet"
_LOG = Path("build/e2e/dra-driver.log")
_END_SECONDS = 15


@contextlib.contextmanager
def running(host: Api, devices: int) -> Iterator[None]:
    """The driver with this number of devices, until the context ends; its slices are removed then."""
    program = suite.programs(binaries.cache_dir(), [suite.DEVICE_DRIVER])[suite.DEVICE_DRIVER]
    for folder in (_LOG.parent, _KUBELET / "plugins" / NAME):
        folder.mkdir(parents=True, exist_ok=True)
    command = [str(program), "kubelet-plugin", f"--kubeconfig={machine.KUBECONFIG}", f"--drivername={NAME}"]
    command += [f"--node-name={machine.NODE}", f"--num-devices={devices}", f"--cdi-dir={RUN_DIR / 'cdi'}"]
    command += [f"--plugin-registration-path={_KUBELET / 'plugins_registry'}", f"--datadir={_KUBELET / 'plugins'}"]
    with _LOG.open("w") as log, subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT) as process:
        try:
            until("the driver to offer its devices", lambda: _offered(host, process, devices), seconds=60)
            yield
        finally:
            process.terminate()
            try:
                process.wait(timeout=_END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
            for item in _slices(host):
                host.delete("ResourceSlice", item)


def _offered(host: Api, process: subprocess.Popen[bytes], devices: int) -> None:
    if process.poll() is not None:
        last = _LOG.read_text(errors="replace").splitlines()[-1:]
        raise AssertionError(f"the driver ended with status {process.returncode}: {last}; log: {_LOG}")
    found = sum(_slices(host).values())
    if found != devices:
        raise NotYetError(f"{found} devices in the slices")


def _slices(host: Api) -> dict[str, int]:
    """The driver's slices, and how many devices are in each."""
    return {
        item["metadata"]["name"]: len(item["spec"].get("devices") or [])
        for item in host.list("ResourceSlice")
        if item["spec"]["driver"] == NAME
    }
