"""`bulkhead doctor` against a real API server with the chart that helm installed; each thing is broken by hand and named.

No pod runs here, so the controller's own checks fail throughout; the rest is healthy before anything is broken. Costs a minute.
"""

import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from tests.kit.commandline import Outcome, finish, start
from tests.kit.crds import served
from tests.kit.helmchart import CHART, helm
from tests.kit.kubeconfigs import to_yaml
from tests.kit.servers import ApiServer, running

pytestmark = [pytest.mark.apiserver, pytest.mark.commands]
NAMESPACE = "bulkhead-system"
POLICIES, BINDINGS = kinds.VALIDATING_ADMISSION_POLICIES, kinds.VALIDATING_ADMISSION_POLICY_BINDINGS
# What an API server without kubelets and controllers cannot have.
NO_PODS = {"running.pods", "running.leads"}
WEAKENED, WARNED = "bulkhead-syncer-pods", "bulkhead-syncer-services"
READER = "of-a-reader"


@dataclass(frozen=True, slots=True)
class Host:
    """A host with the chart, as its admin sees it."""

    client: Client
    config: Path

    def helm(self, *arguments: str) -> None:
        """Run helm on it."""
        helm(*arguments, "--namespace", NAMESPACE, "--kubeconfig", str(self.config))

    async def doctor(self, *arguments: str, config: Path | None = None) -> Outcome:
        """The command's outcome."""
        return await finish(await start("doctor", "--kubeconfig", str(config or self.config), *arguments))

    async def checks(self, config: Path | None = None) -> dict[str, dict[str, Any]]:
        """The checks of its JSON, by name."""
        report = json.loads((await self.doctor("-o", "json", config=config)).out)
        assert report["apiVersion"] == "bulkhead.dev/doctor/v1"
        return {check["check"]: check for check in report["checks"]}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with running("doctor", tmp_path_factory.mktemp("doctor")) as made:
        yield made


@pytest.fixture
async def host(server: ApiServer, tmp_path: Path) -> AsyncIterator[Host]:
    """The chart as it is to be, whatever the test before made of it."""
    config = tmp_path / "kubeconfig"
    config.write_bytes(to_yaml(server.admin))
    async with Client(server.admin, user_agent="tests", field_manager="tests") as client:
        made = Host(client, config)
        made.helm("upgrade", "--install", "bulkhead", str(CHART), "--create-namespace", "--force-conflicts")
        await served(client, kinds.TENANTS)
        yield made


def states(checks: dict[str, dict[str, Any]], state: str) -> set[str]:
    return {name for name, check in checks.items() if check["state"] == state}


def words(check: dict[str, Any]) -> str:
    return " ".join((check["cause"], *check["details"]))


async def deletes_a_policy(host: Host) -> None:
    await host.client.delete(POLICIES, "bulkhead-in-use")


async def weakens_a_policy(host: Host) -> None:
    policy = await host.client.get(POLICIES, WEAKENED)
    policy["spec"]["validations"][0]["expression"] = "true"
    await host.client.replace(POLICIES, policy)


async def binds_with_a_warning(host: Host) -> None:
    binding = await host.client.get(BINDINGS, WARNED)
    binding["spec"]["validationActions"] = ["Warn"]
    await host.client.replace(BINDINGS, binding)


