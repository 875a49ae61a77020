"""`bulkhead tenant …` against a real API server."""

import asyncio
import json
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from bulkhead.api import names
from bulkhead.api.conditions import ConditionType, Reason
from bulkhead.api.labels import CONFIRM
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import ApiError, NotFound
from bulkhead.kube.kubeconfig import KubeConfig
from tests.kit.commandline import Cli, Controller, finish, reads, start
from tests.kit.syncerbed import until
from workstation.cli.arguments import Host, Wait
from workstation.cli.failures import CliError
from workstation.cli.tenant.create import CreateRequest, _asked
from workstation.cli.tenant.delete import kept_for
from workstation.cli.tenant.description import unlimited
from workstation.cli.tenant.listing import gpus_in_words

pytestmark = pytest.mark.commands

GPU = "nvidia.com/gpu"


async def test_create_sends_what_the_options_say(cli: Cli, host_client: Client, name: str) -> None:
    done = await cli(
        "tenant", "create", name, "--class", "standard", "--gpus", "8", "--admin", "alice", "--admin", "group:ml", "--no-wait"
    )
    assert (done.code, done.out) == (0, f"tenant {name} created\n")
    spec = (await host_client.get(kinds.TENANTS, name))["spec"]
    assert spec["class"] == "standard"
    assert spec["quota"]["resources"] == {GPU: {"nominal": 8}}
    assert spec["access"]["admins"] == [{"kind": "User", "name": "alice"}, {"kind": "Group", "name": "ml"}]


async def test_create_accepts_quantities_and_refuses_other_texts(
    cli: Cli, host_client: Client, bounded: str, name: str
) -> None:
    done = await cli(
        "tenant", "create", name, "--class", bounded, "--gpus", "1k", "--quota", "memory=512Gi", "--quota", "cpu=0.5e3",
        "--no-wait",
    )  # fmt: skip
    assert done.code == 0, done.err
    resources = (await host_client.get(kinds.TENANTS, name))["spec"]["quota"]["resources"]
    assert resources == {GPU: {"nominal": 1000}, "memory": {"nominal": "512Gi"}, "cpu": {"nominal": "0.5e3"}}
    for wrong in (
        ("--gpus", "0.5"),
        ("--quota", "memory"),
        ("--quota", "=1"),
        ("--quota", "memory=much"),
        ("--quota", "cpu=-1"),
    ):
        done = await cli("tenant", "create", name, *wrong, "--no-wait")
        assert (done.code, wrong[1] in done.err) == (2, True)


def test_a_resource_without_a_limit_is_named() -> None:
    assert unlimited(["pods", "requests.nvidia.com/gpu"]) == ["cpu", "memory", "ephemeral-storage", "requests.storage"]
    assert unlimited(["requests.cpu", "limits.memory", "ephemeral-storage", "requests.storage"]) == []


async def test_options_lie_over_the_file(cli: Cli, host_client: Client, name: str, tmp_path: Path) -> None:
    path = tmp_path / "tenant.yaml"
    quota = {"cohort": "a", "resources": {GPU: {"nominal": 1, "borrowingLimit": 2}}}
    body = {"apiVersion": names.API_VERSION, "kind": "Tenant", "metadata": {"name": name, "labels": {"team": "x"}}}
    path.write_text(yaml.safe_dump(body | {"spec": {"class": "standard", "quota": quota}}))
    done = await cli("tenant", "create", "-f", str(path), "--gpus", "4", "--no-wait")
    assert done.code == 0, done.err
    made = await host_client.get(kinds.TENANTS, name)
    assert made["metadata"]["labels"] == {"team": "x"}
    assert made["spec"]["quota"]["resources"][GPU] == {"nominal": 4, "borrowingLimit": 2}


