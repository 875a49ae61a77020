"""Values of the chart: which objects follow from them, and that misspelt ones are refused with a sentence that helps."""

import json
from pathlib import Path
from typing import Final

import pytest

from bulkhead.api import crd
from bulkhead.api.objects import Obj
from controller.plane import placement
from controller.plane.network import peers
from controller.plane.render import render
from controller.plane.sections import Tracing
from controller.settings import SettingsError, load
from gpumetrics.settings import load as gpu_settings
from tests.kit import yamlfiles
from tests.kit.helmchart import CHART, environment, environment_of, helm, of_kind, rendered, ways_to_dns
from tests.kit.tenantsamples import material, plane_spec
from workstation.images import valuesfile

MISSPELT: Final = {
    "image.repository=x": "images.registry",
    "images.repository=x": "images.registry is the registry and path of all images",
    "images.tag=x": "images.bulkhead=bulkhead:",
    "imagePullSecrets[0].name=x": "images.pullSecrets",
    "replicaCount=2": "it is controller.replicas",
    "nodeSelector.a=b": "planes.nodeSelector for tenants' planes",
    "planes.topologySpreadConstraints[0].topologyKey=x": "it is planes.spread",
    "planes.priorityClassName=x": "it is priorityClasses.plane.name",
    "serviceMonitor.enabled=true": "it is monitoring.enabled",
    "storageClassName=x": "it is storageClass",
    # Whatever else: by the schema, with its name.
    "storageclass=x": "'storageclass' not allowed",
    "planes.nodeSelectors.a=b": "'nodeSelectors' not allowed",
    "controller.replica=2": "'replica' not allowed",
    "monitoring.interval=often": "monitoring/interval",
    "monitoring.interval=0s": "monitoring/interval",
    "networkPolicy.hostAPIBy=Magic": "networkPolicy/hostAPIBy",
    "planes.tolerations[0].operator=Equal": "planes/tolerations",
    "planes.tolerations[0].effect=NoSuch": "planes/tolerations",
    "planes.spread[0].whenUnsatisfiable=Never": "planes/spread",
    "planes.spread[0].maxSkew=2": "'maxSkew' not allowed",
    "controller.affinity.nodeAffinities=x": "'nodeAffinities' not allowed",
    "controller.nodeSelector.a b=c": "invalid propertyName 'a b'",
}


@pytest.mark.parametrize("value", MISSPELT)
@pytest.mark.charts
def test_a_misspelt_value_is_refused_and_told_how_it_is_spelt(value: str) -> None:
    with pytest.raises(AssertionError) as refused:
        rendered("--set", value)
    assert MISSPELT[value] in str(refused.value)


@pytest.mark.parametrize(("namespace", "refused"), [("default", True), ("kube-system", True), ("tenants", False)])
def test_a_namespace_in_which_others_have_pods_is_refused_at_the_installation(namespace: str, refused: bool) -> None:
    """Without --namespace helm installs into `default`, where the default-deny policy would cut off all pods."""
    arguments = ("template", "bulkhead", str(CHART), f"--namespace={namespace}")
    # Whatever runs there already is upgraded, and a host that ignores policies is the admin's choice.
    for allowed in (("--is-upgrade",), ("--set", "networkPolicy.enabled=false")):
        assert "kind: Deployment" in helm(*arguments, *allowed)
    if not refused:
        assert "name: default-deny" in helm(*arguments)
        return
    with pytest.raises(AssertionError, match=f'must be one for Bulkhead alone, not "{namespace}"'):
        helm(*arguments)


def test_the_digests_of_many_earlier_releases_are_no_obstacle(tmp_path: Path) -> None:
    """`images push` keeps those in its file, and helm those of the values that it reuses: each release adds some."""
    digests = {f"bulkhead:0.{release}.{patch}": "sha256:" + "a" * 64 for release in range(20) for patch in range(10)}
    path = tmp_path / "images.yaml"
    path.write_text(valuesfile.values("r.example.org/b", digests | {"bulkhead:0.1.0": "sha256:" + "b" * 64}, []))
    assert environment("-f", str(path))["BULKHEAD_IMAGE_BULKHEAD"] == f"r.example.org/b/bulkhead:0.1.0@sha256:{'b' * 64}"


