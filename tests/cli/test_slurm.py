"""`bulkhead slurm` against two real API servers; the test plays the kubelet by writing status, and a script plays kubectl."""

import asyncio
import base64
import contextlib
import hashlib
import hmac
import json
import os
import pty
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bulkhead.api.slurmtoken import sign
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists
from bulkhead.kube.kubeconfig import KubeConfig
from tests.kit.commandline import Cli, Controller, start
from workstation.cli import slurm
from workstation.cli.failures import CliError
from workstation.cli.main import main

READY = {"type": "Ready", "status": "True"}
KUBECTL = """#!/bin/sh
printf '%s\\n' "$@"
echo "kubeconfig: $(wc -c < "$KUBECONFIG") bytes" >&2
cat
exit 7
"""


@dataclass(frozen=True, slots=True)
class Plane:
    """The namespace `slurm` of the tenant's plane."""

    client: Client

    async def pod(self, owner: str, ordinal: int, *conditions: dict[str, str], **status: Any) -> None:
        name = f"{owner}-{ordinal}"
        owned = [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": owner, "uid": "1", "controller": True}]
        spec = {"containers": [{"name": owner, "image": "x"}]}
        await self.client.create(kinds.PODS, {"metadata": {"name": name, "ownerReferences": owned}, "spec": spec}, "slurm")
        body = {"status": {"conditions": list(conditions)} | status}
        await self.client.patch(kinds.PODS, name, body, "slurm", subresource="status")

    async def clear(self) -> None:
        for kind in (kinds.PODS, kinds.SECRETS):
            for item in (await self.client.list(kind, "slurm")).items:
                await self.client.delete(kind, item["metadata"]["name"], "slurm", grace_seconds=0)


@pytest.fixture
async def plane(plane_client: Client) -> AsyncIterator[Plane]:
    with contextlib.suppress(AlreadyExists):  # a former test made it
        await plane_client.create(kinds.NAMESPACES, {"metadata": {"name": "slurm"}})
    found = Plane(plane_client)
    await found.clear()
    yield found
    await found.clear()


@pytest.fixture
def kubectl(tmp_path: Path) -> dict[str, str]:
    """A kubectl that prints what it was given."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "kubectl").write_text(KUBECTL)
    (folder / "kubectl").chmod(0o755)
    return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


@pytest.fixture
async def tenant(controller: Controller, plane: Plane, plane_config: KubeConfig, name: str) -> str:
    """A tenant with Slurm, whose plane answers."""
    assert plane
    await controller.tenant(name, scheduling={"mode": "Slurm"})
    await controller.plane(name, plane_config)
    return name


async def test_a_command_runs_on_the_login_pod_and_its_code_is_passed_on(
    cli: Cli, tenant: str, plane: Plane, kubectl: dict[str, str]
) -> None:
    await plane.pod("slurmctld", 0, READY)
    await plane.pod("login", 0, {"type": "Ready", "status": "False"})
    await plane.pod("login", 1, READY)
    done = await cli("slurm", tenant, "--user", "slurm", "--", "sacct", "-o", "JobID, State", **kubectl)
    assert done.code == 7
    asked = done.out.splitlines()
    assert asked[:9] == ["-n", "slurm", "exec", "--quiet", "-i", "login-1", "-c", "login", "--"]
    assert asked[9:] == "\n".join(slurm.inside("slurm", ["sacct", "-o", "JobID, State"])).splitlines()
    assert "warning" not in done.err
    assert "kubeconfig:" in done.err


async def test_a_controller_that_is_down_is_a_warning(cli: Cli, tenant: str, plane: Plane, kubectl: dict[str, str]) -> None:
    waiting = {"name": "slurmctld", "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}}}
    more = {"ready": False, "restartCount": 3, "image": "x", "imageID": "x"}
    await plane.pod("slurmctld", 0, containerStatuses=[waiting | more])
    await plane.pod("login", 0, READY)
    done = await cli("slurm", tenant, "--", "sinfo", **kubectl)
    assert done.code == 7
    assert "warning: slurmctld is not ready" in done.err
    assert "CrashLoopBackOff" in done.err


async def test_what_is_not_ready_is_named(cli: Cli, tenant: str, plane: Plane) -> None:
    nothing = await cli("slurm", tenant, "--", "sinfo")
    assert (nothing.code, "its pods do not exist yet" in nothing.err) == (1, True)
    refusal = {"type": "PodScheduled", "status": "False", "reason": "NotAllowed", "message": "no such image"}
    await plane.pod("login", 0, refusal)
    refused = await cli("slurm", tenant, "--", "sinfo")
    assert refused.code == 1
    assert f"tenant {tenant}: no login pod is ready: pod login-0: NotAllowed: no such image" in refused.err
    assert f"next:  see more: bulkhead tenant describe {tenant}" in refused.err


async def test_a_tenant_without_slurm_says_how_to_get_it(
    cli: Cli, controller: Controller, plane_config: KubeConfig, name: str
) -> None:
    await controller.tenant(name)
    await controller.plane(name, plane_config)
    for words in (["slurm", name, "--", "sinfo"], ["slurm", "token", name, "--user", "alice"]):
        done = await cli(*words)
        assert (done.code, f"tenant {name} does not use Slurm" in done.err, "mode to Slurm" in done.err) == (1, True, True)


async def test_a_plane_that_is_silent_is_named(cli: Cli, controller: Controller, plane_config: KubeConfig, name: str) -> None:
    await controller.tenant(name, scheduling={"mode": "Slurm"})
    await controller.plane(name, replace(plane_config, server="https://127.0.0.1:1"))
    done = await cli("slurm", name, "--", "sinfo")
    assert (done.code, f"tenant {name}: its API gave no answer" in done.err) == (1, True)


async def test_a_shell_needs_a_terminal(cli: Cli, tenant: str, plane: Plane, kubectl: dict[str, str]) -> None:
    await plane.pod("login", 0, READY)
    done = await cli("slurm", tenant, **kubectl)
    assert (done.code, "needs a terminal" in done.err) == (2, True)


async def test_on_a_terminal_the_pod_gets_one_too(tenant: str, plane: Plane, kubectl: dict[str, str], host_file: Path) -> None:
    await plane.pod("login", 0, READY)
    primary, secondary = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "workstation.cli.main", "slurm", tenant),
        stdin=secondary,
        stdout=secondary,
        stderr=asyncio.subprocess.PIPE,
        env=dict(os.environ) | {"KUBECONFIG": str(host_file)} | kubectl,
    )
    os.write(primary, b"\x04")  # the end of input, as a person types it
    assert await asyncio.wait_for(process.wait(), 180) == 7
    shown = os.read(primary, 65536).decode().split()
    os.close(secondary)
    os.close(primary)
    begin = shown.index("-i")
    assert shown[begin : begin + 6] == ["-i", "-t", "login-0", "-c", "login", "--"]
    assert shown[begin + 6 : begin + 8] == ["sh", "-c"]
    assert shown[-2:] == ["bulkhead", "slurm"]


async def test_a_token_is_signed_with_the_tenants_key(cli: Cli, tenant: str, plane_client: Client) -> None:
    early = await cli("slurm", "token", tenant, "--user", "alice")
    assert (early.code, "has no keys yet" in early.err) == (3, True)
    data = {"jwt_hs256.key": base64.b64encode(b"k" * 32).decode()}
    await plane_client.create(kinds.SECRETS, {"metadata": {"name": "slurm-keys"}, "data": data}, "slurm")
    done = await cli("slurm", "token", tenant, "--user", "alice", "--lifetime", "10m")
    assert done.code == 0
    name, _, token = done.out.strip().partition("=")
    assert name == "SLURM_JWT"
    head, body, seal = token.split(".")
    assert seal == encoded(hmac.digest(b"k" * 32, f"{head}.{body}".encode(), hashlib.sha256))
    claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    assert claims["sun"] == "alice"
    assert claims["exp"] - claims["iat"] == 600
    odd = await cli("slurm", "token", tenant, "--user", "alice;id")
    assert (odd.code, "must be a valid user name" in odd.err) == (2, True)


async def test_words_of_ours_before_and_after_the_tenants_name() -> None:
    for words in (["slurm", "--user", "x y", "red", "--", "sinfo"], ["slurm", "red", "--user", "x y", "--", "sinfo", "--help"]):
        process = await start(*words, environment={"KUBECONFIG": "/nonexistent"})
        _, err = await process.communicate()
        assert b"/nonexistent does not exist" in err


def seen(owner: str, ordinal: int = 0, trouble: str = "", *, ready: bool = False) -> dict[str, Any]:
    """A pod of the tenant's Slurm as the command line reads it."""
    refused = [{"type": "PodScheduled", "status": "False", "reason": "NotAllowed", "message": trouble}] if trouble else []
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}, *refused]
    meta = {"name": f"{owner}-{ordinal}", "ownerReferences": [{"kind": "StatefulSet", "name": owner}]}
    return {"metadata": meta, "status": {"phase": "Running" if ready else "Pending", "conditions": conditions}}


