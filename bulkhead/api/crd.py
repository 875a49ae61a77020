"""From the pydantic types to crds/*.yaml: structural schemas, CEL rules, printer columns.

    python -m bulkhead.api.crd crds            write the files
    python -m bulkhead.api.crd --check crds    fail if they are not what the types say

Nothing is edited by hand. A structural schema has no references, no nulls, no titles and no closed objects, so the generator
leaves those out and puts every definition where it is used.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

import bulkhead
from bulkhead.api import labels, names
from bulkhead.api.cohort import Cohort
from bulkhead.api.conditions import CohortCondition, SnapshotCondition
from bulkhead.api.sharedvolume import SharedVolume
from bulkhead.api.tenant import Tenant
from bulkhead.api.tenantclass import TenantClass
from bulkhead.api.tenantrestore import TenantRestore
from bulkhead.api.tenantsnapshot import TenantSnapshot

_HEADER = "# Generated from bulkhead/api by `python -m bulkhead.api.crd crds`. Do not edit.\n"
_DROPPED = frozenset({"title", "$defs", "propertyNames"})


class _Plain(yaml.SafeDumper):
    """YAML without anchors: people review these files."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - PyYAML fixes the signature
        """Write everything out."""
        return True


class StructuralSchema(GenerateJsonSchema):
    """JSON schema in the dialect that Kubernetes accepts, still with references."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        """An optional field is one that may be left out; null is not a value of its own."""
        return self.generate_inner(schema["schema"])

    def literal_schema(self, schema: core_schema.LiteralSchema) -> JsonSchemaValue:
        """A choice is an enum also when there is one only; `const` is unknown to Kubernetes."""
        expected = list(schema["expected"])
        return {"type": "integer" if all(isinstance(item, int) for item in expected) else "string", "enum": expected}


@dataclass(frozen=True, slots=True)
class Column:
    """One column of `kubectl get`."""

    name: str
    path: str
    type: str = "string"
    description: str = ""
    priority: int = 0

    def render(self) -> dict[str, Any]:
        """The column as the CRD carries it."""
        column: dict[str, Any] = {"name": self.name, "type": self.type, "jsonPath": self.path}
        if self.description:
            column["description"] = self.description
        if self.priority:
            column["priority"] = self.priority
        return column


@dataclass(frozen=True, slots=True)
class Crd:
    """One custom resource."""

    model: type[BaseModel]
    plural: str
    short: str
    columns: tuple[Column, ...]
    status: bool = field(default=False)


_COMPLETE = f'.status.conditions[?(@.type=="{SnapshotCondition.COMPLETE}")].{{}}'
AGE = Column("Age", ".metadata.creationTimestamp", "date")
CRDS = (
    Crd(
        Tenant,
        "tenants",
        "tn",
        (
            Column("Ready", '.status.conditions[?(@.type=="Ready")].status', description="Whether the tenant can be used"),
            Column("Mode", ".spec.scheduling.mode", description="The scheduler inside the tenant"),
            Column("Version", ".status.versions.kubernetes", description="Version of its API server"),
            Column("GPUs", ".status.gpus.summary", description="GPUs used of the limit"),
            Column("Endpoint", ".status.endpoint", description="Address of its API server"),
            AGE,
            Column("Cohort", ".spec.quota.cohort", description="Tenants of one cohort lend each other quota", priority=1),
            Column("Borrowed", ".status.gpus.borrowed", "integer", "GPUs used beyond its own quota", priority=1),
            Column("Lent", ".status.gpus.lent", "integer", "GPUs of its own quota that others use", priority=1),
            Column("Class", ".spec.class", description="Its TenantClass", priority=1),
            Column("Reason", '.status.conditions[?(@.type=="Ready")].reason', description="Why it is (not) ready", priority=1),
            Column("Message", '.status.conditions[?(@.type=="Ready")].message', description="The same for people", priority=1),
        ),
        status=True,
    ),
    Crd(
        TenantClass,
        "tenantclasses",
        "tnc",
        (
            Column("Version", ".spec.kubernetesVersion", description="Default version of the control planes"),
            Column("GPU-Resources", ".spec.gpuResources", description="Resources that count as GPUs"),
            Column("Tenants", ".status.tenants", "integer", "Tenants that use it"),
            AGE,
            Column("Description", ".spec.description", priority=1),
        ),
        status=True,
    ),
    Crd(
        Cohort,
        "cohorts",
        "coh",
        (
            Column(
                "Rules-Work",
                f'.status.conditions[?(@.type=="{CohortCondition.RULES_WORK}")].status',
                description="Whether they can",
            ),
            Column("Tenants", ".status.tenants", "integer", "Tenants in it"),
            Column("Devices", ".status.devices", description="Devices used of nominal, all resources together"),
            Column("Borrowed", ".status.borrowed", "integer", "Devices used beyond the user's own quota"),
            Column("Waiting", ".status.waiting", "integer", "Workloads that wait"),
            AGE,
            Column(
                "Reason",
                f'.status.conditions[?(@.type=="{CohortCondition.RULES_WORK}")].reason',
                description="Why not",
                priority=1,
            ),
            Column("Preemption", ".spec.preemption", description="Which workloads may reclaim", priority=1),
            Column("Within", ".spec.reclaim.within", description="How soon it is back", priority=1),
            Column("Over-Quota", ".spec.overQuota.policy", description="What becomes of pods over a quota", priority=1),
        ),
        status=True,
    ),
    Crd(
        SharedVolume,
        "sharedvolumes",
        "sv",
        (
            Column("Read-Only", ".spec.readOnly", "boolean", "Whether tenants can only read it"),
            Column("Server", ".spec.nfs.server", description="The NFS server"),
            Column("Path", ".spec.nfs.path", description="What it exports"),
            Column("Volume", ".spec.persistentVolumeName", description="The PersistentVolume of the host"),
            Column("Sub-Path", ".spec.subPath", description="The directory of a tenant below it"),
            AGE,
            Column("Tenants", ".spec.tenants", description="Tenants that are given it", priority=1),
            Column("Classes", ".spec.classes", description="Classes whose tenants are given it", priority=1),
        ),
    ),
    Crd(
        TenantSnapshot,
        "tenantsnapshots",
        "tnsnap",
        (
            Column("Tenant", ".spec.tenant", description="The tenant whose plane it is of"),
            Column("Complete", _COMPLETE.format("status"), description="Whether it is whole, and can be relied on"),
            Column("Reason", _COMPLETE.format("reason"), description="Why not"),
            Column("Bytes", ".status.storedBytes", "integer", "Bytes that are stored"),
            AGE,
            Column("Location", ".status.location", description="Where it is", priority=1),
            Column("Message", _COMPLETE.format("message"), description="The reason for people", priority=1),
        ),
        status=True,
    ),
    Crd(
        TenantRestore,
        "tenantrestores",
        "tnrest",
        (
            Column("Tenant", ".spec.tenant", description="The tenant whose plane is replaced"),
            Column("Snapshot", ".status.snapshot", description="The snapshot that takes its place"),
            Column("Complete", _COMPLETE.format("status"), description="Whether the plane runs with the snapshot's data"),
            Column("Reason", _COMPLETE.format("reason"), description="How far it is"),
            AGE,
            Column("Unknown", ".status.unknownCount", "integer", "Host objects that the snapshot does not know", priority=1),
            Column("Message", _COMPLETE.format("message"), description="The reason for people", priority=1),
        ),
        status=True,
    ),
)


def render(crd: Crd) -> dict[str, Any]:
    """One CustomResourceDefinition."""
    kind = crd.model.__name__
    version: dict[str, Any] = {
        "name": names.VERSION,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": [column.render() for column in crd.columns],
        "schema": {"openAPIV3Schema": schema_of(crd.model)},
    }
    if crd.status:
        version["subresources"] = {"status": {}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{crd.plural}.{names.GROUP}",
            "labels": {"app.kubernetes.io/part-of": "bulkhead"},
            "annotations": {labels.RELEASE: bulkhead.__version__},
        },
        "spec": {
            "group": names.GROUP,
            "scope": "Cluster",
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": crd.plural,
                "singular": kind.lower(),
                "shortNames": [crd.short],
                "categories": ["bulkhead"],
            },
            "versions": [version],
        },
    }


def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """The structural schema of a root type, with the fields that every object has."""
    raw = model.model_json_schema(by_alias=True, schema_generator=StructuralSchema)
    schema = _structural(raw, raw.get("$defs", {}))
    common = {
        "apiVersion": {"type": "string", "description": "Group and version of this object's schema.", "maxLength": 63},
        "kind": {"type": "string", "description": "Kind of this object.", "maxLength": 63},
        "metadata": {"type": "object"},
    }
    schema["properties"] = common | schema["properties"]
    return schema


def _structural(node: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """A schema node with its references put in place and everything taken out that a structural schema may not hold."""
    reference = node.get("$ref")
    if reference is not None:
        target = definitions[str(reference).removeprefix("#/$defs/")]
        # What stands beside a reference speaks of the field and wins over what the type says of itself.
        node = {**target, **{key: value for key, value in node.items() if key != "$ref"}, **_joined_rules(target, node)}
    result: dict[str, Any] = {}
    for key, value in node.items():
        if key in _DROPPED:
            continue
        if key == "default":
            result |= _default(value)
        elif key == "properties":
            result[key] = {name: _structural(item, definitions) for name, item in value.items()}
        elif key == "items" or (key == "additionalProperties" and isinstance(value, Mapping)):
            result[key] = _structural(value, definitions)
        elif key != "additionalProperties":
            result[key] = value
    if "x-kubernetes-preserve-unknown-fields" in result:
        result.pop("additionalProperties", None)
    return result


def _default(value: Any) -> dict[str, Any]:
    """A default as the API server may fill it in: what is unset is left out, and an empty one says nothing."""
    filled = {key: item for key, item in value.items() if item is not None} if isinstance(value, dict) else value
    return {} if filled in (None, {}) else {"default": filled}


def _joined_rules(target: Mapping[str, Any], node: Mapping[str, Any]) -> dict[str, Any]:
    rules = [*target.get("x-kubernetes-validations", ()), *node.get("x-kubernetes-validations", ())]
    return {"x-kubernetes-validations": rules} if rules else {}


def files() -> dict[str, str]:
    """File names and what they should hold."""
    return {f"{crd.plural}.yaml": _HEADER + yaml.dump(render(crd), Dumper=_Plain, sort_keys=False, width=120) for crd in CRDS}


def stale(folder: Path) -> list[str]:
    """Files that are missing, differ, or belong to no type."""
    wanted = files()
    differing = [name for name, text in wanted.items() if not _holds(folder / name, text)]
    return sorted(differing + [path.name for path in folder.glob("*.yaml") if path.name not in wanted])


def _holds(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8") == text


def main(argv: Sequence[str] | None = None) -> int:
    """Write or check the CRD files; 1 when the check fails."""
    parser = argparse.ArgumentParser(prog="python -m bulkhead.api.crd", description="Generate Bulkhead's CRDs from its types.")
    parser.add_argument("--check", action="store_true", help="write nothing, fail if a file is not up to date")
    parser.add_argument("folder", type=Path, help="where the files lie, usually crds")
    options = parser.parse_args(argv)
    if options.check:
        found = stale(options.folder)
        for name in found:
            sys.stderr.write(f"{options.folder / name}: not what bulkhead/api says; run python -m bulkhead.api.crd crds\n")
        return 1 if found else 0
    options.folder.mkdir(parents=True, exist_ok=True)
    for name, text in files().items():
        (options.folder / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