def test_what_the_template_of_misspelt_values_names_the_schema_lets_through_and_the_values_do_not_have() -> None:
    """Else the schema would speak first, or a true value would be refused."""
    said = (CHART / "templates" / "misspelt.yaml").read_text().partition('"bulkhead.misspelt" -}}')[2]
    named = [line.partition(": ")[0] for line in said.splitlines() if ": " in line]
    schema, values = json.loads((CHART / "values.schema.json").read_text()), yamlfiles.load(CHART / "values.yaml")
    assert len(named) > 20
    for path in named:
        *parents, last = path.split(".")
        at, there = schema, values
        for key in parents:
            at, there = at["properties"][key], there.get(key, {})
        assert last not in there, path
        assert "additionalProperties" not in at or at["properties"][last] is True, path


def test_every_value_is_in_the_schema() -> None:
    schema, values = json.loads((CHART / "values.schema.json").read_text()), yamlfiles.load(CHART / "values.yaml")

    def unknown(values: Obj, schema: Obj, where: str) -> list[str]:
        found: list[str] = []
        for key, value in values.items():
            at = schema.get("properties", {}).get(key)
            if at is None and schema.get("additionalProperties") is False:
                found.append(f"{where}{key}")
            elif at is None and "properties" in schema:
                found.append(f"{where}{key} is not checked")
            elif isinstance(value, dict) and isinstance(at, dict) and "properties" in at:
                found += unknown(value, at, f"{where}{key}.")
        return found

    assert unknown(values, schema, "") == []


def test_the_controller_reads_what_the_chart_tells_it() -> None:
    settings = load(environment())
    # Nothing chosen: the pods of planes are what they were before the chart could choose.
    assert settings.plane_placement == placement.Placement()
    assert settings.host_api_by == "Address"
    assert settings.server_addresses == ()
    servers = ("nfs\\.example\\.org={192.0.2.10/32,fd00:5::9/128}", "\\.nas\\.example\\.org={192.0.2.11/32}")
    listed = load(environment(*(part for each in servers for part in ("--set", f"serverAddresses.{each}")))).server_addresses
    assert set(listed) == {
        "nfs.example.org=192.0.2.10/32", "nfs.example.org=fd00:5::9/128", ".nas.example.org=192.0.2.11/32",
    }  # fmt: skip
    assert list(settings.metrics_from) == yamlfiles.load(CHART / "values.yaml")["networkPolicy"]["metricsFrom"]


