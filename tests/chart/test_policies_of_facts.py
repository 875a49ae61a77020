"""The chart's admission policies on a real API server: other kinds than pods, other tenants, and other facts of a tenant."""

import secrets
from typing import Any

import pytest

from bulkhead.api.policyfacts import MAX_GRACE_SECONDS
from bulkhead.api.storageclass import BETA_DEFAULT, DEFAULT
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import ApiError
from bulkhead.kube.resources import (
    ENDPOINT_SLICES,
    INGRESSES,
    NAMESPACES,
    VOLUME_SNAPSHOTS,
    resource_of,
)
from controller.plane.policyfacts import policy_facts
from controller.plane.quota import limit_range
from tests.chart import admission_ledger as ledger
from tests.chart.admission_objects import (
    CLOSED,
    KINDS,
    MARKS,
    TEAM_A,
    claim,
    endpoints,
    ingress,
    mirrored,
    node_ports,
    of_size,
    pod,
    snapshot,
)
from tests.chart.admission_reasons import DEFAULT_CLASS, NOT_NOTED, TOO_LONG
from tests.chart.admission_samples import ALLOWED
from tests.chart.policed import (
    in_force,
    named,
    noted,
    prepare,
    refused,
    until_let_in,
    until_refused,
)
from tests.kit.helmchart import rendered
from tests.kit.servers import ApiServer
from tests.kit.tenantsamples import changed, plane_spec


@pytest.mark.apiserver
@pytest.mark.parametrize("kind", ["ConfigMap", "Secret", "Pod"])
async def test_what_is_not_the_syncers_is_not_deleted_by_it(kind: str, syncer: Client, admin: Client) -> None:
    await in_force(syncer, admin)
    made = await admin.create(KINDS[kind], named(pod(labels={}) if kind == "Pod" else mirrored(kind, labels={})))
    with pytest.raises(ApiError, match="has the marker"):
        await syncer.delete(KINDS[kind], made["metadata"]["name"], "bh-team-a-work")


@pytest.mark.apiserver
async def test_without_a_domain_no_ingress_is_let_through(syncer: Client, admin: Client) -> None:
    await in_force(syncer, admin)
    for obj in rendered():
        if obj["metadata"]["name"] == "bulkhead-syncer-ingresses":
            await admin.apply(resource_of(obj["apiVersion"], obj["kind"]), obj)
    await until_refused(syncer, ALLOWED["an ingress"], admin)
    await prepare(admin)
    await until_let_in(syncer, ALLOWED["an ingress"], admin)


@pytest.mark.apiserver
async def test_item_35_a_snapshot_is_never_changed_and_its_status_is_the_hosts(syncer: Client, admin: Client) -> None:
    await in_force(syncer, admin)
    await syncer.create(VOLUME_SNAPSHOTS, snapshot("kept"))
    patch = ("kept", {"metadata": {"labels": {"app": "db"}}}, "bh-team-a-work")
    assert (await syncer.patch(VOLUME_SNAPSHOTS, *patch))["metadata"]["labels"]["app"] == "db"
    with pytest.raises(ApiError, match="bulkhead-syncer-snapshots"):
        await syncer.patch(VOLUME_SNAPSHOTS, "kept", {"spec": {"volumeSnapshotClassName": "weekly"}}, "bh-team-a-work")
    body = {"status": {"readyToUse": True}}
    with pytest.raises(ApiError, match="every status"):
        await syncer.patch(VOLUME_SNAPSHOTS, "kept", body, "bh-team-a-work", subresource="status")
    await syncer.delete(VOLUME_SNAPSHOTS, "kept", "bh-team-a-work")


@pytest.mark.apiserver
async def test_what_others_noted_on_an_ingress_does_not_stop_the_syncer(syncer: Client, admin: Client) -> None:
    await in_force(syncer, admin)
    await syncer.create(INGRESSES, ingress("team-a.x.org", name="noted"))
    notes = {"metadata": {"annotations": {"field.example.org/endpoints": "y"}}}
    await admin.patch(INGRESSES, "noted", notes, "bh-team-a-work")
    await syncer.patch(INGRESSES, "noted", {"spec": ingress("b.team-a.x.org")["spec"]}, "bh-team-a-work")
    notes["metadata"]["annotations"]["field.example.org/endpoints"] = "z"
    with pytest.raises(ApiError, match="no annotation that means something"):
        await syncer.patch(INGRESSES, "noted", notes, "bh-team-a-work")


