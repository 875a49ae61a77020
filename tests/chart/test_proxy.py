"""The proxy as the chart renders it: where there is a domain, with narrow rights, and without a key."""

from typing import Any

import pytest

from controller.plane.network import COMPONENT_LABEL
from tests.kit.helmchart import rendered

DOMAIN = ("--set", "exposure.domains={k8s.example.org}")


def objects(*arguments: str) -> dict[tuple[str, str], dict[str, Any]]:
    return {(obj["kind"], obj["metadata"]["name"]): obj for obj in rendered(*arguments)}


def environment(found: dict[tuple[str, str], dict[str, Any]]) -> dict[str, str]:
    (container,) = found["Deployment", "bulkhead-controller"]["spec"]["template"]["spec"]["containers"]
    return {each["name"]: each.get("value", "") for each in container["env"]}


def test_it_runs_where_there_is_a_domain() -> None:
    without = objects()
    assert not [name for _, name in without if "proxy" in name]
    assert environment(without)["BULKHEAD_EXPOSURE_PROXY"] == "0"
    with_one = objects(*DOMAIN)
    assert ("Deployment", "bulkhead-proxy") in with_one
    told = environment(with_one)
    assert (told["BULKHEAD_EXPOSURE_PROXY"], told["BULKHEAD_EXPOSURE_DOMAINS"]) == ("1", "k8s.example.org")
    switched_off = objects(*DOMAIN, "--set", "exposure.proxy.enabled=false")
    assert ("Deployment", "bulkhead-proxy") not in switched_off
    assert environment(switched_off)["BULKHEAD_EXPOSURE_PROXY"] == "0"


def test_it_runs_twice_apart_and_a_drain_takes_one_at_a_time() -> None:
    found = objects(*DOMAIN)
    spec = found["Deployment", "bulkhead-proxy"]["spec"]
    assert spec["replicas"] == 2
    assert spec["template"]["spec"]["topologySpreadConstraints"][0]["topologyKey"] == "kubernetes.io/hostname"
    assert found["PodDisruptionBudget", "bulkhead-proxy"]["spec"]["maxUnavailable"] == 1
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}


def test_it_may_list_services_and_nothing_else() -> None:
    found = objects(*DOMAIN)
    assert found["ClusterRole", "bulkhead-proxy"]["rules"] == [
        {"apiGroups": [""], "resources": ["services"], "verbs": ["list", "watch"]}
    ]


def test_haproxy_has_no_token_and_no_container_has_a_right_of_the_kernel() -> None:
    pod = objects(*DOMAIN)["Deployment", "bulkhead-proxy"]["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    containers = {each["name"]: each for each in [*pod["initContainers"], *pod["containers"]]}
    mounts = {name: [each["name"] for each in container["volumeMounts"]] for name, container in containers.items()}
    assert mounts == {"routes": ["shared", "identity"], "haproxy": ["shared"], "routes-keeper": ["shared", "identity"]}
    for container in containers.values():
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
    assert pod["securityContext"]["runAsNonRoot"] is True
    # HAProxy keeps the connections that it has for less time than the pod is given.
    assert pod["terminationGracePeriodSeconds"] > 240 + 5


def test_planes_let_in_the_pods_that_the_chart_marks_as_the_proxy() -> None:
    found = objects(*DOMAIN)
    pod = found["Deployment", "bulkhead-proxy"]["spec"]["template"]["metadata"]["labels"]
    assert pod[COMPONENT_LABEL] == "proxy"
    controller = found["Deployment", "bulkhead-controller"]["spec"]["template"]["metadata"]["labels"]
    assert controller[COMPONENT_LABEL] == "controller"
    policy = found["NetworkPolicy", "bulkhead-proxy"]["spec"]
    assert policy["podSelector"]["matchLabels"].items() <= pod.items()
    assert policy["ingress"][0] == {"ports": [{"protocol": "TCP", "port": 8443}]}
    assert [rule["ports"][0]["port"] for rule in policy["egress"]] == [6443, 443, 6443]


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ("exposure.domains={a.x.org,x.org}", "lies below x"),
        ("exposure.domains={*.x.org}", "schema"),
        ("exposure.proxy.replicas=0", "schema"),
        ("exposure.proxy.address=a b", "schema"),
        ("exposure.proxy.service.type=ExternalName", "schema"),
        ("exposure.proxy.limits.tenantRate=-1", "schema"),
        ("exposure.loadBalancer.sourceRanges={any}", "schema"),
        ("exposure.loadBalancer.annotations.a b=c", "invalid propertyName 'a b'"),
        ("exposure.loadBalancer.annotations.x\\.org/=c", "invalid propertyName 'x.org/'"),
        ("exposure.loadBalancer.annotations.bulkhead\\.dev/tenant=c", "invalid propertyName"),
        ("exposure.proxy.service.annotations.-a=c", "invalid propertyName"),
        ("exposure.loadBalancer.className=a b", "schema"),
        ("exposure.gateway.name=public", "go together"),
        ("exposure.x=1", "schema"),
    ],
)
def test_values_that_make_no_sense_are_refused(wrong: str, why: str) -> None:
    with pytest.raises(AssertionError, match=why):
        rendered("--set", wrong)
