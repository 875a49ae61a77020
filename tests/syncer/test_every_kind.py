"""Each kind of the registry has what it needs outside of the syncer: rights on both sides, and a limit of their number.

The halves never import each other, so the controller and the chart name the kinds themselves: here fails what a new kind lacks.
"""

import functools
from collections.abc import Iterable
from typing import Any, Final

import pytest

from controller.decide.bounds.quota import object_counts
from controller.inside.objects import bootstrap
from syncer.translate.registry import KINDS
from tests.kit.helmchart import ROOT, rendered
from tests.kit.tenantsamples import plane_spec

READ: Final = {"get", "list", "watch"}
# Roles that are bound in a tenant's work namespace, some of them only where its class offers what they are for.
ROLES: Final = {"bulkhead-syncer-work", "bulkhead-syncer-ingress", "bulkhead-syncer-podgroups", "bulkhead-syncer-snapshots"}
# What a host makes for each Service too, so that a count would hit Services.
UNCOUNTED: Final = {"EndpointSlice"}
OFFER: Final[dict[str, Any]] = {
    "scheduling": {"podGroups": True},
    "allowedDeviceClasses": ["gpus"],
    "allowedSnapshotClasses": ["nightly"],
}


def verbs(rules: Iterable[dict[str, Any]], group: str, resource: str) -> set[str]:
    return {verb for rule in rules if group in rule["apiGroups"] and resource in rule["resources"] for verb in rule["verbs"]}


@functools.cache
def on_the_host() -> list[dict[str, Any]]:
    roles = [obj for obj in rendered() if obj["kind"] == "ClusterRole" and obj["metadata"]["name"] in ROLES]
    assert len(roles) == len(ROLES)
    return [rule for role in roles for rule in role["rules"]]


@functools.cache
def in_the_plane() -> list[dict[str, Any]]:
    spec = plane_spec(offers={"pod_groups": True, "snapshot_classes": ("nightly",)})
    (role,) = (
        obj
        for obj in bootstrap.objects(spec, b"ca")
        if (obj["kind"], obj["metadata"]["name"]) == ("ClusterRole", "bulkhead:syncer")
    )
    return list(role["rules"])


@pytest.mark.parametrize("kind", KINDS)
def test_a_syncer_may_write_copies_on_the_host(kind: str) -> None:
    entry = KINDS[kind]
    needed = READ | {"create", "patch", "delete"} | ({"update"} if entry.on_reference else set())
    assert needed <= verbs(on_the_host(), entry.group, entry.plural), "see charts/bulkhead/templates/syncer-rbac.yaml"


@pytest.mark.parametrize("kind", KINDS)
def test_a_syncer_may_read_it_in_the_plane_and_write_its_status(kind: str) -> None:
    entry = KINDS[kind]
    where = "see controller/inside/objects/bootstrap.py"
    assert verbs(in_the_plane(), entry.group, entry.plural) >= READ, where
    if entry.status_to_virtual is not None or entry.blocked is not None:
        assert "patch" in verbs(in_the_plane(), entry.group, f"{entry.plural}/status"), where


@pytest.mark.parametrize("kind", sorted(KINDS.keys() - UNCOUNTED))
def test_the_host_bounds_how_many_a_tenant_has(kind: str) -> None:
    entry = KINDS[kind]
    counted = object_counts(OFFER)
    names = {f"count/{entry.plural}.{entry.group}" if entry.group else entry.plural, f"count/{entry.plural}"}
    assert names & counted.keys(), "see _OBJECTS of controller/decide/bounds/quota.py"


@pytest.mark.parametrize("name", ["copies", "follower", "reconcile", "referenced", "references"])
def test_what_serves_every_kind_names_none(name: str) -> None:
    source = (ROOT / f"syncer/mirrors/{name}.py").read_text()
    assert not [kind for kind in KINDS if f'"{kind}"' in source and (name, kind) != ("references", "Pod")]
    assert "translate.kinds" not in source
