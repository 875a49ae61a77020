"""What the first decider makes, the second lets through: real translations on an API server with the chart's policies."""

import contextlib
import secrets
from dataclasses import replace
from typing import Any

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import ApiError
from bulkhead.kube.objects import Resource
from controller.plane.namespaces import namespaces
from syncer.translate import TenantView
from syncer.translate.registry import KINDS
from tests.chart.policed import of, policies
from tests.kit import translationsamples as samples
from tests.kit import yamlfiles
from tests.kit.applying import apply_all
from tests.kit.known import all_known
from tests.kit.servers import HOST_KUBERNETES, ApiServer, by_token
from tests.kit.snapshotting import serve_snapshots
from tests.kit.syncerbed import until
from tests.kit.tenantsamples import plane_spec
from tests.syncer.translate import golden

# As wide as the cases are: what an installation offers is its admin's.
VALUES = (
    "--set", "ingressDomains={apps.example.org,gpu.example.org}", "--set", "snapshotClasses={daily,weekly}",
    "--set", "deviceClasses={gpu.example.com}", "--set", "gpuResources={nvidia.com/gpu,amd.com/gpu,rdma/shared}",
    "--set", "podNetworks={10.244.0.0/16,fd00:10:244::/56}",
)  # fmt: skip
# A plane has no slice of IPv6 addresses.
GOOD = [
    pytest.param(name, marks=pytest.mark.skipif(bool(HOST_KUBERNETES), reason="an older host has no PodGroups"))
    if name.startswith("podgroup/")
    else name
    for name, path in golden.cases()
    if "refused" not in yamlfiles.load(golden.host_file(path)) and name != "pod/ipv6"
]


@pytest.fixture
async def admin(translated_server: ApiServer) -> Any:
    async with Client(by_token(translated_server.admin), user_agent="tests", field_manager="tests") as client:
        yield client


async def offer(client: Client, view: TenantView) -> None:
    """The policies, and what the tenant of a view has on the host."""
    await apply_all(client, policies(*VALUES))
    await all_known(client)
    await serve_snapshots(client)
    spec = plane_spec(
        tenant=view.tenant,
        service_slice=view.service_slice,
        quota={
            "gpu_resources": tuple(sorted(view.gpu_resources)),
            "extended_resources": tuple(sorted(view.allowed_resources)),
            "device_classes": tuple((name, 8) for name in sorted(view.device_classes)),
        },
        nodes={
            "selector": tuple(view.enforced_node_selector.items()),
            "tolerations": tuple(toleration.to_obj() for toleration in view.enforced_tolerations),
            "allowed_tolerations": tuple(toleration.to_obj() for toleration in view.allowed_tolerations),
        },
        isolation={
            "pod_security": view.pod_security,
            "user_namespaces": view.user_namespaces,
            "seccomp_profiles": tuple(sorted(view.seccomp_profiles)),
            "apparmor_profiles": tuple(sorted(view.apparmor_profiles)),
            "runtime_class": view.runtime_class or None,
            "allowed_runtime_classes": tuple(view.allowed_runtime_classes),
        },
        offers={
            "default_priority_class": view.priority_class or None,
            "priority_classes": tuple(view.allowed_priority_classes),
            "storage_classes": tuple(view.storage_classes),
            "snapshot_classes": tuple(view.snapshot_classes),
            "ingress_classes": tuple(view.ingress_classes),
            "ingress_domains": view.ingress_domains,
            "pod_groups": view.pod_groups,
        },
        ledger={"gated_resources": tuple(sorted(view.gated_resources)), "gated_gangs": view.gated_gangs},
    )
    (work,) = (space for space in namespaces(spec) if space["metadata"]["name"] == view.work_namespace)
    await client.apply(kinds.NAMESPACES, work)
    classes = ((kinds.PRIORITY_CLASSES, view.allowed_priority_classes | {view.priority_class}, {"value": 5}),
               (kinds.RUNTIME_CLASSES, view.allowed_runtime_classes | {view.runtime_class}, {"handler": "x"}))  # fmt: skip
    # Kubernetes has its own two.
    kept = {"", "system-node-critical", "system-cluster-critical"}
    await apply_all(client, [of(r, name, **content) for r, names, content in classes for name in sorted(names - kept)])


@pytest.mark.apiserver
@pytest.mark.parametrize("name", GOOD)
async def test_item_18_what_is_translated_is_let_through(translated_server: ApiServer, admin: Client, name: str) -> None:
    path = dict(golden.cases())[name]
    changes = path.with_name(path.name.replace(".virtual.yaml", ".view.yaml"))
    view = samples.view(yamlfiles.load(changes) if changes.exists() else None)
    if not name.startswith("ingress/"):  # which name their tenant's hosts
        view = replace(view, tenant=f"t{secrets.token_hex(4)}")
    await offer(admin, view)
    virtual = yamlfiles.load(path)
    host: Obj = KINDS[virtual["kind"]].to_host(virtual, view)
    kind = KINDS[virtual["kind"]]
    caller = translated_server.config_for(f"system:serviceaccount:bh-{view.tenant}:syncer", "system:masters")
    async with Client(caller, user_agent="tests", field_manager="syncer") as syncer:
        refusals = [""]

        async def let_in() -> bool:
            """Once the server knows the classes and facts that were just written: it learns of them a moment later."""
            try:
                await syncer.create(Resource(kind.group, kind.version, kind.plural, kind.kind, True), host)
            except ApiError as error:
                refusals.append(error.message)
                # The tenants of these tests share one slice of addresses, which this server does not give out.
                return "failed to allocate IP" in error.message
            return True

        with contextlib.suppress(AssertionError):
            await until(let_in, "it to be let in", 20)
            return
    pytest.fail(refusals[-1])
