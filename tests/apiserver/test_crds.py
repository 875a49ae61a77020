"""The CRDs on a real API server: what it takes, what it refuses and in which words, and what it tells about the fields."""

import asyncio
import copy
import json
import secrets
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from bulkhead.api import crd
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import ApiError
from bulkhead.kube.objects import Resource, key_of
from bulkhead.ledger.given import rules_of
from bulkhead.ledger.model import Rules
from tests.kit import yamlfiles
from tests.kit.crds import install
from tests.kit.kubeconfigs import to_yaml
from tests.kit.servers import Pair, by_token
from tests.kit.syncerbed import SECONDS, until
from workstation.hostcluster import binaries

DATA = Path(__file__).parent.parent / "api" / "data"
EXAMPLES = [
    document
    for path in sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))
    for document in yamlfiles.documents(path.read_text())
]
TENANT_CASES = [case for name in ("tenants", "tenants-slurm") for case in yamlfiles.load(DATA / f"{name}.yaml")]
COHORT_CASES = yamlfiles.load(DATA / "cohorts.yaml")
CLASS_CASES = yamlfiles.load(DATA / "tenantclasses.yaml")


# Nearly each case is one request: a loop and a connection for the file, not for each test.
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(apiservers: Pair) -> AsyncIterator[Client]:
    async with Client(by_token(apiservers.host.admin), user_agent="tests", field_manager="tests") as made:
        await install(made)
        # Tests before these share the server, and may have left objects of the names that cases have.
        for r in (kinds.TENANT_CLASSES, kinds.COHORTS):
            for left in (await made.list(r)).items:
                await made.delete(r, key_of(left).name)
        yield made


async def strict(client: Client, method: str, r: Resource, obj: Obj, *, dry_run: bool = False) -> Obj:
    """Write as kubectl does: unknown fields are errors. A dry run is judged like any other request, and stores nothing."""
    path = r.path() if method == "POST" else r.path(None, obj["metadata"]["name"])
    body = json.dumps({"apiVersion": r.api_version, "kind": r.kind} | obj).encode()
    params = {"fieldValidation": "Strict", "fieldManager": "tests"} | ({"dryRun": "All"} if dry_run else {})
    data = await client.transport.request(method, path, params=params, body=body, content_type="application/json")
    return json.loads(data)


async def attempt(client: Client, r: Resource, case: dict[str, Any], base: dict[str, Any]) -> str | None:
    """Run one case; the text of the refusal, or None. What was stored is deleted again."""
    name = case.get("name") or ("a" * case["name_length"] if "name_length" in case else f"t-{secrets.token_hex(4)}")
    spec = {key: value for key, value in (base | case.get("spec", {})).items() if value is not None}
    try:
        stored = not case.keys().isdisjoint(("status", "update"))
        made = await strict(client, "POST", r, {"metadata": {"name": name}, "spec": spec}, dry_run=not stored)
    except ApiError as error:
        if "update" in case:
            raise
        return str(error)
    if not stored:
        return None
    try:
        if "status" in case:
            made = await client.patch(r, name, {"status": case["status"]}, subresource="status")
        if "update" in case:
            changed = copy.deepcopy(made)
            changed["spec"] |= case["update"]
            await strict(client, "PUT", r, changed)
    except ApiError as error:
        return str(error)
    finally:
        await client.delete(r, name)
    return None


def judge(case: dict[str, Any], refusal: str | None) -> None:
    """Hold the answer against the case."""
    if "refused" not in case:
        assert refusal is None
        return
    assert refusal is not None, "accepted"
    for text in case["refused"]:
        assert text in refusal


@pytest.mark.parametrize("case", TENANT_CASES, ids=lambda case: case["case"])
async def test_tenant(client: Client, case: dict[str, Any]) -> None:
    judge(case, await attempt(client, kinds.TENANTS, case, {"class": "standard"}))


@pytest.mark.parametrize("case", CLASS_CASES, ids=lambda case: case["case"])
async def test_tenant_class(client: Client, case: dict[str, Any]) -> None:
    judge(case, await attempt(client, kinds.TENANT_CLASSES, case, {}))


@pytest.mark.parametrize("case", COHORT_CASES, ids=lambda case: case["case"])
async def test_cohort(client: Client, case: dict[str, Any]) -> None:
    judge(case, await attempt(client, kinds.COHORTS, case, {}))


async def test_a_cohort_that_says_nothing_has_no_flavors_and_the_built_in_rules(client: Client) -> None:
    made = await strict(client, "POST", kinds.COHORTS, {"metadata": {"name": "plain"}, "spec": {"reclaim": {}, "gangs": {}}})
    await client.delete(kinds.COHORTS, "plain")
    assert made["spec"].get("flavors") is None
    assert rules_of(made) == Rules()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example["metadata"]["name"])
async def test_the_examples_are_accepted(client: Client, example: Obj) -> None:
    kind = {"Tenant": kinds.TENANTS, "TenantClass": kinds.TENANT_CLASSES, "Cohort": kinds.COHORTS}[example["kind"]]
    await strict(client, "POST", kind, example)
    await client.delete(kind, example["metadata"]["name"])


