"""The whole rendered plane against golden files, and what must hold of every plane whatever it looks like."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bulkhead.api.providers import Provider, Source
from bulkhead.api.syncersettings import FILE, READ_AGAIN
from controller.inside.objects import bootstrap
from controller.plane.addresses import ALWAYS, PODS, SERVICES, SLICES, Reserved
from controller.plane.render import render
from controller.plane.sections import PodBound, Tracing
from controller.plane.spec import PlaneSpec
from controller.plane.syncer import settings
from controller.plane.trail import Audit, Receiver
from controller.plane.ways import Balancer, Exposure, Gateway, Revoked, Trusted
from syncer.settings import parse
from tests.kit import goldens
from tests.kit.tenantsamples import material, plane_spec

GOLDEN = Path(__file__).parent / "golden"
RECEIVER = Receiver(
    url="https://audit.example.org:8443/events/team-a",
    address="203.0.113.7",
    certificate_authority="of the receiver",
    secret="receiver",
    credential=(("token", "dG9rZW4="),),
)
CASES: dict[str, dict[str, Any]] = {
    "standard": {},
    "three-replicas": {"control_plane": {"replicas": 3}, "storage": {"template_class": "fast", "template_size": "8Gi"}},
    "restricted": {
        "isolation": {
            "pod_security": "restricted",
            "user_namespaces": True,
            "seccomp_profiles": ("audit.json", "tools/trace.json"),
            "apparmor_profiles": ("tools",),
            "runtime_class": "gvisor",
        },
        "nodes": {"selector": (("pool", "a"),), "tolerations": ({"key": "pool", "operator": "Exists"},)},
        "network": {
            "egress_cidrs": ("203.0.113.0/24", "10.0.0.0/8", "2000::/3", "10.96.3.0/24"),
            "reserved": (
                *ALWAYS,
                Reserved("10.112.0.0/12", SLICES),
                Reserved("10.96.0.0/16", SERVICES),
                Reserved("10.244.0.0/16", PODS),
            ),
            "reach_reserved": ("10.112.4.64/26",),
        },
        "installation": {"client_cidrs": ("198.51.100.0/24",), "dns_upstreams": ()},
        "offers": {
            "ingress_classes": ("public",),
            "ingress_domains": ("apps.example.org",),
            "ingress_controllers": ("ingress-nginx",),
        },
    },
    "gpu-metrics": {"installation": {"gpu_metrics": True}},
    "node-figures": {"installation": {"gpu_metrics": True, "node_figures": True}},
    "traces": {"installation": {"tracing": Tracing("observability", "otel-collector", one_pod_in=10)}},
    "pod-groups": {"offers": {"pod_groups": True}},
    "ends-soon": {"control_plane": {"ends_soon": True}},
    "drop-privileges": {"isolation": {"drop_privileges": "SlinkyWorkers"}},
    "cohort": {
        "ledger": {
            "given": '{"cohort":"research","weight":1,"lines":{"nvidia.com/gpu":{"nominal":24,"borrowing":null}}}',
            "ceilings": (("nvidia.com/gpu", "40"),),
            "gated_resources": ("nvidia.com/gpu", "cpu"),
            "gated_gangs": True,
            "admits": True,
        }
    },
    "audit-retained": {"audit": Audit(requests=True, file_mib=64, backups=3, days=90, retain=True)},
    "audit-files": {"audit": Audit()},
    "audit-stdout": {"audit": Audit(sink="Stdout")},
    "audit-webhook": {"audit": Audit(sink="Webhook", receiver=RECEIVER)},
    "audit-webhook-and-files": {
        "audit": Audit(receiver=replace(RECEIVER, namespace="logging", credential=(("tls.crt", "Yw=="), ("tls.key", "aw==")))),
    },
    "issuers": {
        "access": {
            "issuers": (
                Trusted(
                    Provider(
                        name="corp",
                        source=Source("https://login.example.org/realms/x", certificate_authority="of the provider"),
                        audiences=("bulkhead", "bulkhead-team-a"),
                        prefix="example.org:",
                        username_claim="email",
                        groups_claim="groups",
                        required_claims=(("hd", "example.org"),),
                        required_groups=(("gpu-team-a",), ("eu", "us")),
                        email_domains=("example.org",),
                    ),
                    keys='{"keys": []}',
                ),
                Trusted(Provider("silent", Source("https://silent.example.org"), ("x",), "silent:"), trouble="it is silent"),
            ),
            "revoked": (
                Revoked("User", "example.org:eve"),
                Revoked("Group", "example.org:left"),
                Revoked("User", "example.org:ada", 1770000000),
                Revoked("User", "silent:ada", 1770000000),
            ),
        }
    },
    "proxied": {"exposure": Exposure("Proxy", ("team-a.example.org",), server="192.0.2.7", port=30443)},
    "balanced": {"exposure": Exposure("LoadBalancer", addresses=("198.51.100.4",), balancer=Balancer())},
    "routed": {
        "exposure": Exposure("Gateway", ("team-a.example.org",), gateway=Gateway("infra", "public"), route_version="v1"),
    },
    "devices": {
        "quota": {
            "gpu_resources": ("nvidia.com/gpu", "amd.com/gpu"),
            "extended_resources": ("rdma/hca", "hugepages-2Mi"),
            "device_classes": (("gpu.example.com", "nvidia.com/gpu"), ("imex.example.com", 4), ("nic.example.com", 0)),
            "limits": (("hugepages-2Mi", "8Gi"), ("nvidia.com/gpu", "24")),
        }
    },
}


def everything(**changes: Any) -> list[dict[str, Any]]:
    spec = plane_spec(**changes)
    return [*render(spec, material(spec)).everything(), *bootstrap.objects(spec, b"the shim's CA")]


def test_the_standard_plane_is_the_golden_one() -> None:
    goldens.check(GOLDEN / "standard.yaml", goldens.whole(everything()))


@pytest.mark.parametrize("name", sorted(CASES.keys() - {"standard"}))
def test_other_planes_differ_from_the_standard_one_as_in_the_golden_files(name: str) -> None:
    goldens.check(GOLDEN / f"{name}.diff", goldens.differences(everything(), everything(**CASES[name])))


def pods(**changes: Any) -> list[dict[str, Any]]:
    spec = plane_spec(**changes)
    rendered = render(spec, material(spec)).everything()
    return [obj["spec"]["template"]["spec"] for obj in rendered if obj["kind"] in {"StatefulSet", "Deployment"}]


@pytest.mark.parametrize("name", CASES)
def test_every_pod_passes_restricted_pod_security(name: str) -> None:
    for pod in pods(**CASES[name]):
        assert pod["securityContext"]["runAsNonRoot"]
        assert not pod.get("hostNetwork")
        for container in pod["containers"]:
            own = container["securityContext"]
            assert not own["allowPrivilegeEscalation"]
            assert not own["privileged"]
            assert own["readOnlyRootFilesystem"]
            assert own["capabilities"] == {"drop": ["ALL"]}
            assert own["seccompProfile"] == {"type": "RuntimeDefault"}
            assert container["resources"]["limits"]["memory"]
            # The reader of an audit trail serves no requests.
            assert container["name"] == "audit" or {"startupProbe", "livenessProbe", "readinessProbe"} <= container.keys()


def test_only_the_syncer_gets_a_token_of_the_host() -> None:
    plane, syncer, dns = pods()
    assert not plane["automountServiceAccountToken"]
    assert not dns["automountServiceAccountToken"]
    assert syncer["automountServiceAccountToken"]


@pytest.mark.parametrize("name", CASES)
def test_the_syncer_can_read_what_it_is_told(name: str) -> None:
    spec = plane_spec(**CASES[name])
    told = parse(json.dumps(settings(spec)).encode())
    assert told.user_namespaces == spec.isolation.user_namespaces
    assert told.allowed_seccomp_profiles == spec.isolation.seccomp_profiles
    assert told.allowed_apparmor_profiles == spec.isolation.apparmor_profiles


def test_no_pod_mounts_a_ca_key() -> None:
    mounted = {volume["secret"]["secretName"] for pod in pods() for volume in pod["volumes"] if "secret" in volume}
    assert mounted == {"pki-etcd", "pki-apiserver", "pki-controller-manager", "pki-syncer", "pki-dns"}
    spec = plane_spec()
    for obj in render(spec, material(spec)).everything():
        if obj["kind"] == "Secret" and obj["metadata"]["name"] in mounted:
            assert "a2V5IG9mIENB" not in str(obj["data"])  # "key of CA" in base64


def test_a_change_of_trust_restarts_the_plane_and_a_renewed_leaf_does_not() -> None:
    spec = plane_spec()
    keys = material(spec)
    before = render(spec, keys).workloads[0]
    renewed = material(spec)
    renewed.leaves["pki-apiserver/server"] = renewed.leaves["pki-etcd/server"]  # type: ignore[index]
    assert render(spec, renewed).workloads[0] == before
    rotated = material(spec)
    rotated.authorities["client"] = rotated.authorities["etcd"]  # type: ignore[index]
    assert render(spec, rotated).workloads[0] != before


# For each setting that a running syncer takes over, a plane in which it is another.
TAKEN_OVER: dict[str, dict[str, Any]] = {
    "limits": {"quota": {"limits": (("nvidia.com/gpu", "25"),)}},
    "mostPerPod": {"quota": {"pod_bounds": (PodBound("cpu", most="4"),)}},
    "mostLimitRequestRatio": {"quota": {"pod_bounds": (PodBound("cpu", ratio="2"),)}},
    "mostPerClaim": {"quota": {"most_per_claim": "1Ti"}},
    "mostPodBytes": {"quota": {"most_pod_bytes": 64 << 20}},
    "mostServiceEndpoints": {"quota": {"most_endpoints": 500}},
    "containerDefaults": {"quota": {"container_defaults": (("cpu", "20m", ""),)}},
    "gatedResources": {"ledger": {"gated_resources": ("nvidia.com/gpu",)}},
    "gatedGangs": {"ledger": {"gated_gangs": True}},
    "allowedTolerations": {"nodes": {"allowed_tolerations": ({"key": "a", "operator": "Exists"},)}},
    "enforcedTolerations": {"nodes": {"tolerations": ({"key": "a", "operator": "Exists"},)}},
    "podSecurity": {"isolation": {"pod_security": "restricted"}},
    "userNamespaces": {"isolation": {"user_namespaces": True}},
    "preferUserNamespaces": {"isolation": {"prefer_user_namespaces": True}},
    "allowedSeccompProfiles": {"isolation": {"seccomp_profiles": ("a.json",)}},
    "allowedAppArmorProfiles": {"isolation": {"apparmor_profiles": ("a",)}},
    "runtimeClassName": {"isolation": {"runtime_class": "kata"}},
    "allowedRuntimeClasses": {"isolation": {"allowed_runtime_classes": ("kata",)}},
    "priorityClassName": {"offers": {"default_priority_class": "other"}},
    "allowedPriorityClasses": {"offers": {"priority_classes": ("other",)}},
    "allowedStorageClasses": {"offers": {"storage_classes": ("fast",)}},
    "pullSecret": {"images": {"own": ("registry.example/slurm:1",)}},
    "drainSeconds": {"nodes": {"drain_seconds": 60}},
    "maxGraceSeconds": {"nodes": {"grace_seconds": 60}},
    "logBytesPerSecond": {"syncing": {"log_rate": 2 << 20}},
    "sessionBytesPerSecond": {"syncing": {"session_rate": 2 << 20}},
    "ownImages": {"images": {"own": ("registry.example/slurm:1",)}},
}


def _syncer_of(spec: PlaneSpec) -> tuple[Any, Any]:
    rendered = render(spec, material(spec))
    found = {(obj["kind"], obj["metadata"]["name"]): obj for obj in rendered.everything()}
    return json.loads(found["ConfigMap", "syncer"]["data"][FILE]), found["Deployment", "syncer"]


@pytest.mark.parametrize("name", sorted(READ_AGAIN))
def test_what_a_running_syncer_takes_over_does_not_restart_it(name: str) -> None:
    before, now = _syncer_of(plane_spec()), _syncer_of(plane_spec(**TAKEN_OVER[name]))
    assert before[0].get(name) != now[0].get(name)
    assert before[1] == now[1]


@pytest.mark.parametrize(
    "change",
    [{"offers": {"pod_groups": True}}, {"syncing": {"patrol_seconds": 7.0}}, {"nodes": {"selector": (("pool", "b"),)}}],
)
def test_what_a_syncer_reads_once_restarts_it(change: dict[str, Any]) -> None:
    assert _syncer_of(plane_spec())[1] != _syncer_of(plane_spec(**change))[1]


def test_no_subject_of_a_binding_is_a_group_of_the_system() -> None:
    admins = ({"kind": "Group", "name": "system:masters"}, {"kind": "User", "name": "eve"})
    objects = bootstrap.objects(plane_spec(access={"admins": admins}), b"")
    bound = [(obj["metadata"]["name"], subject["name"]) for obj in objects for subject in obj.get("subjects", [])]
    # Every user of the plane may read the tenant's quota, and nothing else by a group of the system.
    assert [pair for pair in bound if pair[1].startswith("system:")] == [("bulkhead:own-quota-readers", "system:authenticated")]


def test_every_object_names_its_tenant() -> None:
    spec = plane_spec()
    for obj in render(spec, material(spec)).everything():
        assert obj["metadata"]["labels"]["bulkhead.dev/tenant"] == "team-a"
        assert obj["metadata"].get("namespace", "bh-team-a") in {"bh-team-a", "bh-team-a-work"}


def test_item_84_a_class_without_ingress_gives_the_syncer_no_right_to_publish() -> None:
    def named(**changes: Any) -> set[tuple[str, str]]:
        spec = plane_spec(**changes)
        return {(obj["kind"], obj["metadata"]["name"]) for obj in render(spec, material(spec)).everything()}

    offered: dict[str, Any] = {"ingress_classes": ("public",), "ingress_domains": ("x.org",)}
    right, way = ("RoleBinding", "syncer-ingress"), ("NetworkPolicy", "allow-ingress-controllers")
    assert not {right, way} & named()
    assert not {right, way} & named(offers={"ingress_controllers": ("ingress-nginx",)})
    assert {right, way} & named(offers=offered) == {right}
    assert {right, way} <= named(offers=offered | {"ingress_controllers": ("ingress-nginx",)})


@pytest.mark.parametrize("level", ["baseline", "restricted"])
def test_a_privileged_pod_may_stand_in_its_plane_where_its_refusal_is_read(level: str) -> None:
    (server,) = (
        container
        for pod in pods(isolation={"pod_security": level})
        for container in pod["containers"]
        if container["name"] == "kube-apiserver"
    )
    assert [flag for flag in server["command"] if "privileged" in flag] == ["--allow-privileged=true"]


def test_item_91_a_class_that_offers_pod_groups_switches_them_on_in_the_plane() -> None:
    def commands(**changes: Any) -> dict[str, list[str]]:
        return {container["name"]: container.get("command", []) for pod in pods(**changes) for container in pod["containers"]}

    def named(**changes: Any) -> set[tuple[str, str]]:
        spec = plane_spec(**changes)
        return {(obj["kind"], obj["metadata"]["name"]) for obj in render(spec, material(spec)).everything()}

    plain, grouped = commands(), commands(offers={"pod_groups": True})
    assert not any("GenericWorkload" in flag or "v1alpha2" in flag for command in plain.values() for flag in command)
    assert set(grouped["kube-apiserver"]) - set(plain["kube-apiserver"]) == {
        "--feature-gates=GenericWorkload=true,TopologyAwareWorkloadScheduling=true",
        "--runtime-config=scheduling.k8s.io/v1alpha2=true",
    }
    controllers, gates = sorted(set(grouped["kube-controller-manager"]) - set(plain["kube-controller-manager"]))
    # Without it nothing would remove the finalizer from a deleted group.
    assert controllers.endswith(",podgroup-protection-controller")
    assert gates == "--feature-gates=GenericWorkload=true"
    assert named(offers={"pod_groups": True}) - named() == {("RoleBinding", "syncer-podgroups")}


def test_item_35_snapshots_are_there_only_where_the_class_offers_them() -> None:
    def made(**changes: Any) -> dict[tuple[str, str], dict[str, Any]]:
        spec = plane_spec(**changes)
        objects = [*render(spec, material(spec)).everything(), *bootstrap.objects(spec, b"")]
        return {(obj["kind"], obj["metadata"]["name"]): obj for obj in objects}

    def groups(objects: dict[tuple[str, str], dict[str, Any]]) -> set[str]:
        return {group for rule in objects["ClusterRole", "bulkhead:syncer"]["rules"] for group in rule["apiGroups"]}

    without, offered = made(), made(offers={"snapshot_classes": ("daily",)})
    assert offered.keys() - without.keys() == {
        ("RoleBinding", "syncer-snapshots"),
        ("CustomResourceDefinition", "volumesnapshots.snapshot.storage.k8s.io"),
        ("CustomResourceDefinition", "volumesnapshotclasses.snapshot.storage.k8s.io"),
    }
    assert groups(offered) - groups(without) == {"snapshot.storage.k8s.io"}
    assert "allowedSnapshotClasses" not in without["ConfigMap", "syncer"]["data"]["settings.json"]
    assert '"daily"' in offered["ConfigMap", "syncer"]["data"]["settings.json"]
    assert offered["RoleBinding", "syncer-snapshots"]["metadata"]["namespace"] == "bh-team-a-work"
