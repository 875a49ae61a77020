"""A tenant's pods on three nodes form one cluster: they reach each other, others cannot, and each GPU exists once."""

import re
import subprocess
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from e2e import commands, machine, tenants, workloads
from e2e.api import Api, Obj
from e2e.names import GPU
from e2e.poll import NotYetError, holds, until
from e2e.scenarios.nodes.places import FIRST, PORT, REAL, SECOND, THIRD, fetch, gets, on, web
from e2e.tenants import Tenant
from workstation.hostcluster import binaries, registry
from workstation.hostcluster.images import build

_EACH = 8  # GPUs of a node
_REFERENCE = f"{registry.ADDRESS}/e2e/busybox:1"


@pytest.fixture(scope="module")
def servers(alice: Tenant) -> dict[str, str]:
    """Pods of alice, spread over the nodes by the scheduler: name -> address. They are behind the Service `web`."""
    spread = [
        {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"group": "web"}},
            "nodeTaintsPolicy": "Honor",
        }
    ]
    names = [f"web-{number}" for number in range(len(REAL))]
    for name in names:
        alice.api.apply(web(name, where={}, topologySpreadConstraints=spread))
    service = workloads.service("web", "", PORT)
    service["spec"]["selector"] = {"group": "web"}
    alice.api.apply(service)
    return {name: str(workloads.wait_running(alice.api, name)["status"]["podIP"]) for name in names}


def test_a_tenants_pods_spread_over_the_nodes(alice: Tenant, servers: dict[str, str]) -> None:
    assert {alice.api.get("Pod", name, "default")["spec"]["nodeName"] for name in servers} == set(REAL)


def test_pods_reach_each_other_by_address_and_through_services(alice: Tenant, servers: dict[str, str]) -> None:
    def all_answer(pod: str) -> None:
        seen = {fetch(alice, pod, "web.default.svc.cluster.local") for _ in range(6)} - {""}
        answered[pod] |= seen
        workloads.expect(answered[pod] == set(servers), f"{pod} was answered by {answered[pod]}")

    answered: dict[str, set[str]] = {pod: set() for pod in servers}
    for pod in servers:
        for name, address in servers.items():
            until(f"{pod} to reach {name}", partial(gets, alice, pod, address, name), seconds=20)
        until(f"{pod} to reach all through the Service", partial(all_answer, pod), seconds=30)


def test_logs_commands_and_ports_of_pods_on_every_node(alice: Tenant, servers: dict[str, str]) -> None:
    alice.api.apply(workloads.pod("talker", workloads.pod_spec(("sh", "-c", "echo said; sleep 3600"), where=on(SECOND))))
    workloads.wait_running(alice.api, "talker")

    def said() -> None:
        printed = commands.kubectl(alice.kubeconfig, "logs", "talker", check=False)
        workloads.expect(printed.out == "said\n", printed.text)

    until("its line to be in the log", said, seconds=20)
    for name in servers:
        assert commands.kubectl(alice.kubeconfig, "exec", name, "--", "hostname").out.strip() == name
        assert name in until(f"port {PORT} of {name}", partial(_forwarded, alice, name), seconds=30)


