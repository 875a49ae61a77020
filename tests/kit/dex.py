"""A real identity provider for tests: Dex as a plain process behind TLS, its keys and sessions in memory.

    with running(folder) as dex: dex.password("ada")      an ID token by the password grant
                                 dex.browser("ada", ...)  one by the authorization code flow, with groups
                                 dex.kill(); dex.start()  a provider that was away, and has other keys since

Its users are `USERS`, each with the password `PASSWORD`, for its password form and the password grant. The connector `proxy`
accepts any user with any groups from two headers. Client `bulkhead` is public, as a command line is: it may use any
`http://localhost:PORT` as its redirect URI, and the device flow. `CONFIDENTIAL` has a secret.
"""

import contextlib
import json
import os
import ssl
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.kit import started
from tests.kit.pki import Authority
from tests.kit.ports import free_port
from workstation.hostcluster import binaries

PUBLIC: Final = "bulkhead"
CONFIDENTIAL: Final = "console"
SECRET: Final = "console-secret"
PASSWORD: Final = "password"
USERS: Final = ("ada", "grace", "mallory")
REDIRECT: Final = "http://localhost:8000"
SCOPES: Final = "openid email profile groups"
_HASH: Final = "$2a$10$2b2cU8CPhOTaGrs1HRQuAueS7JTT5ZHsHSzYiFPm1leZck7Mc8T4W"  # of PASSWORD
_READY_SECONDS: Final = 120.0


class Dex:
    """One provider; see the module."""

    def __init__(
        self,
        folder: Path,
        *,
        address: str = "127.0.0.1",
        audiences: Sequence[str] = (),
        lifetime: str = "10m",
        authority: Authority | None = None,
    ) -> None:
        self.folder = folder
        self.port = free_port()
        self.address = address
        self.url = f"https://{address}:{self.port}/dex"
        self.authority = authority or Authority("dex-ca")
        self.lifetime = lifetime
        self._audiences = audiences
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        cert, key = self.authority.issue("dex", addresses=(address, "localhost"))
        for name, data in {"tls.crt": cert, "tls.key": key, "ca.crt": self.authority.pem}.items():
            (folder / name).write_bytes(data)

    @property
    def ca(self) -> str:
        """The CA that verifies its certificate, as PEM."""
        return self.authority.pem.decode()

    def start(self, seconds: float = _READY_SECONDS) -> None:
        """Start it, with signing keys of its own, and wait until it answers."""
        path = self.folder / "dex.json"
        path.write_text(json.dumps(self._config()))
        log = self.folder / "dex.log"
        with log.open("ab") as written:
            self._process = subprocess.Popen(
                [str(binaries.ensure("dex")["dex"]), "serve", str(path)],
                stdin=subprocess.DEVNULL, stdout=written, stderr=written, env={"PATH": os.environ.get("PATH", "")},
            )  # fmt: skip
        document = "/.well-known/openid-configuration"
        started.wait("Dex", self._process, log, lambda: bool(self.get(document)), port=self.port, seconds=seconds)

    def kill(self) -> None:
        """Kill it, as a crash does; nothing happens if it does not run."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def get(self, path: str) -> dict[str, Any]:
        """GET one of its documents."""
        with self._opener().open(f"{self.url}{path}", timeout=60) as answer:
            return dict(json.load(answer))

    def password(self, user: str, client: str = PUBLIC, secret: str = "", scope: str = SCOPES) -> str:
        """An ID token by the resource owner password grant."""
        form = {"grant_type": "password", "username": f"{user}@example.org", "password": PASSWORD, "scope": scope}
        return str(self.token(form, client, secret)["id_token"])

    def browser(self, user: str, groups: Sequence[str] = (), client: str = PUBLIC, secret: str = "") -> str:
        """An ID token by the authorization code flow, for any user with any groups; plays the browser."""
        asked = {"client_id": client, "redirect_uri": REDIRECT, "response_type": "code", "scope": SCOPES, "state": "x"}
        who = {"X-Remote-User": user, "X-Remote-Group": ",".join(groups)}
        where = self.follow(f"{self.url}/auth/proxy?{urllib.parse.urlencode(asked)}", who)
        (code,) = urllib.parse.parse_qs(urllib.parse.urlsplit(where).query)["code"]
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": REDIRECT}
        return str(self.token(form, client, secret)["id_token"])

    def follow(self, url: str, headers: Mapping[str, str] | None = None) -> str:
        """Follow its redirects until one leads to another server. Returns that URL."""
        opener = self._opener(_Stay())
        for _ in range(10):
            try:
                request = urllib.request.Request(url, headers=dict(headers or {}))  # noqa: S310 -- a test's own
                opener.open(request, timeout=60).close()
            except urllib.error.HTTPError as answer:
                if answer.code not in {302, 303, 307}:
                    raise
                url = urllib.parse.urljoin(url, answer.headers["Location"])
                if not url.startswith(self.url):
                    return url
            else:
                raise AssertionError(f"{url} asks a person")
        raise AssertionError(f"{url}: sent on and on")

    def token(self, form: Mapping[str, str], client: str = PUBLIC, secret: str = "") -> dict[str, Any]:
        """Call the token endpoint."""
        body = urllib.parse.urlencode({**form, "client_id": client, "client_secret": secret}).encode()
        request = urllib.request.Request(f"{self.url}/token", data=body)  # noqa: S310 -- a test's own
        with self._opener().open(request, timeout=60) as answer:
            return dict(json.load(answer))

    def _opener(self, *more: urllib.request.BaseHandler) -> urllib.request.OpenerDirector:
        tls = ssl.create_default_context(cadata=self.ca)
        return urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=tls), *more)

    def _config(self) -> dict[str, Any]:
        people = [{"email": f"{user}@example.org", "hash": _HASH, "username": user, "userID": f"id-{user}"} for user in USERS]
        public = [{"id": name, "name": name, "public": True} for name in (PUBLIC, *self._audiences)]
        confidential = {"id": CONFIDENTIAL, "name": CONFIDENTIAL, "secret": SECRET, "redirectURIs": [REDIRECT]}
        return {
            "issuer": self.url,
            "storage": {"type": "memory"},
            "web": {
                "https": f"{self.address}:{self.port}",
                "tlsCert": str(self.folder / "tls.crt"),
                "tlsKey": str(self.folder / "tls.key"),
            },
            "oauth2": {"skipApprovalScreen": True, "passwordConnector": "local", "alwaysShowLoginScreen": False},
            "expiry": {"idTokens": self.lifetime},
            "enablePasswordDB": True,
            "staticPasswords": people,
            "staticClients": [*public, confidential],
            "connectors": [{"type": "authproxy", "id": "proxy", "name": "proxy"}],
        }


class _Stay(urllib.request.HTTPRedirectHandler):
    """Follows no redirect."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Leave the redirect to the caller."""


@contextlib.contextmanager
def running(folder: Path, **options: Any) -> Iterator[Dex]:
    """A provider that answers, until the end of the block."""
    dex = Dex(folder, **options)
    try:
        dex.start()
        yield dex
    finally:
        dex.kill()