async def test_create_waits_and_shows_what_for(
    cli: Cli, controller: Controller, host_client: Client, host_file: Path, name: str
) -> None:
    process = await start("tenant", "create", name, "--class", "standard", environment={"KUBECONFIG": str(host_file)})
    await controller.exists(name)
    await controller.plane(name)
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "plane-0", "namespace": names.plane_namespace(name)}}
    await host_client.create(kinds.PODS, pod | {"spec": {"containers": [{"name": "etcd", "image": "x"}]}})
    waiting = {"name": "etcd", "ready": False, "restartCount": 3, "image": "x", "imageID": ""}
    waiting["state"] = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
    await host_client.patch(
        kinds.PODS, "plane-0", {"status": {"containerStatuses": [waiting]}}, names.plane_namespace(name), subresource="status"
    )
    waits = ("False", Reason.WAITING_FOR_PLANE, "etcd is starting")
    await controller.says(name, {ConditionType.PLANE_READY: waits, ConditionType.READY: waits})
    pulls = "pod plane-0, container etcd: ImagePullBackOff: no such image"
    said = await reads(process, "PlaneReady: WaitingForPlane: etcd is starting", pulls)
    await controller.say(name, "True", Reason.READY, "fine", endpoint="https://10.112.0.1:443")
    done = await finish(process)
    assert done.code == 0, done.err
    assert "tenant " + name + " is ready at https://10.112.0.1:443" in done.out
    assert (said + done.err).count(pulls) == 1


async def test_create_gives_up_at_its_deadline_with_the_cause(cli: Cli, name: str) -> None:
    done = await cli("tenant", "create", name, "--class", "standard", "--timeout", "1s")
    assert done.code == 4
    assert f"error: tenant {name}: not ready after 1 s: the controller has not reconciled it yet" in done.err
    assert f"bulkhead tenant describe {name}" in done.err


async def test_create_stops_where_waiting_is_hopeless(cli: Cli, controller: Controller, name: str) -> None:
    running = asyncio.create_task(cli("tenant", "create", name, "--class", "standard", "--timeout", "5m"))
    await controller.exists(name)
    await controller.say(name, "False", Reason.UNKNOWN_CLASS, "no TenantClass is named 'standard'")
    done = await running
    assert done.code == 1
    assert "UnknownClass: no TenantClass is named 'standard'" in done.err


async def test_the_name_of_a_tenant_that_is_being_deleted_is_not_free_yet(cli: Cli, host_client: Client, name: str) -> None:
    meta = {"metadata": {"name": name, "finalizers": ["tests.example.org/stays"]}}
    await host_client.apply(kinds.TENANTS, meta | {"spec": {"class": "standard"}})
    await host_client.delete(kinds.TENANTS, name)
    done = await cli("tenant", "create", name, "--class", "standard")
    assert (done.code, "the former one is still being deleted" in done.err) == (1, True), done.err
    assert f"bulkhead tenant delete {name} --yes" in done.err
    await host_client.patch(kinds.TENANTS, name, {"metadata": {"finalizers": None}})


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        (["--class", "nope"], "not created: no TenantClass is named 'nope'; available: "),
        (["--class", "../tenants"], "no TenantClass is named '../tenants'"),
        (["--gpus", "100000"], "not created: nvidia.com/gpu: 100000 is more than the 1000 that class bounded-"),
        (["--quota", "memory=2Ti"], "memory: 2Ti is more than the 1Ti that class bounded-"),
    ],
)
async def test_create_leaves_no_tenant_that_its_class_refuses(
    cli: Cli, bounded: str, name: str, options: list[str], refusal: str
) -> None:
    done = await cli("tenant", "create", name, "--class", bounded, *options)
    assert (done.code, done.out) == (3 if "--class" in options else 1, "")
    assert refusal in done.err
    assert (await cli("tenant", "describe", name)).code == 3