def _forwarded(tenant: Tenant, pod: str) -> str:
    """A pod's answer through a forwarded port."""
    command = [commands.tool("kubernetes", "kubectl"), f"--kubeconfig={tenant.kubeconfig}", "port-forward", pod, f":{PORT}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            line = process.stdout.readline() if process.stdout else ""
            local = re.search(r"127\.0\.0\.1:(\d+)", line)
            if local is None:
                raise NotYetError(line)
            return commands.run(["curl", "-s", "--max-time", "5", f"http://127.0.0.1:{local[1]}"], check=False).out
        finally:
            process.terminate()


def test_another_tenant_is_kept_away_on_every_node(alice: Tenant, bob: Tenant, servers: dict[str, str]) -> None:
    names = [f"visitor-{number}" for number in range(len(REAL))]
    for name, node in zip(names, REAL, strict=True):
        bob.api.apply(web(name, where=on(node)))
    own = {name: str(workloads.wait_running(bob.api, name)["status"]["podIP"]) for name in names}
    service = str(alice.api.get("Service", "web", "default")["spec"]["clusterIP"])
    for pod in names:
        for name, address in own.items():
            until(f"{pod} to reach {name} of its own tenant", partial(gets, bob, pod, address, name), seconds=20)
        for address in (*servers.values(), service):
            gets(bob, pod, address, "")
    for name, address in servers.items():
        gets(alice, "web-0", address, name)


def test_a_policy_of_a_tenant_holds_across_nodes(alice: Tenant) -> None:
    for name, node in (("friend", SECOND), ("other", THIRD)):
        alice.api.apply(workloads.pod(name, workloads.pod_spec(where=on(node))))
        workloads.wait_running(alice.api, name)
    alice.api.apply(web("guarded", where=on(FIRST)))
    address = str(workloads.wait_running(alice.api, "guarded")["status"]["podIP"])
    for name in ("friend", "other"):
        until(f"{name} to reach it without a policy", partial(gets, alice, name, address, "guarded"), seconds=20)
    spec = {
        "podSelector": {"matchLabels": {"app": "guarded"}},
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [{"podSelector": {"matchLabels": {"app": "friend"}}}]}],
    }
    metadata = {"name": "friends", "namespace": "default"}
    alice.api.apply({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata, "spec": spec})
    until("the policy to keep the other away", partial(gets, alice, "other", address, ""), seconds=20)
    holds("the other kept away", partial(gets, alice, "other", address, ""), seconds=1)
    until("the friend to go on", partial(gets, alice, "friend", address, "guarded"), seconds=10)
    alice.api.delete("Pod", "guarded", "default")


def test_every_gpu_is_counted_and_given_once(host: Api, alice: Tenant) -> None:
    assert [host.get("Node", node)["status"]["allocatable"][GPU] for node in REAL] == [str(_EACH)] * len(REAL)
    names = [f"train-{number}" for number in range(len(REAL))]
    for name in names:
        alice.api.apply(workloads.pod(name, workloads.pod_spec(gpus=_EACH, where={})))
    for name in names:
        workloads.wait_running(alice.api, name)
    assert {alice.api.get("Pod", name, "default")["spec"]["nodeName"] for name in names} == set(REAL)
    listing = ("sh", "-c", "stat -c %t:%T /dev/nvidia?")
    devices = [line for name in names for line in commands.kubectl(alice.kubeconfig, "exec", name, "--", *listing).out.split()]
    assert len(devices) == len(set(devices)) == _EACH * len(REAL)
    alice.api.apply(workloads.pod("surplus", workloads.pod_spec(gpus=1, where={})))
    assert "Insufficient" in workloads.wait_refused(alice.api, "surplus", "Unschedulable")["message"]
    for name in (*names, "surplus"):
        alice.api.delete("Pod", name, "default")
    for name in names:
        workloads.wait_pod_gone(alice.api, name)


def test_a_volume_is_on_the_node_of_its_pod_and_keeps_it_there(host: Api, alice: Tenant) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "16Mi"}}}
    metadata = {"name": "kept", "namespace": "default"}
    alice.api.apply({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec})

    def pod(where: Obj) -> Obj:
        body = workloads.pod_spec(where=where, volumes=[{"name": "kept", "persistentVolumeClaim": {"claimName": "kept"}}])
        body["containers"][0]["volumeMounts"] = [{"name": "kept", "mountPath": "/data"}]
        return workloads.pod("writer", body)

    alice.api.create(pod(on(SECOND)))
    workloads.wait_running(alice.api, "writer")
    commands.kubectl(alice.kubeconfig, "exec", "writer", "--", "sh", "-c", "echo stays > /data/file")
    volumes = [volume for volume in host.list("PersistentVolume") if volume["spec"]["claimRef"]["namespace"] == alice.work]
    paths = [Path(volume["spec"]["local"]["path"]) for volume in volumes]
    assert [path.parent for path in paths] == [machine.DATA / "nodes" / SECOND / "volumes"]
    assert (paths[0] / "file").read_text() == "stays\n"
    alice.api.delete("Pod", "writer", "default")
    workloads.wait_pod_gone(alice.api, "writer")
    alice.api.create(pod({}))
    assert workloads.wait_running(alice.api, "writer")["spec"]["nodeName"] == SECOND
    assert commands.kubectl(alice.kubeconfig, "exec", "writer", "--", "cat", "/data/file").out == "stays\n"
    alice.api.delete("Pod", "writer", "default")
    alice.api.delete("PersistentVolumeClaim", "kept", "default")


