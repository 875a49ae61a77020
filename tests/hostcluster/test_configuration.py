"""Rendered configuration: what other parts and `down` rely on."""

import json
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.hostcluster.context import make_context
from workstation.hostcluster import configuration, upstream
from workstation.hostcluster.node import Node, nodes_of


def test_containerd_keeps_all_its_state_below_our_folders(tmp_path: Path) -> None:
    ctx = make_context(tmp_path)
    document = tomllib.loads(configuration.containerd(Node(ctx)))
    runtime = document["plugins"]["io.containerd.cri.v1.runtime"]
    assert document["root"].startswith(str(ctx.data_dir))
    assert document["state"].startswith(str(ctx.run_dir))
    assert document["plugins"]["io.containerd.shim.v1.manager"]["socket_dir"].startswith(str(ctx.run_dir))
    assert runtime["netns_mounts_under_state_dir"] is True
    assert runtime["restrict_oom_score_adj"] is True
    assert runtime["containerd"]["runtimes"]["runc"]["options"]["SystemdCgroup"] is False
    assert document["plugins"]["io.containerd.cri.v1.images"]["pinned_images"]["sandbox"] == "registry.k8s.io/pause:3.10"


def test_containerd_reads_registries_from_a_folder_of_ours(tmp_path: Path) -> None:
    ctx = make_context(tmp_path)
    images = tomllib.loads(configuration.containerd(Node(ctx)))["plugins"]["io.containerd.cri.v1.images"]
    assert images["registry"] == {"config_path": str(ctx.data_dir / "config" / "certs.d")}


def test_pods_are_routed_and_simulated_ones_have_other_addresses(tmp_path: Path) -> None:
    document = configuration.cni(Node(make_context(tmp_path)))
    assert [plugin["type"] for plugin in document["plugins"]] == ["ptp", "portmap"]
    assert document["plugins"][0]["ipam"]["ranges"] == [[{"subnet": "10.244.0.0/20"}]]


def test_the_kubelet_runs_on_cgroup_v1_in_a_subtree_of_ours(tmp_path: Path) -> None:
    document = configuration.kubelet(Node(make_context(tmp_path)))
    assert document["failCgroupV1"] is False
    assert document["cgroupRoot"] == "/bulkhead"
    assert document["authentication"]["anonymous"] == {"enabled": False}
    assert document["authorization"] == {"mode": "Webhook"}


def test_the_kubelet_bounds_processes_and_filters_system_calls(tmp_path: Path) -> None:
    document = configuration.kubelet(Node(make_context(tmp_path)))
    assert 0 < document["podPidsLimit"] <= 16384
    assert int(document["systemReserved"]["pid"]) > 0
    assert document["seccompDefault"] is True


@pytest.mark.parametrize(
    ("machine", "pods"),
    [
        (["nameserver ::1\nnameserver 9.9.9.9\n"], "nameserver 9.9.9.9\n"),
        # systemd-resolved: its stub, and the file with the resolvers behind it.
        (["nameserver 127.0.0.53\nsearch lan\n", "nameserver 192.0.2.1\nsearch lan\n"], "nameserver 192.0.2.1\nsearch lan\n"),
        (["nameserver 9.9.9.9\n", "nameserver 192.0.2.1\n"], "nameserver 9.9.9.9\n"),
        # CoreDNS does not start without any.
        (["nameserver\t127.0.0.53\nsearch lan\n"], "search lan\nnameserver 127.0.0.1\n"),
        ([], "nameserver 127.0.0.1\n"),
    ],
)
def test_pods_get_resolvers_that_they_reach(machine: list[str], pods: str) -> None:
    assert configuration.resolv_conf(*machine) == pods
    assert configuration.has_resolvers(pods) is ("127.0.0.1" not in pods)


def test_the_resolvers_behind_systemd_resolved_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stub, behind = tmp_path / "stub", tmp_path / "behind"
    stub.write_text("nameserver 127.0.0.53\n")
    behind.write_text("nameserver 192.0.2.1\n")
    monkeypatch.setattr(configuration, "RESOLV_CONFS", (stub, behind))
    ctx = make_context(tmp_path)
    configuration.write_configuration(ctx)
    assert (ctx.config_dir / "resolv.conf").read_text() == "nameserver 192.0.2.1\n"


def test_writing_twice_changes_nothing_the_second_time(tmp_path: Path) -> None:
    ctx = make_context(tmp_path)
    assert configuration.write_configuration(ctx) is True
    assert configuration.write_configuration(ctx) is False
    assert json.loads((ctx.config_dir / "cni" / "10-bulkhead.conflist").read_text())["name"] == "bulkhead"


def test_components_depend_only_on_earlier_ones(tmp_path: Path) -> None:
    seen: set[str] = set()
    for component in upstream.components(make_context(tmp_path)):
        assert set(component.depends_on) <= seen
        seen.add(component.name)


def test_a_changed_file_makes_a_changed_component(tmp_path: Path) -> None:
    ctx = make_context(tmp_path)
    configuration.write_configuration(ctx)
    before = {component.name: component for component in upstream.components(ctx)}
    (ctx.config_dir / "kubelet.yaml").write_text("maxPods: 1\n")
    changed = [component.name for component in upstream.components(ctx) if component != before[component.name]]
    assert changed == ["kubelet"]


def test_the_gang_gates_are_on_in_both_that_need_them(tmp_path: Path) -> None:
    by_name = {component.name: component for component in upstream.components(make_context(tmp_path))}
    for name in ("kube-apiserver", "kube-scheduler"):
        assert f"--feature-gates={upstream.FEATURE_GATES}" in by_name[name].argv
    assert "--runtime-config=scheduling.k8s.io/v1alpha2=true" in by_name["kube-apiserver"].argv


def test_each_kubelet_measures_the_containers_that_it_starts(tmp_path: Path) -> None:
    """The kubelet's cAdvisor looks for containers at a flag of its own; elsewhere it finds no names and no networks of pods."""
    ctx = make_context(tmp_path)
    configuration.write_configuration(ctx)
    for node in nodes_of(ctx):
        (kubelet,) = [one for one in upstream.components(ctx) if one.name == node.component("kubelet")]
        (own,) = [word.removeprefix("--containerd=") for word in kubelet.argv if word.startswith("--containerd=")]
        started = yaml.safe_load((node.config_dir / "kubelet.yaml").read_text())["containerRuntimeEndpoint"]
        assert started == f"unix://{own}"
