"""What the controller may not do on the host, tried with its identity; and that a hostile plane cannot harm the controller."""

import json
import socket

import bulkhead
from e2e import machine, names, tenants, workloads
from e2e.api import Api, Obj
from e2e.commands import kubectl
from e2e.fleet import Fleet
from e2e.poll import holds, until
from e2e.scenarios.core.shared import of_the_controller as ahead
from e2e.tenants import Tenant

CONTROLLER = f"system:serviceaccount:{names.SYSTEM_NAMESPACE}:bulkhead-controller"
IMAGE = f"docker.io/bulkhead/bulkhead:{bulkhead.__version__}"
RBAC = "rbac.authorization.k8s.io"
MOST_KIB = 320 * 1024

# A tenant's own API server that answers every write without an end. It does not touch reads: the plane's API server would read
# the answer until its memory is used up, and the plane would die.
ENDLESS = """
import datetime, ssl, socket, threading
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
key = ec.generate_private_key(ec.SECP256R1())
name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "x")])
now = datetime.datetime.now(datetime.UTC)
cert = (x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(1)
    .not_valid_before(now - datetime.timedelta(1)).not_valid_after(now + datetime.timedelta(1)).sign(key, hashes.SHA256()))
with open("/tmp/x.pem", "wb") as file:
    file.write(cert.public_bytes(serialization.Encoding.PEM))
    file.write(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("/tmp/x.pem")
def serve(connection):
    try:
        with context.wrap_socket(connection, server_side=True) as tls:
            kind = b"HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\nConnection: close\\r\\n"
            if not tls.recv(65536).startswith(b"PATCH"):
                tls.sendall(kind + b"Content-Length: 2\\r\\n\\r\\n{}")
                return
            tls.sendall(kind + b"\\r\\n")
            while True:
                tls.sendall(b" " * 65536)
    except OSError:
        pass
listener = socket.create_server(("", 8443))
print("serving", flush=True)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""


def as_controller(*arguments: str, given: Obj | None = None) -> tuple[bool, str]:
    """Whether the controller may, and the answer."""
    text = json.dumps(given) if given is not None else None
    done = kubectl(machine.KUBECONFIG, f"--as={CONTROLLER}", *arguments, check=False, given=text)
    return done.code == 0, done.text


def binding(tenant: str, role: str, place: str | None, name: str, subject: tuple[str, str]) -> Obj:
    kind = "RoleBinding" if place else "ClusterRoleBinding"
    marks = {"app.kubernetes.io/managed-by": "bulkhead", "bulkhead.dev/tenant": tenant}
    meta: Obj = {"name": name, "labels": marks} | ({"namespace": place} if place else {})
    account = {"kind": "ServiceAccount", "name": subject[1], "namespace": subject[0]}
    ref = {"apiGroup": RBAC, "kind": "ClusterRole", "name": role}
    return {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": meta, "roleRef": ref, "subjects": [account]}


def test_the_controller_reads_secrets_of_planes_and_no_others(alice: Tenant) -> None:
    assert as_controller("get", "secrets", "-n", alice.plane)[0], "the positive control"
    for place in (alice.work, "kube-system", "default", names.SYSTEM_NAMESPACE):
        allowed, answer = as_controller("get", "secrets", "-n", place)
        assert not allowed
        assert "cannot list resource" in answer
    allowed, answer = as_controller("get", "secrets", "-A")
    assert not allowed
    assert "cannot list resource" in answer
    assert as_controller("auth", "can-i", "list", "secrets", "-n", alice.plane) == (True, "yes")
    assert as_controller("auth", "can-i", "watch", "secrets", "-A") == (False, "no")


def test_the_controller_hands_out_no_right_but_syncers_to_syncers(alice: Tenant, bob: Tenant) -> None:
    syncer, itself = (alice.plane, "syncer"), (names.SYSTEM_NAMESPACE, "bulkhead-controller")
    create = ("create", "--dry-run=server", "-f", "-")
    allowed = as_controller(*create, given=binding(alice.name, "bulkhead-syncer-work", alice.work, "x", syncer))
    assert allowed[0], f"the positive control: {allowed[1]}"
    for refused in (
        binding(alice.name, "bulkhead-syncer-work", None, "bh-x", syncer),
        binding(alice.name, "bulkhead-syncer-work", None, f"{alice.plane}-syncer-nodes", syncer),
        binding(alice.name, "bulkhead-syncer-nodes", None, f"{alice.plane}-syncer-nodes", (bob.plane, "syncer")),
        binding(alice.name, "bulkhead-syncer-work", bob.work, "x", syncer),
        binding(alice.name, "bulkhead-syncer-work", alice.work, "x", (alice.work, "workload")),
        binding(alice.name, "bulkhead-controller-secrets", "kube-system", "x", itself),
        binding(alice.name, "bulkhead-controller-secrets", alice.work, "x", itself),
        binding(alice.name, "cluster-admin", alice.work, "x", syncer),
    ):
        allowed = as_controller(*create, given=refused)
        assert not allowed[0], refused
        assert "controller: " in allowed[1] or "attempting to grant" in allowed[1]


def test_the_controller_loosens_and_takes_no_namespace(alice: Tenant, bob: Tenant) -> None:
    enforce = "pod-security.kubernetes.io/enforce"
    assert as_controller("label", "--dry-run=server", "--overwrite", "ns", alice.work, f"{enforce}=restricted")[0]
    for place, label in (
        (alice.work, f"{enforce}=privileged"),
        (alice.work, f"{enforce}-"),
        (alice.work, f"{enforce}-version=v1.0"),
        (alice.plane, f"{enforce}=baseline"),
        (alice.work, f"bulkhead.dev/tenant={bob.name}"),
        ("kube-system", f"{enforce}=privileged"),
        ("default", "bulkhead.dev/tenant=default"),
    ):
        allowed, answer = as_controller("label", "--dry-run=server", "--overwrite", "ns", place, label)
        assert not allowed, f"{place} {label}"
        assert "controller: " in answer
    # Kubernetes itself protects kube-system and default; for every other namespace the policy refuses.
    for words in (
        ("delete", "--dry-run=server", "ns", names.SYSTEM_NAMESPACE),
        ("create", "--dry-run=server", "ns", "bh-nobodys"),
    ):
        allowed, answer = as_controller(*words)
        assert not allowed, words
        assert "controller: " in answer, answer
    assert not as_controller("delete", "--dry-run=server", "ns", "kube-system")[0]


def test_nothing_but_api_servers_is_reached_from_the_controllers_pod(host: Api) -> None:
    def reached(address: str, port: int) -> str:
        code = f"import socket; socket.create_connection(({address!r}, {port}), 3)"
        words = ("-n", names.SYSTEM_NAMESPACE, "exec", "deploy/bulkhead-controller", "--", "python3", "-c", code)
        done = kubectl(machine.KUBECONFIG, *words, check=False)
        return "" if done.code == 0 else done.text

    api = host.get("Service", "kubernetes", "default")["spec"]["clusterIP"]
    dns = host.get("Service", "kube-dns", "kube-system")["spec"]["clusterIP"]
    assert reached(api, 443) == "", "the positive control"
    assert "TimeoutError" in reached(dns, 53)
    with socket.create_connection((dns, 53), timeout=5):
        pass  # it answers the node, so it was the policy
    path = f"/api/v1/namespaces/{names.SYSTEM_NAMESPACE}/services/http:bulkhead-controller:http/proxy/metrics"
    assert "bulkhead_controller_leading" in host.text(path)


def restarts(host: Api) -> int:
    pods = host.list("Pod", names.SYSTEM_NAMESPACE, labels="app.kubernetes.io/component=controller")
    return sum(container["restartCount"] for pod in pods for container in pod["status"]["containerStatuses"])


def memory_kib(host: Api) -> int:
    pods = host.list("Pod", names.SYSTEM_NAMESPACE, labels="app.kubernetes.io/component=controller")
    uids = [pod["metadata"]["uid"] for pod in pods]
    return max(machine.rss_kib(item.pid) for uid in uids for item in machine.processes_of_pod(uid, "controller"))


def test_a_plane_that_answers_without_an_end_stops_itself_alone(host: Api, bob: Tenant, fleet: Fleet) -> None:
    hostile, _ = ahead(fleet)
    tenant, before = fleet.take(hostile), restarts(host)
    spec = workloads.pod_spec(("python3", "-c", ENDLESS), ports=[8443])
    spec["containers"][0] |= {"image": IMAGE, "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}]}  # noqa: S108 - its own
    spec["volumes"] = [{"name": "tmp", "emptyDir": {}}]
    spec["containers"][0]["resources"]["limits"]["memory"] = "128Mi"
    tenant.api.create(workloads.pod("endless", spec))
    tenant.api.create(workloads.service("endless", "endless", 8443))
    ready = "--for=condition=Ready"
    waited = kubectl(tenant.kubeconfig, "wait", ready, "pod/endless", "--timeout=60s", seconds=90, check=False)
    assert waited.code == 0, kubectl(tenant.kubeconfig, "logs", "endless", check=False).text
    path = f"/apis/apiregistration.k8s.io/v1/apiservices/v1.{RBAC}"
    own = {"namespace": "default", "name": "endless", "port": 8443}
    patch = {"spec": {"service": own, "insecureSkipTLSVerify": True}}
    kubectl(tenant.kubeconfig, "patch", "apiservice", f"v1.{RBAC}", "--type=merge", f"-p={json.dumps(patch)}")
    assert own.items() <= json.loads(tenant.api.text(path))["spec"]["service"].items()

    def available() -> None:
        said = json.loads(tenant.api.text(path)).get("status", {}).get("conditions") or []
        workloads.expect(any(item["type"] == "Available" and item["status"] == "True" for item in said), f"{said}")

    until("the plane to hand its answers on", available, seconds=90)
    # Another admin: the controller writes that into the plane now, and not in its next round, minutes later.
    host.patch("Tenant", tenant.name, {"spec": {"access": {"admins": [{"name": "another"}]}}})
    # Before the controller gives up reading an answer, one may have been refused.
    tenants.wait_condition(host, tenant.name, "PlaneReady", status="False", says="longer than", seconds=240)

    def well() -> None:
        workloads.expect(tenants.is_ready(host.get("Tenant", bob.name)), tenants.explain(host.get("Tenant", bob.name)))
        workloads.expect(restarts(host) == before, "the controller was restarted")
        workloads.expect(memory_kib(host) < MOST_KIB, f"the controller takes {memory_kib(host)} KiB")

    holds("the others and the controller to be well", well, seconds=15)
    bob.api.create(workloads.pod("beside-a-hostile-plane"))
    workloads.wait_running(bob.api, "beside-a-hostile-plane")
    until("a new tenant's first step", lambda: host.get("Tenant", tenant.name), seconds=10)