@pytest.mark.apiserver
async def test_without_the_controllers_word_no_address_is_the_tenants_nodes(syncer: Client, admin: Client) -> None:
    await in_force(syncer, admin)
    for address in ("", None):
        await admin.patch(NAMESPACES, "bh-team-a-work", {"metadata": {"annotations": {"bulkhead.dev/node-address": address}}})
        await until_refused(syncer, node_ports(), admin)
    assert not await refused(syncer, ALLOWED["a service"], cleaner=admin)
    await prepare(admin)
    await until_let_in(syncer, node_ports(), admin)


@pytest.mark.apiserver
async def test_without_the_controllers_word_no_pod_is_let_through(policed: ApiServer, admin: Client, syncer: Client) -> None:
    await in_force(syncer, admin)
    space = "bh-untold-work"
    marks = MARKS | {"bulkhead.dev/tenant": "untold"}
    own = pod(labels=marks, priorityClassName=None, nodeSelector=None)
    own["metadata"]["namespace"] = space
    who = policed.config_for("system:serviceaccount:bh-untold:syncer", "system:masters")
    async with Client(who, user_agent="tests", field_manager="syncer") as other:
        await admin.apply(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}})
        assert await refused(other, own, cleaner=admin) == NOT_NOTED
        meta = {
            "name": space,
            "annotations": policy_facts(plane_spec(tenant="untold", offers={"default_priority_class": None})),
        }
        await admin.apply(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
        await until_let_in(other, own, admin)


@pytest.mark.apiserver
async def test_a_tenants_name_may_contain_the_ending_of_its_namespace(
    policed: ApiServer, admin: Client, syncer: Client
) -> None:
    """`bh-a-workers-work`: the tenant is `a-workers`, and not `aers`."""
    space, name = "bh-a-workers-work", f"x-{secrets.token_hex(4)}"
    await admin.apply(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}})
    who = policed.config_for("system:serviceaccount:bh-a-workers:syncer", "system:masters")
    marks = MARKS | {"bulkhead.dev/tenant": "a-workers"}

    def service(tenant: str) -> dict[str, Any]:
        made = mirrored(
            "Service",
            name,
            labels=marks,
            spec={"ports": [{"port": 80}], "selector": {"bulkhead.dev/tenant": tenant}, "clusterIP": "None"},
        )
        return made | {"metadata": made["metadata"] | {"namespace": space}}

    await in_force(syncer, admin)
    async with Client(who, user_agent="tests", field_manager="syncer") as other:
        assert await refused(other, service("team-b"), cleaner=admin)
        assert not await refused(other, service("a-workers"), cleaner=admin)


@pytest.mark.apiserver
async def test_endpoints_can_always_be_withdrawn(syncer: Client, admin: Client) -> None:
    await in_force(syncer, admin)
    made = await syncer.create(ENDPOINT_SLICES, named(endpoints("10.244.0.5")))
    await syncer.patch(ENDPOINT_SLICES, made["metadata"]["name"], {"endpoints": []}, "bh-team-a-work")
    await syncer.delete(ENDPOINT_SLICES, made["metadata"]["name"], "bh-team-a-work")


