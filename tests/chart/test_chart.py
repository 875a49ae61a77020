"""The chart: its CRDs are the generated ones, helm accepts it, and it grants what it should."""

import ast
import json
import re
from typing import Any

import pytest

from bulkhead.api import deviceclaims, devices, ledger, names, requirements
from bulkhead.api import labels as marks
from controller.decide.identity import KEYS
from controller.plane import namespaces, pullsecret, rights, syncer
from controller.plane.spec import API_PORT, ETCD_HTTP_PORT
from syncer.translate import metadata
from syncer.translate.kinds import ingress, podstatus
from tests.kit import yamlfiles
from tests.kit.helmchart import CHART, ROOT, helm, rendered


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
        "images.pullSecrets={A b}",
        "controller.replicas=0",
        "priorityClasses.plane.name=system-x",
        # Without a name the host's own default would be filled in, which is nothing that a class allows.
        "priorityClasses.workload.name=",
        "priorityClasses.workload=null",
        "ingressDomains={*.x.org}",
        # Secrets of others lie there.
        "shares.namespace=kube-system",
        "shares.namespace=bh-team-a",
        "shares.volumeTypes={hostPath}",
        "x=1",
    ],
)
def test_values_that_make_no_sense_are_refused(wrong: str) -> None:
    with pytest.raises(AssertionError, match="schema"):
        rendered("--set", wrong)


def test_what_is_shared_outlives_the_chart_and_may_be_off() -> None:
    kept = next(obj for obj in rendered() if obj["kind"] == "Namespace")
    assert kept["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    for values, made in ((("shares.create=false",), {"Role", "RoleBinding"}), (("shares.namespace=",), set[str]())):
        found = rendered(*(part for value in values for part in ("--set", value)))
        assert {obj["kind"] for obj in found if "shares" in obj["metadata"]["name"] or obj["kind"] == "Namespace"} == made


def test_without_types_the_controller_makes_no_volumes() -> None:
    def verbs(*values: str) -> set[str]:
        roles = [
            obj for obj in rendered(*values) if obj["kind"] == "ClusterRole" and "controller-volumes" in str(obj["metadata"])
        ]
        rules = [rule for role in roles for rule in role["rules"] if set(rule["resources"]) & {"persistentvolumes"}]
        return {verb for rule in rules for verb in rule["verbs"]}

    assert verbs() - verbs("--set", "shares.volumeTypes=null") == {"create"}


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
                "bulkhead-controller-secrets",
                "bulkhead-controller-pulls",
                "bulkhead-ledger-work",
            ]


def test_the_controller_reads_no_secret_but_in_planes_namespaces_and_in_that_of_what_is_shared() -> None:
    roles = {obj["metadata"]["name"]: obj for obj in rendered() if obj["kind"] in {"ClusterRole", "Role"}}
    holding = [name for name, role in roles.items() if any("secrets" in rule["resources"] for rule in role["rules"])]
    allowed = {pullsecret.PULLS_ROLE, rights.SECRETS_ROLE, "bulkhead-controller-shares", "bulkhead-syncer-work"}
    assert set(holding) == allowed | {"bulkhead-controller"}  # of that one the next test says more
    assert [rule["resourceNames"] for rule in roles[pullsecret.PULLS_ROLE]["rules"]] == [[names.PULL_SECRET]]
    bound = {
        (obj["roleRef"]["name"], obj["metadata"].get("namespace"))
        for obj in rendered()
        if obj["kind"] in {"ClusterRoleBinding", "RoleBinding"}
    }
    shares = {each for each in bound if each[0] == "bulkhead-controller-shares"}
    assert shares == {("bulkhead-controller-shares", "bulkhead-shared")}
    events = ("bulkhead-controller-events", "default")
    assert {role for role, _ in bound - shares - {events}} == {"bulkhead-controller", "bulkhead-controller-volumes"}
    assert [rule["resources"] for rule in roles[events[0]]["rules"]] == [["events"]]
    assert {verb for rule in roles["bulkhead-controller-shares"]["rules"] for verb in rule["verbs"]} == {"get", "list", "watch"}


def test_of_its_own_namespace_the_controller_reads_its_keys_and_the_pull_secrets_alone() -> None:
    made = rendered("--set", "images.pullSecrets={one,two}")
    (role,) = (obj for obj in made if obj["kind"] == "Role" and obj["metadata"]["name"] == "bulkhead-controller")
    keys, pulls = (each for each in role["rules"] if "secrets" in each["resources"])
    assert (keys["verbs"], keys["resourceNames"]) == (["get", "patch"], [KEYS])
    assert (pulls["verbs"], pulls["resourceNames"]) == (["get"], ["one", "two"])
    (cluster,) = (obj for obj in made if obj["kind"] == "ClusterRole" and obj["metadata"]["name"] == "bulkhead-controller")
    assert not any("secrets" in rule["resources"] for rule in cluster["rules"])


