"""Where an API server is and how to prove who we are: kubeconfig files and the in-cluster ServiceAccount.

Never runs anything, follows no proxy, and reads no file that a hostile kubeconfig names: `exec:`, `auth-provider:`,
`proxy-url:`, `tokenFile:`, passwords, impersonation and `insecure-skip-tls-verify` are refused, and with `hostile=True`
every file reference is refused too. Keys never touch the disk on their way into OpenSSL.

    bytes ──> from_bytes ──> KubeConfig ──> ssl_context() + authorization() ──> transport
"""

import base64
import binascii
import contextlib
import os
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from bulkhead.kube.errors import ConfigError

_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_KUBECONFIG_BYTES = 1 << 20
_REFUSED_USER = ("exec", "auth-provider", "tokenFile", "username", "password", "as", "as-uid", "as-groups", "as-user-extra")
_REFUSED_CLUSTER = ("proxy-url", "insecure-skip-tls-verify")


@dataclass(frozen=True, slots=True, repr=False)
class KubeConfig:
    """One server and one identity."""

    server: str
    ca: bytes | None = None
    client_cert: bytes | None = None
    client_key: bytes | None = None
    token: str | None = None
    token_file: Path | None = None
    tls_server_name: str | None = None

    def __repr__(self) -> str:
        """Name the server only: the rest are credentials."""
        return f"KubeConfig(server={self.server!r})"

    @classmethod
    def from_file(cls, path: str | Path, *, context: str | None = None, hostile: bool = False) -> "KubeConfig":
        """Read a kubeconfig; relative file references resolve against its folder."""
        path = Path(path)
        try:
            data = path.read_bytes()
        except OSError as error:
            raise ConfigError(f"cannot read kubeconfig {path}: {error.strerror}") from error
        return cls.from_bytes(data, context=context, hostile=hostile, folder=path.parent)

    @classmethod
    def from_bytes(
        cls, data: bytes, *, context: str | None = None, hostile: bool = False, folder: Path | None = None
    ) -> "KubeConfig":
        """Read a kubeconfig from memory."""
        document = _load(data)
        chosen = context or _string(document, "current-context")
        scope = _named(document, "contexts", chosen, "context")
        cluster = _named(document, "clusters", _string(scope, "cluster"), "cluster")
        user = _named(document, "users", _string(scope, "user"), "user")
        _refuse(cluster, _REFUSED_CLUSTER, "cluster")
        _refuse(user, _REFUSED_USER, "user")
        files = None if hostile else folder or Path()
        config = cls(
            server=https_server(_string(cluster, "server")),
            ca=_material(cluster, "certificate-authority", files),
            client_cert=_material(user, "client-certificate", files),
            client_key=_material(user, "client-key", files),
            token=_optional(user, "token"),
            tls_server_name=_optional(cluster, "tls-server-name"),
        )
        if hostile and config.ca is None:
            raise ConfigError("kubeconfig refused: no certificate-authority-data; the server could be anyone")
        if (config.client_cert is None) != (config.client_key is None):
            raise ConfigError("kubeconfig broken: client certificate and client key go together")
        return config

    @classmethod
    def in_cluster(cls, folder: Path = _SERVICE_ACCOUNT) -> "KubeConfig":
        """Use the pod's ServiceAccount; the token is read again whenever the kubelet rotates it."""
        host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
        if not host:
            raise ConfigError("not in a cluster: KUBERNETES_SERVICE_HOST is not set; give a kubeconfig instead")
        try:
            ca = (folder / "ca.crt").read_bytes()
        except OSError as error:
            raise ConfigError(f"cannot read the ServiceAccount in {folder}: {error.strerror}") from error
        address = f"[{host}]" if ":" in host else host
        return cls(server=f"https://{address}:{port}", ca=ca, token_file=folder / "token")

    def ssl_context(self) -> ssl.SSLContext | None:
        """Build the one TLS context of a client; None for plain HTTP, which no file can name."""
        if not self.server.startswith("https://"):
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            if self.ca is None:
                context.load_default_certs()
            else:
                context.load_verify_locations(cadata=self.ca.decode("ascii"))
        except (ssl.SSLError, ValueError) as error:
            raise ConfigError(f"kubeconfig broken: certificate or key cannot be loaded: {error}") from error
        self.present(context)
        return context

    def present(self, context: ssl.SSLContext) -> None:
        """Let a TLS context show this identity's certificate from now on, if it has one."""
        if self.client_cert is None or self.client_key is None:
            return
        try:
            with _secret_file(self.client_cert + b"\n" + self.client_key) as path:
                context.load_cert_chain(path)
        except ssl.SSLError as error:
            raise ConfigError(f"kubeconfig broken: certificate or key cannot be loaded: {error}") from error


