"""The Secrets of a plane: which container gets which file.

CA keys and the service account key have Secrets of their own that no pod mounts; the Secret of a container holds only what that
container needs. The content is passed in as data; nothing is generated here.
"""

import hashlib
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from bulkhead.api.kubeconfig import Credential, kubeconfig
from bulkhead.api.objects import Obj
from controller.plane import apiserver
from controller.plane.parts import metadata
from controller.plane.pki import DNS_USER, SYNCER_USER, USERS, Pair, authority_secret
from controller.plane.spec import API_PORT, DNS, PKI_PATH, PLANE, SYNCER, PlaneSpec

SERVICE_ACCOUNT_SECRET = "pki-service-account"  # noqa: S105 - the name of a Secret
# In the Secret of the CA of people: the revocation request for which its key was created, written together with the key.
REVOKED_FILE = "revoked"
API_SERVER = "pki-apiserver"
# The certificates besides that of its kubeconfig which a process reads only at its start, as files of its Secret.
_LOADED_AT_START: Final[Mapping[str, tuple[str, ...]]] = {
    "pki-syncer": ("shim.crt", "shim-client-ca.crt", "shim-proxy-ca.crt"),
    "pki-dns": (),
}


@dataclass(frozen=True, slots=True, repr=False)
class KeyMaterial:
    """All keys and certificates of one plane. It has no text form, so that it cannot end up in a log."""

    authorities: Mapping[str, Pair]
    leaves: Mapping[str, Pair]
    service_account: Pair
    encryption_key: str
    # The request for which the CA of people was last replaced; empty while it is the first one.
    revoked: str = ""

    @property
    def trust(self) -> str:
        """A digest of what processes load only at a restart; the API server reloads the CA of people by itself."""
        parts = [self.authorities[name].certificate for name in sorted(self.authorities) if name != USERS]
        return digest(*parts, self.service_account.certificate, self.encryption_key.encode())

    def read_once(self, secret: str) -> str:
        """A digest of the certificates that the process with this Secret loads only at its start."""
        client, serving = self.leaves[f"{secret}/client"], self.authorities["serving"]
        return read_once(secret, client.certificate, serving.certificate, _shim(self))


def digest(*parts: bytes) -> str:
    """A short digest for annotations on pod templates."""
    total = hashlib.sha256()
    for part in parts:
        total.update(len(part).to_bytes(8, "big") + part)
    return total.hexdigest()[:16]


def read_once(secret: str, client: bytes, serving: bytes, files: Mapping[str, bytes]) -> str:
    """A digest of what a process loads only at its start: the certificate in its kubeconfig, the CA of servers, and files.

    `files` are named as in its Secret; those that it does not load do not count. A reconcile and the renewal in a pause both
    use this digest; if theirs differed, a pause would restart the process.
    """
    return digest(client, serving, *(files.get(name, b"") for name in _LOADED_AT_START[secret]))


def authority_secrets(spec: PlaneSpec, keys: KeyMaterial) -> list[Obj]:
    """The Secrets with the keys from which everything else can be recreated."""
    made = [
        _secret(
            spec,
            authority_secret(name),
            PLANE,
            {"tls.crt": pair.certificate, "tls.key": pair.key}
            | ({REVOKED_FILE: keys.revoked.encode()} if name == USERS and keys.revoked else {}),
        )
        for name, pair in sorted(keys.authorities.items())
    ]
    account = {
        "sa.pub": keys.service_account.certificate,
        "sa.key": keys.service_account.key,
        "encryption.key": keys.encryption_key.encode(),
    }
    return [*made, _secret(spec, SERVICE_ACCOUNT_SECRET, PLANE, account)]


def leaf_secrets(spec: PlaneSpec, keys: KeyMaterial) -> list[Obj]:
    """The Secrets that containers mount."""
    return [
        _etcd(spec, keys),
        _apiserver(spec, keys),
        _controller_manager(spec, keys),
        _syncer(spec, keys),
        _dns(spec, keys),
    ]


