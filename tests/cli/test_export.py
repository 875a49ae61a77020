"""`bulkhead tenant export` and `retained`: what a tenant owns, as another API server takes it; and planes that are kept."""

import contextlib
import json
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml

from bulkhead.api import labels
from bulkhead.kube import codec
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists, NotFound
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.kube.objects import Resource
from tests.kit.commandline import Cli, Controller
from tests.kit.crds import served
from tests.kit.syncerbed import until
from workstation.cli.failures import CliError
from workstation.cli.tenant.export import _claimed
from workstation.cli.tenant.exported import Kind, clean, documents_of, in_order, kinds_of, owned, served_elsewhere
from workstation.cli.tenant.retained import _mark, planes

PODS = Resource("", "v1", "pods", "Pod", True)
SERVICES = Resource("", "v1", "services", "Service", True)
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", True)


def resource(name: str, *verbs: str, kind: str = "Widget") -> dict[str, Any]:
    return {"name": name, "kind": kind, "namespaced": True, "verbs": list(verbs or ("create", "list"))}


# -- which kinds, and in which order


def test_kinds_that_can_be_made_again_are_read_and_no_others() -> None:
    document = {
        "resources": [
            resource("widgets"), resource("widgets/status"), resource("reviews", "create"), resource("events"),
            resource("nodes"), resource("secrets"), resource("../../etc"), resource("a" * 300), {"name": 7}, 7,
            resource("odd", kind="../x"),
        ]
    }  # fmt: skip
    assert [kind.name for kind in kinds_of("", "v1", document, secrets=False)] == ["widgets"]
    assert [kind.name for kind in kinds_of("", "v1", document, secrets=True)] == ["widgets", "secrets"]
    # A kind of the tenant's own may be called as one of Kubernetes, and its version may have any name.
    own = [kind.name for kind in kinds_of("example.org", "v1api20200601", document, secrets=False)]
    assert own == ["widgets.example.org", "events.example.org", "nodes.example.org", "secrets.example.org"]
    for group, version in (("../..", "v1"), ("example.org", "../v1"), ("example.org", "")):
        assert kinds_of(group, version, document, secrets=True) == []
    for strange in (None, 7, {"resources": 7}, {"resources": [None]}):
        assert kinds_of("", "v1", strange, secrets=True) == []


def test_each_version_of_a_group_is_read_because_not_all_serve_all_its_kinds() -> None:
    def group(name: str, preferred: str, *versions: str) -> dict[str, Any]:
        return {
            "name": name,
            "preferredVersion": {"version": preferred},
            "versions": [{"version": version} for version in versions],
        }

    apis = {"groups": [group("a.org", "v1", "v2beta1", "v1"), group("../x", "v1"), group("b.org", "../v1", "v1/..", ""), 7]}
    assert documents_of(apis) == [("a.org", "v1"), ("a.org", "v2beta1")]
    for strange in (None, 7, {"groups": 7}, {"groups": [{"name": 7, "preferredVersion": 7, "versions": 7}]}):
        assert documents_of(strange) == []


def test_the_objects_of_another_server_are_not_the_planes() -> None:
    local = {"metadata": {"name": "v1.apps"}, "spec": {"service": None}}
    remote = {"metadata": {"name": "v1beta1.metrics.k8s.io"}, "spec": {"service": {"name": "m"}}}
    assert served_elsewhere([local, remote, {"metadata": 7, "spec": 7}]) == {"v1beta1.metrics.k8s.io"}


def test_what_others_need_is_applied_first() -> None:
    listed = [
        Kind(Resource(group, "v1", plural, "X", True))
        for group, plural in (
            ("", "pods"), ("example.org", "widgets"), ("apps", "deployments"), ("", "services"), ("", "namespaces"),
            ("apiextensions.k8s.io", "customresourcedefinitions"), ("example.org", "namespaces"),
        )
    ]  # fmt: skip
    assert [kind.name for kind in in_order(listed)] == [
        "namespaces", "customresourcedefinitions.apiextensions.k8s.io", "services", "deployments.apps",
        "namespaces.example.org", "widgets.example.org", "pods",
    ]  # fmt: skip


