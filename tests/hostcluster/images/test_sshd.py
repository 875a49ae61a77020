"""The login node's sshd and the certificates that the controller signs: which users they admit, as which user, for how long."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from controller.slurm.keygen import make_ssh_key
from controller.slurm.spec import Forwarding
from controller.slurm.spec.authority import SshKey
from controller.slurm.ssh.certify import certify
from tests.hostcluster.images.sshd import LoginNode, login_node

ADA, BOB = "corp:ada@example.org", "corp:bob (of the lab)"
OURS, NONE = make_ssh_key(), Forwarding()
IDENTITIES = {"alice": [ADA], "bob": [BOB], "root": [ADA]}


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginNode]:
    with login_node(tmp_path_factory.mktemp("sshd")) as running:
        yield running


@pytest.fixture
def node(started: LoginNode) -> LoginNode:
    started.trust(IDENTITIES, [OURS.public])
    return started


def key_of(
    folder: Path,
    *principals: str,
    identity: str = ADA,
    authority: SshKey = OURS,
    forwarding: Forwarding = NONE,
    since: timedelta = timedelta(0),
    name: str = "key",
) -> Path:
    """A private key with a certificate beside it."""
    key, now = Ed25519PrivateKey.generate(), datetime.now(UTC) + since
    signed, _ = certify(
        key.public_key(),
        identity=identity,
        principals=principals,
        forwarding=forwarding,
        authority=authority,
        now=now,
        ends=now + timedelta(minutes=15),
    )
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption())
    path = folder / name
    path.touch(mode=0o600)
    path.write_bytes(private)
    (folder / f"{name}-cert.pub").write_text(signed + "\n")
    return path


def test_a_certificate_opens_the_users_that_it_names_and_the_log_says_whose_it_is(node: LoginNode, tmp_path: Path) -> None:
    key = key_of(tmp_path, "alice", "root")
    for user in ("alice", "root"):
        done = node.ssh(key, user)
        assert (done.returncode, done.stdout.strip()) == (0, user), done.stderr + node.log
    assert node.ssh(key, "bob").returncode == 255
    assert f"ID {ADA} (serial" in node.log
    bobs = key_of(tmp_path, "bob", identity=BOB, name="bobs")
    assert node.ssh(bobs, "bob").stdout.strip() == "bob"
    assert [node.ssh(bobs, user).returncode for user in ("alice", "root")] == [255, 255]


def test_a_user_that_the_tenant_no_longer_names_is_out_at_once_although_the_certificate_is_valid(
    node: LoginNode, tmp_path: Path
) -> None:
    key = key_of(tmp_path, "alice", "bob")
    assert node.ssh(key, "alice").returncode == 0
    # It was signed for bob, and the Tenant does not say that this identity is bob.
    assert node.ssh(key, "bob").returncode == 255
    node.trust(IDENTITIES | {"alice": ["corp:else"]}, [OURS.public])
    assert node.ssh(key, "alice").returncode == 255
    node.trust(IDENTITIES, [OURS.public])
    assert node.ssh(key, "alice").returncode == 0


def test_other_authorities_and_other_times_open_nothing(node: LoginNode, tmp_path: Path) -> None:
    other = make_ssh_key()
    refused = {
        "another tenant's CA": key_of(tmp_path, "alice", authority=other, name="other"),
        "expired": key_of(tmp_path, "alice", since=-timedelta(minutes=16), name="expired"),
        "not valid yet": key_of(tmp_path, "alice", since=timedelta(minutes=6), name="early"),
    }
    for why, key in refused.items():
        assert node.ssh(key, "alice").returncode == 255, why
    assert node.ssh(key_of(tmp_path, "alice"), "alice").returncode == 0
    # While a key is staged both count; once it is replaced, what it signed does not.
    node.trust(IDENTITIES, [OURS.public, other.public])
    assert node.ssh(refused["another tenant's CA"], "alice").returncode == 0
    node.trust(IDENTITIES, [other.public])
    assert node.ssh(key_of(tmp_path, "alice", name="replaced"), "alice").returncode == 255


def test_failures_of_one_user_keep_no_other_out(node: LoginNode, tmp_path: Path) -> None:
    """All users who come through the tenant's API have the same address."""
    eves, alices = key_of(tmp_path, "eve", identity="corp:eve", name="eves"), key_of(tmp_path, "alice")
    assert [node.ssh(eves, "alice").returncode for _ in range(6)] == [255] * 6
    assert node.ssh(alices, "alice").returncode == 0


def test_without_trust_files_no_certificate_counts(node: LoginNode, tmp_path: Path) -> None:
    key = key_of(tmp_path, "alice")
    node.trust({}, [])
    (node.files / "trust" / "user-ca.pub").unlink()
    assert node.ssh(key, "alice").returncode == 255


@pytest.mark.parametrize("ports", [True, False])
def test_forwarding_is_what_the_class_allows(node: LoginNode, tmp_path: Path, ports: bool) -> None:
    key = key_of(tmp_path, "alice", forwarding=Forwarding(ports=ports))
    bound = node.ssh(key, "alice", "true", "RemoteForward=127.0.0.1:0 127.0.0.1:9", "ExitOnForwardFailure=yes")
    assert (bound.returncode == 0) is ports, bound.stderr
