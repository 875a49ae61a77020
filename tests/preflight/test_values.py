"""The values that preflight assumes are those of the chart, and what it takes of an admin's file is bounded."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bulkhead.kube import resources as kinds
from tests.kit import yamlfiles
from tests.kit.helmchart import CHART, rendered
from workstation.cli import preflight
from workstation.cli.failures import CliError
from workstation.preflight.known import KNOWN, unknown
from workstation.preflight.observe import INSTALLED
from workstation.preflight.values import DEFAULTS, merged, parse


def _differing(ours: Mapping[str, Any], theirs: Mapping[str, Any], path: str = "") -> list[str]:
    told = []
    for key, value in ours.items():
        if key == "hostAPIBy" and key not in theirs:
            continue
        if isinstance(value, Mapping) and value:
            told += _differing(value, theirs.get(key) or {}, f"{path}{key}.")
        elif theirs.get(key) != value:
            told.append(f"{path}{key}")
    return told


def test_the_defaults_are_those_of_the_chart() -> None:
    assert _differing(DEFAULTS, yamlfiles.load(CHART / "values.yaml")) == []


def test_every_kind_that_the_chart_installs_is_asked_for_among_the_rights() -> None:
    plurals = {(each.group, each.kind): each.plural for each in vars(kinds).values() if isinstance(each, kinds.Resource)}
    wanted = {
        ("", "namespaces"),
        ("", "secrets"),
        ("apiextensions.k8s.io", "customresourcedefinitions"),
    }  # helm's own, and crds/
    for obj in rendered():
        group = obj["apiVersion"].rpartition("/")[0]
        wanted.add((group, plurals.get((group, obj["kind"]), re.sub("y$", "ie", obj["kind"].lower()) + "s")))
    assert wanted - set(INSTALLED) == set()


def test_a_later_file_counts_and_lists_are_replaced_as_helm_does() -> None:
    values = parse(
        merged(
            [
                {"images": {"registry": "one.example.org", "pullSecrets": ["a", "b"]}, "kubernetesVersions": ["v1", "v2"]},
                {"images": {"registry": "two.example.org", "pullSecrets": ["c"], "etcd": "other.example.org/etcd@sha256:00"}},
            ]
        ),
        reserved=["10.0.0.0/8"],
    )
    assert values.images["kubernetes v2"] == "two.example.org/kubernetes:v2"
    assert values.images["etcd"] == "other.example.org/etcd@sha256:00"
    assert (values.pull_secrets, values.reserved) == (("c",), ("10.0.0.0/8",))


def test_what_has_a_digest_is_pulled_by_it_as_the_chart_does() -> None:
    digests = {"etcd:v3.6.16": "sha256:11", "kubernetes:v1.36.3": "sha256:22", "coredns:other": "sha256:33"}
    images = parse(merged([{"images": {"registry": "one.example.org", "digests": digests}}])).images
    assert images["etcd"] == "one.example.org/etcd:v3.6.16@sha256:11"
    assert images["kubernetes v1.36.3"] == "one.example.org/kubernetes:v1.36.3@sha256:22"
    assert images["coredns"] == "one.example.org/coredns:v1.15.0"


def test_the_proxy_is_pulled_where_there_is_a_domain() -> None:
    assert "proxy" not in parse(merged([])).images
    assert "proxy" in parse(merged([{"exposure": {"domains": ["k8s.example.org"]}}])).images


def test_without_slurm_no_image_of_it_is_wanted() -> None:
    values = parse(merged([{"slurmVersions": []}]))
    assert (values.with_slurm, {name.split()[0] for name in values.images} & {"slurm", "mariadb"}) == (False, set())


def test_values_of_the_wrong_type_are_read_as_nothing_and_many_are_cut() -> None:
    values = parse(
        merged(
            [
                {
                    "services": 7,
                    "images": {"pullSecrets": {"a": 1}, "registry": ["x"]},
                    "kubernetesVersions": [f"v{number}" for number in range(10_000)],
                    "networkPolicy": {"hostAPI": "all", "hostAPIBy": 3},
                    "podNetworks": [[1], None, "10.0.0.0/8"],
                    "controller": {"tolerations": "none", "nodeSelector": []},
                }
            ]
        )
    )
    assert (values.service_range, values.pod_networks, values.host_api, values.host_api_by) == (
        "",
        ("10.0.0.0/8",),
        (),
        "Address",
    )
    assert (len(values.images), values.pull_secrets, values.tolerations) == (24, (), ())


def test_the_known_values_are_those_of_the_charts_schema() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())

    def names(node: Any) -> Any:
        while isinstance(node, Mapping) and "$ref" in node:
            node = schema["$defs"][node["$ref"].rpartition("/")[2]]
        if not isinstance(node, Mapping):
            return None  # a name that the schema lists to say which other one is meant
        if node.get("additionalProperties") is not False:
            return {}
        found = {name: names(inner) for name, inner in node.get("properties", {}).items()}
        return {name: inner for name, inner in found.items() if inner is not None}

    assert names(schema) == KNOWN
    assert not list(unknown(yamlfiles.load(CHART / "values.yaml")))


@pytest.mark.parametrize(
    ("content", "fault", "step"),
    [
        ("networkpolicy: {}", "no value networkpolicy", "did you mean networkPolicy?"),
        ("services: {ranges: 10.0.0.0/8}", "no value services.ranges", "did you mean range?"),
        ("image: x", "no value image", "did you mean images"),
        ("services: {zzz: 1}", "no value services.zzz", "known here: range, slicePrefix"),
        ("1: 2", "no value 1", "known here: "),
        ('"a\\u001b[31m": 2', "no value a", "known here: "),
    ],
)
def test_a_misspelt_value_is_named(content: str, fault: str, step: str, tmp_path: Path) -> None:
    path = tmp_path / "values.yaml"
    path.write_text(content)
    with pytest.raises(CliError, match=fault) as refused:
        preflight._document(str(path))
    assert str(refused.value.next_step).startswith(step)
    assert "\x1b" not in str(refused.value)