TENANT = {"metadata": {"name": "red"}}
NOT_READY = {
    "status": {"conditions": [{"type": "SlurmReady", "status": "False", "reason": "Waiting", "message": "for a volume"}]}
}
READY_AGAIN = {"status": {"conditions": [{"type": "SlurmReady", "status": "True", "reason": "Ready", "message": "all of it"}]}}


@pytest.mark.parametrize(
    ("pods", "warning"),
    [
        ([seen("slurmctld", ready=True), seen("slurmdbd", trouble="too large")], None),
        (
            [seen("slurmctld", trouble="no such image"), seen("slurmdbd", trouble="too large")],
            "pod slurmctld-0: NotAllowed: no such image",
        ),
        # It reports nothing about another program's pod, nor about a pod that only has its name.
        ([seen("slurmctld"), seen("slurmdbd", trouble="too large")], "its pod does not run"),
        (
            [seen("slurmctld", trouble="forged") | {"metadata": {"name": "slurmctld-0"}}, seen("login", ready=True)],
            "its pod does not run",
        ),
        (
            [seen("slurmctld", each, f"trouble {each}") for each in range(4)],
            "; ".join(f"pod slurmctld-{each}: NotAllowed: trouble {each}" for each in range(3)),
        ),
        ([], "its pod does not run"),
    ],
)
def test_a_warning_tells_the_troubles_of_slurmctld_alone(pods: list[dict[str, Any]], warning: str | None) -> None:
    assert slurm._warnings(pods) == ([] if warning is None else [f"slurmctld is not ready: {warning}"])


