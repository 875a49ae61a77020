"""The Slurm and MariaDB images, as far as no Debian package is needed for it: what stays, what is refused, what is ours."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.hostcluster.images.test_oci import members
from workstation.hostcluster.images import build, slurm_root
from workstation.hostcluster.images.build import PROJECT, Workshop
from workstation.hostcluster.images.oci import blob_path
from workstation.hostcluster.images.proxy_root import PROXY_TREE
from workstation.hostcluster.images.python_root import ImageError
from workstation.hostcluster.images.slurm_root import MARIADB_TREE, SLURM_TREE, DebianTree

ENTRYPOINTS = [
    PROJECT / "images/slurm/rootfs/usr/local/sbin/slurm-entrypoint",
    PROJECT / "images/slurm/rootfs/usr/local/sbin/slurm-authorized-keys",
    PROJECT / "images/slurm/rootfs/usr/local/sbin/slurm-authorized-principals",
    PROJECT / "images/slurm/rootfs/usr/local/bin/srun",
    PROJECT / "images/mariadb/rootfs/usr/local/sbin/mariadb-entrypoint",
]


@pytest.mark.parametrize(
    ("wanted", "listed"),
    [
        (SLURM_TREE, "slurm-client_26.05.5-1_amd64.deb\nslurmctld_26.05.5-1_amd64.deb\n"),
        (SLURM_TREE, "slurmctld_26.05.5-2+b1_arm64.deb"),
        (MARIADB_TREE, "mariadb-server-core_1%3a11.8.9+ds-4_amd64.deb"),
    ],
)
def test_the_version_that_was_tried_is_taken(wanted: DebianTree, listed: str) -> None:
    slurm_root.check_version(wanted, listed)


@pytest.mark.parametrize(
    ("wanted", "listed", "says"),
    [
        (SLURM_TREE, "slurmctld_26.05.50-1_amd64.deb", "26.05.50-1"),
        (SLURM_TREE, "slurmctld_26.11.0-1_amd64.deb", slurm_root.MIRROR_VARIABLE),
        (SLURM_TREE, "slurmctld-extra_26.05.5-1_amd64.deb", "do not include slurmctld"),
        (MARIADB_TREE, "mariadb-server-core_1%3a12.3.1-1_amd64.deb", "12.3.1-1"),
    ],
)
def test_another_version_is_refused_with_the_way_out(wanted: DebianTree, listed: str, says: str) -> None:
    with pytest.raises(ImageError, match=re.escape(says)):
        slurm_root.check_version(wanted, listed)


@pytest.mark.parametrize(
    "path",
    [
        "usr/sbin/slurmctld-wlm", "usr/lib/x86_64-linux-gnu/slurm-wlm/auth_slurm.so", "usr/bin/srun", "usr/bin/tini",
        "usr/lib/x86_64-linux-gnu/libze_loader.so.1", "usr/lib/x86_64-linux-gnu/libpam.so.0", "usr/lib/openssh/sshd-session",
        "usr/lib/libnss_extrausers.so.2", "usr/share/pmix/help-pmix-runtime.txt", "usr/bin/prterun", "usr/bin/setpriv",
        "usr/lib/aarch64-linux-gnu/libucp.so.0", "usr/share/zoneinfo/UTC", "etc/ssl/openssl.cnf",
    ],
)  # fmt: skip
def test_what_a_cluster_needs_stays(path: str) -> None:
    assert not SLURM_TREE.unneeded.match(path)


@pytest.mark.parametrize(
    "path",
    [
        "usr/lib/x86_64-linux-gnu/libLLVM.so.21.1", "usr/lib/llvm-21/lib/libLLVM.so", "usr/bin/perl5.42-x86_64-linux-gnu",
        "usr/share/doc/slurmctld/README", "usr/share/locale/de/LC_MESSAGES/x.mo", "var/lib/dpkg/status",
        "etc/slurm/plugstack.conf",
        "var/lib/extrausers/", "usr/lib/x86_64-linux-gnu/ucx/libuct_rocm.so.0", "usr/lib/systemd/system/slurmd.service",
    ],
)  # fmt: skip
def test_what_no_cluster_needs_goes(path: str) -> None:
    assert SLURM_TREE.unneeded.match(path)


@pytest.mark.parametrize("wanted", [SLURM_TREE, MARIADB_TREE, PROXY_TREE], ids=lambda tree: tree.name)
def test_the_recipe_for_a_registry_names_the_same_packages(wanted: DebianTree) -> None:
    text = (PROJECT / "images" / wanted.name / "Dockerfile").read_text().replace("\\\n", " ")
    named = re.search(r"--no-install-recommends\s+([a-z0-9 .+-]+);", text)
    assert named is not None
    assert sorted(named[1].split()) == sorted(wanted.packages)


def fake_tree(cache: Path, wanted: DebianTree) -> None:
    """An extracted root with a few files of each kind."""
    tree = cache / "trees" / f"{wanted.name}-{slurm_root.tree_name(wanted)}"
    for name, mode in {"usr/bin/bash": 0o755, "usr/bin/mount": 0o4755, "usr/share/doc/x": 0o644, "etc/passwd": 0o644}.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(name)
        (tree / name).chmod(mode)
    (tree / "packages.txt").write_text("slurmctld_26.05.5-1_amd64.deb\n")


@pytest.mark.parametrize(
    ("recipe", "wanted"), [(build.slurm, SLURM_TREE), (build.mariadb, MARIADB_TREE)], ids=["slurm", "mariadb"]
)
def test_an_image_is_the_packages_with_our_files_over_them(tmp_path: Path, recipe: build.Recipe, wanted: DebianTree) -> None:
    fake_tree(tmp_path, wanted)
    spec = recipe(Workshop(tmp_path, lambda _: {}, PROJECT))
    packages, own = (members(blob_path(tmp_path, layer.digest).read_bytes()) for layer in spec.layers)
    assert packages["usr/bin/mount"].mode == 0o755, "no file may give rights"
    assert "usr/share/doc/x" not in packages
    assert packages[slurm_root.PACKAGE_LIST].isfile()
    assert (packages["tmp"].mode, packages["root"].mode) == (0o1777, 0o700)
    entrypoint = own[spec.entrypoint[0].lstrip("/")]
    assert entrypoint.mode == 0o755
    assert own["usr/bin/sh"].linkname == "bash"
    assert {"etc/passwd", "etc/group"} <= own.keys()
    assert spec.user == "0:0"


def test_users_of_the_image_are_those_that_pods_name() -> None:
    users = {}
    for image in ("slurm", "mariadb"):
        for line in (PROJECT / "images" / image / "rootfs/etc/passwd").read_text().splitlines():
            name, _, uid, gid, *_ = line.split(":")
            users[name] = (int(uid), int(gid))
    assert (users["slurm"], users["slurmrestd"], users["mysql"]) == ((401, 401), (402, 402), (403, 403))


def test_a_changed_mode_or_link_makes_another_layer(tmp_path: Path) -> None:
    folder = tmp_path / "images/tool/rootfs"
    folder.mkdir(parents=True)
    (folder / "run").write_text("x")
    (folder / "link").symlink_to("run")
    keys = {slurm_root.own_key(tmp_path, "tool")}
    (folder / "run").chmod(0o755)
    keys.add(slurm_root.own_key(tmp_path, "tool"))
    (folder / "link").unlink()
    (folder / "link").symlink_to("elsewhere")
    keys.add(slurm_root.own_key(tmp_path, "tool"))
    assert len(keys) == 3


def test_without_a_checkout_the_image_says_so(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match="built from a checkout"):
        slurm_root.own_files(tmp_path, "slurm")


@pytest.mark.parametrize("script", ENTRYPOINTS, ids=lambda path: path.name)
def test_scripts_are_posix_shell_and_evaluate_nothing(script: Path) -> None:
    assert script.stat().st_mode & 0o111
    text = script.read_text()
    assert text.startswith("#!/bin/sh\n")
    assert subprocess.run(["sh", "-n", str(script)], check=False).returncode == 0
    assert not re.search(r"\beval\b|`", re.sub(r"^\s*#.*", "", text, flags=re.MULTILINE))


@pytest.mark.parametrize("words", [[], ["slurmctl"], ["login; id"]])
def test_an_unknown_daemon_is_refused(words: list[str]) -> None:
    done = subprocess.run(["sh", str(ENTRYPOINTS[0]), *words], capture_output=True, text=True, check=False)
    assert done.returncode == 78
    assert "unknown daemon" in done.stderr


@pytest.mark.parametrize("name", ["", "-n", "../../etc/passwd", "a b", "Root", "no-such-user"])
def test_only_a_user_of_the_list_has_keys(name: str) -> None:
    for script in ENTRYPOINTS[1:3]:
        done = subprocess.run(["sh", str(script), name, "corp:ada"], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize(
    ("identity", "is_alice"),
    [
        ("corp:ada@example.org", True), ("bulkhead:host:ada", True), ("-v", True), ("corp:жук", True), ("", False),
        ("corp:ada@example.or", False), ("corp:ada@exampleXorg", False), ("ada", False), (".*", False), ("-c", False),
        ("corp:eve\ncorp:ada@example.org", False), ("CORP:ADA@EXAMPLE.ORG", False),
    ],
)  # fmt: skip
def test_only_a_user_that_is_named_word_for_word_counts(identity: str, is_alice: bool, tmp_path: Path) -> None:
    (tmp_path / "alice").write_text("corp:ada@example.org\nbulkhead:host:ada\n-v\ncorp:жук\n")
    script = ENTRYPOINTS[2].read_text().replace("/etc/slurm-ssh-trust", str(tmp_path))
    done = subprocess.run(["sh", "-c", script, "sh", "alice", identity], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "alice\n" if is_alice else "")