async def test_defaults_are_filled_in_and_the_class_is_left_to_speak(client: Client) -> None:
    obj = {"metadata": {"name": "defaults"}, "spec": {"class": "standard", "quota": {}}}
    made = await strict(client, "POST", kinds.TENANTS, obj)
    await client.delete(kinds.TENANTS, "defaults")
    assert made["spec"] == {
        "class": "standard",
        "scheduling": {"mode": "Kubernetes"},
        "quota": {"weight": 1},
    }


async def test_status_is_a_subresource_and_keeps_every_field_we_write(client: Client) -> None:
    made = await strict(
        client,
        "POST",
        kinds.TENANTS,
        {"metadata": {"name": "status"}, "spec": {"class": "a"}, "status": {"endpoint": "https://x"}},
    )
    assert "status" not in made
    status = {
        "observedGeneration": 1,
        "conditions": [
            {
                "type": "Ready",
                "status": "True",
                "reason": "Ready",
                "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
                "observedGeneration": 1,
            }
        ],
        "endpoint": "https://10.112.0.1:443",
        "certificateAuthority": "x",
        "versions": {"kubernetes": "v1.36.3", "etcd": "v3.6.16", "bulkhead": "0.1.0"},
        "class": {"name": "a", "generation": 3, "uid": "x", "spec": {"anything": {"at": ["all"]}}},
        "gpus": {"used": 3, "limit": 8, "summary": "3/8"},
        "serviceSlice": "10.112.0.0/22",
        "planeClusterUID": "y",
    }
    written = await strict(
        client, "PUT", Resource("bulkhead.dev", "v1alpha1", "tenants", "Tenant", False), made | {"status": status}
    )
    assert "status" not in written
    path = kinds.TENANTS.path(None, "status", "status")
    data = await client.transport.request(
        "PUT",
        path,
        params={"fieldValidation": "Strict"},
        body=json.dumps(made | {"status": status}).encode(),
        content_type="application/json",
    )
    assert json.loads(data)["status"] == status
    table = json.loads(
        await client.transport.request(
            "GET", kinds.TENANTS.path(None, "status"), accept="application/json;as=Table;v=v1;g=meta.k8s.io"
        )
    )
    await client.delete(kinds.TENANTS, "status")
    columns = [column["name"] for column in table["columnDefinitions"] if not column["priority"]]
    assert columns == ["Name", "Ready", "Mode", "Version", "GPUs", "Endpoint", "Age"]
    assert table["rows"][0]["cells"][:6] == ["status", "True", "Kubernetes", "v1.36.3", "3/8", "https://10.112.0.1:443"]


async def test_names_that_differ_in_case_only_never_stand_side_by_side(client: Client) -> None:
    made = await asyncio.gather(
        *(
            strict(client, "POST", kinds.TENANTS, {"metadata": {"name": name}, "spec": {"class": "standard"}})
            for name in ("twin", "Twin", "TWIN")
        ),
        return_exceptions=True,
    )
    await client.delete(kinds.TENANTS, "twin")
    assert [isinstance(item, ApiError) for item in made] == [False, True, True]


async def test_the_api_server_finds_the_schemas_structural_and_the_rules_cheap_enough(client: Client) -> None:
    for each in crd.CRDS:
        found = await client.get(kinds.CUSTOM_RESOURCE_DEFINITIONS, f"{each.plural}.bulkhead.dev")
        conditions = {item["type"]: item["status"] for item in found["status"]["conditions"]}
        assert conditions["Established"] == "True"
        assert "NonStructuralSchema" not in conditions


async def test_kubectl_explains_the_spec(client: Client, tmp_path: Path) -> None:
    kubectl = shutil.which("kubectl") or str(binaries.ensure("kubernetes")["kubectl"])
    kubeconfig = tmp_path / "config"
    kubeconfig.write_bytes(to_yaml(client.config))
    deadline = asyncio.get_running_loop().time() + SECONDS
    while True:  # the schema is published a moment after the CRD is served
        process = await asyncio.create_subprocess_exec(
            kubectl,
            "explain",
            "tenant.spec.scheduling",
            f"--kubeconfig={kubeconfig}",
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={"HOME": str(tmp_path)},
        )
        out, err = await asyncio.wait_for(process.communicate(), 60)
        if process.returncode == 0:
            break
        assert asyncio.get_running_loop().time() < deadline, err.decode()
        await asyncio.sleep(0.2)
    explained = " ".join(out.decode().split())
    assert "How work is scheduled inside the tenant." in explained
    assert "What schedules the tenant's work: Kubernetes, or a Slurm cluster inside the tenant." in explained
    assert "enum: Kubernetes, Slurm" in explained


async def test_every_field_is_explained_where_kubectl_explain_looks(client: Client) -> None:
    async def explained() -> dict[str, Any] | None:
        try:
            document = json.loads(await client.get_raw("/openapi/v3/apis/bulkhead.dev/v1alpha1"))
        except ApiError:
            return None
        schemas = document["components"]["schemas"]
        return schemas.get("dev.bulkhead.v1alpha1.Tenant", {}).get("properties", {}).get("spec")

    spec = await until(explained, "the schema published")
    assert spec["description"] == "The desired state."
    assert all(item.get("description") for item in spec["properties"].values())
    assert "What schedules" in spec["properties"]["scheduling"]["properties"]["mode"]["description"]
