"""A registry with one user and a password, on this machine's loopback. It serves one image, which contains only busybox.

    pod ──> kubelet ──> containerd ──> 127.0.0.1:<port> ──> 401 without the password, else manifest, configuration, layer

It has no TLS: a file in the folder of the host's registries tells the runtime so, only for this address.
"""

import base64
import gzip
import hashlib
import io
import json
import secrets
import shutil
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from e2e import machine

_REGISTRIES = machine.DATA / "config" / "certs.d"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
_USER = "puller"


@dataclass(slots=True)
class Registry:
    """The registry's content, its credentials, and the requests that it has accepted or refused."""

    address: str = ""
    password: str = field(default_factory=lambda: secrets.token_urlsafe(12))
    served: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    refused: int = 0

    @property
    def image(self) -> str:
        """The image by its full name."""
        return f"{self.address}/private/busybox:1"

    @property
    def authorization(self) -> str:
        """The only Authorization header that is accepted."""
        return "Basic " + base64.b64encode(f"{_USER}:{self.password}".encode()).decode()

    def credentials(self) -> str:
        """The data of a Secret of type kubernetes.io/dockerconfigjson."""
        auth = self.authorization.removeprefix("Basic ")
        return base64.b64encode(json.dumps({"auths": {self.address: {"auth": auth}}}).encode()).decode()

    def hold(self, path: str, media: str, data: bytes) -> dict[str, object]:
        """Serve something by its digest, and under a path of its own. Returns its descriptor."""
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        for item in (path, f"/v2/private/busybox/blobs/{digest}", f"/v2/private/busybox/manifests/{digest}"):
            self.served[item] = (media, data)
        return {"mediaType": media, "digest": digest, "size": len(data)}


@contextmanager
def private_registry() -> Iterator[Registry]:
    """Run it until the context ends."""
    registry = Registry()
    _fill(registry)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if self.headers.get("Authorization") != registry.authorization:
                registry.refused += 1
                return self._answer(401, "text/plain", b"", ("WWW-Authenticate", 'Basic realm="private"'))
            media, data = registry.served.get(self.path, ("", b""))
            return self._answer(200 if media else 404, media or "text/plain", data)

        do_HEAD = do_GET  # noqa: N815 -- the library's name

        def _answer(self, status: int, media: str, data: bytes, *more: tuple[str, str]) -> None:
            self.send_response(status)
            digest = ("Docker-Content-Digest", f"sha256:{hashlib.sha256(data).hexdigest()}")
            for name, value in (("Content-Type", media), ("Content-Length", str(len(data))), digest, *more):
                self.send_header(name, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(data)

        def log_message(self, *_args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    registry.address = f"127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    known = _REGISTRIES / registry.address
    known.mkdir(parents=True)
    (known / "hosts.toml").write_text(f'[host."http://{registry.address}"]\ncapabilities = ["pull", "resolve"]\n')
    try:
        yield registry
    finally:
        shutil.rmtree(known)
        server.shutdown()
        server.server_close()
        thread.join()


def _fill(registry: Registry) -> None:
    layer = _layer()
    packed = gzip.compress(layer, mtime=0)
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Env": ["PATH=/bin"]},
        # Makes the image's ID unique, so that it cannot be confused with an image that the node has already.
        "author": registry.password,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": _MANIFEST,
        "config": registry.hold("/config", _CONFIG, json.dumps(config).encode()),
        "layers": [registry.hold("/layer", _LAYER, packed)],
    }
    registry.served["/v2/"] = ("application/json", b"{}")
    registry.hold("/v2/private/busybox/manifests/1", _MANIFEST, json.dumps(manifest).encode())


def _layer() -> bytes:
    busybox = shutil.which("busybox")
    if busybox is None:
        raise FileNotFoundError("busybox is not installed (apt-get install busybox-static)")
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        program = tarfile.TarInfo("bin/busybox")
        data = Path(busybox).read_bytes()
        program.size, program.mode = len(data), 0o755
        tar.addfile(program, io.BytesIO(data))
        for applet in ("sh", "sleep", "cat"):
            link = tarfile.TarInfo(f"bin/{applet}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
    return out.getvalue()
