"""The add-ons as data: which processes run, and which objects are applied."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from workstation.hostcluster.addons.dns import COREFILE, dns_objects
from workstation.hostcluster.addons.objects import storage_classes
from workstation.hostcluster.addons.processes import components
from workstation.hostcluster.component import CLUSTER_DNS, HostContext, HostOptions


def context(**options: Any) -> HostContext:
    binaries = {name: Path("/bin") / name for name in ("kwok", "metrics-server")}
    return HostContext(HostOptions(**options), binaries, Path("/cache"))


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({}, {"netpol", "storage", "metrics-server", "gpu", "gpu-exporter", "kwok"}),
        ({"simulated_nodes": 0}, {"netpol", "storage", "metrics-server", "gpu", "gpu-exporter"}),
        ({"gpus_per_node": 0, "simulated_nodes": 0}, {"netpol", "storage", "metrics-server"}),
    ],
)
def test_only_what_is_wanted_runs(options: dict[str, int], names: set[str]) -> None:
    made = components(context(**options))
    assert {one.name for one in made} == names
    assert all(one.depends_on for one in made)


def test_kwok_is_given_stages_that_exist() -> None:
    kwok = next(one for one in components(context()) if one.name == "kwok")
    stages = next(word.partition("=")[2] for word in kwok.argv if word.startswith("--config="))
    assert all(one["kind"] == "Stage" for one in yaml.safe_load_all(Path(stages).read_text()))


def test_the_name_service_answers_at_the_fixed_address_and_needs_no_root() -> None:
    objects = {one["kind"]: one for one in dns_objects("image", "digest")}
    assert objects["Service"]["spec"]["clusterIP"] == CLUSTER_DNS
    pod = objects["Deployment"]["spec"]["template"]
    assert pod["metadata"]["labels"].items() >= objects["Service"]["spec"]["selector"].items()
    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
    ports = {port["containerPort"] for port in pod["spec"]["containers"][0]["ports"]}
    assert {port["targetPort"] for port in objects["Service"]["spec"]["ports"]} <= ports
    assert COREFILE.count("{") == COREFILE.count("}")


def test_the_default_storage_class_waits_for_a_pod_and_the_other_does_not() -> None:
    made, immediate = storage_classes()
    assert made["volumeBindingMode"] == "WaitForFirstConsumer"
    assert immediate["volumeBindingMode"] == "Immediate"
    assert "annotations" not in immediate["metadata"]
    assert made["metadata"]["annotations"] == {"storageclass.kubernetes.io/is-default-class": "true"}
