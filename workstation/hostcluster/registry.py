"""A registry for the embedded host: distribution, with TLS by a CA of its own, and one user with a password.

`ensure` writes its certificate, password and configuration, `component` is its process, and `hosts_toml` is what containerd
needs to pull from it. `bulkhead images push` fills it; this module puts no images into it. Nodes and the machine reach it at
the node's address. The password is random. It and a configuration for clients are in files that only root can read.

    <data>/registry/password, config.json (for clients), htpasswd, config.yml, store/      <data>/pki/registry-ca.crt
"""

import base64
import ctypes
import hashlib
import json
import secrets
from pathlib import Path
from typing import Final

import yaml

from workstation.hostcluster import pki
from workstation.hostcluster.component import NODE_ADDRESS, Component, HostContext, HttpHealth
from workstation.hostcluster.files import read_at_start, write_file

PORT: Final = 5000
ADDRESS: Final = f"{NODE_ADDRESS}:{PORT}"
USER: Final = "bulkhead"
CERTIFICATE: Final = "registry"
_LEAF: Final = pki.Leaf(CERTIFICATE, "registry-ca", "registry", server=True, client=False, hosts=(NODE_ADDRESS, "localhost"))
_COST: Final = 10
_SALT: Final = "./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"


def folder(ctx: HostContext) -> Path:
    """The folder with everything of the registry except its certificate."""
    return ctx.data_dir / "registry"


def password_file(ctx: HostContext) -> Path:
    """The password of `USER`."""
    return folder(ctx) / "password"


def ca_file(ctx: HostContext) -> Path:
    """The CA that clients trust."""
    return ctx.pki_dir / f"{_LEAF.ca}.crt"


def bcrypt(password: str, salt: str) -> str:
    """The only kind of hash that the registry accepts, computed by the C library: Python's own module for it was removed."""
    library = ctypes.CDLL("libcrypt.so.1")
    library.crypt.restype = ctypes.c_char_p
    library.crypt.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
    made = library.crypt(password.encode(), f"$2b${_COST:02}${salt}".encode())
    if not made or not made.startswith(b"$2b$"):
        raise RuntimeError("registry: libcrypt.so.1 cannot compute bcrypt hashes (apt-get install libcrypt1)")
    return bytes(made).decode()


def configuration(ctx: HostContext) -> str:
    """The registry's config.yml."""
    own = folder(ctx)
    document = {
        "version": 0.1,
        "log": {"level": "warn", "accesslog": {"disabled": True}},
        "storage": {"filesystem": {"rootdirectory": str(own / "store")}, "delete": {"enabled": True}},
        "http": {
            "addr": ADDRESS,
            # Uploads continue after a restart of the registry.
            "secret": hashlib.sha256(b"uploads" + password_file(ctx).read_bytes()).hexdigest(),
            "tls": {"certificate": str(ctx.pki_dir / f"{_LEAF.name}.crt"), "key": str(ctx.pki_dir / f"{_LEAF.name}.key")},
        },
        "auth": {"htpasswd": {"realm": "bulkhead", "path": str(own / "htpasswd")}},
    }
    return yaml.safe_dump(document, sort_keys=False)


def client_configuration(password: str) -> str:
    """The config.json for docker, helm and Secrets of type kubernetes.io/dockerconfigjson."""
    auth = base64.b64encode(f"{USER}:{password}".encode()).decode()
    return json.dumps({"auths": {ADDRESS: {"auth": auth}}}) + "\n"


def hosts_toml(ctx: HostContext) -> str:
    """How containerd reaches the registry."""
    server = f"https://{ADDRESS}"
    return f"""server = "{server}"

[host."{server}"]
capabilities = ["pull", "resolve"]
ca = {json.dumps(str(ca_file(ctx)))}
"""


def _password(ctx: HostContext) -> str:
    path = password_file(ctx)
    if not path.exists():
        write_file(path, (secrets.token_urlsafe(24) + "\n").encode(), mode=0o600)
    return path.read_text().strip()


def ensure(ctx: HostContext) -> None:
    """Create certificate, password and configuration; valid ones are kept."""
    own = folder(ctx)
    own.mkdir(parents=True, exist_ok=True, mode=0o700)
    pki.ensure_apart(ctx.pki_dir, _LEAF)
    password, hashed = _password(ctx), own / "htpasswd"
    salt = "".join(_SALT[byte % len(_SALT)] for byte in hashlib.sha256(b"salt" + password.encode()).digest()[:21]) + "u"
    write_file(hashed, f"{USER}:{bcrypt(password, salt)}\n".encode(), mode=0o600)
    write_file(own / "config.json", client_configuration(password).encode(), mode=0o600)
    write_file(own / "config.yml", configuration(ctx).encode(), mode=0o600)
    write_file(ctx.registries_dir / ADDRESS / "hosts.toml", hosts_toml(ctx).encode())


def component(ctx: HostContext) -> Component:
    """The process."""
    own = folder(ctx)
    read = read_at_start(own / "config.yml", own / "htpasswd", ctx.pki_dir / f"{_LEAF.name}.crt")
    env = {"OTEL_TRACES_EXPORTER": "none"} | read
    health = HttpHealth(f"https://{ADDRESS}/", ca_file(ctx))
    return Component("registry", (str(ctx.binaries["registry"]), "serve", str(own / "config.yml")), health, env=env)
