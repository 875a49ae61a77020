"""Ways that a tenant might try and that there are not: kinds, rights, headers, archives. Controls would find one."""

import ast
import functools
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import pytest

from controller.plane import apiserver, syncer
from controller.plane.sections import Tracing
from frontdoor import haproxy
from frontdoor.haproxy import Limits
from frontdoor.routes import Route
from syncer.translate.registry import KINDS
from tests.kit import yamlfiles
from tests.kit.helmchart import ROOT, rendered
from tests.kit.tenantsamples import plane_spec

WRITES: Final = frozenset({"create", "update", "patch", "delete", "deletecollection", "*"})
# Groups of what a plane may hold and the host must never get from it: F6, E14.
FOREIGN: Final = (
    "gateway.networking.k8s.io", "rbac.authorization.k8s.io", "admissionregistration.k8s.io", "apiextensions.k8s.io",
    "apiregistration.k8s.io", "storage.k8s.io", "node.k8s.io", "certificates.k8s.io", "apps", "batch",
)  # fmt: skip
CORE: Final = (
    "events",
    "nodes",
    "namespaces",
    "namespaces/finalize",
    "persistentvolumes",
    "pods/binding",
    "serviceaccounts/token",
)
UNPACKING: Final = frozenset({"tarfile", "zipfile", "shutil.unpack_archive"})


def roles(beginning: str) -> Iterator[dict[str, Any]]:
    for obj in rendered():
        if obj["kind"] in {"Role", "ClusterRole"} and obj["metadata"]["name"].startswith(beginning):
            yield from obj["rules"]


def written(beginning: str) -> set[tuple[str, str]]:
    """Group and resource of all that roles with such names may write."""
    return {
        (group, resource)
        for rule in roles(beginning)
        if WRITES & set(rule["verbs"])
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def test_no_kind_beside_the_mirrored_ones_leaves_a_plane() -> None:
    """B10, E14, F6: a syncer writes mirrors, parts of its pods and, about itself, ConfigMaps and events beside the plane."""
    kinds = {(kind.group, kind.plural) for kind in KINDS.values()}
    assert not {group for group, _ in kinds} & set(FOREIGN)
    parts = {("", f"pods/{part}") for part in ("status", "exec", "attach", "portforward", "ephemeralcontainers", "resize")}
    in_work = set().union(*(written(f"bulkhead-syncer-{which}") for which in ("work", "ingress", "podgroups", "snapshots")))
    assert in_work - parts == kinds, "the control: what it mirrors it may write"
    assert not in_work & {("", resource) for resource in CORE}
    assert written("bulkhead-syncer-plane") == {("", "configmaps"), ("", "events")}
    assert written("bulkhead-syncer-nodes") == set()


def test_the_front_door_reads_and_writes_no_header() -> None:
    """D8: it passes bytes on; what speaks HTTP in it is its own page of figures."""
    text = haproxy.configuration([Route("a", "10.112.4.1", ("a.example.org",))], Limits(), "/run")
    parts = {part.splitlines()[0]: part for part in text.split("\n\n")}
    assert [name for name, part in parts.items() if "http" in part] == ["frontend metrics"]
    assert "mode tcp" in parts["defaults"]
    assert not [word for word in ("header", "forwardfor", "send-proxy", "accept-proxy") if word in text]


def test_a_plane_believes_headers_of_its_own_front_proxy_alone() -> None:
    """D8: a name in a header counts with a certificate of an authority that signs nothing else."""
    (flags,) = (
        [*container.get("command", ()), *container.get("args", ())] for container in [apiserver.container(plane_spec())]
    )
    flag_values = dict(flag.removeprefix("--").split("=", 1) for flag in flags if "=" in flag)
    assert flag_values["requestheader-allowed-names"] == "bulkhead:front-proxy"
    assert flag_values["requestheader-client-ca-file"] != flag_values["client-ca-file"]


@functools.cache
def imported(path: str) -> set[str]:
    found: set[str] = set()
    for file in (ROOT / path).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                found.add(f"{node.value.id}.{node.attr}")
    return found


@pytest.mark.parametrize("package", ["bulkhead", "controller", "syncer", "frontdoor", "gpumetrics"])
def test_nothing_that_runs_on_the_host_unpacks_archives(package: str) -> None:
    """H5: a snapshot is a stream with a signed manifest and no archive: nothing in it names a file to write."""
    assert not imported(package) & UNPACKING
    assert imported("workstation") & UNPACKING, "the control: downloads of an admin's machine are archives"


def test_the_chart_gives_nobody_the_right_to_make_tenants() -> None:
    """H6: only users with all rights on the host create Tenants; a role of the chart makes none, and the controller neither."""
    verbs = {verb for rule in roles("") if "tenants" in rule["resources"] for verb in rule["verbs"]}
    assert verbs == {"get", "list", "watch", "patch", "login"}
    whose = [
        obj["metadata"]["name"]
        for obj in rendered()
        if obj["kind"] == "ClusterRole"
        for rule in obj["rules"]
        if "tenants" in rule["resources"] and "patch" in rule["verbs"]
    ]
    assert whose == ["bulkhead-controller"]
    assert not [rule for rule in roles("") if "*" in {*rule["apiGroups"], *rule["resources"], *rule["verbs"]}]


def fields_of(schema: Mapping[str, Any]) -> Iterator[str]:
    """The names of all fields of a schema, however deep."""
    for name, field in schema.get("properties", {}).items():
        yield name
        yield from fields_of(field)
    for inner in ("items", "additionalProperties"):
        if isinstance(schema.get(inner), Mapping):
            yield from fields_of(schema[inner])


@pytest.mark.parametrize("field", ["logRate", "sessionRate", "cpuLimits", "clones", "maxPodBytes", "maxServiceEndpoints"])
def test_a_tenant_has_no_field_for_what_its_class_alone_decides(field: str) -> None:
    """G9: rates of streams and bounds of planes stand in the class, and a Tenant that names them says nothing."""
    found = {
        crd["spec"]["names"]["kind"]: set(fields_of(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]))
        for crd in map(yamlfiles.load, sorted((ROOT / "crds").glob("tenant*s.yaml")))
    }
    assert field in found["TenantClass"], "the control"
    assert field not in found["Tenant"]


def test_a_plane_neither_traces_nor_is_told_to() -> None:
    """H9: a tenant's headers choose no traces of the platform's: its API server sends none, wherever the platform's go."""
    spec = plane_spec()
    tracing = Tracing("observability", "otel", one_pod_in=1)
    on = replace(spec, installation=replace(spec.installation, tracing=tracing))
    assert "tracesCollector" in json.dumps(syncer.settings(on)), "the control"
    assert apiserver.container(on) == apiserver.container(spec)
    assert "tracing" not in json.dumps(apiserver.container(on))
