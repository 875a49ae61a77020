"""What is set on the machine is put back, and what a host can leave is recognised. Nothing here needs root."""

import json
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hostcluster.context import make_context
from workstation.hostcluster import cgroups, cluster, debian, machine_settings, remains
from workstation.hostcluster.progress import Silent


@pytest.fixture
def sysctls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    root = tmp_path / "sys"
    values = {"net/ipv4/ip_forward": "0", "kernel/panic": "1", "fs/inotify/max_user_instances": "128"}
    for name, value in values.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{value}\n")
    (root / "boot_id").write_text("boot-one\n")
    monkeypatch.setattr(machine_settings, "_SYSCTLS", root)
    monkeypatch.setattr(machine_settings, "_BOOT_ID", root / "boot_id")
    # The name of a socket must not be longer than 107 characters, and `tmp_path` alone may be.
    with tempfile.TemporaryDirectory(prefix="bulkhead-") as short:
        monkeypatch.setattr(machine_settings, "DEVICE_PLUGINS", Path(short) / "kubelet" / "device-plugins")
        yield root


def test_kernel_settings_come_back_to_what_they_were(tmp_path: Path, sysctls: Path) -> None:
    ctx = make_context(tmp_path)
    machine_settings._remember(ctx)
    (sysctls / "net/ipv4/ip_forward").write_text("1")
    (sysctls / "kernel/panic").write_text("10")
    machine_settings._remember(ctx)  # a host that died and starts again does not take its own values for the earlier ones
    machine_settings.restore(ctx)
    assert (sysctls / "net/ipv4/ip_forward").read_text() == "0"
    assert (sysctls / "kernel/panic").read_text() == "1"
    assert not (ctx.data_dir / "machine.json").exists()


def test_values_of_another_boot_are_not_put_back(tmp_path: Path, sysctls: Path) -> None:
    ctx = make_context(tmp_path)
    machine_settings._remember(ctx)
    (sysctls / "boot_id").write_text("boot-two\n")
    (sysctls / "kernel/panic").write_text("5")
    machine_settings.restore(ctx)
    assert (sysctls / "kernel/panic").read_text() == "5"


def test_the_device_plugin_folder_is_a_link_that_goes_again(tmp_path: Path, sysctls: Path) -> None:
    ctx = make_context(tmp_path)
    machine_settings._link_device_plugins(ctx)
    machine_settings._link_device_plugins(ctx)
    assert machine_settings.DEVICE_PLUGINS.resolve() == ctx.kubelet_dir / "device-plugins"
    machine_settings.restore(ctx)
    assert not machine_settings.DEVICE_PLUGINS.parent.exists()


def test_a_running_kubelet_of_another_installation_is_left_alone(tmp_path: Path, sysctls: Path) -> None:
    machine_settings.DEVICE_PLUGINS.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(machine_settings.DEVICE_PLUGINS / "kubelet.sock"))
        other.listen()
        with pytest.raises(RuntimeError, match="another kubelet"):
            machine_settings._link_device_plugins(make_context(tmp_path))


def test_the_remains_of_a_dead_kubelet_are_replaced(tmp_path: Path, sysctls: Path) -> None:
    machine_settings.DEVICE_PLUGINS.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(machine_settings.DEVICE_PLUGINS / "kubelet.sock"))
    machine_settings._link_device_plugins(make_context(tmp_path))
    assert machine_settings.DEVICE_PLUGINS.is_symlink()


def test_only_our_devices_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    links = [
        {"ifname": "lo", "addr_info": [{"local": "127.0.0.1"}]},
        {"ifname": "bulkhead0", "addr_info": [{"local": "172.31.255.1"}]},
        {"ifname": "veth1234", "addr_info": [{"local": "10.244.0.1"}, {"local": "fe80::1"}]},
        {"ifname": "veth-of-docker", "addr_info": [{"local": "fe80::2"}]},
        {"ifname": "eth0", "addr_info": [{"local": "10.244.0.1"}]},
    ]
    monkeypatch.setattr(machine_settings, "run", lambda *_: json.dumps(links))
    assert remains.devices() == ["bulkhead0", "veth1234"]