def _etcd(spec: PlaneSpec, keys: KeyMaterial) -> Obj:
    return _secret(spec, "pki-etcd", PLANE, _ca(keys, "etcd", "ca.crt") | _pair(keys, "pki-etcd/server", "server"))


def _apiserver(spec: PlaneSpec, keys: KeyMaterial) -> Obj:
    files = {
        # Two CAs, for components and for people. The API server reloads this file when it changes.
        "client-ca.crt": keys.authorities["client"].certificate + keys.authorities[USERS].certificate,
        **_ca(keys, "etcd", "etcd-ca.crt"),
        **_ca(keys, "front-proxy", "front-proxy-ca.crt"),
        **_ca(keys, "kubelet", "kubelet-ca.crt"),
        **_ca(keys, "serving", "serving-ca.crt"),
        "sa.pub": keys.service_account.certificate,
        "sa.key": keys.service_account.key,
        "encryption.json": apiserver.encryption_config(keys.encryption_key).encode(),
    }
    for name in ("server", "etcd-client", "kubelet-client", "front-proxy"):
        files |= _pair(keys, f"pki-apiserver/{name}", name)
    return _secret(spec, API_SERVER, PLANE, files)


def _controller_manager(spec: PlaneSpec, keys: KeyMaterial) -> Obj:
    config = kubeconfig(
        name=spec.tenant,
        server=f"https://127.0.0.1:{API_PORT}",
        ca=f"{PKI_PATH}/serving-ca.crt",
        user="system:kube-controller-manager",
        credential=Credential(f"{PKI_PATH}/client.crt", f"{PKI_PATH}/client.key"),
    )
    files = {
        **_ca(keys, "serving", "serving-ca.crt"),
        **_pair(keys, "pki-controller-manager/server", "server"),
        **_pair(keys, "pki-controller-manager/client", "client"),
        "sa.key": keys.service_account.key,
        "kubeconfig": config.encode(),
    }
    return _secret(spec, "pki-controller-manager", PLANE, files)


def _syncer(spec: PlaneSpec, keys: KeyMaterial) -> Obj:
    files = {"kubeconfig": _client_config(spec, keys, "pki-syncer/client", SYNCER_USER), **_shim(keys)}
    return _secret(spec, "pki-syncer", SYNCER, files)


def _shim(keys: KeyMaterial) -> dict[str, bytes]:
    """What the syncer serves the kubelet's port with."""
    return {
        **_pair(keys, "pki-syncer/shim", "shim"),
        **_ca(keys, "kubelet", "shim-client-ca.crt"),
        **_ca(keys, "front-proxy", "shim-proxy-ca.crt"),
    }


def _dns(spec: PlaneSpec, keys: KeyMaterial) -> Obj:
    return _secret(spec, "pki-dns", DNS, {"kubeconfig": _client_config(spec, keys, "pki-dns/client", DNS_USER)})


def _client_config(spec: PlaneSpec, keys: KeyMaterial, leaf: str, user: str) -> bytes:
    pair = keys.leaves[leaf]
    return kubeconfig(
        name=spec.tenant,
        server=f"https://{spec.api_address}:443",
        ca=keys.authorities["serving"].certificate,
        user=user,
        credential=Credential(pair.certificate, pair.key),
    ).encode()


def _ca(keys: KeyMaterial, authority: str, file: str) -> dict[str, bytes]:
    return {file: keys.authorities[authority].certificate}


def _pair(keys: KeyMaterial, leaf: str, stem: str) -> dict[str, bytes]:
    pair = keys.leaves[leaf]
    return {f"{stem}.crt": pair.certificate, f"{stem}.key": pair.key}


def _secret(spec: PlaneSpec, name: str, component: str, files: Mapping[str, bytes]) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata(spec, name, namespace=spec.namespace, component=component),
        "type": "Opaque",
        "data": {key: b64encode(value).decode() for key, value in sorted(files.items())},
    }
