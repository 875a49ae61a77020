"""Images from a registry with a password: pulled in every namespace that needs them, unusable by tenants, failures reported."""

import json
import uuid
from collections.abc import Iterator

import pytest
import yaml

from e2e import names, tenants, workloads
from e2e.api import Api, Obj
from e2e.poll import NotYetError, until
from e2e.scenarios.registry.conftest import CREDENTIALS, PLACE, VALUES, install_chart, push, put_secret, wrong_password
from e2e.tenants import Tenant
from workstation.hostcluster import registry

OF_PLANES = ("bulkhead", "coredns", "etcd", "kubernetes")
SLURM = {"mode": "Slurm", "slurm": {"nodeSets": [{"name": "cpu", "replicas": 1}], "login": {"enabled": False}}}


@pytest.fixture
def newcomer(host: Api) -> Iterator[str]:
    """The name of a tenant that a test creates; what is left of it is removed."""
    name = f"e2e-{uuid.uuid4().hex[:8]}"
    yield name
    tenants.remove(host, name)


def digests() -> dict[str, str]:
    return dict(yaml.safe_load(VALUES.read_text())["images"]["digests"])


def condition(host: Api, name: str, *parts: str) -> str:
    """A condition of a tenant that is not True and has all of these in its message."""
    for kind, item in tenants.conditions(host.get("Tenant", name)).items():
        said = f"{kind} {item.get('reason')}: {item.get('message')}"
        if item["status"] != "True" and all(part in said for part in parts):
            return said
    raise NotYetError(tenants.explain(host.get("Tenant", name)))


def test_every_image_of_a_plane_is_the_one_that_was_pushed(host: Api, alice: Tenant) -> None:
    pods = host.list("Pod", alice.plane)
    images = {container["image"] for pod in pods for container in pod["spec"]["containers"]}
    wanted = {title: digest for title, digest in digests().items() if title.partition(":")[0] in OF_PLANES}
    assert images == {f"{PLACE}/{title}@{digest}" for title, digest in wanted.items()}
    assert {reference["name"] for pod in pods for reference in pod["spec"]["imagePullSecrets"]} == {names.PULL_SECRET}
    assert host.get("Secret", names.PULL_SECRET, alice.plane)


def test_a_tenant_neither_reads_nor_uses_what_the_host_pulls_with(host: Api, alice: Tenant) -> None:
    password = json.loads(CREDENTIALS.read_text())["auths"][registry.ADDRESS]["auth"]
    assert password not in json.dumps(alice.api.list("Secret"))
    assert not [secret for secret in host.list("Secret", alice.work) if secret["metadata"]["name"] == names.PULL_SECRET]
    image = next(f"{PLACE}/{title}" for title in digests() if title.startswith("mariadb:"))
    spec = {"containers": [{"name": "main", "image": image, "command": ["/bin/sh", "-c", "sleep 600"]}]}
    alice.api.create(workloads.pod("stolen", spec | {"imagePullSecrets": [{"name": names.PULL_SECRET}]}))
    # With the tenant's own credentials the same image is pulled: so only the password makes the difference.
    own = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "mine", "namespace": "default"}}
    given = {"type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": CREDENTIALS.read_text()}}
    alice.api.create(own | given)
    until("the image to be refused", lambda: _refused(alice.api, "stolen"), seconds=60)
    alice.api.create(workloads.pod("paid", spec | {"imagePullSecrets": [{"name": "mine"}]}))
    workloads.wait_running(alice.api, "paid")
    _refused(alice.api, "stolen")


def _refused(api: Api, name: str) -> None:
    pod = api.get("Pod", name, "default")
    waiting = [
        (container.get("state") or {}).get("waiting") or {}
        for container in pod.get("status", {}).get("containerStatuses") or []
    ]
    said = [item.get("reason") for item in waiting]
    workloads.expect(bool(said) and set(said) <= {"ErrImagePull", "ImagePullBackOff"}, f"{name}: {said}")


@pytest.mark.usefixtures("host")
def test_a_wrong_password_is_named_by_the_push_and_changes_no_values() -> None:
    before = VALUES.read_text()
    done = push("--no-build", "--username", registry.USER, "--password-stdin", given="not-the-password\n", check=False)
    assert done.code == 1
    assert f"refuses the user '{registry.USER}'" in done.text
    assert "not-the-password" not in done.text
    assert VALUES.read_text() == before


@pytest.mark.usefixtures("host")
def test_what_was_pushed_is_not_sent_again() -> None:
    rows = [line.split() for line in push("--auth-file", str(CREDENTIALS)).out.splitlines() if "sha256:" in line]
    assert len(rows) == len(digests())
    assert {row[2] for row in rows} == {"0"}


def test_a_wrong_password_of_the_cluster_is_said_at_the_tenant_and_what_ran_goes_on(
    host: Api, alice: Tenant, newcomer: str
) -> None:
    ran = _started(host, alice)
    put_secret(host, wrong_password())
    host.apply(tenants.manifest(newcomer, gpus=0, scheduling=SLURM))
    try:
        said = until("the tenant to say why", lambda: condition(host, newcomer, "Pull"), seconds=150)
        assert registry.ADDRESS in said
    finally:
        put_secret(host, CREDENTIALS.read_text())
    tenants.wait_ready(host, [newcomer], seconds=240)
    assert _started(host, alice) == ran


def test_a_digest_that_the_registry_lacks_is_said_at_the_tenant_and_what_ran_goes_on(
    host: Api, alice: Tenant, newcomer: str
) -> None:
    ran, nothing = _started(host, alice), "sha256:" + "0" * 64
    title = next(digest for digest in digests() if digest.startswith("slurm:"))
    install_chart("images.digests." + title.replace(".", r"\.") + f"={nothing}")
    try:
        host.apply(tenants.manifest(newcomer, gpus=0, scheduling=SLURM))
        until("the tenant to say why", lambda: condition(host, newcomer, "Slurm", "Pull"), seconds=150)
    finally:
        install_chart()
    until("the Slurm cluster", lambda: _slurm_ready(host, newcomer), seconds=240)
    assert _started(host, alice) == ran


def _slurm_ready(host: Api, name: str) -> None:
    tenant: Obj = host.get("Tenant", name)
    workloads.expect(tenants.conditions(tenant).get("SlurmReady", {}).get("status") == "True", tenants.explain(tenant))


def _started(host: Api, tenant: Tenant) -> dict[str, object]:
    """The pods of a plane with values that change if one restarts."""
    return {
        pod["metadata"]["uid"]: [container["restartCount"] for container in pod["status"]["containerStatuses"]]
        for pod in host.list("Pod", tenant.plane)
    }