async def test_an_interrupted_create_says_what_goes_on(cli: Cli, controller: Controller, host_file: Path, name: str) -> None:
    process = await start("tenant", "create", name, "--class", "standard", environment={"KUBECONFIG": str(host_file)})
    await controller.exists(name)
    assert process.stderr is not None
    await asyncio.wait_for(process.stderr.readline(), 180)
    process.send_signal(signal.SIGINT)
    done = await finish(process)
    assert done.code == 130
    assert f"if tenant {name} was created already, the controller goes on with it" in done.err


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["Red"], 2, "must be lower-case letters"),
        (["a" * 253], 2, "253 characters, at most 40"),
        (["kube-system"], 2, "reserved"),
        (["red-work"], 2, "must not end in '-work'"),
        ([], 2, "the tenant has no name"),
        (["red", "-f", "/nonexistent/x.yaml"], 2, "cannot read /nonexistent/x.yaml"),
        (["red", "--gpus", "-1"], 2, "--gpus must be a number of GPUs, not '-1'"),
        (["red", "--gpus", "4", "--quota", "nvidia.com/gpu=5"], 2, "nvidia.com/gpu is given twice, as 4 and as 5"),
        (["red", "--timeout", "soon"], 2, "--timeout must be a duration"),
        (["red", "--class", "standard", "--admin", "group:system:masters"], 1, "belong to the platform"),
    ],
)
async def test_create_refuses_in_words(cli: Cli, arguments: list[str], code: int, text: str) -> None:
    done = await cli("tenant", "create", *arguments)
    assert (done.code, done.out) == (code, "")
    assert text in done.err


@pytest.mark.parametrize("content", ["[", "kind: Pod\n", "- kind: Tenant\n", "kind: Tenant\nspec: []\nmetadata: x\n", "\x00"])
async def test_a_file_without_a_tenant_is_a_usage_error(cli: Cli, tmp_path: Path, content: str) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(content)
    assert (await cli("tenant", "create", "-f", str(path))).code == 2