def _load(data: bytes) -> Mapping[str, Any]:
    if len(data) > _KUBECONFIG_BYTES:
        raise ConfigError(f"kubeconfig refused: larger than {_KUBECONFIG_BYTES} bytes")
    try:
        document = msgspec.json.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        import yaml  # noqa: PLC0415 -- JSON kubeconfigs, as our own processes get them, do without

        try:
            document = yaml.load(data, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 -- a safe loader
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            # A ValueError is a date that there is not. The parser's message quotes the input, which holds credentials.
            raise ConfigError("kubeconfig broken: neither YAML nor JSON") from error
    if not isinstance(document, dict):
        raise ConfigError("kubeconfig broken: not a mapping")
    return document


def _named(document: Mapping[str, Any], section: str, name: str, field: str) -> Mapping[str, Any]:
    entries = document.get(section)
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, dict) and entry.get("name") == name and isinstance(entry.get(field), dict):
            found: Mapping[str, Any] = entry[field]
            return found
    raise ConfigError(f"kubeconfig broken: no entry {name!r} in {section}")


def _string(mapping: Mapping[str, Any], field: str) -> str:
    value = mapping.get(field)
    if not isinstance(value, str) or not value:
        raise ConfigError(f"kubeconfig broken: {field} missing")
    return value


def _optional(mapping: Mapping[str, Any], field: str) -> str | None:
    return _string(mapping, field) if mapping.get(field) else None


def _refuse(mapping: Mapping[str, Any], fields: tuple[str, ...], where: str) -> None:
    for field in fields:
        if mapping.get(field):
            raise ConfigError(f"kubeconfig refused: {where} uses {field}; use certificates or a token inline")


def https_server(server: str) -> str:
    """The address of an API server, without a slash at its end. Raises ConfigError if it is not one of https."""
    try:
        parts = urlsplit(server)
        valid = parts.scheme == "https" and parts.hostname and not parts.username and not parts.query and not parts.fragment
        _ = parts.port  # raises unless the port is a number
    except ValueError:
        valid = False
    if not valid:
        raise ConfigError("kubeconfig refused: server must be https://host[:port]")
    return server.rstrip("/")


def _material(mapping: Mapping[str, Any], field: str, folder: Path | None) -> bytes | None:
    inline = _optional(mapping, f"{field}-data")
    if inline is not None:
        try:
            return base64.b64decode(inline, validate=True)
        except (binascii.Error, ValueError) as error:
            raise ConfigError(f"kubeconfig broken: {field}-data is not base64") from error
    name = _optional(mapping, field)
    if name is None:
        return None
    if folder is None:
        raise ConfigError(f"kubeconfig refused: {field} names a file; use {field}-data")
    try:
        return (folder / name).read_bytes()
    except OSError as error:
        raise ConfigError(f"kubeconfig broken: cannot read {field}: {error.strerror}") from error


@contextlib.contextmanager
def _secret_file(data: bytes) -> Iterator[str]:
    """Give OpenSSL a path to bytes: memory where the kernel can, else a private temporary file."""
    if not hasattr(os, "memfd_create"):
        with tempfile.NamedTemporaryFile() as file:
            file.write(data)
            file.flush()
            yield file.name
        return
    descriptor = os.memfd_create("credentials", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, data)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


class Authorization:
    """Value of the Authorization header; follows a token file that is rotated under us."""

    def __init__(self, config: KubeConfig) -> None:
        self._header = f"Bearer {config.token}" if config.token else None
        self._file = config.token_file
        self._seen: tuple[int, int] | None = None

    def header(self) -> str | None:
        """Return the header's value now."""
        if self._file is None:
            return self._header
        try:
            stat = self._file.stat()
            mark = (stat.st_mtime_ns, stat.st_ino)
            if mark != self._seen:
                self._header = f"Bearer {self._file.read_text().strip()}"
                self._seen = mark
        except OSError as error:
            # A rotation may be half done: the old token is still valid then.
            if self._header is None:
                raise ConfigError(f"cannot read token {self._file}: {error.strerror}") from error
        return self._header
