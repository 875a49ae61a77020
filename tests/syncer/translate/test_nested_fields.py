"""What a rule lists of an object, it lists to the last leaf: held against the plane's real API server, kind by kind.

rule (Struct) ──┬─ its fields ─────────> the properties that the server serves
                └─ each field's rule ──> the schema of that property, and so on
"""

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest

from bulkhead.kube.client import Client
from syncer.translate.schema import ListOf, MapOf, Struct
from tests.syncer.translate.test_fields import SCHEMAS

GROUPS: Final = {
    "api/v1": "io.k8s.api.core.v1",
    "apis/discovery.k8s.io/v1": "io.k8s.api.discovery.v1",
    "apis/networking.k8s.io/v1": "io.k8s.api.networking.v1",
    "apis/policy/v1": "io.k8s.api.policy.v1",
    "apis/resource.k8s.io/v1": "io.k8s.api.resource.v1",
    "apis/scheduling.k8s.io/v1alpha2": "io.k8s.api.scheduling.v1alpha2",
}
LEAST: Final = 60  # rules that were met: a walk that meets none finds nothing wrong


def resolved(schema: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    """A schema with references followed."""
    while True:
        named = schema.get("$ref") or next((part["$ref"] for part in schema.get("allOf", ()) if "$ref" in part), "")
        if not named:
            return schema
        schema = schemas[named.rpartition("/")[2]]


def differing(rule: object, schema: dict[str, Any], schemas: dict[str, Any], path: str, met: list[str]) -> Iterator[str]:
    """Every field that one of both has and the other has not."""
    schema = resolved(schema, schemas)
    if isinstance(rule, ListOf):
        yield from differing(rule.item, schema.get("items", {}), schemas, f"{path}[]", met)
    elif not isinstance(rule, Struct) or "additionalProperties" in schema:
        return  # what has no fields of its own, and maps of which a rule takes some keys
    else:
        met.append(path)
        properties = schema.get("properties", {})
        yield from (
            f"{path}.{name}: the server has it, no rule does" for name in sorted(properties.keys() - rule.fields.keys())
        )
        yield from (f"{path}.{name}: a rule has it, not the server" for name in sorted(rule.fields.keys() - properties.keys()))
        for name in sorted(properties.keys() & rule.fields.keys()):
            yield from differing(rule.fields[name], properties[name], schemas, f"{path}.{name}", met)


@pytest.mark.apiserver
async def test_no_rule_leaves_a_field_undecided_however_deep(plane_client: Client) -> None:
    met: list[str] = []
    found: list[str] = []
    for path, prefix in GROUPS.items():
        schemas = json.loads(await plane_client.get_raw(f"/openapi/v3/{path}"))["components"]["schemas"]
        for name, rule in SCHEMAS.items():
            if f"{prefix}.{name}" in schemas:
                found += differing(rule, schemas[f"{prefix}.{name}"], schemas, name, met)
    assert found == []
    assert len(met) >= LEAST, met


def test_a_field_that_only_one_of_both_has_is_found() -> None:
    rule = Struct({"a": ListOf(Struct({"b": MapOf(Struct({}))})), "c": Struct({}), "sizes": Struct({"storage": Struct({})})})
    schemas: dict[str, Any] = {"x.A": {"properties": {"b": {}, "new": {}}}}
    listed = {"items": {"allOf": [{"$ref": "#/components/schemas/x.A"}]}}
    served = {"properties": {"a": listed, "sizes": {"additionalProperties": {}}}}
    assert list(differing(rule, served, schemas, "P", [])) == [
        "P.c: a rule has it, not the server",
        "P.a[].new: the server has it, no rule does",
    ]