async def widens_a_role(host: Host) -> None:
    (name, *_) = sorted(obj["metadata"]["name"] for obj in await of_bulkhead(host, kinds.CLUSTER_ROLES))
    role = await host.client.get(kinds.CLUSTER_ROLES, name)
    role["rules"] = [*(role.get("rules") or []), {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
    await host.client.replace(kinds.CLUSTER_ROLES, role)


async def opens_a_network_policy(host: Host) -> None:
    policy = await host.client.get(kinds.NETWORK_POLICIES, "bulkhead-controller", NAMESPACE)
    policy["spec"]["ingress"] = [{}]
    await host.client.replace(kinds.NETWORK_POLICIES, policy)


async def deletes_the_controller(host: Host) -> None:
    await host.client.delete(kinds.DEPLOYMENTS, "bulkhead-controller", NAMESPACE)


async def scales_the_controller_down(host: Host) -> None:
    await host.client.patch(kinds.DEPLOYMENTS, "bulkhead-controller", {"spec": {"replicas": 0}}, NAMESPACE)


async def leaves_an_old_lease(host: Host) -> None:
    spec = {"holderIdentity": "gone", "leaseDurationSeconds": 15, "renewTime": "2020-01-01T00:00:00.000000Z"}
    await host.client.apply(kinds.LEASES, {"metadata": {"name": "bulkhead-controller", "namespace": NAMESPACE}, "spec": spec})


async def adds_a_webhook(host: Host) -> None:
    hook = {
        "name": "all.example.org",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
    }
    await host.client.apply(kinds.VALIDATING_WEBHOOKS, {"metadata": {"name": "of-others"}, "webhooks": [hook]})


async def deletes_the_key(host: Host) -> None:
    await host.client.delete(kinds.SECRETS, "bulkhead-identity", NAMESPACE)


async def deletes_a_definition(host: Host) -> None:
    await host.client.delete(kinds.CUSTOM_RESOURCE_DEFINITIONS, "tenantsnapshots.bulkhead.dev")


async def of_bulkhead(host: Host, resource: Any) -> list[Obj]:
    return [obj for obj in (await host.client.list(resource)).items if obj["metadata"]["name"].startswith("bulkhead-")]


Break = Callable[[Host], Awaitable[None]]
BROKEN: list[tuple[Break, str, str, str]] = [
    (deletes_a_policy, "release.objects", "failed", "ValidatingAdmissionPolicy bulkhead-in-use"),
    (deletes_a_policy, "release.policies", "failed", "bulkhead-in-use is gone"),
    (weakens_a_policy, "release.policies", "failed", "spec.validations[0].expression is not what the chart wrote"),
    (binds_with_a_warning, "release.policies", "failed", f"{WARNED} is bound by nothing that denies"),
    (widens_a_role, "release.rights", "failed", "rules is not what the chart wrote"),
    (opens_a_network_policy, "release.rights", "failed", "bulkhead-controller: spec.ingress"),
    (scales_the_controller_down, "running.pods", "failed", "scaled to 0"),
    (leaves_an_old_lease, "running.leads", "failed", "has not renewed it since 2020-01-01"),
    (adds_a_webhook, "cluster.webhooks", "warning", "of-others"),
    (deletes_the_key, "identity.key", "failed", "bulkhead-identity is gone"),
    (deletes_a_definition, "definitions.versions", "failed", "tenantsnapshots.bulkhead.dev is"),
]


async def test_what_is_broken_by_hand_is_named_and_helm_repairs_it(host: Host) -> None:
    before = await host.checks()
    assert states(before, "failed") == NO_PODS
    assert before["release.version"]["state"] == "ok", before["release.version"]
    assert "could not be read" in before["tenants.certificates"]["cause"]

    for broken in dict.fromkeys(row[0] for row in BROKEN):
        await broken(host)
    checks = await host.checks()
    for broken, check, state, told in BROKEN:
        found = checks[check]
        assert (found["state"], told in words(found)) == (state, True), f"{broken.__name__}: {found}"
        assert found["cure"]
    healthy = {name for name, check in before.items() if check["state"] == "ok"} - {row[1] for row in BROKEN}
    assert healthy <= states(checks, "ok"), "what is not broken is not named"

    done = await host.doctor()
    assert done.code == 1
    rows = [line.split()[:2] for line in done.out.splitlines()[1:] if line[:1].isalpha() and "." in line.split()[0]]
    results = [result for _, result in rows]
    assert len(results) == len(checks)
    assert results == sorted(results, key=["FAILED", "warning", "skipped", "ok"].index)
    assert "  cure:  run `helm upgrade --force-conflicts`" in done.out

    # What the cures say; the definition is the controller's to bring back, and the webhook and the lease are not the chart's.
    await host.client.delete(BINDINGS, WARNED)
    host.helm("upgrade", "bulkhead", str(CHART), "--force-conflicts")
    await host.client.delete(kinds.VALIDATING_WEBHOOKS, "of-others")
    repaired = await host.checks()
    assert states(repaired, "failed") == NO_PODS | {"definitions.versions"}


async def test_credentials_that_may_only_read_tenants_learn_what_they_could_not_read(
    host: Host, server: ApiServer, tmp_path: Path
) -> None:
    config = tmp_path / "reader"
    config.write_bytes(to_yaml(server.config_for(READER)))
    rules = [{"apiGroups": ["bulkhead.dev"], "resources": ["tenants"], "verbs": ["list"]}]
    await host.client.apply(kinds.CLUSTER_ROLES, {"metadata": {"name": READER}, "rules": rules})
    subject = {"kind": "User", "name": READER, "apiGroup": "rbac.authorization.k8s.io"}
    reference = {"kind": "ClusterRole", "name": READER, "apiGroup": "rbac.authorization.k8s.io"}
    await host.client.apply(
        kinds.CLUSTER_ROLE_BINDINGS, {"metadata": {"name": READER}, "subjects": [subject], "roleRef": reference}
    )
    checks = await host.checks(config)
    assert states(checks, "failed") == set()
    assert checks["tenants.ready"]["state"] == "ok"
    assert f'User "{READER}" cannot list resource "secrets"' in checks["release.version"]["cause"]
    assert all(
        "cannot" in check["cause"] or "no pod" in check["cause"] for check in checks.values() if check["state"] == "skipped"
    )


async def test_no_content_of_a_secret_but_helms_is_read(host: Host) -> None:
    canary = base64.b64encode(b"canary-of-the-key").decode()
    await host.client.patch(kinds.SECRETS, "bulkhead-identity", {"data": {"key": canary}}, NAMESPACE)
    done = await host.doctor("-o", "yaml")
    assert canary not in done.out + done.err
    assert "canary" not in done.out + done.err
