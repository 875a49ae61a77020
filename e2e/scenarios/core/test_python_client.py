"""Programs that tenants use, the official Python client and kopf, against a plane, with the kubeconfig and its plugin."""

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from kubernetes import client, config, dynamic, watch
from kubernetes.dynamic import exceptions
from kubernetes.leaderelection import electionconfig, leaderelection
from kubernetes.leaderelection.resourcelock.leaselock import LeaseLock
from kubernetes.stream import portforward, stream

import bulkhead
from e2e import commands, machine, tenants, workloads
from e2e.api import Api
from e2e.poll import until
from e2e.tenants import Tenant

EXAMPLES = Path("examples/python").resolve()
IMAGE = f"docker.io/bulkhead/bulkhead:{bulkhead.__version__}"  # it contains kopf, and the host has it
REPORTS = ("example.org", "v1", "default", "gpureports")
WEB = "web"
PORT = 8080


@pytest.fixture(scope="module")
def kubeconfig(alice: Tenant, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The kubeconfig from `bulkhead kubeconfig`: no certificate, and the plugin that fetches one."""
    path = tmp_path_factory.mktemp("python") / "alice.yaml"
    commands.bulkhead("kubeconfig", alice.name, "-o", str(path), kubeconfig=machine.KUBECONFIG)
    document = yaml.safe_load(path.read_text())
    assert list(document["users"][0]["user"]) == ["exec"]
    # A cache of its own: the machine's cache may know a former tenant of this name.
    document["users"][0]["user"]["exec"]["env"] = [{"name": "XDG_CACHE_HOME", "value": str(path.parent / "cache")}]
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.fixture(scope="module")
def made(kubeconfig: Path) -> client.ApiClient:
    return config.new_client_from_config(str(kubeconfig))


@pytest.fixture(scope="module")
def core(made: client.ApiClient) -> client.CoreV1Api:
    return client.CoreV1Api(made)


@pytest.fixture(scope="module")
def there(alice: Tenant) -> Iterator[str]:
    """A namespace for the whole file, with a web server in it."""
    name = f"python-{uuid.uuid4().hex[:8]}"
    tenants.make_namespace(alice.api, name)
    serve = (
        "sh",
        "-c",
        f"echo begun; mkdir -p /tmp/www; echo hello >/tmp/www/index.html; exec httpd -f -vv -p {PORT} -h /tmp/www",
    )
    alice.api.create(workloads.pod(WEB, workloads.pod_spec(serve, ports=[PORT]), namespace=name))
    workloads.wait_running(alice.api, WEB, namespace=name)
    yield name
    alice.api.delete("Namespace", name)


def note(name: str, **data: str) -> client.V1ConfigMap:
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name, labels={"app": "note"}), data=data)


def test_lists_come_in_pages_with_typed_objects(core: client.CoreV1Api, there: str) -> None:
    for name in ("one", "two", "three"):
        core.create_namespaced_config_map(there, note(f"page-{name}"))
    names, more = [], ""
    while True:
        page = core.list_namespaced_config_map(there, label_selector="app=note", limit=2, _continue=more)
        assert len(page.items) <= 2
        names += [item.metadata.name for item in page.items]
        if not (more := page.metadata._continue):  # noqa: SLF001 - the client's name for `continue`
            break
    assert names == ["page-one", "page-three", "page-two"]
    (pod,) = core.list_namespaced_pod(there, field_selector="status.phase=Running").items
    assert (pod.metadata.name, pod.spec.node_name) == (WEB, machine.NODE)
    with pytest.raises(client.ApiException) as refused:
        core.read_namespaced_pod("nobody", there)
    assert refused.value.status == 404


def test_a_watch_goes_on_where_the_list_ended(core: client.CoreV1Api, there: str) -> None:
    since = core.list_namespaced_config_map(there).metadata.resource_version
    core.create_namespaced_config_map(there, note("watched", state="made"))
    core.patch_namespaced_config_map("watched", there, {"data": {"state": "changed"}})
    core.delete_namespaced_config_map("watched", there)
    begun, seen, beside = time.monotonic(), [], ""
    for event in watch.Watch().stream(
        core.list_namespaced_config_map,
        there,
        resource_version=since,
        field_selector="metadata.name=watched",
        allow_watch_bookmarks=True,
        timeout_seconds=6,
    ):
        seen.append(event)
        if event["type"] == "DELETED":  # outside the watch's selector: only a bookmark shows that time went on
            beside = core.create_namespaced_config_map(there, note("beside")).metadata.resource_version
    assert 5 <= time.monotonic() - begun < 20, "the server ends the watch when it was told to"
    changes = [(event["type"], event["object"].data["state"]) for event in seen if event["type"] != "BOOKMARK"]
    assert changes == [("ADDED", "made"), ("MODIFIED", "changed"), ("DELETED", "changed")]
    marks = [event["object"]["metadata"]["resourceVersion"] for event in seen if event["type"] == "BOOKMARK"]
    assert marks, "a bookmark comes shortly before the end"
    assert int(marks[-1]) >= int(beside) > int(since)


def test_a_watch_gives_the_list_too_where_asked(core: client.CoreV1Api, there: str) -> None:
    """A streaming list: the existing objects, then a bookmark that marks their end."""
    watching = watch.Watch()
    wanted = {"send_initial_events": True, "resource_version_match": "NotOlderThan", "allow_watch_bookmarks": True}
    names = []
    for event in watching.stream(core.list_namespaced_pod, there, timeout_seconds=30, **wanted):
        if event["type"] == "BOOKMARK":
            assert event["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
            break
        names.append(event["object"].metadata.name)
    watching.stop()
    assert names == [WEB]


def test_exec_speaks_both_ways_and_returns_the_exit_code(kubeconfig: Path, there: str) -> None:
    core = client.CoreV1Api(config.new_client_from_config(str(kubeconfig)))  # `stream` changes its client while it is in use
    command = ["sh", "-c", "read word; echo heard $word; echo aside >&2; exit 3"]
    channels = dict.fromkeys(("stdin", "stdout", "stderr"), True)
    spoken = stream(
        core.connect_get_namespaced_pod_exec, WEB, there, command=command, tty=False, _preload_content=False, **channels
    )
    spoken.write_stdin("bulkhead\n")
    spoken.run_forever(timeout=30)
    assert spoken.read_stdout() == "heard bulkhead\n"
    assert spoken.read_stderr() == "aside\n"
    assert spoken.returncode == 3


def test_a_forwarded_port_reaches_the_pod_and_its_logs_tell_so(core: client.CoreV1Api, kubeconfig: Path, there: str) -> None:
    forwarding = client.CoreV1Api(config.new_client_from_config(str(kubeconfig)))
    ports = portforward(forwarding.connect_get_namespaced_pod_portforward, WEB, there, ports=str(PORT))
    asking = http.client.HTTPConnection("forwarded", PORT, timeout=20)
    asking.sock = ports.socket(PORT)
    asking.request("GET", "/index.html", headers={"Connection": "close"})
    answer = asking.getresponse()
    assert (answer.status, answer.read()) == (200, b"hello\n")
    assert ports.error(PORT) is None

    assert core.read_namespaced_pod_log(WEB, there, limit_bytes=6) == "begun\n"
    watching = watch.Watch()
    for line in watching.stream(core.read_namespaced_pod_log, WEB, there, follow=True, _request_timeout=30):
        if "url:/index.html" in line:
            break
    watching.stop()


def test_server_side_apply_says_who_else_owns_a_field(made: client.ApiClient, there: str, tmp_path: Path) -> None:
    speaking = dynamic.DynamicClient(made, cache_file=str(tmp_path / "discovered"))
    maps = speaking.resources.get(api_version="v1", kind="ConfigMap")
    body: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied", "namespace": there}}
    for owner, data in (("first", {"a": "1", "b": "1"}), ("second", {"c": "2"})):
        maps.server_side_apply(body=body | {"data": data}, field_manager=owner)
    maps.server_side_apply(body=body | {"data": {"a": "3"}}, field_manager="first")
    assert maps.get("applied", there).data.to_dict() == {"a": "3", "c": "2"}
    with pytest.raises(exceptions.ConflictError, match="first"):
        maps.server_side_apply(body=body | {"data": {"a": "4", "c": "2"}}, field_manager="second")
    maps.server_side_apply(body=body | {"data": {"a": "4", "c": "2"}}, field_manager="second", force_conflicts=True)
    assert maps.get("applied", there).data.to_dict() == {"a": "4", "c": "2"}


def test_a_certificate_that_is_refused_is_replaced_when_the_kubeconfig_is_loaded_again(
    core: client.CoreV1Api, kubeconfig: Path, there: str
) -> None:
    """The plugin caches its certificate; it learns that the certificate is refused when kubectl calls it again."""
    assert core.list_namespaced_pod(there).items
    (kept,) = (kubeconfig.parent / "cache").rglob("certificate-*.json")
    certificate, key = stranger()
    kept.write_text(json.dumps(json.loads(kept.read_text()) | {"certificate": certificate, "key": key, "given": None}))
    with pytest.raises(client.ApiException) as refused:
        client.CoreV1Api(config.new_client_from_config(str(kubeconfig))).list_namespaced_pod(there)
    assert refused.value.status == 401
    assert client.CoreV1Api(config.new_client_from_config(str(kubeconfig))).list_namespaced_pod(there).items
    assert json.loads(kept.read_text())["certificate"] != certificate


def stranger() -> tuple[str, str]:
    """A certificate that no plane trusts, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "stranger")])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(1)
    signed = (
        made.not_valid_before(now - timedelta(hours=1)).not_valid_after(now + timedelta(hours=1)).sign(key, hashes.SHA256())
    )
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return signed.public_bytes(serialization.Encoding.PEM).decode(), private.decode()