def test_planes_are_placed_as_the_values_say() -> None:
    chosen = {
        "nodeSelector": {"pool": "planes"},
        "tolerations": [{"key": "planes", "operator": "Exists", "effect": "NoSchedule"}],
        "spread": [{"topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}],
    }
    told = load(environment("--set-json", f"planes={json.dumps(chosen)}")).plane_placement
    assert told.of_pod() == {"nodeSelector": chosen["nodeSelector"], "tolerations": chosen["tolerations"]}
    assert told.spread == (placement.Spread("topology.kubernetes.io/zone", hard=True),)


def test_metrics_are_closed_if_the_values_say_so() -> None:
    assert peers(environment("--set-json", "networkPolicy.metricsFrom=[]")["BULKHEAD_METRICS_FROM"]) == ()


# -- the controller's own pods


def test_controllers_lie_apart_and_a_drain_takes_one_at_a_time() -> None:
    (deployment,) = of_kind("Deployment", "--set", "controller.replicas=2")
    (budget,) = of_kind("PodDisruptionBudget", "--set", "controller.replicas=2")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert budget["spec"]["maxUnavailable"] == 1
    assert budget["spec"]["selector"]["matchLabels"].items() <= labels.items()
    apart = deployment["spec"]["template"]["spec"]["topologySpreadConstraints"]
    assert [each["topologyKey"] for each in apart] == ["kubernetes.io/hostname", "topology.kubernetes.io/zone"]
    assert all(each["labelSelector"]["matchLabels"].items() <= labels.items() for each in apart)


def test_a_single_controller_has_no_budget_that_would_stop_a_drain() -> None:
    assert of_kind("PodDisruptionBudget") == []
    (deployment,) = of_kind("Deployment")
    assert "topologySpreadConstraints" not in deployment["spec"]["template"]["spec"]


def test_the_controller_passes_restricted_pod_security() -> None:
    (deployment,) = of_kind("Deployment")
    pod = deployment["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in pod["containers"]:
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert container["securityContext"]["allowPrivilegeEscalation"] is False


# -- monitoring


def test_objects_of_the_prometheus_operator_are_made_on_request_alone() -> None:
    assert not [obj for obj in rendered() if obj["apiVersion"].startswith("monitoring.coreos.com")]


def test_monitors_select_what_is_there_by_ports_that_are_named_so() -> None:
    on = ("--set", "monitoring.enabled=true", "--set", "monitoring.labels.release=prometheus")
    (monitor,), (service,) = of_kind("ServiceMonitor", *on), of_kind("Service", *on)
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert {each["port"] for each in monitor["spec"]["endpoints"]} <= {each["name"] for each in service["spec"]["ports"]}
    (pods,) = of_kind("PodMonitor", *on)
    spec = plane_spec()
    made = [obj for obj in render(spec, material(spec)).everything() if obj["kind"] in {"Deployment", "StatefulSet"}]
    wanted = pods["spec"]["selector"]["matchLabels"].items()
    selected = [obj["spec"]["template"] for obj in made if wanted <= obj["spec"]["template"]["metadata"]["labels"].items()]
    assert len(selected) == 1
    ports = {each["name"] for each in selected[0]["spec"]["containers"][0]["ports"]}
    assert {each["port"] for each in pods["spec"]["podMetricsEndpoints"]} <= ports


def test_the_monitor_of_gpu_metrics_comes_with_the_program_and_selects_it() -> None:
    on = ("--set", "monitoring.enabled=true", "--set", "gpuMetrics.enabled=true")
    (monitor,) = [obj for obj in of_kind("PodMonitor", *on) if obj["metadata"]["name"] == "bulkhead-gpumetrics"]
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    pods = [obj["spec"]["template"] for obj in of_kind("Deployment", *on)]
    (pod,) = [pod for pod in pods if wanted <= pod["metadata"]["labels"].items()]
    ports = {port["name"] for port in pod["spec"]["containers"][0]["ports"]}
    assert {endpoint["port"] for endpoint in monitor["spec"]["podMetricsEndpoints"]} <= ports
    assert not [obj for obj in of_kind("PodMonitor", *on[:2]) if obj["metadata"]["name"] == "bulkhead-gpumetrics"]
    assert not of_kind("PodMonitor", *on[2:])


def test_figures_of_kubelets_without_the_program_that_reads_them_are_refused() -> None:
    with pytest.raises(AssertionError, match=r"set gpuMetrics\.enabled too"):
        rendered("--set", "gpuMetrics.kubelets.enabled=true")


def test_the_right_to_read_kubelets_metrics_is_given_on_request_to_one_program() -> None:
    on = ("--set", "gpuMetrics.enabled=true", "--set", "gpuMetrics.kubelets.enabled=true")

    def holders(*arguments: str) -> set[str]:
        roles = of_kind("ClusterRole", *arguments)
        rules = [(role["metadata"]["name"], rule) for role in roles for rule in role.get("rules") or ()]
        return {name for name, rule in rules if any(kind.startswith("nodes/") for kind in rule.get("resources") or ())}

    assert holders() == holders(*on[:2]) == set()
    assert holders(*on) == {"bulkhead-gpumetrics"}
    assert not load(environment_of("bulkhead-controller", *on[:2])).node_figures
    assert load(environment_of("bulkhead-controller", *on)).node_figures
    told = gpu_settings(environment_of("bulkhead-gpumetrics", *on, "--set", "gpuMetrics.kubelets.verify=false"))
    assert (told.kubelets, told.verify_kubelets, told.kubelet_interval_seconds) == (1, 0, 60)
    assert gpu_settings(environment_of("bulkhead-gpumetrics", *on[:2])).kubelets == 0


def test_the_way_to_kubelets_is_opened_to_the_nodes_network_if_it_is_named() -> None:
    on = ("--set", "gpuMetrics.enabled=true", "--set", "gpuMetrics.kubelets.enabled=true")

    def ways(*arguments: str) -> list[Obj]:
        policies = of_kind("NetworkPolicy", *on, *arguments)
        (policy,) = [obj for obj in policies if obj["metadata"]["name"] == "bulkhead-gpumetrics"]
        return [rule for rule in policy["spec"]["egress"] if {"protocol": "TCP", "port": 10250} in rule.get("ports", ())]

    assert ways() == [{"ports": [{"protocol": "TCP", "port": 10250}]}]
    (named,) = ways("--set", "gpuMetrics.kubelets.cidrs={10.0.0.0/16}")
    assert named["to"] == [{"ipBlock": {"cidr": "10.0.0.0/16"}}]


# -- traces


def test_traces_are_off_and_go_where_the_values_say() -> None:
    assert load(environment()).tracing is None
    assert not [name for name in environment() if "TRAC" in name]
    on = ("--set", "tracing.enabled=true", "--set", "tracing.collector.namespace=tempo", "--set", "tracing.onePodIn=7")
    told = load(environment(*on))
    assert told.tracing == Tracing("tempo", "otel-collector", 4318, 7)
    assert told.tracing.collector(told.cluster_domain) == "http://otel-collector.tempo.svc.cluster.local:4318"
    (policy,) = [obj for obj in of_kind("NetworkPolicy", *on) if obj["metadata"]["name"] == "bulkhead-controller"]
    to = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "tempo"}}}
    assert {"to": [to], "ports": [{"protocol": "TCP", "port": 4318}]} in policy["spec"]["egress"]
    assert ways_to_dns(policy)