@pytest.mark.parametrize(
    ("pods", "status", "said"),
    [
        (
            [seen("slurmctld", trouble="too large"), seen("login", trouble="no such image")],
            NOT_READY,
            "pod login-0: NotAllowed: no such image",
        ),
        ([seen("slurmctld", trouble="too large"), seen("login")], NOT_READY, "pod slurmctld-0: NotAllowed: too large"),
        ([seen("login")], NOT_READY, "Waiting: for a volume"),
        ([seen("slurmctld"), seen("login"), seen("slurmdbd", ready=True)], READY_AGAIN, "not ready: login-0, slurmctld-0"),
        ([seen("slurmdbd", ready=True)], {}, "its pods do not exist yet"),
    ],
)
def test_where_no_login_is_possible_the_nearest_cause_is_said(
    pods: list[dict[str, Any]], status: dict[str, Any], said: str
) -> None:
    assert str(slurm._no_login(TENANT | status, pods)) == f"tenant red: no login pod is ready: {said}"


@pytest.mark.parametrize("words", [["slurm"], ["slurm", "red", "sinfo"], ["slurm", "token", "red"], ["slurm", "token"]])
def test_wrong_usage(words: list[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(words)
    assert left.value.code == 2


@pytest.mark.parametrize(
    ("users", "asked", "chosen"),
    [
        ([], None, "slurm"),
        ([], "root", "root"),
        ([{"name": "bob"}, {"name": "alice", "admin": True}], None, "alice"),
        ([{"name": "bob"}, {"name": "carol"}], None, "bob"),
        ([{"name": "bob"}], "bob", "bob"),
    ],
)
def test_which_user_runs_a_command(users: list[dict[str, Any]], asked: str | None, chosen: str) -> None:
    assert slurm.choose_user({"users": users}, asked) == chosen


@pytest.mark.parametrize("asked", ["mallory", "bob -c id", "-l", "", "bob\n"])
def test_which_users_may_not(asked: str) -> None:
    with pytest.raises(CliError):
        slurm.choose_user({"users": [{"name": "bob"}]}, asked)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A `setpriv` that changes nothing, and an `id` and `getent` that know every user, so that the arguments can be checked."""
    folder = tmp_path_factory.mktemp("programs")
    scripts = {
        "setpriv": 'while [ "$1" != -- ]; do echo "$1"; shift; done; shift; exec "$@"',
        "id": "echo 100",
        "getent": 'echo "$2:x:1:1::/:/bin/sh"',
    }
    for name, script in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    return folder


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(TEXTS, min_size=1, max_size=4))
def test_no_word_of_a_command_is_lost_or_read_as_shell(programs: Path, command: list[str]) -> None:
    show = [sys.executable, "-S", "-c", "import sys; sys.stdout.buffer.write(ascii(sys.argv[1:]).encode())"]
    words = slurm.inside("alice", [*show, *command])
    environment = {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "LC_ALL": "C.UTF-8", "HOME": "/nonexistent"}
    done = subprocess.run(words, capture_output=True, env=environment, check=True, timeout=30)
    assert done.stdout.decode().splitlines()[-1] == ascii(command)
    assert "--reuid=alice" in done.stdout.decode()


@given(st.text())
def test_no_name_becomes_an_option(user: str) -> None:
    try:
        checked = slurm.check_user(user)
    except CliError:
        return
    assert checked == user
    assert user[0] in "abcdefghijklmnopqrstuvwxyz_"


@given(st.binary(min_size=1, max_size=64), st.sampled_from(["alice", "bob"]), st.integers(0, 2**40), st.integers(1, 2**20))
def test_another_key_or_user_gives_another_token(key: bytes, user: str, now: int, seconds: int) -> None:
    token = sign(key, user, issued=now, expires=now + seconds)
    assert token.count(".") == 2
    assert not {"=", "+", "/"} & set(token)
    assert token != sign(key + b"x", user, issued=now, expires=now + seconds)


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
