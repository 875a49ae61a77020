"""`bulkhead kubeconfig --merge`: a context more in a user's own file, and nothing else changed. Costs no server but one."""

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from bulkhead.kube.kubeconfig import KubeConfig
from tests.kit.commandline import Cli, Controller
from workstation.cli import merging
from workstation.cli.failures import CliError
from workstation.cli.merging import MergeRefusedError, merged

pytestmark = pytest.mark.commands

ADDED = {
    "clusters": [{"name": "red", "cluster": {"server": "https://red"}}],
    "users": [{"name": "red-host-admin", "user": {"exec": {"command": "bulkhead"}}}],
    "contexts": [{"name": "red", "context": {"cluster": "red", "user": "red-host-admin"}}],
}
OTHER = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "prod",
    "clusters": [{"name": "prod", "cluster": {"server": "https://prod"}}],
    "users": [{"name": "prod", "user": {"token": "t"}}],
    "contexts": [{"name": "prod", "context": {"cluster": "prod", "user": "prod"}}],
}


def test_other_entries_and_the_current_context_stay() -> None:
    found = merged(OTHER, ADDED, "bulkhead-red")
    assert found["current-context"] == "prod"
    for part in ("clusters", "users", "contexts"):
        assert found[part][0] == OTHER[part][0]  # type: ignore[index]
        assert found[part][1]["name"] == "bulkhead-red"
    assert found["contexts"][1]["context"]["user"] == "bulkhead-red"
    assert merged(found, ADDED, "bulkhead-red") == found


def test_a_context_of_another_program_is_not_replaced() -> None:
    own = {"contexts": [{"name": "bulkhead-red", "context": {"cluster": "mine", "user": "me"}}]}
    with pytest.raises(MergeRefusedError, match="context bulkhead-red was not written by this command"):
        merged(OTHER | own, ADDED, "bulkhead-red")


def at(server: str, command: str = "bulkhead", **cluster: str) -> dict[str, Any]:
    """The kubeconfig of tenant red on a host."""
    user = {"exec": {"command": command, "args": ["credential", "certificate", "red"], "provideClusterInfo": False}}
    return ADDED | {
        "clusters": [{"name": "red", "cluster": {"server": server} | cluster}],
        "users": [{"name": "red-host-admin", "user": user}],
    }


def renamed(config: dict[str, Any]) -> dict[str, Any]:
    """As `kubectl config rename-context bulkhead-red red-staging` leaves it, which also writes the fields that are empty."""
    (context,) = [item for item in config["contexts"] if item["name"] == "bulkhead-red"]
    (user,) = [item["user"] for item in config["users"] if item["name"] == "bulkhead-red"]
    user["exec"] |= {"env": None}
    return config | {"contexts": [context | {"name": "red-staging"}]}


def test_a_renamed_context_does_not_come_to_lead_to_another_host() -> None:
    own = renamed(merged(OTHER, at("https://red.staging"), "bulkhead-red"))
    words = r"at https://red.staging, and the tenant is at https://red.prod: .*another host"
    with pytest.raises(MergeRefusedError, match=words):
        merged(own, at("https://red.prod"), "bulkhead-red")
    # Nor without a context: its cluster may be what another file's context names.
    with pytest.raises(MergeRefusedError, match="another host"):
        merged(own | {"contexts": []}, at("https://red.prod"), "bulkhead-red")


def test_a_renamed_context_does_not_come_to_sign_in_as_another() -> None:
    own = renamed(merged(OTHER, at("https://red"), "bulkhead-red"))
    with pytest.raises(MergeRefusedError, match="its user bulkhead-red is also that of context red-staging"):
        merged(own, at("https://red", command="another"), "bulkhead-red")
    again = merged(own, at("https://red/"), "bulkhead-red")
    assert [item["name"] for item in again["contexts"]] == ["red-staging", "bulkhead-red"]


def test_a_tenant_that_was_made_again_has_another_ca_at_the_same_address() -> None:
    first = at("https://red", **{"certificate-authority-data": "b25l"})
    second = at("https://red", **{"certificate-authority-data": "dHdv"})
    for own in (merged(OTHER, first, "bulkhead-red"), renamed(merged(OTHER, first, "bulkhead-red"))):
        found = merged(own, second, "bulkhead-red")
        (cluster,) = [item["cluster"] for item in found["clusters"] if item["name"] == "bulkhead-red"]
        assert cluster == second["clusters"][0]["cluster"]


def test_a_refusal_names_both_addresses_and_the_way_on(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(merged(OTHER, at("https://red.staging"), "bulkhead-red")))
    before = path.read_text()
    with pytest.raises(CliError, match=r"https://red.staging.*https://red.prod.*nothing was changed") as refused:
        merging.merge_into(path, json.dumps(at("https://red.prod")).encode(), "red")
    assert "--write red.yaml" in refused.value.next_step
    assert path.read_text() == before


@pytest.mark.parametrize(
    "wrong", [[], "x", {"kind": "Pod"}, {"clusters": "x"}, {"contexts": [1]}, {"users": {"a": 1}}, {"users": 1}]
)
def test_what_is_no_kubeconfig_is_refused(wrong: Any) -> None:
    with pytest.raises(MergeRefusedError):
        merged(wrong, ADDED, "bulkhead-red")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda each: st.lists(each) | st.dictionaries(st.text(), each)
    )
)
def test_any_document_is_merged_or_refused(document: Any) -> None:
    with contextlib.suppress(MergeRefusedError):
        merged(document, ADDED, "bulkhead-red")


def test_a_file_that_is_locked_broken_or_missing_is_left_alone(tmp_path: Path) -> None:
    path, data = tmp_path / "config", json.dumps(ADDED).encode()
    with pytest.raises(CliError, match="does not exist"):
        merging.merge_into(path, data, "red")
    path.write_text("token: [secret")
    with pytest.raises(CliError) as broken:
        merging.merge_into(path, data, "red")
    assert "secret" not in str(broken.value)
    (tmp_path / "config.lock").touch()
    with pytest.raises(CliError, match="another program changes it"):
        merging.merge_into(path, data, "red")
    assert path.read_text() == "token: [secret"
    assert sorted(item.name for item in tmp_path.iterdir()) == ["config", "config.lock"]


async def test_a_tenant_becomes_a_context_that_names_the_hosts(
    cli: Cli, controller: Controller, plane_config: KubeConfig, name: str, tmp_path: Path
) -> None:
    await controller.tenant(name)
    await controller.plane(name, plane_config)
    path = tmp_path / "own"
    path.write_text(yaml.safe_dump(OTHER))
    path.chmod(0o600)
    done = await cli("kubeconfig", name, "--merge", "--write", str(path))
    assert done.code == 0, done.err
    assert f"kubectl --context bulkhead-{name} get nodes" in done.err
    found = yaml.safe_load(path.read_text())
    assert found["clusters"][0] == OTHER["clusters"][0]  # type: ignore[index]
    plugin = found["users"][1]["user"]["exec"]
    # Without it the plugin would follow the user to whichever context they choose next, such as this tenant's own.
    assert plugin["args"][plugin["args"].index("--context") + 1] == "bulkhead"
    assert (path.stat().st_mode & 0o777) == 0o600
    assert (await cli("kubeconfig", name, "--merge", "--write", "-")).code == 2
