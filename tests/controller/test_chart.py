"""The chart: its CRDs are the generated ones, helm accepts it, and it grants what it should."""

import ast

import pytest

from bulkhead.api import devices
from tests.controller.helmchart import CHART, ROOT, helm, rendered


@pytest.mark.parametrize("name", sorted(path.name for path in (ROOT / "crds").glob("*.yaml")))
def test_the_charts_crds_are_the_generated_ones(name: str) -> None:
    assert (CHART / "crds" / name).read_bytes() == (ROOT / "crds" / name).read_bytes(), "cp crds/*.yaml charts/bulkhead/crds/"


def test_helm_lints_the_chart() -> None:
    assert "0 chart(s) failed" in helm("lint", str(CHART), "--strict")


@pytest.mark.parametrize(
    "wrong",
    [
        "kubernetesVersions={latest}",
        "slurmVersions={latest}",
        "images.slurm=",
        "controller.replicas=0",
        "priorityClasses.plane.name=system-x",
        "ingressDomains={*.x.org}",
        "x=1",
    ],
)
def test_values_that_make_no_sense_are_refused(wrong: str) -> None:
    with pytest.raises(AssertionError, match="schema"):
        rendered("--set", wrong)


def test_domains_of_ingress_lie_apart() -> None:
    with pytest.raises(AssertionError, match="lies below x"):
        rendered("--set", "ingressDomains={a.x.org,y.org,x.org}")
    assert rendered("--set", "ingressDomains={x.org,ax.org}")


def test_the_controller_cannot_do_what_it_hands_out() -> None:
    role = next(obj for obj in rendered() if obj["kind"] == "ClusterRole" and obj["metadata"]["name"] == "bulkhead-controller")
    for rule in role["rules"]:
        assert "*" not in [*rule["verbs"], *rule["resources"], *rule["apiGroups"]]
        assert not {"escalate", "impersonate"} & set(rule["verbs"])
        assert not {"pods/exec", "pods/attach", "nodes/proxy", "serviceaccounts/token"} & set(rule["resources"])
        if "bind" in rule["verbs"]:
            assert rule["resourceNames"] == [
                "bulkhead-syncer-work",
                "bulkhead-syncer-ingress",
                "bulkhead-syncer-podgroups",
                "bulkhead-syncer-snapshots",
                "bulkhead-syncer-plane",
                "bulkhead-syncer-nodes",
            ]


def test_a_policy_narrows_every_write_that_the_controller_may_do() -> None:
    """Rights of the whole cluster are held to tenants' names by a policy; one that lists no such kind would let it through."""
    objects = {(obj["kind"], obj["metadata"]["name"]): obj for obj in rendered()}
    policies = ("bulkhead-controller-scope", "bulkhead-controller-nodes")
    matched = [
        rule
        for name in policies
        for rule in objects["ValidatingAdmissionPolicy", name]["spec"]["matchConstraints"]["resourceRules"]
    ]
    operations = {"create": "CREATE", "patch": "UPDATE", "update": "UPDATE", "delete": "DELETE"}
    unheld = [
        (group, resource, verb)
        for rule in objects["ClusterRole", "bulkhead-controller"]["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        if verb in operations and group != "bulkhead.dev"
        if not any(
            group in m["apiGroups"] and {resource, "*"} & set(m["resources"]) and operations[verb] in m["operations"]
            for m in matched
        )
    ]
    assert unheld == []


def test_the_syncer_has_no_right_to_nodes_proxies_and_roles() -> None:
    for role in rendered():
        if role["kind"] == "ClusterRole" and role["metadata"]["name"].startswith("bulkhead-syncer"):
            for rule in role["rules"]:
                assert "nodes/proxy" not in rule["resources"]
                assert "rbac.authorization.k8s.io" not in rule["apiGroups"]
                assert not {"escalate", "bind", "impersonate", "deletecollection"} & set(rule["verbs"])


def test_the_policy_knows_the_device_variables_and_vendors_that_the_translation_closes() -> None:
    gpus = [f"{domain}/gpu" for vendor in devices.VENDORS for domain in vendor.domains]
    objects = rendered("--set", f"gpuResources={{{','.join([*gpus, 'example.com/gpu'])}}}")
    policy = next(obj for obj in objects if obj["metadata"]["name"] == "bulkhead-syncer-pods" and "variables" in obj["spec"])
    found = {each["name"]: each["expression"] for each in policy["spec"]["variables"]}
    assert ast.literal_eval(found["deviceNames"]) == sorted(devices.VARIABLES)
    assert ast.literal_eval(found["granted"]) == {devices.ENVIRONMENT: [""]} | {
        devices.environment_name(devices.ENVIRONMENT, vendor): [f"{domain}/gpu" for domain in vendor.domains]
        for vendor in devices.VENDORS
    }
    said = "".join(each["expression"] for each in policy["spec"]["validations"])
    assert all(f"startsWith('{prefix}')" in said for prefix in devices.PREFIXES)
    assert f"({'|'.join(devices.CAPABILITIES)})" in said