@pytest.mark.parametrize(
    "value", ["tracing.onePodIn=0", "tracing.collector.port=0", "tracing.collector.namespace=A_b", "tracing.ratio=1"]
)
def test_a_wrong_value_of_traces_is_refused(value: str) -> None:
    with pytest.raises(AssertionError, match="tracing"):
        rendered("--set", value)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("BULKHEAD_TRACES_SERVICE", "collector.evil/x"),
        ("BULKHEAD_TRACES_NAMESPACE", "a@b"),
        ("BULKHEAD_TRACES_PORT", "70000"),
        ("BULKHEAD_TRACE_ONE_POD_IN", "0"),
    ],
)
def test_the_controller_refuses_a_wrong_setting_of_traces(variable: str, value: str) -> None:
    given = {"BULKHEAD_TRACES_NAMESPACE": "tempo", "BULKHEAD_TRACES_SERVICE": "otel"} | {variable: value}
    with pytest.raises(SettingsError, match=variable):
        load(given)


# -- leaving a silent node


@pytest.mark.parametrize(
    "own",
    [
        [],
        [{"key": "planes", "operator": "Exists"}],
        [{"operator": "Exists"}],
        [{"key": placement.AWAY[0], "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}],
        [{"key": placement.AWAY[1], "operator": "Exists", "effect": "NoSchedule"}],
    ],
)
def test_the_charts_pods_leave_a_silent_node_as_those_of_planes_do(own: list[Obj]) -> None:
    told = [f"{of}.tolerations={json.dumps(own)}" for of in ("controller", "exposure.proxy")]
    on = ("--set", "gpuMetrics.enabled=true", "--set", "exposure.domains={a.example}")
    made = of_kind("Deployment", *on, *(part for value in told for part in ("--set-json", value)))
    found = {obj["metadata"]["name"]: obj["spec"]["template"]["spec"]["tolerations"] for obj in made}
    assert found == {
        "bulkhead-controller": placement.leaving(own),
        "bulkhead-proxy": placement.leaving(own),
        "bulkhead-gpumetrics": placement.leaving([]),
    }


def test_no_deployment_waits_for_the_end_of_a_pod_that_may_be_stuck_on_a_dead_node() -> None:
    on = ("--set", "gpuMetrics.enabled=true", "--set", "exposure.domains={a.example}")
    of_plane = [obj for obj in render(plane_spec(), material(plane_spec())).everything() if obj["kind"] == "Deployment"]
    strategies = {obj["metadata"]["name"]: obj["spec"]["strategy"]["type"] for obj in [*of_kind("Deployment", *on), *of_plane]}
    assert strategies.keys() == {"bulkhead-controller", "bulkhead-proxy", "bulkhead-gpumetrics", "dns", "syncer"}
    assert set(strategies.values()) == {"RollingUpdate"}


# -- what stays


def test_what_tenants_run_on_stays_when_the_chart_goes_and_nothing_else() -> None:
    kept = {
        (obj["kind"], obj["metadata"]["name"])
        for obj in rendered("--set", "networkPolicy.hostAPIBy=CiliumEntity")
        if obj["metadata"].get("annotations", {}).get("helm.sh/resource-policy") == "keep"
    }
    everything = {(obj["kind"], obj["metadata"]["name"]) for obj in rendered("--set", "networkPolicy.hostAPIBy=CiliumEntity")}
    assert {each for each in everything if each[0].startswith("ValidatingAdmissionPolicy")} <= kept
    assert {each for each in everything if each[0] == "PriorityClass"} <= kept
    assert {each for each in everything if each[0] == "ClusterRole" and each[1].startswith("bulkhead-syncer")} <= kept
    assert ("CiliumClusterwideNetworkPolicy", "bulkhead-syncers-host-api") in kept
    gone = {"Deployment", "Service", "ServiceAccount", "ClusterRoleBinding", "Role", "RoleBinding", "NetworkPolicy"}
    assert {each[0] for each in everything - kept} >= gone
    assert not {each[0] for each in kept} & gone


def test_the_chart_names_the_definitions_that_the_controller_keeps() -> None:
    names = sorted(crd.render(each)["metadata"]["name"] for each in crd.CRDS)
    (role,) = [obj for obj in of_kind("ClusterRole") if obj["metadata"]["name"] == "bulkhead-controller"]
    rules = [rule for rule in role["rules"] if "customresourcedefinitions" in rule["resources"]]
    assert [sorted(rule["resourceNames"]) for rule in rules if "resourceNames" in rule] == [names]
    assert all("delete" not in rule["verbs"] for rule in rules)


def test_the_notes_are_as_long_as_a_screen() -> None:
    notes = helm("install", "bulkhead", str(CHART), "--dry-run=client", "--namespace=bulkhead-system").partition("NOTES:")[2]
    assert "rollout status deployment/bulkhead-controller" in notes
    assert "kubectl get endpointslices kubernetes" in notes
    assert len(notes.splitlines()) < 40


def test_the_notes_hand_out_no_kubeconfig_that_needs_the_hosts() -> None:
    """A kubeconfig for users is one for an identity provider: any other calls the command with the host's kubeconfig."""
    notes = helm("install", "bulkhead", str(CHART), "--dry-run=client", "--namespace=bulkhead-system").partition("NOTES:")[2]
    handed = [line.strip() for line in notes.splitlines() if "bulkhead kubeconfig " in line]
    assert handed
    assert all("--oidc" in line for line in handed)