# -- which objects, and how they are written


def named(name: str, **meta: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default"} | meta}


@pytest.mark.parametrize(
    ("plural", "obj", "expected"),
    [
        ("pods", named("bare"), True),
        ("pods", named("of-a-job", ownerReferences=[{"kind": "Job", "controller": True}]), False),
        ("pods", named("going", deletionTimestamp="2026-01-01T00:00:00Z"), False),
        ("configmaps", named("mine"), True),
        ("configmaps", named("kube-root-ca.crt"), False),
        ("configmaps", named("theirs", labels={labels.PLATFORM: "true"}), False),
        ("configmaps", named("shared", labels={labels.SHARED: "true"}), False),
        ("configmaps", named("x", namespace="kube-system"), False),
        ("serviceaccounts", named("default"), False),
        ("serviceaccounts", named("default") | {"imagePullSecrets": [{"name": "mine"}]}, True),
        ("services", named("kubernetes"), False),
        ("services", named("kubernetes", namespace="other"), True),
        ("clusterroles", {"metadata": {"name": "system:mine"}}, False),
        ("clusterroles", {"metadata": {"name": "view", "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"}}}, False),
        ("resourceclaims", named("mine"), True),
        ("resourceclaims", named("of-a-pod", ownerReferences=[{"kind": "Pod", "controller": True}]), False),
        ("secrets", named("token") | {"type": "kubernetes.io/service-account-token"}, False),
        ("namespaces", {"metadata": {"name": "default"}}, False),
        ("namespaces", {"metadata": {"name": "team"}}, True),
        ("pods", {"metadata": 7}, False),
        ("pods", {}, False),
    ],
)  # fmt: skip
def test_only_what_the_tenant_made_is_written(plural: str, obj: dict[str, Any], expected: bool) -> None:
    assert owned(Resource("", "v1", plural, "X", True), obj) is expected


def test_what_a_server_added_is_not_written() -> None:
    service = named("web", uid="u", resourceVersion="7", managedFields=[{}], finalizers=["x"], labels={"a": "b"})
    spec = {
        "clusterIP": "10.0.0.7",
        "clusterIPs": ["10.0.0.7"],
        "ports": [{"port": 80, "nodePort": 30007}],
        "selector": {"a": "b"},
    }
    assert clean(SERVICES, service | {"spec": spec, "status": {"loadBalancer": {}}}) == {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "namespace": "default", "labels": {"a": "b"}},
        "spec": {"ports": [{"port": 80}], "selector": {"a": "b"}},
    }
    headless = clean(SERVICES, named("web") | {"spec": {"clusterIP": "None", "clusterIPs": ["None"], "ports": []}})
    assert headless["spec"]["clusterIP"] == "None"
    volumes = [{"name": "kube-api-access-x1"}, {"name": "data"}]
    mounts = [{"name": "kube-api-access-x1", "mountPath": "/a"}, {"name": "data", "mountPath": "/b"}]
    pod = clean(PODS, named("bare") | {"spec": {"nodeName": "n", "volumes": volumes, "containers": [{"volumeMounts": mounts}]}})
    assert pod["spec"] == {"volumes": volumes[1:], "containers": [{"volumeMounts": mounts[1:]}]}
    for strange in ({}, {"metadata": 7, "spec": 7}, {"spec": {"ports": 7, "containers": [7]}}):
        for kind in (PODS, SERVICES, DEPLOYMENTS):
            json.dumps(clean(kind, strange))


# -- against real API servers


def definition(plural: str, version: str) -> dict[str, Any]:
    kind = plural.capitalize()
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.org"},
        "spec": {
            "group": "example.org",
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": plural, "kind": kind, "listKind": f"{kind}List"},
            "versions": [{"name": version, "served": True, "storage": True, "schema": schema}],
        },
    }