@pytest.mark.apiserver
async def test_a_claim_from_before_its_class_became_tighter_is_bound_and_changed(admin: Client, syncer: Client) -> None:
    await in_force(syncer, admin)
    spec = changed(TEAM_A, quota={"most_per_claim": "1Gi"})
    storage = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "ordinary"}}
    await admin.apply(kinds.STORAGE_CLASSES, storage | {"provisioner": "example.org/disk", "allowVolumeExpansion": True})
    made = await syncer.create(kinds.PERSISTENT_VOLUME_CLAIMS, named(of_size("10Gi")))
    name, space = made["metadata"]["name"], "bh-team-a-work"
    limits = limit_range(spec)
    limits["metadata"] = {"name": limits["metadata"]["name"], "namespace": space}
    await admin.apply(kinds.LIMIT_RANGES, limits)
    await noted(admin, "most-per-claim", policy_facts(spec)["bulkhead.dev/most-per-claim"])
    await until_refused(syncer, of_size("2Gi"), admin)
    try:
        await syncer.patch(kinds.PERSISTENT_VOLUME_CLAIMS, name, {"metadata": {"labels": {"app": "db"}}}, space)
        chosen = {"volume.kubernetes.io/selected-node": "n1"}
        await admin.patch(kinds.PERSISTENT_VOLUME_CLAIMS, name, {"metadata": {"annotations": chosen}}, space)
        await admin.patch(kinds.PERSISTENT_VOLUME_CLAIMS, name, {"spec": {"volumeName": "v"}}, space)
        status = {"phase": "Bound", "capacity": {"storage": "10Gi"}}
        await admin.patch(kinds.PERSISTENT_VOLUME_CLAIMS, name, {"status": status}, space, subresource="status")
        await syncer.patch(kinds.PERSISTENT_VOLUME_CLAIMS, name, {"metadata": {"labels": {"app": "web"}}}, space)
        grown = {"spec": {"resources": {"requests": {"storage": "11Gi"}}}}
        with pytest.raises(ApiError, match="claim: no larger than its tenant's class allows one claim"):
            await syncer.patch(kinds.PERSISTENT_VOLUME_CLAIMS, name, grown, space)
    finally:
        await admin.delete(kinds.STORAGE_CLASSES, "ordinary")
        await admin.delete(kinds.LIMIT_RANGES, limits["metadata"]["name"], space)
        await admin.delete(kinds.PERSISTENT_VOLUME_CLAIMS, name, space)
        await prepare(admin)
        await until_let_in(syncer, of_size("2Gi"), admin)


@pytest.mark.apiserver
async def test_a_pod_ends_within_what_its_class_allows(admin: Client, syncer: Client) -> None:
    await in_force(syncer, admin)
    space = "bh-team-a-work"
    long, short = pod(terminationGracePeriodSeconds=61), pod(terminationGracePeriodSeconds=60)
    kept = (await syncer.create(kinds.PODS, named(pod(terminationGracePeriodSeconds=300))))["metadata"]["name"]
    target = {"metadata": {"name": kept}, "target": {"kind": "Node", "name": "n"}}
    await admin.create_subresource(kinds.PODS, kept, "binding", target, space)
    await noted(admin, "max-grace-seconds", policy_facts(changed(TEAM_A, nodes={"grace_seconds": 60}))[MAX_GRACE_SECONDS])
    try:
        await until_refused(syncer, long, admin, TOO_LONG)
        assert not await refused(syncer, short, cleaner=admin)
        probed = {"exec": {"command": ["true"]}, "terminationGracePeriodSeconds": 61}
        assert (
            await refused(syncer, pod({"livenessProbe": probed}, terminationGracePeriodSeconds=60), cleaner=admin) == TOO_LONG
        )
        with pytest.raises(ApiError, match="a pod is deleted with a grace period of 1 second to what its"):
            await syncer.delete(kinds.PODS, kept, space, grace_seconds=61)
        # Its own, with which it was let in under another class.
        await syncer.delete(kinds.PODS, kept, space)
        await syncer.delete(kinds.PODS, kept, space, grace_seconds=60)
    finally:
        await admin.delete(kinds.PODS, kept, space, grace_seconds=0)
        await prepare(admin)
        await until_let_in(syncer, long, admin)


