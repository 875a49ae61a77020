"""The chart as helm renders it; the same arguments are rendered once in each process."""

import functools
import json
import os
import subprocess
from pathlib import Path

from bulkhead.api.objects import Obj
from tests.kit import yamlfiles
from workstation.hostcluster import binaries

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts" / "bulkhead"
DNS_PORTS = [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}]


def helm(*arguments: str) -> str:
    program = binaries.ensure("helm")["helm"]
    # By default it asks an API server five times a second at most once a hundred requests are made, and waits in between.
    eager = os.environ | {"HELM_QPS": "1000", "HELM_BURST_LIMIT": "1000", "GOGC": "400"}
    done = subprocess.run([str(program), *arguments], capture_output=True, text=True, timeout=60, env=eager, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def rendered(*arguments: str) -> list[Obj]:
    """The chart's objects, as a new copy for each call, so that a test may change them."""
    objects: list[Obj] = json.loads(_rendered(arguments))
    return objects


def of_kind(kind: str, *arguments: str) -> list[Obj]:
    """The chart's objects of one kind."""
    return [obj for obj in rendered(*arguments) if obj["kind"] == kind]


def environment(*arguments: str) -> dict[str, str]:
    """The controller's variables, where the chart has no other Deployment."""
    (deployment,) = of_kind("Deployment", *arguments)
    return _variables(deployment)


def environment_of(name: str, *arguments: str) -> dict[str, str]:
    """The variables of the Deployment of this name."""
    (deployment,) = [obj for obj in of_kind("Deployment", *arguments) if obj["metadata"]["name"] == name]
    return _variables(deployment)


def ways_to_dns(policy: Obj) -> list[Obj]:
    """The rules of a NetworkPolicy that open the cluster's DNS: those for any port, and those for DNS alone."""
    return [rule for rule in policy["spec"]["egress"] if "ports" not in rule or rule["ports"] == DNS_PORTS]


def _variables(deployment: Obj) -> dict[str, str]:
    listed = deployment["spec"]["template"]["spec"]["containers"][0]["env"]
    return {variable["name"]: variable["value"] for variable in listed if "value" in variable}


@functools.cache
def _rendered(arguments: tuple[str, ...]) -> str:
    text = helm("template", "bulkhead", str(CHART), "--namespace=bulkhead-system", *arguments)
    return json.dumps(yamlfiles.documents(text))
