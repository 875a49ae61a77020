"""The generated CRDs: up to date, structural, and every field described and bounded."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from bulkhead.api import crd, generate
from bulkhead.api.tenant import Tenant
from bulkhead.api.tenantclass.networking import ClassIngress
from tests.kit import yamlfiles

ROOT = Path(__file__).parents[2]


def walk(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every node of a schema with its path; metadata is Kubernetes' own."""
    yield path, schema
    for name, item in schema.get("properties", {}).items():
        if path or name != "metadata":
            yield from walk(item, f"{path}.{name}")
    if "items" in schema:
        yield from walk(schema["items"], f"{path}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from walk(schema["additionalProperties"], f"{path}{{}}")


NODES = [(f"{each.plural}{path}", node) for each in crd.CRDS for path, node in walk(crd.schema_of(each.model), "")]


def test_the_files_are_what_the_types_say() -> None:
    """The CRDs, the chart's copy of them, and the API reference."""
    assert generate.stale(ROOT) == []


def test_check_names_what_is_stale(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert crd.main([str(tmp_path)]) == 0
    assert crd.main(["--check", str(tmp_path)]) == 0
    (tmp_path / "tenants.yaml").write_text("edited: true\n")
    (tmp_path / "tenantclasses.yaml").unlink()
    (tmp_path / "old.yaml").write_text("")
    assert crd.main(["--check", str(tmp_path)]) == 1
    told = capsys.readouterr().err
    assert all(name in told for name in ("tenants.yaml", "tenantclasses.yaml", "old.yaml"))


@pytest.mark.parametrize(("path", "node"), NODES, ids=[path for path, _ in NODES])
def test_every_field_is_described_and_bounded(path: str, node: dict[str, Any]) -> None:
    if not path.endswith(("[]", "{}")):
        assert node.get("description", "").rstrip().endswith(".")
    preserved = node.get("x-kubernetes-preserve-unknown-fields", False)
    if node.get("type") == "string" and "enum" not in node and node.get("format") != "date-time":
        assert "maxLength" in node
    if node.get("type") == "array":
        assert "maxItems" in node
        assert "x-kubernetes-list-type" in node
    if node.get("type") == "integer" and "enum" not in node:
        assert "minimum" in node
    if "additionalProperties" in node:
        assert "maxProperties" in node
    if node.get("type") == "object" and not preserved:
        assert "properties" in node or "additionalProperties" in node


@pytest.mark.parametrize(("path", "node"), NODES, ids=[path for path, _ in NODES])
def test_every_node_is_structural(path: str, node: dict[str, Any]) -> None:
    assert not {"$ref", "title", "const", "propertyNames", "nullable", "exclusiveMinimum"} & set(node)
    assert "type" in node or node.get("x-kubernetes-int-or-string")
    assert node.get("default", 0) is not None
    if "pattern" in node:
        assert node["pattern"].startswith("^")
        assert node["pattern"].endswith("$")


def test_the_types_read_what_the_server_accepts() -> None:
    cases = yamlfiles.load(Path(__file__).parent / "data" / "tenants.yaml")
    full = next(case for case in cases if case["case"] == "everything set")
    tenant = Tenant.model_validate({"spec": full["spec"]})
    assert tenant.spec.model_dump(mode="json", by_alias=True, exclude_unset=True) == full["spec"]
    with pytest.raises(ValidationError, match="Extra inputs"):
        Tenant.model_validate({"spec": {"class": "a", "gpus": 1}})


@pytest.mark.parametrize("domains", [["x.org", "a.x.org"], ["c.b.x.org", "y.org", "x.org"], ["x.org", "x.org"]])
def test_domains_of_ingress_lie_apart(domains: list[str]) -> None:
    with pytest.raises(ValidationError):
        ClassIngress(classes=["public"], domains=domains)
    assert ClassIngress(classes=["public"], domains=["x.org", "ax.org", "x.org.uk"])
