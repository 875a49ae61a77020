"""The chart: its CRDs are the generated ones, helm accepts it, and its admission policies hold on a real API server."""

import asyncio
import secrets
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from bulkhead.hostcluster import binaries
from bulkhead.kube.client import Client
from bulkhead.kube.errors import ApiError
from bulkhead.kube.objects import Resource
from bulkhead.kube.resources import (
    CONFIG_MAPS,
    INGRESSES,
    NAMESPACES,
    NETWORK_POLICIES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    POD_GROUPS,
    PODS,
    RESOURCE_CLAIMS,
    SECRETS,
    SERVICES,
    VOLUME_SNAPSHOTS,
    resource_of,
)
from tests.apiserver.servers import ApiServer, ServerOptions
from tests.apiserver.snapshotting import serve_snapshots

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts" / "bulkhead"
NODE_ADDRESS = "10.112.4.11"
SYNCER = "system:serviceaccount:bh-team-a:syncer"
WORKLOADS = Resource("scheduling.k8s.io", "v1alpha2", "workloads", "Workload", True)
# Every gate of the PodGroup's fields: what a host drops by itself needs no policy.
GATES = (
    "GenericWorkload", "GangScheduling", "TopologyAwareWorkloadScheduling", "WorkloadAwarePreemption",
    "DRAWorkloadResourceClaims",
)  # fmt: skip


