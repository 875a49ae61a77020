"""What claims for devices hold of a quota: `top` and `why` say how much of what is used that is; no map shows where."""

import json
from collections.abc import AsyncIterator

import pytest

from bulkhead.api import deviceclaims, labels, names
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.ledger.model import Claim, Node, Pod, Share, Snapshot, Stage, Tenant
from tests.kit.commandline import Cli
from workstation.cli import top
from workstation.cli.quotas import whytext
from workstation.cli.quotas.explained import explain
from workstation.cli.quotas.summary import cohorts

GPU, CLASS = "nvidia.com/gpu", "gpu.example.com"
LINES = {("h100", GPU): Share(8), ("a100", GPU): Share(4)}


def snapshot(*claims: Claim) -> Snapshot:
    red = Tenant("red", cohort="c", shares=LINES, prefers={GPU: ("h100", "a100")}, devices={CLASS: GPU})
    blue = Tenant("blue", cohort="c", shares=LINES, prefers={GPU: ("h100", "a100")})
    pod = Pod("a", "bh-red-work", "a", {GPU: 2}, Stage.BOUND, 0.0, tenant="red", node="n1", virtual_name="a", flavor="h100")
    return Snapshot({"red": red, "blue": blue}, (Node("n1", {GPU: 8}),), (pod,), claims=claims)


def test_top_says_how_much_of_what_is_used_claims_hold_and_only_where_they_do() -> None:
    lines = top.tables(cohorts(snapshot(Claim("red", {GPU: 3}), Claim("red", {GPU: 1}))), [GPU], None)
    split = [line.split() for line in lines if line]
    (at,) = (number for number, line in enumerate(split) if f"{GPU}@h100" in line)
    assert " ".join(split[at][3:]) == "NOMINAL USED BORROWED LENT WAITING BY CLAIMS"
    assert split[at + 1 : at + 4] == [
        ["blue", "8", "0", "0", "0", "0", "0"], ["red", "8", "6", "0", "0", "0", "4"], ["all", "16", "6", "0", "0", "0", "4"]
    ]  # fmt: skip
    # No claim holds any of the other flavor.
    assert sum("BY CLAIMS" in line for line in lines) == 1
    assert "BY CLAIMS" not in "\n".join(top.tables(cohorts(snapshot()), [GPU], None))


def test_the_map_says_that_it_does_not_show_what_claims_hold() -> None:
    shown, bare = (
        top._map(each, GPU, {"red": "R"}, lambda text, _: text, room=9, width=100)
        for each in (snapshot(Claim("red", {GPU: 3})), snapshot())
    )
    assert shown[0] == f"{bare[0]}, 3 more by claims for devices, on unknown nodes"
    assert shown[1:] == bare[1:]


def test_why_says_how_much_of_what_is_used_claims_hold() -> None:
    held = snapshot(Claim("red", {GPU: 3}), Claim("blue", {GPU: 7}))
    found = explain(held, held.pods[0], 0.0)
    said = whytext.text(found, {}, 0.0)
    at = next(number for number, line in enumerate(said) if "nominal 8, used 5" in line)
    assert said[at + 1] == "    of that use, claims for devices hold 3 for as long as they exist"
    assert whytext.as_json(found, {})["quota"][0]["claims"] == 3
    assert "claims for devices" not in "\n".join(whytext.text(explain(snapshot(), held.pods[0], 0.0), {}, 0.0))


def test_why_says_that_the_scheduler_gives_what_a_pod_claims() -> None:
    claims = [{"name": f"gpu{number}", "resourceClaimName": "x"} for number in range(10)]
    (shown,) = whytext.of_claims({"spec": {"resourceClaims": claims}})
    assert shown == (
        "claims for devices: gpu0, gpu1, gpu2, gpu3, gpu4, gpu5, gpu6, gpu7 and 2 more; "
        "the host's scheduler allocates these, not the ledger"
    )
    assert list(whytext.of_claims({"spec": {"resourceClaims": "none"}})) == []


def test_why_says_what_keeps_the_scheduler_from_giving_any_pod_a_node() -> None:
    """A pod without GPUs waited for a node that its tenant had cordoned, and `why` only told that it had none yet."""
    unbound = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room\x1b[31m"}
    (shown,) = whytext.of_scheduler({"spec": {}, "status": {"conditions": [unbound]}})
    assert shown.startswith("the host's scheduler reports Unschedulable: no room")
    assert "\x1b" not in shown
    for other in ({"reason": "SchedulingGated"}, {"status": "True"}, {"status": None}, {"reason": 3, "message": {}}):
        assert list(whytext.of_scheduler({"status": {"conditions": [unbound | other]}})) == []
    assert list(whytext.of_scheduler({"status": "none"})) == []


@pytest.fixture
async def space(host_client: Client, name: str) -> AsyncIterator[str]:
    """The work namespace of a tenant without a cohort, with a claim for three devices."""
    made = names.work_namespace(name)
    await host_client.create(kinds.NAMESPACES, {"metadata": {"name": made}})
    hard = {"spec": {"hard": {f"requests.{GPU}": "4"}}}
    meta = {"name": names.POD_QUOTA, "labels": {labels.TENANT: name}}
    await host_client.create(kinds.RESOURCE_QUOTAS, {"metadata": meta} | hard, made)
    request = {"name": "r", "exactly": {"deviceClassName": CLASS, "count": 3}}
    meta = {"name": "mine", "labels": {labels.SYNCED: labels.SYNCED_BY_SYNCER}}
    claim = {"metadata": meta, "spec": {"devices": {"requests": [request]}}}
    await host_client.create(kinds.RESOURCE_CLAIMS, claim, made)
    yield made
    await host_client.delete(kinds.RESOURCE_CLAIMS, "mine", made)
    for each in (await host_client.list(kinds.RESOURCE_QUOTAS, made)).items:
        await host_client.delete(kinds.RESOURCE_QUOTAS, each["metadata"]["name"], made)


@pytest.mark.apiserver
async def test_top_counts_claims_of_a_tenant_without_a_cohort_as_its_quota_does(
    cli: Cli, host_client: Client, name: str, space: str
) -> None:
    async def used() -> list[tuple[int, int]]:
        said = json.loads((await cli("top", "-o", "json")).out)
        tenants = (tenant for cohort in said["cohorts"] for tenant in cohort["tenants"] if tenant["name"] == name)
        return [(line["used"], line["claims"]) for tenant in tenants for line in tenant["lines"] if line["resource"] == GPU]

    assert await used() == [(0, 0)]
    noted = {deviceclaims.LINES: json.dumps({CLASS: GPU})}
    hard = {"spec": {"hard": {deviceclaims.quota_name(CLASS): "4"}}}
    quota = {"metadata": {"name": names.OBJECT_QUOTA, "annotations": noted}} | hard
    await host_client.create(kinds.RESOURCE_QUOTAS, quota, space)
    assert await used() == [(3, 3)]
