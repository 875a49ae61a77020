"""The shape of the cluster: unprivileged workers with the devices of their own pod, features, topology, probes, metrics."""

from e2e import machine, workloads
from e2e.api import Api, Obj
from e2e.names import GPU, SLURM_NAMESPACE
from e2e.poll import until
from e2e.scenarios.slurm.conftest import GPUS
from e2e.slurm import clusters, rest
from e2e.slurm.clusters import Cluster
from e2e.slurm.faults import mirror
from e2e.tenants import Tenant

WRITABLE = {
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "KILL",
    "MKNOD",
    "SETGID",
    "SETUID",
    "SYS_CHROOT",
    "NET_BIND_SERVICE",
    "AUDIT_WRITE",
}


def test_no_pod_is_privileged_and_the_level_is_baseline(host: Api, red: Cluster) -> None:
    space = host.get("Namespace", red.tenant.work)["metadata"]["labels"]
    assert space["pod-security.kubernetes.io/enforce"] == "baseline"
    pods = host.list("Pod", red.tenant.work)
    assert {pod["metadata"]["labels"]["bulkhead.dev/virtual-uid"] for pod in pods} >= {
        pod["metadata"]["uid"] for pod in red.api.list("Pod", SLURM_NAMESPACE)
    }
    for pod in pods:
        for container in pod["spec"]["containers"]:
            context = container.get("securityContext") or {}
            assert not context.get("privileged")
            assert set((context.get("capabilities") or {}).get("add") or ()) <= WRITABLE, pod["metadata"]["name"]
        assert not any("hostPath" in volume for volume in pod["spec"].get("volumes") or ())


def test_a_worker_registers_exactly_the_gpus_of_its_pod(host: Api, red: Cluster) -> None:
    on_node = int(host.get("Node", mirror(host, red, "gpu-0")["spec"]["nodeName"])["status"]["allocatable"][GPU])
    assert on_node > GPUS
    node = red.show("node", "gpu-0")
    assert node["Gres"].startswith(f"gpu:h100:{GPUS}")
    assert node["CfgTRES"].endswith(f"gres/gpu={GPUS}") or f"gres/gpu={GPUS}" in node["CfgTRES"]
    assert int(node["CPUTot"]) == 2
    assert int(node["RealMemory"]) == 512


def test_a_job_reaches_no_gpu_of_another_pod_whatever_it_sets(quiet: Cluster) -> None:
    script = "export CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7 NVIDIA_VISIBLE_DEVICES=all; ls /dev/nvidia[0-9]*"
    seen = quiet.run("srun", "-p", "gpu", "--gres=gpu:1", "sh", "-c", script).out.split()
    assert len(seen) == GPUS
    # Other GPUs' device files, created as root of the container: the pod's device list refuses to open them.
    own = {int(path.removeprefix("/dev/nvidia")) for path in seen}
    script = "cd $(mktemp -d); for n in 0 1 2 3 4 5 6 7; do mknod gpu$n c 195 $n; head -c 1 gpu$n; done; true"
    tried = quiet.inside("gpu-0", script).text
    for number in set(range(8)) - own:
        refusals = [line for line in tried.splitlines() if f"gpu{number}" in line]
        assert any("not permitted" in line for line in refusals), f"GPU {number}: {tried}"


def test_workers_of_two_tenants_share_a_node_and_no_gpu(host: Api, red: Cluster, blue: Cluster, green: Tenant) -> None:
    pods = {"red": mirror(host, red, "gpu-0"), "blue": mirror(host, blue, "gpu-0")}
    train = workloads.host_pod_of(host, green.api.get("Pod", "train", "default"), green.work)
    assert {pod["spec"]["nodeName"] for pod in (*pods.values(), train)} == {train["spec"]["nodeName"]}
    held = [devices(red, "gpu-0"), devices(blue, "gpu-0")]
    assert len(held[0]) == GPUS
    assert len(held[1]) == 1
    assert not held[0] & held[1]


def test_features_come_from_the_node_sets_and_the_labels_of_nodes(red: Cluster) -> None:
    features = red.show("node", "gpu-0")["ActiveFeatures"].split(",")
    assert "gpu" in features
    assert red.run("srun", "-p", "gpu", "--constraint=gpu", "hostname").out.strip() == "gpu-0"


def test_the_topology_is_that_of_the_nodes_labels(host: Api, red: Cluster) -> None:
    labels = host.get("Node", mirror(host, red, "gpu-0")["spec"]["nodeName"])["metadata"]["labels"]
    shown = red.run("scontrol", "show", "topology").out
    wanted = {labels.get("bulkhead.dev/nvlink-domain"), labels.get("bulkhead.dev/rack")} - {None}
    assert any(str(name) in shown for name in wanted), f"{wanted} in {shown!r}"