def helm(*arguments: str) -> str:
    program = binaries.ensure("helm")["helm"]
    done = subprocess.run([str(program), *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def rendered(*arguments: str) -> list[dict[str, Any]]:
    text = helm("template", "bulkhead", str(CHART), "--namespace=bulkhead-system", *arguments)
    return [obj for obj in yaml.safe_load_all(text) if obj]


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


def test_the_syncer_has_no_right_to_nodes_proxies_and_roles() -> None:
    for role in rendered():
        if role["kind"] == "ClusterRole" and role["metadata"]["name"].startswith("bulkhead-syncer"):
            for rule in role["rules"]:
                assert "nodes/proxy" not in rule["resources"]
                assert "rbac.authorization.k8s.io" not in rule["apiGroups"]
                assert not {"escalate", "bind", "impersonate", "deletecollection"} & set(rule["verbs"])


# -- the policies, with the syncer's own checks out of the way

MARKS = {
    "app.kubernetes.io/managed-by": "bulkhead",
    "bulkhead.dev/managed-by": "syncer",
    "bulkhead.dev/tenant": "team-a",
    "bulkhead.dev/virtual-uid": "0000",
}
NOTES = {"bulkhead.dev/tenant-uid": "1", "bulkhead.dev/virtual-name": "web"}


def mirrored(kind: str, name: str = "x", *, labels: dict[str, str] | None = None, **content: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": "bh-team-a-work", "labels": MARKS if labels is None else labels, "annotations": NOTES}
    return {"apiVersion": "v1", "kind": kind, "metadata": meta} | content


def pod(container: dict[str, Any] | None = None, *, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    base = {"name": "main", "image": "example.org/i:1", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    content: dict[str, Any] = {
        "serviceAccountName": "workload",
        "automountServiceAccountToken": False,
        "containers": [base | (container or {})],
    }
    return mirrored("Pod", labels=labels, spec=content | spec)


def network_policy(**rules: Any) -> dict[str, Any]:
    policy = mirrored("NetworkPolicy", spec={"podSelector": {}, "policyTypes": ["Ingress", "Egress"]} | rules)
    return policy | {"apiVersion": "networking.k8s.io/v1"}


def node_ports(*ports: int, **spec: Any) -> dict[str, Any]:
    content = {
        "ports": [{"name": f"p{port}", "port": port} for port in ports or (30080,)],
        "selector": {"bulkhead.dev/tenant": "team-a"},
        "externalIPs": [NODE_ADDRESS],
        "externalTrafficPolicy": "Local",
    }
    return mirrored("Service", spec=content | spec)


def ingress(*hosts: str, name: str = "x", **spec: Any) -> dict[str, Any]:
    path = {"path": "/a", "pathType": "Prefix", "backend": {"service": {"name": "web", "port": {"number": 80}}}}
    rules = [{"host": host, "http": {"paths": [path]}} for host in hosts]
    content = {"ingressClassName": "public"} | ({"rules": rules} if rules else {}) | spec
    return mirrored("Ingress", name, spec=content) | {"apiVersion": "networking.k8s.io/v1"}


def with_path(**fields: Any) -> dict[str, Any]:
    made = ingress("team-a.x.org")
    made["spec"]["rules"][0]["http"]["paths"][0] |= fields
    return made


def pod_group(**spec: Any) -> dict[str, Any]:
    content = {"schedulingPolicy": {"gang": {"minCount": 3}}} | spec
    return mirrored("PodGroup", spec=content) | {"apiVersion": "scheduling.k8s.io/v1alpha2"}


def snapshot(name: str = "x", *, source: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    content = {"source": source or {"persistentVolumeClaimName": "data"}, "volumeSnapshotClassName": "daily"} | spec
    return mirrored("VolumeSnapshot", name, spec=content) | {"apiVersion": "snapshot.storage.k8s.io/v1"}


def claim(**spec: Any) -> dict[str, Any]:
    content = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}} | spec
    return mirrored("PersistentVolumeClaim", spec=content)


REFUSED: dict[str, dict[str, Any]] = {
    "no marker": pod(labels={}),
    "another tenant's marker": pod(labels=MARKS | {"bulkhead.dev/tenant": "team-b"}),
    "host network": pod(hostNetwork=True),
    "host processes": pod(hostPID=True),
    "host IPC": pod(hostIPC=True),
    "privileged": pod({"securityContext": {"privileged": True}}),
    "privileged init container": pod(initContainers=[{"name": "i", "image": "x", "securityContext": {"privileged": True}}]),
    "unmasked proc": pod({"securityContext": {"procMount": "Unmasked"}}, hostUsers=False),
    "host path": pod(volumes=[{"name": "v", "hostPath": {"path": "/"}}]),
    "inline CSI": pod(volumes=[{"name": "v", "csi": {"driver": "d"}}]),
    "NFS": pod(volumes=[{"name": "v", "nfs": {"server": "s", "path": "/"}}]),
    "a token of the host": pod(volumes=[{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]),
    "a token of the host by itself": pod(automountServiceAccountToken=True),
    "the syncer's account": pod(serviceAccountName="syncer"),
    "a node of its choice": pod(nodeName="node-of-b"),
    "another scheduler": pod(schedulerName="mine"),
    "a system priority": pod(priorityClassName="system-node-critical"),
    "every taint tolerated": pod(tolerations=[{"operator": "Exists"}]),
    "control plane taint": pod(tolerations=[{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}]),
    "a resource it may not have": pod({"resources": {"limits": {"rdma/hca": "1"}}}),
    "a port of the node": pod({"ports": [{"containerPort": 1, "hostPort": 6443}]}),
    "a CDI annotation": pod()
    | {
        "metadata": pod()["metadata"] | {"annotations": {"cdi.k8s.io/x": "nvidia.com/gpu=all"}},
    },
    "node port": mirrored("Service", spec={"type": "NodePort", "ports": [{"port": 80}]}),
    "load balancer": mirrored("Service", spec={"type": "LoadBalancer", "ports": [{"port": 80}]}),
    "external name": mirrored("Service", spec={"type": "ExternalName", "externalName": "kubernetes.default.svc"}),
    "external address": mirrored("Service", spec={"ports": [{"port": 80}], "externalIPs": ["192.0.2.1"]}),
    "another tenant's address": node_ports(externalIPs=["10.112.8.11"]),
    "an address beside the own": node_ports(externalIPs=[NODE_ADDRESS, "192.0.2.1"]),
    "no port of a node": node_ports(443),
    "the kubelet's port": node_ports(30080, 10250),
    "a port before the range": node_ports(29999),
    "a port beyond the range": node_ports(32768),
    "callers behind the node's address": node_ports(externalTrafficPolicy="Cluster"),
    "callers behind the node's address by default": node_ports(externalTrafficPolicy=None),
    "node ports of no pods": node_ports(selector=None),
    "node ports of another tenant's pods": node_ports(selector={"bulkhead.dev/tenant": "team-b"}),
    "node ports that open a port": node_ports(type="NodePort"),
    "another tenant's pods": mirrored("Service", spec={"ports": [{"port": 80}], "selector": {"bulkhead.dev/tenant": "team-b"}}),
    "a policy for everyone": network_policy(ingress=[{}]),
    "a policy for address blocks": network_policy(egress=[{"to": [{"ipBlock": {"cidr": "0.0.0.0/0"}}]}]),
    "a policy for another tenant": network_policy(ingress=[{"from": [{"podSelector": {}, "namespaceSelector": {}}]}]),
    "a claim for devices of the host": mirrored(
        "ResourceClaim", spec={"devices": {"requests": [{"name": "a", "exactly": {"deviceClassName": "of-the-host"}}]}}
    )
    | {"apiVersion": "resource.k8s.io/v1"},
    "a claim from a template of the host": pod(resourceClaims=[{"name": "a", "resourceClaimTemplateName": "t"}]),
    "another tenant's host": ingress("team-a.x.org", "team-b.x.org"),
    "every tenant's host": ingress("*.x.org"),
    "a host that ends alike": ingress("xteam-a.x.org"),
    "a host of no domain": ingress("team-a.y.org"),
    "everybody's host": ingress("team-a.x.org") | {"spec": ingress("team-a.x.org")["spec"] | {"rules": [{}]}},
    "a default backend": ingress("team-a.x.org", defaultBackend={"service": {"name": "web", "port": {"number": 80}}}),
    "nothing but a default backend": ingress(defaultBackend={"service": {"name": "web", "port": {"number": 80}}}),
    "a resource as backend": with_path(backend={"resource": {"kind": "Secret", "name": "x"}}),
    "a path with a statement": with_path(path="/a;}$x", pathType="ImplementationSpecific"),
    "a certificate for everybody": ingress("team-a.x.org", tls=[{"secretName": "c"}]),
    "a certificate for another tenant": ingress("team-a.x.org", tls=[{"hosts": ["team-b.x.org"]}]),
    "no class": ingress("team-a.x.org", ingressClassName=None),
    "a snippet": ingress("team-a.x.org")
    | {
        "metadata": ingress()["metadata"] | {"annotations": NOTES | {"nginx.ingress.kubernetes.io/server-snippet": "x"}},
    },
    "a group of a workload of the host": pod_group(
        podGroupTemplateRef={"workload": {"workloadName": "of-the-host", "podGroupTemplateName": "t"}}
    ),
    "a group with claims": pod_group(resourceClaims=[{"name": "a", "resourceClaimName": "c"}]),
    "a group that goes whole": pod_group(disruptionMode="PodGroup"),
    "a group that somebody holds": pod_group() | {"metadata": pod_group()["metadata"] | {"finalizers": ["example.org/hold"]}},
    "another tenant's group": pod_group() | {"metadata": pod_group()["metadata"] | {"namespace": "bh-team-b-work"}},
    "a snapshot's content of somebody": snapshot(source={"volumeSnapshotContentName": "content"}),
    "a snapshot of a class that is not offered": snapshot(volumeSnapshotClassName="of-the-host"),
    "a snapshot of the host's default class": snapshot() | {"spec": {"source": {"persistentVolumeClaimName": "data"}}},
    "a snapshot without a marker": snapshot() | {"metadata": {"name": "x", "namespace": "bh-team-a-work"}},
    "a claim with data from anywhere": claim(dataSourceRef={"apiGroup": "example.org", "kind": "Copier", "name": "a"}),
    "a secret that the host fills": mirrored("Secret", type="bootstrap.kubernetes.io/token"),
    "an owner that is no pod": mirrored("ConfigMap")
    | {
        "metadata": mirrored("ConfigMap")["metadata"]
        | {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "x", "uid": "1"}]},
    },
    "another namespace": mirrored("ConfigMap")
    | {"metadata": mirrored("ConfigMap")["metadata"] | {"namespace": "bh-team-b-work"}},
    "the plane's namespace": mirrored("ConfigMap")
    | {"metadata": mirrored("ConfigMap")["metadata"] | {"namespace": "bh-team-a"}},
    # Pods and Secrets meet a policy of their own, which says the same again.
    "a pod in another namespace": pod() | {"metadata": pod()["metadata"] | {"namespace": "bh-team-b-work"}},
    "a pod in the plane's namespace": pod() | {"metadata": pod()["metadata"] | {"namespace": "bh-team-a"}},
    "a secret without a marker": mirrored("Secret", labels={}),
    "another tenant's secret": mirrored("Secret", labels=MARKS | {"bulkhead.dev/tenant": "team-b"}),
    "a secret in another namespace": mirrored("Secret")
    | {"metadata": mirrored("Secret")["metadata"] | {"namespace": "bh-team-b-work"}},
    "a secret in the plane's namespace": mirrored("Secret")
    | {"metadata": mirrored("Secret")["metadata"] | {"namespace": "bh-team-a"}},
}
ALLOWED: dict[str, dict[str, Any]] = {
    "an ordinary pod": pod(
        volumes=[
            {"name": "v", "configMap": {"name": "c"}},
            {"name": "w", "projected": {"sources": [{"secret": {"name": "s"}}]}},
        ],
        tolerations=[{"key": "kwok.x-k8s.io/node", "operator": "Exists"}],
    ),
    "a service": mirrored("Service", spec={"ports": [{"port": 80}], "selector": {"bulkhead.dev/tenant": "team-a"}}),
    "node ports": node_ports(30000, 32767),
    "an ingress": ingress("team-a.x.org", "a.b.team-a.x.org", "*.team-a.x.org", tls=[{"hosts": ["*.team-a.x.org"]}]),
    "a policy for its own pods": network_policy(ingress=[{"from": [{"podSelector": {"matchLabels": {"app": "a"}}}]}]),
    "a pod group": pod_group(schedulingConstraints={"topology": [{"key": "bulkhead.dev/rack"}]}, disruptionMode="Pod"),
    "a pod of a group": pod(schedulingGroup={"podGroupName": "x"}),
    "a snapshot of a claim": snapshot(),
    "a claim": claim(),
    "a claim with data from a snapshot": claim(
        dataSource={"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "a"}
    ),
    "a claim with data from a claim": claim(dataSource={"kind": "PersistentVolumeClaim", "name": "a"}),
    "a config map": mirrored("ConfigMap"),
    "a secret": mirrored("Secret"),
    "the plane's identity": mirrored("ConfigMap", labels={})
    | {"metadata": {"name": "plane-identity", "namespace": "bh-team-a"}},
}
KINDS = {
    "Pod": PODS,
    "Service": SERVICES,
    "ConfigMap": CONFIG_MAPS,
    "Secret": SECRETS,
    "NetworkPolicy": NETWORK_POLICIES,
    "ResourceClaim": RESOURCE_CLAIMS,
    "Ingress": INGRESSES,
    "PodGroup": POD_GROUPS,
    "PersistentVolumeClaim": PERSISTENT_VOLUME_CLAIMS,
    "VolumeSnapshot": VOLUME_SNAPSHOTS,
}


@pytest.fixture(scope="module")
def policed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """An API server with the chart's policies and the namespaces of two tenants; the syncer may do anything but for them."""
    options = ServerOptions(feature_gates=dict.fromkeys(GATES, True), runtime_config={"scheduling.k8s.io/v1alpha2": True})
    server = ApiServer("policed", tmp_path_factory.mktemp("policed"), options)
    try:
        server.start()
        server.wait()
        yield server
    finally:
        server.stop()


@pytest.fixture
async def admin(policed: ApiServer) -> Any:
    async with Client(policed.admin, user_agent="tests", field_manager="tests") as client:
        await prepare(client)
        yield client


@pytest.fixture
async def syncer(policed: ApiServer, admin: Client) -> Any:
    # Group system:masters gives it every right, so that only the policies can say no.
    async with Client(policed.config_for(SYNCER, "system:masters"), user_agent="tests", field_manager="syncer") as client:
        yield client


async def prepare(client: Client) -> None:
    for name, address in (("bh-team-a", ""), ("bh-team-a-work", NODE_ADDRESS), ("bh-team-b-work", "10.112.8.11")):
        meta = {"name": name, "annotations": {"bulkhead.dev/node-address": address} if address else {}}
        await client.apply(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
    template = {"name": "t", "schedulingPolicy": {"basic": {}}}
    meta = {"name": "of-the-host", "namespace": "bh-team-a-work"}
    workload = {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "Workload", "metadata": meta}
    await client.apply(WORKLOADS, workload | {"spec": {"podGroupTemplates": [template]}})
    await serve_snapshots(client)
    for obj in rendered("--set", "ingressDomains={x.org}", "--set", "snapshotClasses={daily}"):
        if obj["kind"].startswith("ValidatingAdmissionPolicy"):
            await client.apply(resource_of(obj["apiVersion"], obj["kind"]), obj)


async def refused(client: Client, obj: dict[str, Any], *, cleaner: Client) -> bool:
    """Whether a create is refused by one of our policies; everything else that goes wrong is an error.

    What was let through goes by `cleaner`: a policy that comes into force in between may refuse its maker the deletion.
    """
    resource = KINDS[obj["kind"]]
    if obj["metadata"]["name"] == "x":
        # What slipped through before the policies were in force may still be on its way out under its name.
        obj = obj | {"metadata": obj["metadata"] | {"name": f"x-{secrets.token_hex(4)}"}}
    try:
        await client.create(resource, obj)
    except ApiError as error:
        if "ValidatingAdmissionPolicy 'bulkhead-" in str(error):
            return True
        raise
    await cleaner.delete(resource, obj["metadata"]["name"], obj["metadata"]["namespace"], grace_seconds=0)
    return False


async def in_force(client: Client, admin: Client) -> None:
    """New policies are picked up within moments; wait until one bites."""
    async with asyncio.timeout(60):
        for name in (
            "the plane's namespace", "no marker", "node port", "a secret that the host fills", "a policy for everyone",
            "a claim for devices of the host", "another tenant's host", "a group with claims",
            "a snapshot's content of somebody", "a claim with data from anywhere",
        ):  # fmt: skip
            while not await refused(client, REFUSED[name], cleaner=admin):  # noqa: ASYNC110 - the server tells nobody
                await asyncio.sleep(0.1)


@pytest.mark.apiserver
async def test_the_policies_refuse_what_a_syncer_must_not_write(syncer: Client, admin: Client) -> None:
    await in_force(syncer, admin)
    let_through = [name for name, obj in REFUSED.items() if not await refused(syncer, obj, cleaner=admin)]
    assert not let_through


@pytest.mark.apiserver
async def test_the_policies_let_ordinary_objects_through(syncer: Client, admin: Client) -> None:
    await in_force(syncer, admin)
    stopped = [name for name, obj in ALLOWED.items() if await refused(syncer, obj, cleaner=admin)]
    assert not stopped


@pytest.mark.apiserver
@pytest.mark.parametrize("kind", ["ConfigMap", "Secret", "Pod"])
async def test_the_record_of_whose_object_it_is_cannot_change(kind: str, syncer: Client, admin: Client) -> None:
    await in_force(syncer, admin)

    def made(name: str, labels: dict[str, str]) -> dict[str, Any]:
        obj = pod(labels=labels) if kind == "Pod" else mirrored(kind, labels=labels)
        return obj | {"metadata": obj["metadata"] | {"name": name}}

    await syncer.create(KINDS[kind], made("record", MARKS))
    body = {"metadata": {"annotations": {"bulkhead.dev/virtual-name": "other"}}}
    with pytest.raises(ApiError, match="cannot change"):
        await syncer.patch(KINDS[kind], "record", body, "bh-team-a-work")
    await admin.create(KINDS[kind], made("somebodys", {}))
    with pytest.raises(ApiError, match="never adopted"):
        await syncer.patch(KINDS[kind], "somebodys", {"metadata": {"labels": MARKS}}, "bh-team-a-work")
    with pytest.raises(ApiError, match="carries the marker"):
        await syncer.delete(KINDS[kind], "somebodys", "bh-team-a-work")


@pytest.mark.apiserver
async def test_without_a_domain_no_ingress_is_let_through(syncer: Client, admin: Client) -> None:
    await in_force(syncer, admin)
    for obj in rendered():
        if obj["metadata"]["name"] == "bulkhead-syncer-ingresses":
            await admin.apply(resource_of(obj["apiVersion"], obj["kind"]), obj)
    async with asyncio.timeout(60):
        while not await refused(syncer, ALLOWED["an ingress"], cleaner=admin):  # noqa: ASYNC110 - the server tells nobody
            await asyncio.sleep(0.1)
        await prepare(admin)
        while await refused(syncer, ALLOWED["an ingress"], cleaner=admin):  # noqa: ASYNC110 - the same
            await asyncio.sleep(0.1)


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
    with pytest.raises(ApiError, match="no annotations"):
        await syncer.patch(INGRESSES, "noted", notes, "bh-team-a-work")


@pytest.mark.apiserver
async def test_without_the_controllers_word_no_address_is_the_tenants_nodes(syncer: Client, admin: Client) -> None:
    await in_force(syncer, admin)
    for address in ("", None):
        await admin.patch(NAMESPACES, "bh-team-a-work", {"metadata": {"annotations": {"bulkhead.dev/node-address": address}}})
        async with asyncio.timeout(60):
            while not await refused(syncer, node_ports(), cleaner=admin):  # noqa: ASYNC110 - the server tells nobody
                await asyncio.sleep(0.1)
    assert not await refused(syncer, ALLOWED["a service"], cleaner=admin)
    await prepare(admin)
    async with asyncio.timeout(60):
        while await refused(syncer, node_ports(), cleaner=admin):  # noqa: ASYNC110 - the same
            await asyncio.sleep(0.1)


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
            "Service", name, labels=marks, spec={"ports": [{"port": 80}], "selector": {"bulkhead.dev/tenant": tenant}}
        )
        return made | {"metadata": made["metadata"] | {"namespace": space}}

    await in_force(syncer, admin)
    async with Client(who, user_agent="tests", field_manager="syncer") as other:
        assert await refused(other, service("team-b"), cleaner=admin)
        assert not await refused(other, service("a-workers"), cleaner=admin)


@pytest.mark.apiserver
async def test_item_49_the_controller_changes_nothing_of_a_node_but_its_note(policed: ApiServer, admin: Client) -> None:
    name, held = f"n-{secrets.token_hex(4)}", "bulkhead.dev/accelerators-held"
    who = policed.config_for("system:serviceaccount:bulkhead-system:bulkhead-controller", "system:masters")
    await admin.create(NODES, {"metadata": {"name": name, "annotations": {"x": "1"}, "labels": {"y": "1"}}})
    wrong: list[dict[str, Any]] = [
        {"metadata": {"annotations": {"x": "2"}}},
        {"metadata": {"annotations": {"x": None}}},
        {"metadata": {"annotations": {held: "{}", "z": "1"}}},
        {"metadata": {"labels": {"y": None}}},
        {"metadata": {"finalizers": ["example.com/x"]}},
        {"spec": {"unschedulable": True}},
        {"spec": {"taints": [{"key": "x", "effect": "NoSchedule"}]}},
    ]
    async with Client(who, user_agent="tests", field_manager="controller") as controller:

        async def no(body: dict[str, Any], subresource: str | None = None) -> bool:
            try:
                await controller.patch(NODES, name, body, subresource=subresource)
            except ApiError as error:
                return "bulkhead-controller-nodes" in str(error)
            return False

        async with asyncio.timeout(60):
            while not await no({"metadata": {"labels": {"in-force": secrets.token_hex(4)}}}):  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.1)
        assert [body for body in wrong if not await no(body)] == []
        assert await no({"status": {"allocatable": {"nvidia.com/gpu": "64"}}}, "status")
        for text in ('{"nvidia.com/gpu":5}', '{"nvidia.com/gpu":6}', None):
            assert not await no({"metadata": {"annotations": {held: text}}})
        for write in (controller.delete(NODES, name), controller.create(NODES, {"metadata": {"name": f"{name}-b"}})):
            with pytest.raises(ApiError, match="bulkhead-controller-nodes"):
                await write
    await admin.delete(NODES, name)
