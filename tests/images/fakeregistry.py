"""A registry in a thread, which does what a registry does, or what a hostile one would."""

import hashlib
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

Twist = Callable[["Handler"], bool]


@dataclass
class FakeRegistry:
    """What it holds, what it was asked, and what it does instead: a twist that returns True has answered."""

    blobs: dict[str, bytes] = field(default_factory=dict)
    uploads: dict[str, bytes] = field(default_factory=dict)
    manifests: dict[str, bytes] = field(default_factory=dict)
    asked: list[tuple[str, str, str]] = field(default_factory=list)  # method, path, authorization
    authorization: str = ""  # what every request must carry
    challenge: str = 'Basic realm="fake"'
    referrers: bool = False
    twist: Twist = lambda _: False
    address: str = ""
    begun: int = 0

    def count(self, method: str, part: str = "") -> int:
        return sum(each[0] == method and part in each[1] for each in self.asked)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    fake: FakeRegistry

    def log_message(self, *_: Any) -> None:
        """Nothing."""

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def answer(self, status: int, headers: dict[str, str] | None = None, body: bytes = b"") -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def handle_any(self) -> None:
        authorization = self.headers.get("Authorization", "")
        self.fake.asked.append((self.command, self.path, authorization))
        if self.fake.twist(self):
            return
        content = self.body()
        if self.fake.authorization and authorization != self.fake.authorization:
            self.answer(401, {"WWW-Authenticate": self.fake.challenge})
            return
        self.serve(urlsplit(self.path).path, content)

    def serve(self, path: str, content: bytes) -> None:
        fake = self.fake
        if path == "/v2/":
            self.answer(200)
        elif found := re.fullmatch(r"/v2/(.+)/blobs/(sha256:[0-9a-f]{64})", path):
            blob = fake.blobs.get(found[2])
            self.answer(404) if blob is None else self.answer(200, {"Content-Length": str(len(blob))})
        elif path.endswith("/blobs/uploads/"):
            name = f"u{fake.begun}"
            fake.begun += 1
            fake.uploads[name] = b""
            self.answer(202, {"Location": f"/upload/{name}"})
        elif path.startswith("/upload/"):
            self.upload(path.removeprefix("/upload/"), content)
        elif found := re.fullmatch(r"/v2/(.+)/manifests/(.+)", path):
            self.manifest(found[1], found[2], content)
        elif "/referrers/" in path and fake.referrers:
            self.answer(200, body=b'{"manifests":[]}')
        else:
            self.answer(404)

    def upload(self, name: str, content: bytes) -> None:
        fake = self.fake
        if name not in fake.uploads:
            self.answer(404)
            return
        fake.uploads[name] += content
        length = len(fake.uploads[name])
        if self.command != "PUT":
            where = {"Location": f"/upload/{name}", "Range": f"0-{max(0, length - 1)}"}
            self.answer(204 if self.command == "GET" else 202, where)
            return
        digest = parse_qs(urlsplit(self.path).query)["digest"][0]
        whole = fake.uploads.pop(name)
        if "sha256:" + hashlib.sha256(whole).hexdigest() != digest:
            self.answer(400, body=b'{"errors":[{"code":"DIGEST_INVALID","message":"not that"}]}')
            return
        fake.blobs[digest] = whole
        self.answer(201, {"Docker-Content-Digest": digest})

    def manifest(self, repository: str, reference: str, content: bytes) -> None:
        fake, key = self.fake, f"{repository}:{reference}"
        if self.command == "PUT":
            digest = "sha256:" + hashlib.sha256(content).hexdigest()
            fake.manifests[key] = fake.manifests[f"{repository}:{digest}"] = content
            self.answer(201, {"Docker-Content-Digest": digest})
        elif key in fake.manifests:
            there = fake.manifests[key]
            self.answer(200, {"Docker-Content-Digest": "sha256:" + hashlib.sha256(there).hexdigest()}, there)
        else:
            self.answer(404)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = handle_any  # noqa: N815 - the server calls them so


@contextmanager
def serving(fake: FakeRegistry | None = None) -> Iterator[FakeRegistry]:
    fake = fake or FakeRegistry()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"fake": fake}))
    server.daemon_threads = True
    fake.address = f"127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