class Candidate:
    """A candidate for the lease, in a thread of its own, until it is told to end."""

    def __init__(self, name: str, api: client.CoordinationV1Api, namespace: str) -> None:
        self.leads, self.ends, self.over = threading.Event(), threading.Event(), threading.Event()
        lock = LeaseLock("leader", namespace, name)
        lock.api_instance = api  # otherwise it would use the client's default
        self._election = leaderelection.LeaderElection(
            electionconfig.Config(
                lock,
                lease_duration=6,
                renew_deadline=5,
                retry_period=1,
                onstarted_leading=self._lead,
                onstopped_leading=self.over.set,
            )
        )
        threading.Thread(target=self._election.run, daemon=True).start()

    def _lead(self) -> None:
        self.leads.set()
        self.ends.wait()
        raise RuntimeError("the work is over: the lease is renewed no more")


def test_one_leads_and_the_next_when_it_ends(made: client.ApiClient, there: str) -> None:
    api = client.CoordinationV1Api(made)
    first = Candidate("first", api, there)
    assert first.leads.wait(60)
    second = Candidate("second", api, there)
    assert not second.leads.wait(8), "the first renews its lease, which is shorter than this"
    assert api.read_namespaced_lease("leader", there).spec.holder_identity == "first"
    first.ends.set()
    assert first.over.wait(60)
    assert second.leads.wait(60)
    assert api.read_namespaced_lease("leader", there).spec.holder_identity == "second"
    second.ends.set()
    assert second.over.wait(60)


