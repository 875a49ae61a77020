"""Bad input of admins and tenants on a running host: nothing else changes, and nothing crashes."""

from typing import Any

from e2e import machine, tenants, workloads
from e2e.api import Api, ApiError, Obj
from e2e.poll import until
from e2e.tenants import Tenant

MANY = 60  # containers of the largest pod


def test_an_unsatisfiable_change_leaves_a_running_tenant_alone(host: Api, alice: Tenant) -> None:
    before = host.get("Pod", "plane-0", alice.plane)["metadata"]["uid"]
    host.patch("Tenant", alice.name, {"spec": {"quota": {"resources": {"example.com/unobtainium": {"nominal": 1}}}}})
    try:
        tenants.wait_condition(host, alice.name, "Ready", status="False", reason="ImpossibleQuota")
        assert host.get("Pod", "plane-0", alice.plane)["metadata"]["uid"] == before
        assert alice.api.ready()
    finally:
        host.patch("Tenant", alice.name, {"spec": {"quota": {"resources": {"example.com/unobtainium": None}}}})
    tenants.wait_ready(host, [alice.name])


def test_a_namespace_of_another_owner_is_never_adopted(host: Api, fresh_name: str) -> None:
    host.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"bh-{fresh_name}"}})
    try:
        host.create(tenants.manifest(fresh_name))
        tenants.wait_condition(host, fresh_name, "Ready", status="False", reason="NamespaceTaken")
        assert not host.list("Secret", f"bh-{fresh_name}")
        host.delete("Tenant", fresh_name)
        until("the tenant to go", lambda: workloads.expect(host.find("Tenant", fresh_name) is None, "there"), seconds=30)
        assert host.find("Namespace", f"bh-{fresh_name}") is not None
    finally:
        host.delete("Namespace", f"bh-{fresh_name}")


def odd_pods() -> list[Obj]:
    """Pods that only an attacker would write."""
    container = {"name": "main", "image": workloads.BUSYBOX, "command": ["sleep", "60"]}
    # Its status grows as large as if it ran, but a node needs two minutes to kill sixty containers that do run.
    never = container | {"image": "docker.io/library/none:1", "imagePullPolicy": "Never"}

    def made(name: str, **spec: Any) -> Obj:
        body = {"containers": [container], **spec}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": body}

    long = made("a" * 253)
    dotted = made("a.b.c")
    annotated = made("annotated")
    annotated["metadata"]["annotations"] = {
        "bulkhead.dev/virtual-uid": "x",
        "bulkhead.dev/tenant-uid": "y",
        "big": "z" * 200_000,
    }
    annotated["metadata"]["labels"] = {"bulkhead.dev/managed-by": "syncer", "bulkhead.dev/virtual-uid": "x"}
    return [
        long,
        dotted,
        annotated,
        made("host-network", hostNetwork=True),
        made("host-pid", hostPID=True),
        made("host-path", volumes=[{"name": "root", "hostPath": {"path": "/"}}]),
        made("privileged", containers=[container | {"securityContext": {"privileged": True}}]),
        made("pinned", nodeName="no-such-node"),
        made("pinned-real", nodeName=machine.NODE),
        made("no-such-image", containers=[container | {"image": "docker.io/library/none:0"}]),
        made("missing-secret", containers=[container | {"envFrom": [{"secretRef": {"name": "missing"}}]}]),
        made("class", runtimeClassName="no-such-class"),
        made("many", containers=[never | {"name": f"c{number}"} for number in range(MANY)]),
    ]


def test_nothing_a_tenant_submits_crashes_the_syncer(host: Api, alice: Tenant) -> None:
    before = syncer_restarts(host, alice)
    assert before, "no syncer is found"
    names = []
    refusals: dict[str, ApiError] = {}
    for pod in odd_pods():
        names.append(pod["metadata"]["name"])
        try:
            alice.api.create(pod)
        except ApiError as exc:  # the tenant's own API server may refuse first
            if exc.status not in {400, 403, 422}:
                raise
            refusals[names[-1]] = exc
    alice.api.create(workloads.pod("plain"))
    workloads.host_pod_of(host, workloads.wait_running(alice.api, "plain", seconds=60), alice.work)
    for name, field in (
        ("host-network", "spec.hostNetwork"),
        ("host-pid", "spec.hostPID"),
        ("host-path", "hostPath"),
        ("privileged", "securityContext.privileged"),
    ):
        assert name not in refusals, f"the syncer never saw it: {refusals[name]}"
        workloads.wait_refused(alice.api, name, "PodSecurityViolation", says=field)
        uid = alice.api.get("Pod", name, "default")["metadata"]["uid"]
        assert host.list("Pod", alice.work, labels=f"bulkhead.dev/virtual-uid={uid}") == []

    def told() -> None:
        statuses = alice.api.get("Pod", "many", "default").get("status", {}).get("containerStatuses") or []
        waiting = [status.get("state", {}).get("waiting", {}).get("reason") for status in statuses]
        workloads.expect(waiting == ["ErrImageNeverPull"] * MANY, str(waiting))

    until("all containers of a large pod to be reported", told, seconds=60)
    assert syncer_restarts(host, alice) == before
    for name in [*names, "plain"]:
        alice.api.delete("Pod", name, "default", grace=0)


def test_an_expression_that_leaves_its_volume_reaches_nothing(alice: Tenant) -> None:
    def mounted(name: str, path: str) -> Obj:
        spec = workloads.pod_spec(volumes=[{"name": "data", "emptyDir": {}}])
        mount = {"name": "data", "mountPath": "/data", "subPathExpr": "$(WHERE)"}
        spec["containers"][0] |= {"env": [{"name": "WHERE", "value": path}], "volumeMounts": [mount]}
        return alice.api.create(workloads.pod(name, spec))

    def reported() -> None:
        statuses = alice.api.get("Pod", "leaves", "default")["status"].get("containerStatuses") or [{}]
        waiting = statuses[0].get("state", {}).get("waiting") or {}
        workloads.expect(waiting.get("reason") == "CreateContainerConfigError", str(statuses))

    mounted("stays", "inside")
    mounted("leaves", "../../../../etc")
    workloads.wait_running(alice.api, "stays")
    until("the kubelet to refuse the path", reported, seconds=60)
    for name in ("stays", "leaves"):
        alice.api.delete("Pod", name, "default", grace=0)


def syncer_restarts(host: Api, tenant: Tenant) -> list[tuple[str, int]]:
    pods = host.list("Pod", tenant.plane, labels="bulkhead.dev/component=syncer")
    return [
        (pod["metadata"]["uid"], sum(int(item["restartCount"]) for item in pod["status"].get("containerStatuses") or []))
        for pod in pods
    ]