# Of one group, each in a version that the others do not have.
DEFINITIONS = {"exports": "v1", "nodes": "v1alpha1", "accounts": "v1api20200601"}


async def make_own_kinds(plane: Client, space: str) -> None:
    """One object of each kind; returns when clients can find out that the kinds are served."""
    for plural, version in DEFINITIONS.items():
        await plane.apply(kinds.CUSTOM_RESOURCE_DEFINITIONS, definition(plural, version))
    own = [Resource("example.org", version, plural, plural.capitalize(), True) for plural, version in DEFINITIONS.items()]
    await served(plane, *own)
    for kind in own:
        meta = {"name": "mine", "namespace": space}
        await plane.apply(kind, {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta})

    async def listed() -> bool:
        documents = documents_of(codec.decode_obj(await plane.get_raw("/apis")))
        if not {("example.org", version) for version in DEFINITIONS.values()} <= {*documents}:
            return False
        with contextlib.suppress(NotFound):
            found = [await plane.get_raw(f"/apis/example.org/{version}") for version in DEFINITIONS.values()]
            return all(f'"{plural}"'.encode() in document for plural, document in zip(DEFINITIONS, found, strict=True))
        return False

    await until(listed, "clients to find out what the group serves")


@pytest.mark.apiserver
async def test_another_api_server_takes_what_was_exported(
    cli: Cli,
    controller: Controller,
    plane_client: Client,
    plane_config: KubeConfig,
    name: str,
    *,
    tmp_path: Path,
) -> None:
    host_client = controller.client
    await controller.tenant(name)
    await controller.plane(name, plane_config)
    space = f"{name}-space"
    await plane_client.create(kinds.NAMESPACES, {"metadata": {"name": space}})
    for number in range(90):
        await plane_client.create(kinds.CONFIG_MAPS, {"metadata": {"name": f"c{number}"}, "data": {"n": str(number)}}, space)
    await plane_client.create(kinds.SECRETS, {"metadata": {"name": "s"}, "stringData": {"word": "a-word"}}, space)
    service = {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}], "selector": {"app": "web"}}}
    await plane_client.create(kinds.SERVICES, service, space)
    await make_own_kinds(plane_client, space)
    folder = tmp_path / "out"
    done = await cli("tenant", "export", name, "--to", str(folder))
    assert done.code == 0, done.err
    assert "Secrets were left out" in done.out
    files = {path.name.partition("-")[2]: path for path in folder.iterdir()}
    assert "secrets.yaml" not in files
    assert {f"{plural}.example.org.yaml" for plural in DEFINITIONS} <= files.keys()
    assert stat.S_IMODE(files["configmaps.yaml"].stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    written = [obj for path in sorted(folder.iterdir()) for obj in yaml.safe_load_all(path.read_text()) if obj]
    mine = [obj for obj in written if obj["metadata"].get("namespace") == space or obj["metadata"]["name"] == space]
    assert sum(obj["kind"] == "ConfigMap" for obj in mine) == 90
    assert not any(obj["metadata"]["name"] == "kube-root-ca.crt" for obj in written)
    # In the order in which they were written; of its own kinds the other server has no definition.
    for obj in mine:
        if obj["apiVersion"].startswith("example.org/"):
            continue
        target = kinds.resource_of(obj["apiVersion"], obj["kind"])
        await host_client.apply(target, obj)
    found = await host_client.get(kinds.CONFIG_MAPS, "c7", space)
    assert found["data"] == {"n": "7"}
    again = await cli("tenant", "export", name, "--to", str(folder))
    assert (again.code, "exists already" in again.err) == (2, True)
    whole = await cli("tenant", "export", name, "--to", str(tmp_path / "all"), "--secrets")
    assert whole.code == 0, whole.err
    texts = "".join(path.read_text() for path in (tmp_path / "all").iterdir())
    assert "YS13b3Jk" in texts


def claim(folder: Path) -> None:
    with _claimed(folder):
        pass


def test_two_exports_never_write_to_one_folder(tmp_path: Path) -> None:
    unfinished = tmp_path / "out.partial"
    with _claimed(unfinished):
        (unfinished / "001-a.yaml").write_text("mine")
        with pytest.raises(CliError, match="another export writes to"):
            claim(unfinished)
        assert (unfinished / "001-a.yaml").read_text() == "mine"
    # It was not complete, and the next one begins from the beginning.
    with _claimed(unfinished):
        assert list(unfinished.iterdir()) == []
    # Nothing was written: nothing stays.
    assert not unfinished.exists()
    unfinished.symlink_to(tmp_path)
    with pytest.raises(CliError, match="cannot make"):
        claim(unfinished)


@pytest.mark.apiserver
async def test_without_an_answer_nothing_passes_for_an_export(
    cli: Cli, controller: Controller, plane_config: KubeConfig, name: str, tmp_path: Path
) -> None:
    await controller.tenant(name)
    await controller.plane(name, plane_config)
    status = {"endpoint": "https://127.0.0.1:1"}
    await controller.client.patch(kinds.TENANTS, name, {"status": status}, subresource="status")
    done = await cli("tenant", "export", name, "--to", str(tmp_path / "out"))
    assert done.code == 1
    assert not (tmp_path / "out").exists()


# -- planes that are kept


def kept(tenant: str, name: str, **notes: str) -> dict[str, Any]:
    marks = labels.made_for(tenant) | {labels.RETAINED: "99999999-8888-7777-6666-555555555555"}
    return {"metadata": {"name": name, "labels": marks, "annotations": notes}}


def test_each_kept_plane_is_listed_once() -> None:
    found = planes([kept("red", "bh-red-work"), kept("red", "bh-red"), kept("blue", "bh-blue"), {"metadata": 7}])
    assert [(row["tenant"], row["namespace"]) for row in found] == [("blue", "bh-blue"), ("red", "bh-red")]


@pytest.mark.apiserver
async def test_kept_planes_are_listed_and_ended_after_the_name_was_typed(cli: Cli, host_client: Client, name: str) -> None:
    until = "2030-01-01T00:00:00Z"
    try:
        await host_client.create(kinds.NAMESPACES, kept(name, f"bh-{name}", **{labels.RETAINED_UNTIL: until}))
    except AlreadyExists:
        pytest.fail("the name is taken")
    listed = await cli("tenant", "retained")
    assert listed.code == 0
    assert f"bh-{name}" in listed.out
    assert until in listed.out
    assert (await cli("tenant", "retained", "--end", "no-such-tenant", "--yes")).code == 3
    assert (await cli("tenant", "retained", "--end", name)).code == 2
    found = await host_client.get(kinds.NAMESPACES, f"bh-{name}")
    assert found["metadata"]["annotations"][labels.RETAINED_UNTIL] == until
    # A Tenant that has taken it up since it was shown keeps it.
    shown = planes([found])[0]
    with pytest.raises(CliError, match="meanwhile; nothing was changed"):
        await _mark(host_client, shown | {"identity": "00000000-8888-7777-6666-555555555555"})
    with pytest.raises(CliError, match="meanwhile; nothing was changed"):
        await _mark(host_client, shown | {"namespace": f"bh-{name}-gone"})
    found = await host_client.get(kinds.NAMESPACES, f"bh-{name}")
    assert found["metadata"]["annotations"][labels.RETAINED_UNTIL] == until
    ended = await cli("tenant", "retained", "--end", name, "--yes")
    assert ended.code == 0, ended.err
    found = await host_client.get(kinds.NAMESPACES, f"bh-{name}")
    assert found["metadata"]["annotations"][labels.RETAINED_UNTIL] < "2030"