async def test_a_typing_error_in_a_field_is_refused(cli: Cli, name: str, tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(
        f"apiVersion: {names.API_VERSION}\nkind: Tenant\nmetadata: {{name: {name}}}\nspec: {{class: standard, qouta: {{}}}}\n"
    )
    done = await cli("tenant", "create", "-f", str(path), "--no-wait")
    assert done.code == 1
    assert 'unknown field "spec.qouta"' in done.err


async def test_creating_twice_is_an_error_with_a_next_step(cli: Cli, controller: Controller, name: str) -> None:
    await controller.tenant(name)
    done = await cli("tenant", "create", name, "--class", "standard")
    assert (done.code, "exists already" in done.err) == (1, True)


async def test_list_in_every_form(cli: Cli, controller: Controller, name: str) -> None:
    await controller.tenant(name, quota={"resources": {GPU: {"nominal": 8}}})
    await controller.say(
        name, "True", Reason.READY, "fine", gpus={"used": 3, "limit": 8, "summary": "3/8"}, versions={"kubernetes": "v1.36.3"}
    )
    rows = {line.split()[0]: line.split() for line in (await cli("tenant", "list")).out.splitlines()}
    assert rows["NAME"] == ["NAME", "READY", "MODE", "VERSION", "GPUS", "ENDPOINT", "AGE"]
    assert rows[name][:6] == [name, "True", "Kubernetes", "v1.36.3", "3/8", "-"]
    assert "standard" in (await cli("tenant", "list", "-o", "wide")).out
    as_json = json.loads((await cli("tenant", "list", "-o", "json")).out)
    as_yaml = yaml.safe_load((await cli("tenant", "list", "-o", "yaml")).out)
    assert name in {item["metadata"]["name"] for item in as_json["items"]} & {
        item["metadata"]["name"] for item in as_yaml["items"]
    }


async def test_describe_tells_conditions_and_the_pods_that_were_refused(
    cli: Cli, controller: Controller, plane_client: Client, namespace: str, name: str
) -> None:
    await controller.tenant(name)
    await controller.plane(name, plane_client.config)
    await controller.say(name, "True", Reason.READY, "fine \x1b[31mred")
    limits = {"limits": {GPU: "16"}, "requests": {GPU: "16"}}
    spec = {"containers": [{"name": "a", "image": "x", "resources": limits}]}
    await plane_client.create(kinds.PODS, {"metadata": {"name": "greedy", "namespace": namespace}, "spec": spec})
    refusal = {"type": "PodScheduled", "status": "False", "reason": "QuotaExceeded", "message": "16 asked, 8 of 8 used"}
    await plane_client.patch(kinds.PODS, "greedy", {"status": {"conditions": [refusal]}}, namespace, subresource="status")
    done = await cli("tenant", "describe", name)
    assert done.code == 0, done.err
    assert "\x1b" not in done.out
    refused = next(line for line in done.out.splitlines() if f"{namespace}/greedy" in line)
    assert refused.split()[1:3] == ["16", "QuotaExceeded"]
    assert "16 asked, 8 of 8 used" in refused


async def test_describe_says_that_the_plane_is_silent(
    cli: Cli, controller: Controller, plane_config: KubeConfig, name: str
) -> None:
    await controller.tenant(name)
    await controller.plane(name, replace(plane_config, server="https://127.0.0.1:1"))
    done = await cli("tenant", "describe", name)
    assert done.code == 0
    assert "unknown:" in done.out.split("may not run")[1]


async def test_describe_of_a_refused_tenant_waits_for_no_login(cli: Cli, controller: Controller, name: str) -> None:
    await controller.tenant(name)
    await controller.say(name, "False", Reason.OUT_OF_BOUNDS, "65 is more than the 64 that the class allows")
    done = await cli("tenant", "describe", name)
    assert done.code == 0
    assert "unknown: the tenant has no plane, because its spec is refused (OutOfBounds)" in done.out
    assert "GPUs:" in done.out


@pytest.mark.parametrize(
    ("gpus", "words"),
    [
        (None, "not counted yet (quota 4)"),
        ({"used": 3, "limit": 8}, "3 in use (quota 8)"),
        ({"used": 8, "limit": 4, "borrowed": 4}, "8 in use, 4 of them borrowed (quota 4)"),
        ({"used": 1, "limit": 4, "borrowed": 0, "lent": 2}, "1 in use (quota 4, 2 lent to others)"),
    ],
)
def test_gpus_in_words(gpus: dict[str, int] | None, words: str) -> None:
    tenant = {"spec": {"quota": {"resources": {GPU: {"nominal": 4}}}}, "status": {"gpus": gpus}}
    assert gpus_in_words(tenant) == words


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"quota": 5}, "quota"),
        ({"quota": {"resources": []}}, "resources"),
        ({"quota": {"resources": {GPU: 8}}}, GPU),
        ({"scheduling": "Slurm"}, "scheduling"),
        ({"access": [7]}, "access"),
        ({"access": {"admins": 7}}, "admins"),
        ({"access": {"admins": "alice"}}, "admins"),
    ],
)
def test_what_an_option_would_replace_in_a_file_without_a_word_is_refused(spec: dict[str, object], field: str) -> None:
    request = CreateRequest(Host(), "red", "red.yaml", None, "Slurm", {GPU: 4}, ("bob",), Wait())
    with pytest.raises(CliError, match=f"{field} in the file must be") as refused:
        _asked(request, {"spec": spec})
    assert refused.value.code == 2
    made = _asked(request, {"spec": {"quota": {"resources": {GPU: {"borrowing": 2}}}, "access": {"admins": [{"name": "eve"}]}}})
    assert made["spec"]["quota"]["resources"] == {GPU: {"borrowing": 2, "nominal": 4}}
    assert [admin["name"] for admin in made["spec"]["access"]["admins"]] == ["eve", "bob"]


@pytest.mark.parametrize(
    ("spec", "status", "kept"),
    [
        ({}, {"planeIdentity": "i"}, ""),
        ({}, {"planeIdentity": "i", "deletion": {"policy": "Delete", "confirm": True}}, ""),
        ({}, {"planeIdentity": "i", "deletion": {"policy": "Retain", "retainFor": "72h"}}, "72h"),
        ({"deletionPolicy": "Retain"}, {"planeIdentity": "i", "deletion": {"policy": "Retain", "retainFor": "24h"}}, "24h"),
        ({"deletionPolicy": "Retain"}, {"planeIdentity": "i"}, "some days"),
        ({"deletionPolicy": "Retain"}, {}, ""),
        ({}, {"planeIdentity": "i", "deletion": 7}, ""),
    ],
)
def test_a_plane_that_outlives_its_tenant_is_said_to(spec: dict[str, object], status: dict[str, object], kept: str) -> None:
    assert kept_for({"spec": spec, "status": status}) == kept