def program(kubeconfig: Path, *words: str) -> subprocess.Popen[str]:
    """A program that users copy, in a process of its own."""
    return subprocess.Popen(
        [sys.executable, *words],
        cwd=EXAMPLES,
        env={**os.environ, "KUBECONFIG": str(kubeconfig)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_the_example_tells_of_pods_that_come_and_go(alice: Tenant, kubeconfig: Path, there: str) -> None:
    watching = program(kubeconfig, "list_and_watch_pods.py", "--namespace", there, "--seconds", "8")
    try:
        assert watching.stdout is not None
        assert watching.stdout.readline().split()[:4] == ["IS", "THERE", WEB, "Running"]
        alice.api.create(workloads.pod("passing", namespace=there))
        alice.api.delete("Pod", "passing", there, grace=0)
        said, _ = watching.communicate(timeout=40)
    finally:
        watching.kill()
    events = [line.split()[0] for line in said.splitlines() if "passing" in line]
    assert (events[0], events[-1]) == ("ADDED", "DELETED"), said
    assert watching.returncode == 0, said


def test_the_example_runs_a_gpu_pod_and_streams_its_logs(alice: Tenant, kubeconfig: Path, there: str) -> None:
    words = ["run_gpu_pod.py", "--namespace", there, "--image", workloads.BUSYBOX, "--seconds", "60"]
    running = program(kubeconfig, *words, "--", "sh", "-c", "ls /dev/nvidia[0-9]*; sleep 1; echo done; exit 5")
    try:
        said, _ = running.communicate(timeout=90)
    finally:
        running.kill()
    lines = said.splitlines()
    assert lines[-1] == "done", said
    assert lines[-2].startswith("/dev/nvidia"), said
    assert running.returncode == 5
    workloads_left = [pod["metadata"]["name"] for pod in alice.api.list("Pod", there)]
    assert not [name for name in workloads_left if name.startswith("gpu-") and _stays(alice.api, name, there)]


def _stays(api: Api, name: str, namespace: str) -> bool:
    pod = api.find("Pod", name, namespace)
    return pod is not None and "deletionTimestamp" not in pod["metadata"]


@pytest.fixture(scope="module")
def definition(alice: Tenant) -> Iterator[None]:
    """The CRD of the example, and the RBAC rules of its operator."""
    documents = [*yaml.safe_load_all((EXAMPLES / "gpureports.yaml").read_text())]
    for document in documents:
        alice.api.apply(document)
    commands.kubectl(alice.kubeconfig, "wait", "--for=condition=Established", "crd/gpureports.example.org", "--timeout=30s")
    yield
    for document in reversed(documents):
        meta = document["metadata"]
        alice.api.delete(document["kind"], meta["name"], meta.get("namespace"))


def drive(made: client.ApiClient, name: str) -> None:
    """An operator counts a report's pods, follows its change, and releases it."""
    objects, core = client.CustomObjectsApi(made), client.CoreV1Api(made)
    body: dict[str, Any] = {"apiVersion": "example.org/v1", "kind": "GpuReport", "metadata": {"name": name}, "spec": {}}
    objects.create_namespaced_custom_object(*REPORTS, body)

    def status(phase: str) -> dict[str, Any]:
        found: dict[str, Any] = objects.get_namespaced_custom_object(*REPORTS, name).get("status", {})
        workloads.expect(found.get("phase") == phase, f"status of {name}: {found}")
        return found

    counted = until("the report to be counted", lambda: status("Running"), seconds=40)
    assert counted["gpus"] == 0 <= counted["pods"]
    objects.patch_namespaced_custom_object(*REPORTS, name, {"spec": {"phase": "Failed"}})
    until("the change to be taken", lambda: status("Failed"), seconds=30)
    objects.delete_namespaced_custom_object(*REPORTS, name)

    def reasons() -> None:
        events = core.list_namespaced_event("default", field_selector=f"involvedObject.name={name}").items
        told = {event.reason for event in events}
        workloads.expect(told >= {"ReportCreated", "ReportUpdated", "ReportDeleted"}, f"events of {name}: {told}")
        left = objects.list_namespaced_custom_object(*REPORTS)["items"]
        workloads.expect(not [item for item in left if item["metadata"]["name"] == name], f"{name} is still there")

    until("the operator to have told of all, and to have let the report go", reasons, seconds=30)


@pytest.mark.usefixtures("definition")
def test_an_operator_outside_reacts_to_objects_of_its_own_definition(made: client.ApiClient, kubeconfig: Path) -> None:
    operator = program(kubeconfig, "-m", "kopf", "run", "gpu_report_operator.py", "--namespace", "default", "--standalone")
    try:
        drive(made, "from-outside")
    finally:
        said = end(operator)
    assert operator.returncode == 0, said
    assert "Traceback" not in said, said


def end(process: subprocess.Popen[str]) -> str:
    process.send_signal(signal.SIGTERM)
    try:
        said, _ = process.communicate(timeout=20)
    except subprocess.TimeoutExpired:
        process.kill()
        said, _ = process.communicate()
    return said


@pytest.mark.usefixtures("definition")
def test_an_operator_in_a_pod_of_the_tenant_does_the_same(alice: Tenant, made: client.ApiClient) -> None:
    source = {"gpu_report_operator.py": (EXAMPLES / "gpu_report_operator.py").read_text()}
    meta = {"name": "gpu-report-operator", "namespace": "default"}
    alice.api.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": source})
    alice.api.create(operator_pod(meta["name"]))
    try:
        workloads.wait_running(alice.api, meta["name"])
        drive(made, "from-inside")
        said = client.CoreV1Api(made).read_namespaced_pod_log(meta["name"], "default")
        assert not [word for word in ("Traceback", "Forbidden") if word in said], said
    finally:
        alice.api.delete("Pod", meta["name"], "default", grace=0)
        alice.api.delete("ConfigMap", meta["name"], "default")


def operator_pod(name: str) -> dict[str, Any]:
    """The pod of the examples' README, with an image that the host has."""
    command: Sequence[str] = (
        "python3",
        "-m",
        "kopf",
        "run",
        f"/operator/{name.replace('-', '_')}.py",
        "--namespace",
        "default",
    )
    spec = workloads.pod_spec(
        command, serviceAccountName="gpu-report", volumes=[{"name": "operator", "configMap": {"name": name}}]
    )
    spec["containers"][0] |= {
        "image": IMAGE,
        "env": [{"name": "POD_ID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "volumeMounts": [{"name": "operator", "mountPath": "/operator"}],
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "192Mi"}},
    }
    return workloads.pod(name, spec)