def test_only_our_tables_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("ip bulkhead", "inet bulkhead-policy", "ip kube-proxy", "ip6 kube-proxy", "ip nat", "inet my-bulkhead")
    listed = "".join(f"table {name}\n" for name in names)
    monkeypatch.setattr(remains.shutil, "which", lambda _: "/usr/sbin/nft")
    monkeypatch.setattr(machine_settings, "run", lambda *_: listed)
    assert remains.tables() == [("ip", "bulkhead"), ("inet", "bulkhead-policy"), ("ip", "kube-proxy"), ("ip6", "kube-proxy")]


def test_only_our_chains_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = "-P INPUT ACCEPT\n-N CNI-HOSTPORT-DNAT\n-N DOCKER\n-A PREROUTING -m addrtype -j CNI-HOSTPORT-DNAT\n"
    monkeypatch.setattr(remains.shutil, "which", lambda name: name if name == "iptables" else None)
    monkeypatch.setattr(machine_settings, "run", lambda *_: rules)
    assert {chain for _, _, chain in remains.chains()} == {"CNI-HOSTPORT-DNAT"}


PODMAN = """-N CNI-1b2c
-N CNI-DN-7777
-A POSTROUTING -s 10.88.0.2/32 -m comment --comment "name: \\"podman\\" id: \\"7777\\"" -j CNI-1b2c
-A CNI-HOSTPORT-DNAT -p tcp -m comment --comment "dnat name: \\"podman\\" id: \\"7777\\"" -j CNI-DN-7777
"""
OWN = """-P PREROUTING ACCEPT
-N CNI-HOSTPORT-DNAT
-N CNI-DN-0001
-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A CNI-HOSTPORT-DNAT -p tcp -m comment --comment "dnat name: \\"bulkhead\\" id: \\"0001\\"" -j CNI-DN-0001
"""


@pytest.mark.parametrize(("rules", "ours"), [(OWN, {"CNI-HOSTPORT-DNAT", "CNI-DN-0001"}), (OWN + PODMAN, {"CNI-DN-0001"})])
def test_chains_of_other_container_engines_stay(rules: str, ours: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def run(*argv: str, stdin: str | None = None) -> str:
        ran.append(" ".join(argv))
        return rules if argv[-3:] == ("-t", "nat", "-S") else ""

    monkeypatch.setattr(remains.shutil, "which", lambda name: name if name == "iptables" else None)
    monkeypatch.setattr(machine_settings, "run", run)
    assert {chain for _, _, chain in remains.chains()} == ours
    remains._remove_chains()
    assert {words.split()[-1] for words in ran if " -X " in words} == ours
    deleted = [words for words in ran if " -D " in words]
    assert len(deleted) == len(ours)
    assert not [words for words in deleted if "podman" in words]


def test_what_another_kubelet_uses_stays(sysctls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = "-N KUBE-SERVICES\n-A PREROUTING -j KUBE-SERVICES\n"
    monkeypatch.setattr(remains.shutil, "which", lambda name: name if name != "ip6tables" else None)
    monkeypatch.setattr(machine_settings, "run", lambda *argv: "table ip kube-proxy\n" if argv[0] == "nft" else rules)
    assert {name for _, name in remains.tables()} == {"kube-proxy"}
    assert {chain for _, _, chain in remains.chains()} == {"KUBE-SERVICES"}
    machine_settings.DEVICE_PLUGINS.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(machine_settings.DEVICE_PLUGINS / "kubelet.sock"))
        other.listen()
        assert remains.tables() == []
        assert remains.chains() == []


def test_another_kubelet_is_found_before_anything_is_changed(
    tmp_path: Path, sysctls: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed: list[str] = []

    def prepare(_: object) -> None:
        raise RuntimeError("the machine would have been changed")

    monkeypatch.setattr(machine_settings, "prepare", prepare)
    monkeypatch.setattr(cgroups, "groups", lambda *_: iter([tmp_path]))
    monkeypatch.setattr(remains, "clear", lambda *_: changed.append("cleared"))
    machine_settings.DEVICE_PLUGINS.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(machine_settings.DEVICE_PLUGINS / "kubelet.sock"))
        other.listen()
        with pytest.raises(RuntimeError, match="another kubelet"):
            cluster._start(make_context(tmp_path), Silent())
    assert changed == []
    assert not make_context(tmp_path).data_dir.exists()


def test_files_are_not_deleted_through_a_mount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ctx = make_context(tmp_path)
    (ctx.data_dir / "volumes").mkdir(parents=True)
    (ctx.data_dir / remains.MARKER).touch()
    monkeypatch.setattr(remains, "mounts", lambda _: [str(ctx.data_dir / "volumes")])
    remains.remove_files(ctx, data=True)
    assert ctx.data_dir.exists()


def test_every_hierarchy_is_found_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ("cgroup /cg/cpu cgroup rw 0 0", "cgroup2 /cg/unified cgroup2 rw 0 0", "tmpfs /cg tmpfs rw 0 0")
    text = "\n".join((*lines, lines[0]))
    (tmp_path / "mounts").write_text(text)
    monkeypatch.setattr(cgroups, "_MOUNTS", tmp_path / "mounts")
    assert cgroups.hierarchies() == [Path("/cg/cpu"), Path("/cg/unified")]


def test_groups_are_made_emptied_and_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroups, "hierarchies", lambda: [tmp_path])
    cgroups.create()
    cgroups.create()
    found = [str(group.relative_to(tmp_path)) for group in cgroups.groups()]
    assert (sorted(found[:-1]), found[-1]) == (["bulkhead/agents", "bulkhead/system"], "bulkhead")
    assert cgroups.remove() == []
    assert list(cgroups.groups()) == []