async def test_delete_asks_waits_and_is_done(cli: Cli, controller: Controller, host_client: Client, name: str) -> None:
    await controller.tenant(name)
    await host_client.patch(kinds.TENANTS, name, {"metadata": {"finalizers": [names.TEARDOWN_FINALIZER]}})
    assert (await cli("tenant", "delete", name)).code == 2
    late = await cli("tenant", "delete", name, "--yes", "--timeout", "1s")
    assert (late.code, "still there after 1 s" in late.err) == (4, True)
    running = asyncio.create_task(cli("tenant", "delete", name, "--yes"))
    await host_client.patch(kinds.TENANTS, name, {"metadata": {"finalizers": None}})
    done = await running
    assert done.code in {0, 3}  # deleted before the command read it is fine too
    assert (await cli("tenant", "delete", name, "--yes")).code == 3


async def test_delete_waits_while_the_host_has_not_learned_of_classes(
    cli: Cli, controller: Controller, host_client: Client, name: str
) -> None:
    """As for some seconds after an installation; here the kind does not come, and the policy goes."""
    await controller.tenant(name)
    policy = f"unlearned-{name}"
    meta = {"metadata": {"name": policy}}
    matched = {"apiGroups": ["bulkhead.dev"], "apiVersions": ["*"], "operations": ["DELETE"], "resources": ["tenants"]}
    rules = {"resourceRules": [matched], "objectSelector": {"matchLabels": {"learns": name}}}
    kind = {"apiVersion": "bulkhead.dev/v1alpha1", "kind": "NotThereYet"}
    spec = {"paramKind": kind, "matchConstraints": rules, "validations": [{"expression": "true"}], "failurePolicy": "Fail"}
    await host_client.create(kinds.VALIDATING_ADMISSION_POLICIES, meta | {"spec": spec})
    reference = {"selector": {}, "parameterNotFoundAction": "Allow"}
    bound = {"policyName": policy, "validationActions": ["Deny"], "paramRef": reference}
    await host_client.create(kinds.VALIDATING_ADMISSION_POLICY_BINDINGS, meta | {"spec": bound})
    await host_client.patch(kinds.TENANTS, name, {"metadata": {"labels": {"learns": name}}})

    async def refused() -> bool:
        try:
            await host_client.transport.request("DELETE", kinds.TENANTS.path(None, name), params={"dryRun": "All"})
        except ApiError as error:
            return "failed to find resource referenced by paramKind" in str(error)
        return False

    try:
        await until(refused, "the host to refuse")
        running = asyncio.create_task(cli("tenant", "delete", name, "--yes", "--no-wait"))
        await asyncio.sleep(2.0)
        assert not running.done()
    finally:
        await host_client.delete(kinds.VALIDATING_ADMISSION_POLICIES, policy)
        await host_client.delete(kinds.VALIDATING_ADMISSION_POLICY_BINDINGS, policy)
    done = await running
    assert done.code == 0, done.err
    with pytest.raises(NotFound):
        await host_client.get(kinds.TENANTS, name)


@pytest.mark.parametrize("asks", [True, False])
async def test_delete_confirms_where_the_class_asks_for_it(
    cli: Cli, controller: Controller, host_client: Client, name: str, bounded: str, *, asks: bool
) -> None:
    await controller.tenant(name)
    made = await host_client.get(kinds.TENANT_CLASSES, bounded)
    await host_client.replace(kinds.TENANT_CLASSES, made | {"spec": made["spec"] | {"deletion": {"confirm": asks}}})
    await host_client.patch(kinds.TENANTS, name, {"spec": {"class": bounded}})
    await host_client.patch(kinds.TENANTS, name, {"metadata": {"finalizers": [names.TEARDOWN_FINALIZER]}})
    assert (await cli("tenant", "delete", name)).code == 2
    before = (await host_client.get(kinds.TENANTS, name))["metadata"]
    assert CONFIRM not in (before.get("annotations") or {}), "nothing is confirmed until the name was typed"
    assert (await cli("tenant", "delete", name, "--yes", "--no-wait")).code == 0
    found = (await host_client.get(kinds.TENANTS, name))["metadata"]
    assert found["deletionTimestamp"]
    assert (found.get("annotations") or {}).get(CONFIRM) == (found["uid"] if asks else None)
    await host_client.patch(kinds.TENANTS, name, {"metadata": {"finalizers": None}})