def test_probes_answer_and_metrics_are_told_where_the_tenant_says_so(red: Cluster, blue: Cluster) -> None:
    for path in ("/livez", "/readyz"):
        for address in ("slurmctld:6817", "gpu-0:6818"):
            assert red.fetch(f"http://{address}{path}")[0] in {200, 204}, address + path
    for path in ("nodes", "jobs-users-accts"):
        assert red.fetch(f"http://slurmctld:6817/metrics/{path}")[0] in rest.REFUSED, path
        bearer = f"X-SLURM-USER-TOKEN: {rest.token(red, 'alice')}"
        assert red.fetch(f"http://slurmctld:6817/metrics/{path}", bearer)[0] in rest.REFUSED, path
    status, metrics = blue.fetch("http://slurmctld:6817/metrics/nodes")
    assert status == 200
    assert "slurm_node" in metrics


def test_node_sets_scale_like_deployments(red: Cluster) -> None:
    listed = red.api.text("/apis/slurm.bulkhead.dev/v1alpha1/namespaces/slurm/nodesets/cpu/scale")
    assert '"replicas":2' in listed.replace(" ", "")


def test_pods_carry_slurms_truth_as_conditions(quiet: Cluster) -> None:
    def idle() -> None:
        found = condition(quiet.pod("cpu-0"), "SlurmNodeStateIdle")
        workloads.expect(found.get("status") == "True", str(found))

    until("the pod to say that its node is idle", idle, seconds=60)
    quiet.run("scontrol", "update", "nodename=cpu-0", "state=drain", "reason=fan is loud")

    def drained() -> None:
        found = condition(quiet.pod("cpu-0"), "SlurmNodeStateDrain")
        workloads.expect(found.get("status") == "True" and "fan is loud" in str(found), str(found))

    try:
        until("the pod to say why its node is drained", drained, seconds=60)
        assert quiet.show("node", "cpu-0")["Reason"].startswith("fan"), "another's reason is never touched"
    finally:
        quiet.run("scontrol", "update", "nodename=cpu-0", "state=resume")
    until("the pod to be idle again", idle, seconds=60)


def test_a_cordoned_host_node_drains_its_workers_and_says_why(host: Api, quiet: Cluster) -> None:
    """A lost node reaches Slurm in the same way, but the one real node here runs everything and cannot be lost."""
    host.patch("Node", machine.NODE, {"spec": {"unschedulable": True}})
    try:
        clusters.wait_nodes(quiet, "cpu-0", "cpu-1", "gpu-0", state="drained")
        reasons = quiet.run("sinfo", "-R", "-h", "-o", "%E").out
        assert f"bulkhead: node {machine.NODE} is cordoned" in reasons

        def explained() -> None:
            found = condition(quiet.pod("cpu-0"), "SlurmNodeStateDrain")
            workloads.expect(found.get("status") == "True" and "is cordoned" in str(found), str(found))

        until("the pod to say why its node is drained", explained, seconds=60)
    finally:
        host.patch("Node", machine.NODE, {"spec": {"unschedulable": None}})
    clusters.wait_nodes(quiet, "cpu-0", "cpu-1", "gpu-0")


def test_the_tenants_status_counts_nodes_and_jobs(host: Api, quiet: Cluster) -> None:
    running = quiet.run("sbatch", "--parsable", "--nodelist=cpu-0", "--wrap", "sleep 100").out.strip()
    quiet.run("sbatch", "--hold", "--wrap", "true")

    def counted() -> None:
        status = host.get("Tenant", quiet.name).get("status", {}).get("slurm") or {}
        busy = int(status.get("nodes", {}).get("allocated", 0)) + int(status.get("nodes", {}).get("mixed", 0))
        right = busy >= 1 and status.get("jobs", {}).get("running") == 1 and status.get("jobs", {}).get("pending") == 1
        workloads.expect(right, str(status))

    until("the Tenant to count one running and one pending job", counted, seconds=60)
    quiet.run("scancel", running)


def devices(cluster: Cluster, worker: str) -> set[str]:
    listed = cluster.inside(worker, "ls /dev/ | grep -E '^nvidia[0-9]+$'").out.split()
    return set(listed)


def condition(pod: Obj, kind: str) -> Obj:
    assert pod["metadata"]["namespace"] == SLURM_NAMESPACE
    return workloads.condition(pod, kind) or {}