def test_the_hosts_components_go_before_the_pods(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice the 2048 of all pods on two cores left them a tenth of the CPU, on a kernel that favours a running group."""
    monkeypatch.setattr(cgroups, "hierarchies", lambda: [tmp_path])
    system, agents = (tmp_path / "bulkhead" / part / "cpu.shares" for part in ("system", "agents"))
    for shares in (system, agents):
        shares.parent.mkdir(parents=True)
        shares.write_text("1024")
    cgroups.create()
    assert int(system.read_text()) >= 8 * 2048
    assert 2048 < int(agents.read_text()) <= 2 * 2048, "the starts of containers do not go far before the pods that run"
    assert not (system.parent / "cpu.weight").exists()


def test_missing_packages_are_those_that_are_not_installed(tmp_path: Path) -> None:
    status = tmp_path / "status"
    status.write_text(
        "Package: socat\nStatus: install ok installed\nDescription: a\n b: c\n\n"
        "Package: ipset\nStatus: deinstall ok config-files\n\n"
    )
    assert debian.missing(["socat", "ipset", "nftables"], status) == ["ipset", "nftables"]


@pytest.mark.parametrize("ours", [True, False])
def test_only_a_folder_that_a_host_made_is_removed(tmp_path: Path, ours: bool) -> None:
    ctx = make_context(tmp_path)
    ctx.data_dir.mkdir(parents=True)
    (ctx.data_dir / "thesis.txt").touch()
    if ours:
        (ctx.data_dir / remains.MARKER).touch()
    remains.remove_files(ctx, data=True)
    assert ctx.data_dir.exists() is not ours


def test_a_data_folder_that_is_its_owners_mount_is_emptied_but_not_unmounted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ctx = make_context(tmp_path)
    ctx.data_dir.mkdir(parents=True)
    for name in (remains.MARKER, "kubeconfig"):
        (ctx.data_dir / name).touch()
    monkeypatch.setattr(Path, "is_mount", lambda path: path == ctx.data_dir)
    remains.remove_files(ctx, data=True)
    assert list(ctx.data_dir.iterdir()) == []
    assert not remains._stands(ctx.data_dir)


def test_only_mounts_below_our_folders_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ctx = make_context(tmp_path)
    places = [ctx.data_dir, ctx.data_dir / "kubelet" / "pods", Path(f"{ctx.data_dir}-other") / "x", ctx.run_dir / "netns" / "a"]
    info = "".join(f"36 35 98:0 / {place} rw - tmpfs tmpfs rw\n" for place in places)
    monkeypatch.setattr(Path, "read_text", lambda *_: info)
    assert set(remains.mounts(ctx)) == {str(places[1]), str(places[3])}


def test_only_the_network_plugins_records_of_our_pods_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ctx = make_context(tmp_path)
    cache = tmp_path / "cni"
    (cache / "results").mkdir(parents=True)
    (cache / "results" / "cni-loopback-1-lo").write_text(json.dumps({"netns": f"{ctx.run_dir}/containerd/netns/cni-1"}))
    (cache / "results" / "other-2-eth0").write_text(json.dumps({"netns": "/run/netns/cni-2"}))
    monkeypatch.setattr(remains, "_CNI_CACHE", cache)
    remains.remove_files(ctx, data=False)
    assert [path.name for path in (cache / "results").iterdir()] == ["other-2-eth0"]
