"""The allowlist knows every field of Kubernetes 1.36, and the real API server has none beside them."""

import json
from typing import Any

import pytest

from bulkhead.kube.client import Client
from controller.inside.objects import snapshots
from syncer.translate.kinds import (
    configmap,
    deviceclaim,
    disruptionbudget,
    endpointslice,
    ingress,
    networkpolicy,
    pod,
    podgroup,
    secret,
    service,
    snapshot,
    volumeclaim,
)
from syncer.translate.kinds import podstatus as status
from syncer.translate.podspec import affinity, containers, environment, security
from syncer.translate.podspec import volumes as volume_rules
from syncer.translate.registry import KINDS
from syncer.translate.schema import ListOf, Struct
from tests.kit.translationsamples import HERE
from tests.kit.yamlfiles import load

FIELDS: dict[str, list[str]] = load(HERE / "fields-1.36" / "pods.yaml") | load(HERE / "fields-1.36" / "others.yaml")


def _inside(rule: Any, *path: str) -> Struct:
    for key in path:
        rule = rule.fields[key]
        rule = rule.item if isinstance(rule, ListOf) else rule
    return rule


SCHEMAS: dict[str, Struct] = {
    "PodSpec": pod.POD_SPEC,
    "Container": containers.CONTAINER,
    "EphemeralContainer": containers.EPHEMERAL_CONTAINER,
    "Volume": volume_rules.VOLUME,
    "VolumeProjection": volume_rules.PROJECTION,
    "PodSecurityContext": security.POD_SECURITY_CONTEXT,
    "SecurityContext": security.SECURITY_CONTEXT,
    "Probe": containers.PROBE,
    "LifecycleHandler": _inside(containers.CONTAINER, "lifecycle", "postStart"),
    "Lifecycle": _inside(containers.CONTAINER, "lifecycle"),
    "ResourceRequirements": containers.RESOURCES,
    "ContainerPort": _inside(containers.CONTAINER, "ports"),
    "VolumeMount": _inside(containers.CONTAINER, "volumeMounts"),
    "EnvVarSource": environment._VALUE_FROM,
    "EnvFromSource": environment._ENV_FROM,
    "Affinity": affinity.AFFINITY,
    "PodAffinityTerm": affinity.POD_TERM,
    "TopologySpreadConstraint": affinity.SPREAD,
    "ServiceSpec": service.SERVICE_SPEC,
    "ServicePort": _inside(service.SERVICE_SPEC, "ports"),
    "EndpointSlice": endpointslice.ENDPOINT_SLICE,
    "Endpoint": _inside(endpointslice.ENDPOINT_SLICE, "endpoints"),
    "ConfigMap": configmap.CONFIG_MAP,
    "Secret": secret.SECRET,
    "PersistentVolumeClaimSpec": volumeclaim.CLAIM_SPEC,
    "TypedObjectReference": volumeclaim._SOURCE,
    "NetworkPolicySpec": networkpolicy.POLICY_SPEC,
    "NetworkPolicyPeer": networkpolicy.PEER,
    "NetworkPolicyPort": networkpolicy._PORTS.item,
    "ResourceClaimSpec": deviceclaim.CLAIM_SPEC,
    "DeviceClaim": deviceclaim.DEVICES,
    "DeviceRequest": deviceclaim.REQUEST,
    "ExactDeviceRequest": deviceclaim.EXACT,
    "DeviceSubRequest": deviceclaim.ALTERNATIVE,
    "DeviceConstraint": deviceclaim.CONSTRAINT,
    "DeviceSelector": deviceclaim.SELECTOR,
    "CapacityRequirements": deviceclaim.CAPACITY,
    "PodDisruptionBudgetSpec": disruptionbudget.BUDGET_SPEC,
    "IngressSpec": ingress.INGRESS_SPEC,
    "IngressRule": ingress.RULE,
    "HTTPIngressRuleValue": ingress.HTTP_RULE,
    "HTTPIngressPath": ingress.HTTP_PATH,
    "IngressBackend": ingress.BACKEND,
    "IngressServiceBackend": ingress.SERVICE_BACKEND,
    "ServiceBackendPort": _inside(ingress.SERVICE_BACKEND, "port"),
    "IngressTLS": ingress.TLS,
    "PodGroupSpec": podgroup.GROUP_SPEC,
    "PodGroupSchedulingPolicy": podgroup.POLICY,
    "GangSchedulingPolicy": podgroup.GANG,
    "PodGroupSchedulingConstraints": podgroup.CONSTRAINTS,
    "TopologyConstraint": podgroup.TOPOLOGY,
    "PodSchedulingGroup": podgroup.OF_POD,
    "VolumeSnapshotSpec": snapshot.SNAPSHOT_SPEC,
    "VolumeSnapshotSource": snapshot.SOURCE,
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_field_is_decided(name: str) -> None:
    assert set(SCHEMAS[name].fields) == set(FIELDS[name])


def test_every_kind_has_its_fields_listed() -> None:
    lacking = [kind for kind in KINDS if not {kind, f"{kind}Spec"} & SCHEMAS.keys()]
    assert not lacking, "see fields-1.36/, and SCHEMAS of this file"


def test_every_status_field_is_decided() -> None:
    decided = [*status.COPIED, *status.TRANSLATED, *status.KEPT, *status.DROPPED]
    assert sorted(decided) == FIELDS["PodStatus"]
    claims = [*volumeclaim.STATUS_COPIED, *volumeclaim.STATUS_TRANSLATED, *volumeclaim.STATUS_DROPPED]
    assert sorted(claims) == FIELDS["PersistentVolumeClaimStatus"]
    assert sorted([*snapshot.STATUS_TRANSLATED, *snapshot.STATUS_DROPPED]) == FIELDS["VolumeSnapshotStatus"]


def test_the_definition_that_planes_get_has_the_same_fields() -> None:
    version = snapshots.definitions()[0]["spec"]["versions"][0]
    parts = version["schema"]["openAPIV3Schema"]["properties"]
    assert sorted(parts["spec"]["properties"]) == FIELDS["VolumeSnapshotSpec"]
    assert sorted(parts["spec"]["properties"]["source"]["properties"]) == FIELDS["VolumeSnapshotSource"]
    assert sorted(parts["status"]["properties"]) == FIELDS["VolumeSnapshotStatus"]


# Where an API server describes the mirrored kinds, and what it puts before the names of their types.
SERVED: list[tuple[str, str]] = [
    ("api/v1", "io.k8s.api.core.v1"),
    ("apis/discovery.k8s.io/v1", "io.k8s.api.discovery.v1"),
    ("apis/networking.k8s.io/v1", "io.k8s.api.networking.v1"),
    ("apis/policy/v1", "io.k8s.api.policy.v1"),
    ("apis/resource.k8s.io/v1", "io.k8s.api.resource.v1"),
    ("apis/scheduling.k8s.io/v1alpha2", "io.k8s.api.scheduling.v1alpha2"),
]


def test_every_mirrored_group_is_compared_with_the_api_server() -> None:
    groups = {(entry.group, entry.version) for entry in KINDS.values() if entry.group != snapshots.GROUP}
    wanted = {f"apis/{group}/{version}" if group else f"api/{version}" for group, version in groups}
    assert {path for path, _ in SERVED} == wanted, "see SERVED"


@pytest.mark.parametrize(("path", "prefix"), SERVED)
async def test_the_api_server_has_no_other_fields(host_client: Client, path: str, prefix: str) -> None:
    """The list is what a real kube-apiserver serves: a new version that adds a field is noticed here."""
    schemas = json.loads(await host_client.get_raw(f"/openapi/v3/{path}"))["components"]["schemas"]
    served = {name: sorted(schemas[f"{prefix}.{name}"]["properties"]) for name in FIELDS if f"{prefix}.{name}" in schemas}
    assert served
    assert served == {name: FIELDS[name] for name in served}