def test_usage_of_every_node_is_known(host: Api) -> None:
    def known() -> None:
        path = "/apis/metrics.k8s.io/v1beta1/nodes"
        answer = host.request("GET", path)
        found = {item["metadata"]["name"] for item in answer["items"]} if isinstance(answer, dict) else set()
        workloads.expect(found >= set(REAL), f"only of {found}")

    until("usage of all nodes", known, seconds=60)


def test_every_node_pulls_from_the_registry_with_its_password_alone(host: Api) -> None:
    data = machine.DATA
    password = (data / "registry" / "password").read_text().strip()
    ctr = (commands.tool("containerd", "ctr"), "-a", "/run/bulkhead/containerd/containerd.sock", "-n", "k8s.io", "images")
    commands.run([*ctr, "import", str(_own_image())])
    login = ("--local", "--user", f"{registry.USER}:{password}", "--tlscacert", str(data / "pki" / "registry-ca.crt"))
    commands.run([*ctr, "push", *login, _REFERENCE])
    commands.run([*ctr, "rm", _REFERENCE])
    space = "e2e-nodes-pull"
    host.delete("Namespace", space)
    until("the namespace to be gone", lambda: workloads.expect(not host.find("Namespace", space), "there"), seconds=60)
    tenants.make_namespace(host, space)
    config = {".dockerconfigjson": (data / "registry" / "config.json").read_text()}
    secret = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson", "stringData": config}
    host.create(secret | {"metadata": {"name": "pull", "namespace": space}})
    visitor, *pods = [
        _pulling(f"pull-{number}", space, node, **secrets)
        for number, (node, secrets) in enumerate(
            [(SECOND, {}), *((node, {"imagePullSecrets": [{"name": "pull"}]}) for node in REAL)]
        )
    ]
    for pod in (visitor, *pods):
        host.create(pod)
    for pod in pods:
        workloads.wait_running(host, pod["metadata"]["name"], namespace=space)

    def refused() -> None:
        said = workloads.describe(host.get("Pod", visitor["metadata"]["name"], space))
        workloads.expect("ErrImagePull" in said or "ImagePullBackOff" in said, said)

    until("the pull without a password to be refused", refused, seconds=30)
    host.create(workloads.pod("imported", workloads.pod_spec(where=on(FIRST)), namespace=space))
    workloads.wait_running(host, "imported", namespace=space)
    host.delete("Namespace", space)


def _own_image() -> Path:
    """Busybox with an ID of its own.

    A kubelet remembers by ID the images that it pulled with a password. With the ID of the imported busybox, it would require a
    password from every pod that runs busybox.
    """
    shop = build.Workshop(binaries.cache_dir() / "images", binaries.ensure, build.PROJECT)
    busybox = build.busybox(shop)
    return build.image_file(shop, replace(busybox, name=_REFERENCE, environment={**busybox.environment, "PULLED": "here"}))


def _pulling(name: str, namespace: str, node: str, **more: object) -> Obj:
    spec = workloads.pod_spec(where=on(node), **more)  # type: ignore[arg-type]
    spec["containers"][0] |= {"image": _REFERENCE, "imagePullPolicy": "Always"}
    return workloads.pod(name, spec, namespace=namespace)
