"""JSON and YAML of commands: keys that programs may rely on, in camelCase, with units where a number has one."""

import json
import re
from typing import Any

import pytest
import yaml

from bulkhead.api.quantity import unit_of
from bulkhead.ledger.model import Flavor, Rules
from tests.kit.commandline import Cli, Controller
from workstation.cli.hostversion import versions
from workstation.cli.quotas.cohort import _rules_json
from workstation.cli.tenant.describedocument import document_of
from workstation.cli.tenant.description import Description, Inside
from workstation.cli.trouble import Trouble

TENANT = {
    "metadata": {"name": "red", "creationTimestamp": "2026-01-01T00:00:00Z"},
    "spec": {"class": "standard", "scheduling": {"mode": "Kubernetes"}},
    "status": {
        "versions": {"kubernetes": "1.36.3"},
        "endpoint": "https://red",
        "gpus": {"used": 1, "limit": 8},
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}
EVENT = {
    "type": "Warning",
    "reason": "Failed",
    "message": "x",
    "metadata": {},
    "lastTimestamp": "2026-01-01T00:00:00Z",
    "involvedObject": {"kind": "Pod", "name": "plane-0"},
}
POD = {
    "metadata": {"name": "plane-0", "namespace": "bh-red"},
    "spec": {"containers": [{"name": "a", "resources": {"limits": {"nvidia.com/gpu": "2"}}}, {"name": "b"}], "nodeName": "n"},
    "status": {"phase": "Running", "containerStatuses": [{"ready": True, "restartCount": 3}, {"ready": False}]},
}
FOUND = Description(
    tenant=TENANT,
    plane="bh-red",
    pods=(POD,),
    troubles=(Trouble("pod plane-0", "BackOff", "why"),),
    quotas=({"status": {"hard": {"limits.cpu": "4"}, "used": {"limits.cpu": "1"}}},),
    events=(EVENT, EVENT),
    inside=Inside(refused=((POD, {"reason": "QuotaExceeded", "message": "y"}),)),
)


def keys(value: Any, *, but: frozenset[str] = frozenset()) -> set[str]:
    """All keys at any depth; below `but` are names of other things."""
    if isinstance(value, list):
        return {key for item in value for key in keys(item, but=but)}
    if isinstance(value, dict):
        return set(value) | {key for name, item in value.items() if name not in but for key in keys(item, but=but)}
    return set()


def is_camel(key: str) -> bool:
    return re.fullmatch(r"[a-z][a-zA-Z0-9]*", key) is not None


def test_a_description_has_all_that_the_text_has() -> None:
    said = document_of(FOUND)
    assert said == {
        "name": "red",
        "class": "standard",
        "mode": "Kubernetes",
        "kubernetesVersion": "1.36.3",
        "endpoint": "https://red",
        "gpus": {"used": 1, "limit": 8},
        "dedicated": {},
        "serviceSlice": None,
        "createdAt": "2026-01-01T00:00:00Z",
        "deletingSince": None,
        "conditions": [{"type": "Ready", "status": "True"}],
        "plane": {
            "namespace": "bh-red",
            "pods": [
                {"name": "plane-0", "readyContainers": 1, "containers": 2, "phase": "Running", "restarts": 3, "node": "n"}
            ],
            "warnings": [{"subject": "pod plane-0", "reason": "BackOff", "message": "why"}],
        },
        "quota": [{"resource": "limits.cpu", "used": "1", "limit": "4"}],
        "unlimited": said["unlimited"],
        "events": [
            {
                "at": "2026-01-01T00:00:00Z",
                "type": "Warning",
                "reason": "Failed",
                "object": "pod/plane-0",
                "message": "x",
            }
        ],
        "pendingPods": {
            "unknown": None,
            "refused": [{"namespace": "bh-red", "pod": "plane-0", "gpus": 2, "reason": "QuotaExceeded", "message": "y"}],
            "warnings": [],
        },
    }
    assert "memory" in " ".join(said["unlimited"])
    assert all(map(is_camel, keys(said)))


def test_rules_have_seconds_in_their_names() -> None:
    assert _rules_json(Rules(max_moves=2, flavors=(Flavor("h100", "nvidia.com/gpu", {"a": "b"}),))) == {
        "minRuntimeSeconds": 120.0,
        "reclaimWithinSeconds": 180.0,
        "fairPreemption": True,
        "overQuota": "Keep",
        "overQuotaGraceSeconds": 600.0,
        "bindWithinSeconds": 60.0,
        "maxMoves": 2,
        "flavors": [{"name": "h100", "resource": "nvidia.com/gpu", "nodeLabels": {"a": "b"}}],
    }


@pytest.mark.parametrize(
    ("resource", "unit"),
    [("cpu", "millicores"), ("memory", "bytes"), ("hugepages-2Mi", "bytes"), ("nvidia.com/gpu", "count"), ("pods", "count")],
)
def test_amounts_stand_beside_their_unit(resource: str, unit: str) -> None:
    assert unit_of(resource) == unit


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("registry.example.org:5000/bulkhead/bulkhead:0.1.0@sha256:aa", "0.1.0"),
        ("registry.example.org:5000/bulkhead/bulkhead", None),
        ("bulkhead:0.2", "0.2"),
    ],
)
def test_the_hosts_version_is_the_tag_of_the_controllers_image(image: str, version: str | None) -> None:
    deployment = {
        "metadata": {"labels": {"app.kubernetes.io/version": "0.1.1"}},
        "spec": {
            "template": {"spec": {"containers": [{"name": "other", "image": "x:9"}, {"name": "controller", "image": image}]}}
        },
    }
    assert versions(deployment) == {"controllerVersion": version, "chartVersion": "0.1.1"}


