"""Kubeconfigs: what is read, what is refused, and tokens that are rotated under us."""

import base64
import ssl
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from bulkhead.kube import kubeconfig
from bulkhead.kube.errors import ConfigError
from bulkhead.kube.kubeconfig import Authorization, KubeConfig
from tests.kit.kubeconfigs import to_yaml
from tests.kit.pki import Authority

AUTHORITY = Authority("test")
CERT, KEY = AUTHORITY.issue("user")


def document(*, cluster: dict[str, object] | None = None, user: dict[str, object] | None = None) -> bytes:
    base = {"server": "https://10.0.0.1:6443", "certificate-authority-data": base64.b64encode(AUTHORITY.pem).decode()}
    return yaml.safe_dump(
        {
            "clusters": [{"name": "c", "cluster": base | (cluster or {})}],
            "users": [{"name": "u", "user": {"token": "t"} | (user or {})}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
    ).encode()


def test_what_is_written_is_read_back() -> None:
    config = KubeConfig("https://h:1", AUTHORITY.pem, CERT, KEY, tls_server_name="plane")
    assert KubeConfig.from_bytes(to_yaml(config), hostile=True) == config
    assert config.ssl_context() is not None
    assert "BEGIN" not in repr(config)


def test_json_is_a_kubeconfig_too() -> None:
    import json

    assert KubeConfig.from_bytes(json.dumps(yaml.safe_load(document())).encode()).token == "t"


def test_files_resolve_beside_the_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_bytes(AUTHORITY.pem)
    path = tmp_path / "config"
    path.write_bytes(document(cluster={"certificate-authority": "ca.crt", "certificate-authority-data": ""}))
    assert KubeConfig.from_file(path).ca == AUTHORITY.pem
    with pytest.raises(ConfigError, match="names a file"):
        KubeConfig.from_file(path, hostile=True)


@pytest.mark.parametrize(
    ("cluster", "user"),
    [
        ({}, {"exec": {"command": "rm"}}),
        ({}, {"auth-provider": {"name": "gcp"}}),
        ({}, {"tokenFile": "/etc/passwd"}),
        ({}, {"username": "a", "password": "b"}),
        ({}, {"as": "system:admin"}),
        ({}, {"client-certificate-data": "aGk="}),
        ({}, {"client-certificate-data": "!", "client-key-data": "!"}),
        ({"proxy-url": "http://p"}, {}),
        ({"insecure-skip-tls-verify": True}, {}),
        ({"server": "http://10.0.0.1"}, {}),
        ({"server": "https://user:pw@10.0.0.1"}, {}),
        ({"server": "https://10.0.0.1:x"}, {}),
        ({"server": 5}, {}),
        ({"certificate-authority": "/etc/passwd", "certificate-authority-data": ""}, {}),
        ({"certificate-authority-data": ""}, {}),
    ],
)
def test_refused(cluster: dict[str, object], user: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        KubeConfig.from_bytes(document(cluster=cluster, user=user), hostile=True)


@given(st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode)))
def test_garbage_is_a_config_error(data: bytes) -> None:
    with pytest.raises(ConfigError):
        KubeConfig.from_bytes(data, hostile=True)


def test_the_error_quotes_no_secret() -> None:
    with pytest.raises(ConfigError) as caught:
        KubeConfig.from_bytes(b"token: [sesame\n:::")
    assert "sesame" not in str(caught.value)


def test_certificates_that_are_none() -> None:
    with pytest.raises(ConfigError):
        KubeConfig("https://h", b"not a certificate").ssl_context()


def test_in_cluster_follows_the_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    (tmp_path / "ca.crt").write_bytes(AUTHORITY.pem)
    (tmp_path / "token").write_text("one\n")
    config = KubeConfig.in_cluster(tmp_path)
    assert config.server == "https://[fd00::1]:443"
    authorization = Authorization(config)
    assert authorization.header() == "Bearer one"
    (tmp_path / "next").write_text("two\n")
    (tmp_path / "next").replace(tmp_path / "token")
    assert authorization.header() == "Bearer two"
    (tmp_path / "token").unlink()
    assert authorization.header() == "Bearer two"


def test_not_in_a_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ConfigError, match="KUBERNETES_SERVICE_HOST"):
        KubeConfig.in_cluster(tmp_path)


def test_a_kubeconfig_over_1_mib_is_refused() -> None:
    with pytest.raises(ConfigError, match="larger than 1048576 bytes"):
        KubeConfig.from_bytes(document() + b"#" * (1 << 20), hostile=True)


def test_tls_is_1_2_at_least(monkeypatch: pytest.MonkeyPatch) -> None:
    def lax(protocol: int) -> ssl.SSLContext:
        """A context of an OpenSSL that would still speak what is older."""
        made = ssl.SSLContext(protocol)
        made.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
        return made

    monkeypatch.setattr(kubeconfig, "ssl", SimpleNamespace(**vars(ssl) | {"SSLContext": lax}))
    context = KubeConfig("https://h:1", AUTHORITY.pem, CERT, KEY).ssl_context()
    assert context is not None
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
