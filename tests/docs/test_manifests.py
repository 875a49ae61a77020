"""Every block of YAML in README, docs and examples works as a reader copies it.

Whole objects are created on a real API server, which refuses unknown fields. A part of a Tenant or a TenantClass stands for the
example of its kind with that part in it. Then each Tenant is admitted with the class of its page, as the controller would.
"""

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from bulkhead.api.objects import Obj
from bulkhead.api.quantity import parse
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.objects import Resource
from bulkhead.kube.resources import resource_of
from controller.decide.admit import refuse
from controller.settings import Settings
from tests.docs.pages import PAGES, ROOT, Block, yaml_blocks
from tests.kit import tenantsamples, yamlfiles
from tests.kit.crds import install
from tests.kit.helmchart import rendered
from tests.kit.snapshotting import serve_snapshots

# The first words of a block that is a part of something, and the kind that it is a part of; empty: not checked here.
PARTS = {
    "# the TenantClass": "TenantClass",
    "# the Tenant": "Tenant",
    "# values of the chart": "values",
    # The definitions of Gateway API are not the project's.
    "# of the Gateway": "",
}
OURS = {
    "Tenant": kinds.TENANTS,
    "TenantClass": kinds.TENANT_CLASSES,
    "Cohort": kinds.COHORTS,
    "TenantSnapshot": kinds.TENANT_SNAPSHOTS,
}
OTHERS: dict[str, Resource] = {
    "VolumeSnapshot": kinds.VOLUME_SNAPSHOTS,
    "PodGroup": kinds.POD_GROUPS,
    "Job": resource_of("batch/v1", "Job"),
    "CronJob": Resource("batch", "v1", "cronjobs", "CronJob", True),
    "ClusterRole": kinds.CLUSTER_ROLES,
    "Pod": kinds.PODS,
    "Deployment": kinds.DEPLOYMENTS,
    "Service": kinds.SERVICES,
    "ConfigMap": kinds.CONFIG_MAPS,
}
EXAMPLES = [Block(str(path.relative_to(ROOT)), 1, path.read_text()) for path in sorted((ROOT / "examples").glob("*.yaml"))]
SAMPLES = {each["kind"]: each for block in reversed(EXAMPLES) for each in reversed(yamlfiles.documents(block.text))}
BLOCKS = [*yaml_blocks(), *EXAMPLES]


def objects(block: Block) -> list[Obj]:
    """The whole objects that a block stands for; values of the chart are not objects."""
    part = next((kind for start, kind in PARTS.items() if block.text.startswith(start)), None)
    if part in ("", "values"):
        return []
    return [_whole(each, part or each["kind"]) for each in yamlfiles.documents(block.text)]


def _whole(written: Obj, kind: str) -> Obj:
    if "apiVersion" in written:
        return written
    made: Obj = merged(copy.deepcopy(SAMPLES[kind]), written)
    if "flavors" in json.dumps(written.get("spec", {}).get("quota", {})):
        # A quota by kinds of GPUs is not beside the sample's one for all.
        made["spec"]["quota"] = written["spec"]["quota"]
    return made


def merged(old: Any, new: Any) -> Any:
    if isinstance(old, dict) and isinstance(new, dict):
        return old | {key: merged(old.get(key), value) for key, value in new.items()}
    return new


def admissions() -> Iterator[tuple[str, Obj, Obj, Obj | None]]:
    """Each Tenant with the class and the Cohort that its page tells to make, or with the example's class."""
    cohorts = {
        (block.page, each["metadata"]["name"]): each for block in BLOCKS for each in objects(block) if each["kind"] == "Cohort"
    }
    classes: dict[str, dict[str, Obj]] = {}
    for block in BLOCKS:
        known = classes.setdefault(block.page, {"standard": SAMPLES["TenantClass"]})
        for each in objects(block):
            if each["kind"] == "TenantClass":
                known[each["metadata"]["name"]] = each
            if each["kind"] == "Tenant":
                name = each["spec"]["class"]
                offer = known.get(name) or pytest.fail(f"{block}: no class {name}")
                cohort = cohorts.get((block.page, each["spec"]["quota"].get("cohort", "")))
                yield f"{block} {each['metadata']['name']}", each, offer, cohort


@pytest.fixture
async def client(plane_client: Client) -> Client:
    await install(plane_client)
    await serve_snapshots(plane_client)
    await plane_client.apply(kinds.SERVICE_ACCOUNTS, {"metadata": {"name": "default", "namespace": "default"}})
    return plane_client


@pytest.mark.apiserver
@pytest.mark.parametrize("block", BLOCKS, ids=str)
async def test_an_api_server_takes_it_to_the_last_field(client: Client, block: Block) -> None:
    for each in objects(block):
        r = OURS.get(each["kind"]) or OTHERS[each["kind"]]
        assert each["apiVersion"] == r.api_version
        path = r.path("default" if r.namespaced else None)
        params = {"fieldValidation": "Strict", "dryRun": "All"}
        await client.transport.request(
            "POST", path, params=params, body=json.dumps(each).encode(), content_type="application/json"
        )


@pytest.mark.parametrize(("tenant", "offer", "cohort"), [pytest.param(*made, id=name) for name, *made in admissions()])
def test_a_tenant_is_admitted_with_the_class_of_its_page(tenant: Obj, offer: Obj, cohort: Obj | None) -> None:
    offer = offer | {"metadata": offer["metadata"] | {"uid": "class-uid", "generation": 1}}
    tenant = tenant | {"metadata": tenant["metadata"] | {"uid": tenantsamples.UID, "generation": 1}}
    assert refuse(tenantsamples.case(tenant, offer, Settings(), cohort=cohort)) is None


@pytest.mark.parametrize("block", [each for each in BLOCKS if each.text.startswith("# values of the chart")], ids=str)
def test_the_chart_takes_these_values(block: Block) -> None:
    values = yamlfiles.documents(block.text)[0]
    assert rendered(*(f"--set-json={key}={json.dumps(value)}" for key, value in values.items()))


@pytest.mark.parametrize(("tenant", "offer"), [pytest.param(made[0], made[1], id=name) for name, *made in admissions()])
def test_all_workers_of_its_node_sets_have_room_in_its_quota(tenant: Obj, offer: Obj) -> None:
    slurm = tenant["spec"].get("scheduling", {}).get("slurm", {})
    own, given = tenant["spec"]["quota"].get("resources", {}), offer["spec"]["quota"].get("resources", {})
    for field, resource in (("cpus", "cpu"), ("memory", "memory"), ("gpus", "nvidia.com/gpu")):
        asked = sum(
            each.get("max", each.get("replicas", 0)) * parse(str(each.get("requests", {}).get(resource, each.get(field, 0))))
            for each in slurm.get("nodeSets", [])
        )
        most = own.get(resource, {}).get("nominal", given.get(resource, {}).get("default"))
        assert most is None or asked <= parse(str(most)), resource


def test_nothing_is_passed_over() -> None:
    indented = [
        f"{page}: {line}" for page in PAGES for line in page.read_text().splitlines() if line.startswith("    apiVersion:")
    ]
    assert indented == [], "a block of YAML must be fenced, or no test checks it"
    alone = [block for block in BLOCKS if not any(block.text.startswith(start) for start in PARTS)]
    assert all("kind" in each for block in alone for each in yamlfiles.documents(block.text))
    assert sum(len(objects(block)) for block in BLOCKS) > 15
    assert len(list(admissions())) > 6