async def test_a_tenant_is_described_in_json_and_yaml(cli: Cli, controller: Controller, name: str) -> None:
    await controller.tenant(name)
    as_json = await cli("tenant", "describe", name, "-o", "json")
    as_yaml = await cli("tenant", "describe", name, "-o", "yaml")
    said = json.loads(as_json.out)
    assert (as_json.code, as_json.err, said["name"], said["class"]) == (0, "", name, "standard")
    # The name of the request that was not answered is another one each time.
    assert "did not answer request" in said["pendingPods"].pop("unknown")
    also = yaml.safe_load(as_yaml.out)
    assert also["pendingPods"].pop("unknown")
    assert also == said


async def test_what_admins_ask_of_quotas_has_the_same_keys_in_each_form(cli: Cli, controller: Controller, name: str) -> None:
    await controller.tenant(name)
    expected = {("top",): {"cohorts", "nodes"}, ("cohort",): set()}
    for words, there in expected.items():
        as_json, as_yaml = (
            json.loads((await cli(*words, "-o", "json")).out),
            yaml.safe_load((await cli(*words, "-o", "yaml")).out),
        )
        assert keys(as_json) == keys(as_yaml)
        assert all(map(is_camel, keys(as_json)))
        assert there <= keys(as_json)


async def test_a_kubeconfig_and_a_login_have_a_form(cli: Cli, controller: Controller, plane_config: Any, name: str) -> None:
    await controller.tenant(name)
    await controller.plane(name, plane_config)
    as_json, as_yaml = await cli("kubeconfig", name, "-o", "json"), await cli("kubeconfig", name, "-o", "yaml")
    assert not as_yaml.out.startswith("{")
    assert yaml.safe_load(as_yaml.out) == json.loads(as_json.out)
    path = "/dev/null/x"
    refused = await cli("login", name, "--write", path, "-o", "json")
    assert json.loads(refused.err)["error"]["message"].startswith(f"cannot write {path}")


async def test_a_login_as_json(cli: Cli, controller: Controller, plane_config: Any, name: str, tmp_path: Any) -> None:
    await controller.tenant(name)
    await controller.plane(name, plane_config)
    path = tmp_path / "x.yaml"
    said = json.loads((await cli("login", name, "--write", str(path), "-o", "json")).out)
    assert list(said) == ["tenant", "user", "kubeconfig", "credentialEndsAt"]
    assert (said["tenant"], said["kubeconfig"]) == (name, str(path))
    assert path.is_file()
    old = await cli("login", name, "-o", str(path))
    assert (old.code, f"write a file with --write {path}" in old.err) == (0, True)
    assert "logged in to tenant" in old.out


async def test_images_and_versions_have_camel_case_keys(cli: Cli) -> None:
    images = json.loads((await cli("images", "list", "-o", "json")).out)
    assert {"name", "tag", "description"} <= keys(images)
    assert all(map(is_camel, keys(images)))
    assert yaml.safe_load((await cli("images", "list", "-o", "yaml")).out) == images
    said = json.loads((await cli("version", "-o", "json")).out)
    assert keys(said) == {"client", "version", "host"}
