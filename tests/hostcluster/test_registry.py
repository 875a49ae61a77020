"""The registry beside the host: its certificate, its password, and what containerd is told."""

import json
import tomllib
from dataclasses import replace
from pathlib import Path

import yaml
from cryptography import x509

from tests.hostcluster.context import make_context
from workstation.hostcluster import configuration, pki, registry
from workstation.hostcluster.addons import components
from workstation.hostcluster.component import HostContext
from workstation.hostcluster.node import Node


def _with_registry(folder: Path) -> HostContext:
    ctx = make_context(folder)
    return replace(ctx, options=replace(ctx.options, registry=True))


def test_nothing_that_the_host_trusts_signs_the_registry(tmp_path: Path) -> None:
    ctx = _with_registry(tmp_path)
    pki.ensure_pki(ctx)
    registry.ensure(ctx)
    leaf = x509.load_pem_x509_certificate((ctx.pki_dir / "registry.crt").read_bytes())
    leaf.verify_directly_issued_by(x509.load_pem_x509_certificate(registry.ca_file(ctx).read_bytes()))
    assert registry.ca_file(ctx).read_bytes() not in [(ctx.pki_dir / f"{name}.crt").read_bytes() for name in ("ca", "etcd-ca")]


def test_the_password_is_drawn_once_and_root_alone_reads_it(tmp_path: Path) -> None:
    ctx = _with_registry(tmp_path)
    registry.ensure(ctx)
    first = {path: path.read_bytes() for path in registry.folder(ctx).iterdir()}
    registry.ensure(ctx)
    assert {path: path.read_bytes() for path in registry.folder(ctx).iterdir()} == first
    assert {path.stat().st_mode & 0o777 for path in first} == {0o600}
    password = registry.password_file(ctx).read_text().strip()
    assert len(password) >= 32
    user, hashed = (registry.folder(ctx) / "htpasswd").read_text().strip().split(":")
    assert user == registry.USER
    assert registry.bcrypt(password, hashed[7:29]) == hashed
    assert registry.bcrypt(password + "x", hashed[7:29]) != hashed
    assert password not in yaml.safe_dump(yaml.safe_load((registry.folder(ctx) / "config.yml").read_text()))
    assert password.encode() not in b"".join(part.encode() for part in registry.component(ctx).argv)


def test_containerd_learns_of_it_only_where_it_is(tmp_path: Path) -> None:
    ctx = _with_registry(tmp_path)
    registry.ensure(ctx)
    document = tomllib.loads(configuration.containerd(Node(ctx)))
    certs = Path(document["plugins"]["io.containerd.cri.v1.images"]["registry"]["config_path"])
    hosts = tomllib.loads((certs / registry.ADDRESS / "hosts.toml").read_text())
    assert hosts["server"] == f"https://{registry.ADDRESS}"
    assert hosts["host"][hosts["server"]] == {"capabilities": ["pull", "resolve"], "ca": str(registry.ca_file(ctx))}
    assert "registry" in [each.name for each in components(ctx)]
    without = make_context(tmp_path / "without")
    assert "registry" not in [each.name for each in components(without)]


def test_clients_get_what_docker_reads(tmp_path: Path) -> None:
    document = json.loads(registry.client_configuration("word"))
    assert document == {"auths": {registry.ADDRESS: {"auth": "YnVsa2hlYWQ6d29yZA=="}}}
