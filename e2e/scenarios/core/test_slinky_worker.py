"""A worker as Slinky's operator creates it, on the host: refused with a remedy, and run once its plane drops privileges.

The pod is the one that the translation is tested with; here it runs busybox, which answers the probes of slurmd. The host
refuses a privileged pod by itself, for any user.
"""

from pathlib import Path

import pytest
import yaml

from e2e import tenants, workloads
from e2e.api import Api, ApiError, Obj
from e2e.commands import kubectl
from e2e.names import GPU
from e2e.poll import until
from e2e.tenants import Tenant

WORKER = Path("tests/syncer/translate/cases/pod/slinky-worker.virtual.yaml")
SPACE = "slurm"
POLICY = "bulkhead-drop-privileges"
GPUS = 2
SYS_ADMIN = 21  # the capability's bit in a process's mask


def worker(nodeset: Obj) -> Obj:
    """The stock pod of a NodeSet; only its program and its requests are changed."""
    pod: Obj = yaml.safe_load(WORKER.read_text())
    del pod["metadata"]["uid"]
    pod["metadata"]["ownerReferences"][0] |= {"name": nodeset["metadata"]["name"], "uid": nodeset["metadata"]["uid"]}
    spec = pod["spec"]
    spec |= {"nodeSelector": dict(workloads.REAL), "terminationGracePeriodSeconds": 1}
    for container in (*spec["initContainers"], *spec["containers"]):
        container["image"] = workloads.BUSYBOX
    slurmd = spec["containers"][0]
    del slurmd["args"]
    serve = "mkdir -p /tmp/www && touch /tmp/www/livez /tmp/www/readyz && exec httpd -f -p 6818 -h /tmp/www"
    slurmd["command"] = ["sh", "-c", serve]
    slurmd["resources"] = {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": "64Mi", GPU: str(GPUS)}}
    return pod


def nodeset_of(tenant: Tenant) -> Obj:
    """The worker's owner, so that the plane's garbage collector finds it, and the key that it mounts."""
    definition = workloads.custom_resource("nodesets", "slinky.slurm.net", "NodeSet")
    definition["spec"]["versions"][0]["name"] = "v1beta1"
    tenant.api.create(definition)
    tenants.make_namespace(tenant.api, SPACE)
    meta = {"name": "slurm-auth-slurm", "namespace": SPACE}
    tenant.api.create({"apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": {"slurm.key": "x" * 32}})
    path = f"/apis/slinky.slurm.net/v1beta1/namespaces/{SPACE}/nodesets"
    made = {"apiVersion": "slinky.slurm.net/v1beta1", "kind": "NodeSet", "metadata": {"name": "slurm-worker-slinky"}}

    def create() -> Obj:
        try:
            answer = tenant.api.request("POST", path, body=made)
        except ApiError as error:
            workloads.expect(error.status != 404, "the definition is not served yet")
            raise
        assert isinstance(answer, dict)
        return answer

    return until("the definition of NodeSets to be served", create, seconds=30)


@pytest.mark.fresh(gpus=GPUS)
def test_a_stock_worker_says_why_it_does_not_run_and_runs_without_its_privileges(host: Api, tenant: Tenant) -> None:
    stock = worker(nodeset_of(tenant))
    name = stock["metadata"]["name"]
    plane = host.get("Pod", "plane-0", tenant.plane)["metadata"]["uid"]

    made = tenant.api.create(stock)
    assert made["spec"]["containers"][0]["securityContext"]["privileged"] is True
    said = workloads.wait_refused(tenant.api, name, "PodSecurityViolation", says="securityContext.privileged", namespace=SPACE)
    assert "isolation.dropPrivileges: SlinkyWorkers" in said["message"]
    assert host.list("Pod", tenant.work, labels=f"bulkhead.dev/virtual-uid={made['metadata']['uid']}") == []

    host.patch("Tenant", tenant.name, {"spec": {"isolation": {"dropPrivileges": "SlinkyWorkers"}}})
    until("the policy in the plane", lambda: workloads.expect(policy(tenant) is not None, "not there"), seconds=60)

    def again() -> Obj:
        """Recreate the pod, as the operator does after a deletion; the policy applies some moments after its creation."""
        tenant.api.delete("Pod", name, SPACE, grace=0)
        workloads.wait_pod_gone(tenant.api, name, namespace=SPACE)
        recreated = tenant.api.create(stock)
        context = recreated["spec"]["containers"][0]["securityContext"]
        workloads.expect(context == {"capabilities": {}}, str(context))
        return recreated

    until("a worker without privileges", again, seconds=60)
    virtual = workloads.wait_running(tenant.api, name, namespace=SPACE, seconds=90)
    there = workloads.host_pod_of(host, virtual, tenant.work)["spec"]["containers"][0]["securityContext"]
    assert not there.get("privileged")
    assert not (there.get("capabilities") or {}).get("add")
    assert len(inside(tenant, name, "ls /dev/nvidia[0-9]*").split()) == GPUS
    effective = int(inside(tenant, name, "grep CapEff /proc/self/status").split()[1], 16)
    assert not effective >> SYS_ADMIN & 1
    # The plane did not have to restart.
    assert host.get("Pod", "plane-0", tenant.plane)["metadata"]["uid"] == plane

    host.patch("Tenant", tenant.name, {"spec": {"isolation": {"dropPrivileges": None}}})
    until("the policy out of the plane", lambda: workloads.expect(policy(tenant) is None, "still there"), seconds=60)
    assert workloads.is_ready(tenant.api.get("Pod", name, SPACE))


def policy(tenant: Tenant) -> Obj | None:
    return tenant.api.find("MutatingAdmissionPolicy", POLICY)


def inside(tenant: Tenant, name: str, script: str) -> str:
    """The output of a shell in the worker."""
    return kubectl(tenant.kubeconfig, "-n", SPACE, "exec", name, "-c", "slurmd", "--", "sh", "-c", script).out


def test_the_host_refuses_a_privileged_pod_of_any_user(host: Api, alice: Tenant) -> None:
    def tried(**context: object) -> None:
        """A dry run, by an admin of the host."""
        spec = workloads.pod_spec()
        spec["containers"][0]["securityContext"] = context
        body = workloads.pod("raw", spec, namespace=alice.work)
        host.request("POST", f"/api/v1/namespaces/{alice.work}/pods", body=body, query={"dryRun": "All"})

    tried(privileged=False)
    for context in ({"privileged": True}, {"capabilities": {"add": ["SYS_ADMIN"]}}):
        with pytest.raises(ApiError, match="violates PodSecurity") as refused:
            tried(**context)
        assert refused.value.status == 403
