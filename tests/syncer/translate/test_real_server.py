"""A real kube-apiserver takes what translation makes, and the patches that follow."""

import secrets

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.errors import ApiError, Conflict, Forbidden
from bulkhead.kube.objects import Resource
from bulkhead.kube.resources import NAMESPACES, PODS, SERVICE_ACCOUNTS
from syncer.translate import Untranslatable, diff, tokens
from syncer.translate.kinds.pod import ephemeral_containers, to_host
from syncer.translate.registry import KINDS
from syncer.watch.informers import resource_of
from tests.kit import translationsamples as samples
from tests.kit import yamlfiles
from tests.kit.snapshotting import serve_snapshots
from tests.syncer.translate import golden

PRIORITY = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False)
RUNTIME = Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", False)
GOOD = [name for name, path in golden.cases() if "refused" not in yamlfiles.load(golden.host_file(path)) and name != "pod/ipv6"]


@pytest.fixture
async def tenant(host_client: Client) -> str:
    """A tenant name whose work namespace exists on the host, with Pod Security's label and the workload account."""
    name = f"t{secrets.token_hex(4)}"
    namespace = f"bh-{name}-work"
    labels = {"pod-security.kubernetes.io/enforce": "baseline"}
    await host_client.create(NAMESPACES, {"metadata": {"name": namespace, "labels": labels}})
    await host_client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "workload"}}, namespace)
    await host_client.apply(
        PRIORITY, {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "batch"}, "value": 5}
    )
    runtime = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "sandboxed"}, "handler": "runsc"}
    await host_client.apply(RUNTIME, runtime)
    await serve_snapshots(host_client)
    return name


def moved(host: Obj, tenant: str) -> Obj:
    """The host object in the test's namespace; addresses left to the server, whose range is another one."""
    meta = host["metadata"] | {"namespace": f"bh-{tenant}-work"}
    if host["kind"] == "Service" and host["spec"]["clusterIP"] != "None":
        spec = {key: value for key, value in host["spec"].items() if key not in ("clusterIP", "clusterIPs")}
        return host | {"metadata": meta, "spec": spec}
    return host | {"metadata": meta}


@pytest.mark.parametrize("name", GOOD)
async def test_created_and_then_nothing_to_do(host_client: Client, tenant: str, name: str) -> None:
    desired = moved(yamlfiles.load(golden.host_file(dict(golden.cases())[name])), tenant)
    kind = KINDS[desired["kind"]]
    resource = resource_of(kind)
    actual = await host_client.create(resource, desired, desired["metadata"]["namespace"])
    if desired["kind"] == "Pod":
        assert diff.pod_patches(desired, actual) == ()
    elif desired["kind"] == "Service":
        address = {key: actual["spec"][key] for key in ("clusterIP", "clusterIPs")}
        assert diff.object_patch(desired | {"spec": desired["spec"] | address}, actual) is None
    else:
        assert diff.object_patch(desired, actual) is None


async def test_item_77_a_pod_changes_in_place(host_client: Client, tenant: str) -> None:
    view = samples.view({"tenant": tenant})
    own = samples.container(resources={"limits": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}})
    own["metadata"]["labels"]["old"] = "x"
    own["spec"]["schedulingGates"] = [{"name": "example.com/wait"}]
    host = to_host(own, view)
    host["spec"]["schedulingGates"].append({"name": "bulkhead.dev/accelerators"})
    actual = await host_client.create(PODS, host, view.work_namespace)
    own["metadata"]["labels"] = {"app": "other"}
    own["spec"]["containers"][0]["image"] = "docker.io/library/busybox:1.37"
    own["spec"]["tolerations"] = [{"key": "mine", "operator": "Exists", "effect": "NoSchedule"}]
    own["spec"]["activeDeadlineSeconds"] = 600
    own["spec"]["ephemeralContainers"] = [{"name": "debug", "image": "debug:1", "targetContainerName": "main"}]
    del own["spec"]["schedulingGates"]
    for patch in diff.pod_patches(to_host(own, view), actual, ephemeral_containers(own, view)):
        actual = await host_client.patch(
            PODS, actual["metadata"]["name"], patch.body, view.work_namespace,
            content_type=patch.content_type, subresource=patch.subresource,
        )  # fmt: skip
    assert diff.pod_patches(to_host(own, view), actual, ephemeral_containers(own, view)) == ()
    assert actual["spec"]["schedulingGates"] == [{"name": "bulkhead.dev/accelerators"}]
    assert "old" not in actual["metadata"]["labels"]


