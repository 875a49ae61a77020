"""Claims of tenants on real volumes: data and names stay, a shared claim is shared, and deletion waits for the pods."""

from e2e import workloads
from e2e.api import Api, Obj
from e2e.commands import kubectl
from e2e.poll import until
from e2e.tenants import Tenant
from e2e.workloads import is_ready

DATA = "/data"


def claim(name: str, namespace: str, *modes: str) -> Obj:
    spec = {"accessModes": list(modes), "resources": {"requests": {"storage": "16Mi"}}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def stateful_set(name: str, replicas: int, namespace: str) -> Obj:
    """A StatefulSet with a volume and a DNS name for each of its pods."""
    spec = workloads.pod_spec()
    spec["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": DATA}]
    labels = {"app": name}
    template = claim("data", namespace, "ReadWriteOnce")
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "serviceName": name,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": template["spec"]}],
        },
    }


def run(tenant: Tenant, space: str, pod: str, script: str) -> str:
    return kubectl(tenant.kubeconfig, "-n", space, "exec", pod, "--", "sh", "-c", script).out


def wait_bound(api: Api, name: str, namespace: str) -> Obj:
    def probe() -> Obj:
        found = api.get("PersistentVolumeClaim", name, namespace)
        workloads.expect(found.get("status", {}).get("phase") == "Bound", str(found.get("status")))
        return found

    return until(f"claim {name} to be bound", probe, seconds=40)


def test_item_27_35_a_stateful_set_keeps_its_data_and_its_names(alice: Tenant, space: str) -> None:
    headless = workloads.service("db", "db", 5432, namespace=space)
    headless["spec"]["clusterIP"] = "None"
    alice.api.create(headless)
    alice.api.create(stateful_set("db", 2, space))
    for name in ("db-0", "db-1"):
        workloads.wait_running(alice.api, name, namespace=space)
        assert wait_bound(alice.api, f"data-{name}", space)["status"]["capacity"]
    assert "Bound" in kubectl(alice.kubeconfig, "-n", space, "get", "pvc", "data-db-0").out
    run(alice, space, "db-0", f"hostname > {DATA}/who")
    addresses = {name: alice.api.get("Pod", name, space)["status"]["podIP"] for name in ("db-0", "db-1")}

    def found() -> None:
        """Each pod resolves the other by the other's name, and all of them by the Service's."""
        for name, other in (("db-0", "db-1"), ("db-1", "db-0")):
            workloads.expect(
                addresses[other] in run(alice, space, name, f"nslookup {other}.db.{space}.svc.cluster.local || true"), other
            )
        both = run(alice, space, "db-0", f"nslookup db.{space}.svc.cluster.local || true")
        workloads.expect(all(address in both for address in addresses.values()), both)

    until("the pods' own names to resolve", found, seconds=30)
    before = alice.api.get("Pod", "db-0", space)["metadata"]["uid"]
    alice.api.delete("Pod", "db-0", space)

    def back() -> None:
        pod = alice.api.get("Pod", "db-0", space)
        workloads.expect(pod["metadata"]["uid"] != before and is_ready(pod), workloads.describe(pod))

    until("the pod that comes after", back, seconds=60)
    assert run(alice, space, "db-0", f"cat {DATA}/who").strip() == "db-0", "data lost"


def test_item_35_36_a_shared_claim_is_shared_and_its_deletion_waits_for_the_pods(alice: Tenant, space: str) -> None:
    alice.api.create(claim("home", space, "ReadWriteMany"))
    for name in ("login", "worker"):
        spec = workloads.pod_spec(volumes=[{"name": "home", "persistentVolumeClaim": {"claimName": "home"}}])
        spec["containers"][0]["volumeMounts"] = [{"name": "home", "mountPath": DATA}]
        alice.api.create(workloads.pod(name, spec, namespace=space))
    for name in ("login", "worker"):
        workloads.wait_running(alice.api, name, namespace=space)
    bound = wait_bound(alice.api, "home", space)
    run(alice, space, "login", f"echo together > {DATA}/file")
    assert run(alice, space, "worker", f"cat {DATA}/file").strip() == "together"
    volume = bound["spec"]["volumeName"]
    assert alice.api.get("PersistentVolume", volume)["status"]["phase"] == "Bound"

    alice.api.delete("PersistentVolumeClaim", "home", space)
    assert alice.api.get("PersistentVolumeClaim", "home", space)["metadata"]["deletionTimestamp"]
    assert run(alice, space, "worker", f"cat {DATA}/file").strip() == "together"
    for name in ("login", "worker"):
        alice.api.delete("Pod", name, space)

    def gone() -> None:
        workloads.expect(alice.api.find("PersistentVolumeClaim", "home", space) is None, "claim still there")
        workloads.expect(alice.api.find("PersistentVolume", volume) is None, "volume still there")

    until("claim and volume to go with the last pod", gone, seconds=40)


def test_item_31_an_image_is_a_volume(alice: Tenant, space: str) -> None:
    tools = {"name": "tools", "image": {"reference": workloads.BUSYBOX, "pullPolicy": "IfNotPresent"}}
    spec = workloads.pod_spec(volumes=[tools])
    spec["containers"][0]["volumeMounts"] = [{"name": "tools", "mountPath": DATA}]
    alice.api.create(workloads.pod("model", spec, namespace=space))
    workloads.wait_running(alice.api, "model", namespace=space)
    assert run(alice, space, "model", f"{DATA}/bin/busybox echo from the image") == "from the image\n"
    assert "Read-only" in run(alice, space, "model", f"touch {DATA}/file 2>&1 || true")
