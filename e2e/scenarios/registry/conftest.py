"""Fixtures: a host without imported images, a registry filled by `images push`, the chart with the values of that push."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e import commands, install, machine, names, tenants
from e2e.api import Api
from e2e.tenants import Tenant
from workstation.hostcluster import registry

FOLDER = Path("build/e2e/registry")
VALUES = FOLDER / "images.yaml"
SECRET = "registry"
PLACE = f"{registry.ADDRESS}/bulkhead"
AUTHORITY = machine.DATA / "pki" / "registry-ca.crt"
CREDENTIALS = machine.DATA / "registry" / "config.json"


def push(*arguments: str, given: str | None = None, check: bool = True) -> commands.Outcome:
    """`bulkhead images push` into the host's registry."""
    command = ("images", "push", PLACE, "--ca-file", str(AUTHORITY), "--values", str(VALUES), "--pull-secret", SECRET)
    return commands.bulkhead(*command, *arguments, seconds=600, check=check, given=given)


def put_secret(host: Api, credentials: str) -> None:
    """The Secret of the chart's pullSecrets, in its namespace."""
    host.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": SECRET, "namespace": names.SYSTEM_NAMESPACE},
            "type": "kubernetes.io/dockerconfigjson",
            "stringData": {".dockerconfigjson": credentials},
        }
    )


def install_chart(*values: str) -> None:
    """Install the chart with the values file of the push."""
    arguments = ["upgrade", "--install", install.RELEASE, str(install.CHART), "--namespace", names.SYSTEM_NAMESPACE]
    for name, value in {"storageClass": "local-immediate", **install.HOST_API}.items():
        arguments += ["--set", f"{name}={value}"]
    arguments += [part for value in values for part in ("--set", value)]
    commands.helm(machine.KUBECONFIG, *arguments, "--values", str(VALUES), "--wait", "--timeout", "450s", seconds=180)


@pytest.fixture(scope="session")
def host() -> Iterator[Api]:
    """The host after the README's steps: images pushed, Secret created, chart installed."""
    machine.bring_up(lambda line: print(line, flush=True), "--registry", "--no-imports", "--simulated-nodes", "0")
    found = machine.host_api()
    FOLDER.mkdir(parents=True, exist_ok=True)
    push("--auth-file", str(CREDENTIALS))
    found.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": names.SYSTEM_NAMESPACE}})
    put_secret(found, CREDENTIALS.read_text())
    install_chart()
    install.apply_class(found)
    yield found
    put_secret(found, CREDENTIALS.read_text())


@pytest.fixture(scope="session")
def alice(host: Api) -> Iterator[Tenant]:
    """A tenant that pulled each of its images."""
    tenants.remove(host, "e2e-pulled")
    yield tenants.create(host, "e2e-pulled", gpus=1)
    tenants.remove(host, "e2e-pulled")


def wrong_password() -> str:
    """Credentials of the right form that the registry does not know."""
    return json.dumps({"auths": {registry.ADDRESS: {"username": registry.USER, "password": "not-the-password"}}})
