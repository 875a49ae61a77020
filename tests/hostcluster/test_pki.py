"""The host's certificates: chains, names, renewal."""

import datetime as dt
import ipaddress
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from tests.hostcluster.context import make_context
from workstation.hostcluster import pki
from workstation.hostcluster.node import Node


def _certificate(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def test_every_leaf_comes_from_its_authority_and_lives_for_less_than_it(tmp_path: Path) -> None:
    ctx = make_context(tmp_path)
    pki.ensure_pki(ctx)
    for leaf in pki.LEAVES:
        certificate, ca = _certificate(ctx.pki_dir / f"{leaf.name}.crt"), _certificate(ctx.pki_dir / f"{leaf.ca}.crt")
        certificate.verify_directly_issued_by(ca)
        assert certificate.not_valid_after_utc < ca.not_valid_after_utc


def test_the_api_server_answers_to_its_service_and_node_address(tmp_path: Path) -> None:
    ctx = make_context(tmp_path)
    pki.ensure_pki(ctx)
    names = _certificate(ctx.pki_dir / "apiserver.crt").extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert ipaddress.ip_address("10.96.0.1") in names.get_values_for_type(x509.IPAddress)
    assert ipaddress.ip_address("172.31.255.1") in names.get_values_for_type(x509.IPAddress)
    assert "kubernetes.default.svc" in names.get_values_for_type(x509.DNSName)


def test_private_keys_are_readable_by_their_owner_alone(tmp_path: Path) -> None:
    ctx = make_context(tmp_path)
    pki.ensure_pki(ctx)
    secret = [*ctx.pki_dir.glob("*.key"), ctx.kubeconfig, *ctx.config_dir.glob("*.kubeconfig")]
    assert {path.stat().st_mode & 0o777 for path in secret} == {0o600}


def test_a_second_run_changes_nothing(tmp_path: Path) -> None:
    ctx = make_context(tmp_path)
    pki.ensure_pki(ctx)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    pki.ensure_pki(ctx)
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}


def test_a_leaf_near_its_end_is_renewed_and_its_authority_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ctx = make_context(tmp_path)
    pki.ensure_pki(ctx)
    ca, leaf = (ctx.pki_dir / "ca.crt").read_bytes(), (ctx.pki_dir / "kubelet.crt").read_bytes()
    later = dt.datetime.now(dt.UTC) + dt.timedelta(days=340)
    monkeypatch.setattr(pki, "_now", lambda: later)
    pki.ensure_pki(ctx)
    assert (ctx.pki_dir / "ca.crt").read_bytes() == ca
    assert (ctx.pki_dir / "kubelet.crt").read_bytes() != leaf


def test_a_new_authority_renews_its_leaves(tmp_path: Path) -> None:
    ctx = make_context(tmp_path)
    pki.ensure_pki(ctx)
    (ctx.pki_dir / "ca.crt").unlink()
    pki.ensure_pki(ctx)
    _certificate(ctx.pki_dir / "kubelet.crt").verify_directly_issued_by(_certificate(ctx.pki_dir / "ca.crt"))


def test_the_kubeconfig_holds_everything_inline(tmp_path: Path) -> None:
    ctx = make_context(tmp_path)
    pki.ensure_pki(ctx)
    document = yaml.safe_load(ctx.kubeconfig.read_text())
    assert document["clusters"][0]["cluster"]["server"] == "https://172.31.255.1:6443"
    assert set(document["users"][0]["user"]) == {"client-certificate-data", "client-key-data"}


def test_what_was_renewed_is_named_and_a_new_nodes_certificate_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ctx = make_context(tmp_path)
    assert pki.ensure_pki(ctx) == ()
    assert pki.ensure_pki(replace(ctx, options=replace(ctx.options, nodes=2))) == ()
    later = dt.datetime.now(dt.UTC) + dt.timedelta(days=340)
    monkeypatch.setattr(pki, "_now", lambda: later)
    assert set(pki.ensure_pki(ctx)) == {leaf.name for leaf in (*pki.LEAVES, *pki.leaves_of(Node(ctx)))}


def test_the_first_end_is_that_of_the_certificate_that_ends_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ctx = make_context(tmp_path)
    assert pki.first_end(ctx) == 0.0
    pki.ensure_pki(ctx)
    earlier = dt.datetime.now(dt.UTC) - dt.timedelta(days=100)
    authority = pki._ensure_ca(ctx.pki_dir, "ca")
    (ctx.pki_dir / "scheduler.crt").unlink()
    with monkeypatch.context() as then:
        then.setattr(pki, "_now", lambda: earlier)
        pki._ensure_leaf(ctx.pki_dir, next(leaf for leaf in pki.LEAVES if leaf.name == "scheduler"), *authority)
    assert pki.first_end(ctx) == _certificate(ctx.pki_dir / "scheduler.crt").not_valid_after_utc.timestamp()


@pytest.mark.parametrize("broken", ["ca.crt", "ca.key", "kubelet.crt", "kubelet.key", "sa.key", "sa.pub"])
def test_what_a_power_failure_left_is_issued_again(tmp_path: Path, broken: str) -> None:
    ctx = make_context(tmp_path)
    pki.ensure_pki(ctx)
    signing = (ctx.pki_dir / "sa.key").read_bytes()
    (ctx.pki_dir / broken).write_bytes(b"")
    pki.ensure_pki(ctx)
    assert ((ctx.pki_dir / "sa.key").read_bytes() == signing) is (broken != "sa.key")
    public = pki._load_key(ctx.pki_dir / "sa.key").public_key()
    assert serialization.load_pem_public_key((ctx.pki_dir / "sa.pub").read_bytes()) == public
    ca = _certificate(ctx.pki_dir / "ca.crt")
    for name in ("ca", "kubelet"):
        certificate = _certificate(ctx.pki_dir / f"{name}.crt")
        certificate.verify_directly_issued_by(ca)
        assert certificate.public_key() == pki._load_key(ctx.pki_dir / f"{name}.key").public_key()


def test_a_key_that_is_not_the_certificates_makes_a_new_pair(tmp_path: Path) -> None:
    ctx = make_context(tmp_path)
    pki.ensure_pki(ctx)
    (ctx.pki_dir / "scheduler.key").write_bytes((ctx.pki_dir / "proxy.key").read_bytes())
    assert pki.ensure_pki(ctx) == ("scheduler",)
    assert pki.ensure_pki(ctx) == ()