def test_the_secret_of_the_keys_is_empty_and_stays() -> None:
    (secret,) = (obj for obj in rendered() if obj["kind"] == "Secret" and obj["metadata"]["name"] == KEYS)
    assert "data" not in secret
    assert "stringData" not in secret
    assert secret["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"


def test_the_policies_know_the_roles_and_the_level_that_the_controller_writes() -> None:
    policies = {obj["metadata"]["name"]: str(obj["spec"]) for obj in rendered() if obj["kind"] == "ValidatingAdmissionPolicy"}
    work = (syncer.WORK_ROLE, syncer.INGRESS_ROLE, syncer.POD_GROUP_ROLE, syncer.SNAPSHOT_ROLE)
    said = policies["bulkhead-controller-rights"]
    assert all(
        role in said
        for role in (
            *work,
            syncer.PLANE_ROLE,
            syncer.NODE_READER,
            rights.SECRETS_ROLE,
            rights.LEDGER_ROLE,
            pullsecret.PULLS_ROLE,
        )
    )
    assert namespaces.POD_SECURITY_VERSION in policies["bulkhead-controller-namespaces"]


def test_the_policies_know_the_names_by_which_syncers_and_the_ledger_speak() -> None:
    policies = {obj["metadata"]["name"]: str(obj["spec"]) for obj in rendered() if obj["kind"] == "ValidatingAdmissionPolicy"}
    assert all(name in policies["bulkhead-syncer-pods"] for name in (ledger.GATE, *ledger.BY_SYNCER))
    facts = [f"variables.facts[?'{name}']" for name in (ledger.GATED_RESOURCES, ledger.GATED_GANGS)]
    assert all(fact in policies["bulkhead-syncer-pods"].replace("\\'", "'") for fact in facts)
    assert str(ledger.MOST_PODS) in policies["bulkhead-syncer-pods"]
    assert all(name in policies["bulkhead-controller-pods"] for name in (ledger.GATE, *ledger.BY_LEDGER, marks.ENDS))
    assert ledger.GATE in policies["bulkhead-ledger-gates"]


def test_the_namespace_of_the_chart_is_closed_but_for_the_controllers_ways() -> None:
    found = {obj["metadata"]["name"]: obj["spec"] for obj in rendered() if obj["kind"] == "NetworkPolicy"}
    closed, opened = found["default-deny"], found["bulkhead-controller"]
    assert closed == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    deployment = next(obj for obj in rendered() if obj["kind"] == "Deployment")
    assert opened["podSelector"]["matchLabels"] == deployment["spec"]["selector"]["matchLabels"]
    assert [rule["ports"][0]["port"] for rule in opened["egress"]] == [6443, 443, 6443]
    assert [each["port"] for each in opened["egress"][0]["ports"]] == [API_PORT, ETCD_HTTP_PORT]
    assert [rule["ports"][0]["port"] for rule in opened["ingress"]] == [8080]
    one = ("--set", "networkPolicy.hostAPI[0].cidr=10.0.0.1/32", "--set", "networkPolicy.hostAPI[0].port=6443")
    spec = next(
        obj["spec"] for obj in rendered(*one, "--set", "networkPolicy.metricsFrom=null") if obj["kind"] == "NetworkPolicy"
    )
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    narrow = [
        obj["spec"] for obj in rendered(*one, "--set-json", "networkPolicy.metricsFrom=[]") if obj["kind"] == "NetworkPolicy"
    ]
    assert [rule["to"][0].get("ipBlock", {}).get("cidr") for rule in narrow[1]["egress"]] == [None, "10.0.0.1/32"]
    assert narrow[1]["ingress"] == []
    assert not [obj for obj in rendered("--set", "networkPolicy.enabled=false") if obj["kind"] == "NetworkPolicy"]


def test_the_controller_reaches_identity_providers_and_dns_only_where_an_admin_says_so() -> None:
    def egress(*options: str) -> list[dict[str, Any]]:
        policies = [obj for obj in rendered(*options) if obj["kind"] == "NetworkPolicy"]
        rules = next(obj for obj in policies if obj["metadata"]["name"] == "bulkhead-controller")["spec"]["egress"]
        return [rule for rule in rules if "bulkhead.dev/namespace" not in json.dumps(rule)]

    given = '[{"cidr":"2001:db8::1/128","port":8443}]'
    more = [each for each in egress("--set-json", f"networkPolicy.issuers={given}") if each not in egress()]
    provider = {"to": [{"ipBlock": {"cidr": "2001:db8::1/128"}}], "ports": [{"protocol": "TCP", "port": 8443}]}
    assert more[0] == provider
    peers = [peer for rule in more[1:] for peer in rule["to"]]
    assert peers == yamlfiles.load(CHART / "values.yaml")["networkPolicy"]["dns"]


def test_a_policy_narrows_every_write_that_the_controller_may_do() -> None:
    """Rights of the whole cluster are held to tenants' names by a policy; one that lists no such kind would let it through."""
    objects = {(obj["kind"], obj["metadata"]["name"]): obj for obj in rendered()}
    policies = tuple(f"bulkhead-controller-{which}" for which in ("scope", "namespaces", "nodes", "definitions", "requests"))
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
        if resource != "subjectaccessreviews"  # a question, which leaves nothing
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
    assert sorted(ast.literal_eval(found["deviceNames"])) == sorted(devices.VARIABLES)
    assert ast.literal_eval(found["granted"]) == {devices.ENVIRONMENT: [""]} | {
        devices.environment_name(devices.ENVIRONMENT, vendor): [f"{domain}/gpu" for domain in vendor.domains]
        for vendor in devices.VENDORS
    }
    said = "".join(each["expression"] for each in policy["spec"]["validations"])
    assert all(f"startsWith('{prefix}')" in said for prefix in devices.PREFIXES)
    assert f"({'|'.join(devices.CAPABILITIES)})" in said


def test_the_metadata_that_the_host_lets_through_is_what_translation_lets_through() -> None:
    policies = [obj for obj in rendered() if obj["kind"] == "ValidatingAdmissionPolicy"]
    scoped = [obj for obj in policies if any(each["name"] == "knownLabels" for each in obj["spec"].get("variables", []))]
    assert scoped
    prefixes = {*metadata._PASSING_PREFIXES, metadata.REMAPPED_PREFIX[:-1], metadata.NAMESPACE_LABEL_PREFIX[:-1]}
    for policy in scoped:
        variables = {each["name"]: each["expression"] for each in policy["spec"]["variables"]}
        assert set(ast.literal_eval(variables["domains"])) == prefixes
        assert set(re.findall(r"'([^']+)'", variables["knownAnnotations"])) >= metadata.PASSING_ANNOTATIONS
        known = set(re.findall(r"'([^']+)'", variables["knownLabels"]))
        assert known >= metadata.SET_BY_BINDING | {marks.SYNCED, marks.TENANT, metadata.NAMESPACE_HASH}
        rules = " ".join(each["expression"] for each in policy["spec"]["validations"])
        assert all(f"'{key}'" in rules for key in metadata._RESERVED_KEYS)


def test_the_policies_count_to_the_same_numbers_as_syncer_and_ledger() -> None:
    rules = {
        rule.get("message"): rule["expression"]
        for obj in rendered()
        if obj["kind"] == "ValidatingAdmissionPolicy"
        for rule in obj["spec"]["validations"]
    }
    for message, most in (
        (
            "pod: has at most {} terms, expressions and values in affinity, spreading, node selector and tolerations",
            requirements.MOST,
        ),
        ("pod: has at most {} terms of affinity and anti-affinity about other pods", requirements.MOST_POD_TERMS),
        ("resource claim: at most {} selectors in all requests and alternatives", deviceclaims.MOST_SELECTORS),
        ("resource claim: at most {} characters in all selectors", deviceclaims.MOST_CHARACTERS),
        ("resource claim: at most {} devices", deviceclaims.MOST_DEVICES),
        # The platform adds its tenant, its namespace, and that it is not part of a drain.
        (
            "disruption budget: its selector has at most {} labels, expressions and values",
            requirements.MOST_OF_BUDGET + 3,
        ),
        ("ingress: at most {} hosts in all certificates", ingress.MOST_NAMES),
    ):
        assert rules[message.format(most)].endswith(f"<= {most}"), message
    texts = rules["pod: the conditions of its readiness gates have short texts"]
    for field, most in podstatus.MOST_OF_CONDITION.items():
        assert f"size(c.?{field}.orValue('')) <= {most}" in texts