@pytest.mark.parametrize("subresource", [None, "resize", "ephemeralcontainers"])
async def test_item_77_a_patch_for_one_version_is_refused_for_another(
    host_client: Client, tenant: str, subresource: str | None
) -> None:
    view = samples.view({"tenant": tenant})
    seen = await host_client.create(PODS, to_host(samples.container(), view), view.work_namespace)
    name = seen["metadata"]["name"]
    await host_client.patch(PODS, name, {"metadata": {"labels": {"changed": "since"}}}, view.work_namespace)
    body = {"metadata": {"uid": seen["metadata"]["uid"], "resourceVersion": seen["metadata"]["resourceVersion"]}}
    with pytest.raises(Conflict):
        await host_client.patch(PODS, name, body, view.work_namespace, subresource=subresource, content_type=diff.STRATEGIC)


async def test_the_planes_own_pod_translates(host_client: Client, plane_client: Client, tenant: str, namespace: str) -> None:
    """From a real plane, with everything that it defaults, to a real host under Pod Security."""
    access = yamlfiles.load(samples.HERE / "cases/pod/minimal.virtual.yaml")["spec"]["volumes"]
    changes = {"metadata": {"namespace": namespace, "uid": None}, "spec": {"serviceAccountName": "worker", "volumes": access}}
    own = await plane_client.create(PODS, samples.merged(samples.POD, changes), namespace)
    assert [need.path for need in tokens.token_requests(own)] == ["token"]
    view = samples.view({"tenant": tenant})
    host = to_host(own, view)
    actual = await host_client.create(PODS, host, view.work_namespace)
    assert diff.pod_patches(host, actual) == ()


def _rows() -> dict[str, Obj]:
    found = {}
    for row in yamlfiles.load(samples.HERE / "adversarial.yaml"):
        changes = row.get("view") or {}
        if "object" in row or set(changes) - {"pod_security"}:
            continue
        base = samples.container(**row["container"]) if "container" in row else samples.pod()
        own = samples.merged(base, {"spec": row.get("spec", {}), "metadata": row.get("metadata", {})})
        found[row["id"]] = {"pod": own, "level": changes.get("pod_security", "baseline")}
    return found


async def test_item_32_pod_security_admission_refuses_nothing_that_translation_lets_through(host_client: Client) -> None:
    """The two deciders on every adversarial pod: what the host's own admission forbids, translation refused before."""
    forbidden = []
    for level in ("baseline", "restricted"):
        namespace = f"psa-{secrets.token_hex(4)}"
        labels = {"pod-security.kubernetes.io/enforce": level}
        await host_client.create(NAMESPACES, {"metadata": {"name": namespace, "labels": labels}})
        for name, row in _rows().items():
            if row["level"] != level:
                continue
            raw = samples.merged(row["pod"], {"metadata": {"namespace": namespace, "uid": None, "ownerReferences": None}})
            try:
                created = await host_client.create(PODS, raw, namespace)
            except Forbidden as error:
                if "violates PodSecurity" not in error.message:
                    continue
                forbidden.append(name)
                with pytest.raises(Untranslatable):
                    to_host(row["pod"], samples.view({"pod_security": level}))
            except ApiError:
                continue  # refused for another reason: nothing to compare
            else:
                await host_client.delete(PODS, created["metadata"]["name"], namespace, grace_seconds=0)
    assert len(forbidden) > 20