@pytest.mark.apiserver
async def test_without_a_list_a_claim_is_of_the_hosts_default_class(policed: ApiServer, admin: Client, syncer: Client) -> None:
    await in_force(syncer, admin)
    space = "bh-plain-work"
    facts = policy_facts(plane_spec(tenant="plain", offers={"default_storage_classes": ("older", "ordinary", "was-default")}))
    await admin.apply(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space, "annotations": facts}})
    plain = {DEFAULT: "false", BETA_DEFAULT: "false"}
    classes = {"ordinary": {DEFAULT: "true"}, "older": {BETA_DEFAULT: "true"}, "of-the-host": plain, "was-default": plain}
    for name, notes in classes.items():
        meta = {"name": name, "annotations": notes}
        made = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": meta, "provisioner": "example.org/disk"}
        await admin.apply(kinds.STORAGE_CLASSES, made)

    def own(name: str | None) -> dict[str, Any]:
        made = named(claim(storageClassName=name))
        return made | {"metadata": made["metadata"] | {"namespace": space, "labels": MARKS | {"bulkhead.dev/tenant": "plain"}}}

    who = policed.config_for("system:serviceaccount:bh-plain:syncer", "system:masters")
    async with Client(who, user_agent="tests", field_manager="syncer") as other:
        await until_refused(other, own("of-the-host"), admin)
        assert await refused(other, own("of-the-host"), cleaner=admin) == DEFAULT_CLASS
        # The controller has not written yet that it no longer is one.
        assert await refused(other, own("was-default"), cleaner=admin) == DEFAULT_CLASS
        # Volumes that an admin makes by hand often name a class that the host does not have.
        assert await refused(other, own("made-by-hand"), cleaner=admin) == DEFAULT_CLASS
        assert await refused(other, own(""), cleaner=admin) == "claim: of a StorageClass that is offered to its tenant"
        assert not await refused(other, own("ordinary"), cleaner=admin)
        assert not await refused(other, own("older"), cleaner=admin)
        assert not await refused(other, own(None), cleaner=admin)
        kept = await admin.create(kinds.PERSISTENT_VOLUME_CLAIMS, own("of-the-host"))
        name = kept["metadata"]["name"]
        # As the host's binder does; then the syncer writes what else may change.
        await admin.patch(kinds.PERSISTENT_VOLUME_CLAIMS, name, {"spec": {"volumeName": "v"}}, space)
        await other.patch(kinds.PERSISTENT_VOLUME_CLAIMS, name, {"metadata": {"labels": {"app": "db"}}}, space)
        await admin.delete(kinds.PERSISTENT_VOLUME_CLAIMS, name, space)
    for name in classes:
        await admin.delete(kinds.STORAGE_CLASSES, name)


@pytest.mark.apiserver
async def test_what_waits_at_the_ledgers_gate_is_what_the_controller_says(syncer: Client, admin: Client) -> None:
    """Without its word nothing does, as on an upgrade: then no quota is more than the tenant's own."""
    await in_force(syncer, admin)
    lent, gang = ledger.REFUSED["what is lent without its gate"], ledger.REFUSED["a gang without its gate"]
    await noted(admin, "gated-gangs", None)
    await noted(admin, "gated-resources", None)
    await until_let_in(syncer, lent, admin)
    await until_let_in(syncer, gang, admin)
    await noted(admin, "gated-gangs", "true")
    await until_refused(syncer, gang, admin, ledger.NO_GATE_OF_A_GANG)
    assert not await refused(syncer, lent, cleaner=admin)
    await noted(admin, "gated-gangs", None)
    await noted(admin, "gated-resources", "cpu,memory")
    # A limit without a request is one, and the pod as a whole asks for its containers.
    limited = pod({"resources": {"limits": {"cpu": "1m"}}, "envFrom": CLOSED})
    await until_refused(syncer, limited, admin, ledger.NO_GATE)
    assert await refused(syncer, pod(resources={"requests": {"memory": "1"}}), cleaner=admin) == ledger.NO_GATE
    assert await refused(syncer, gang, cleaner=admin) == ledger.NO_GATE_OF_A_GANG
    assert not await refused(syncer, lent, cleaner=admin), "it asks for neither"
    await noted(admin, "gated-resources", "nvidia.com/gpu")
    await until_refused(syncer, pod(), admin, ledger.NO_GATE)
    await prepare(admin)
    await until_let_in(syncer, pod(), admin)
