"""The part of a registry's API that a push needs (OCI distribution 1.1): credentials, blobs in chunks, manifests, tags.

How one request goes: `call` sends it with the credentials that this registry has requested so far. It answers a 401 once, with
a password or a token, and waits when the registry is overloaded. Any other unexpected answer is a `RegistryError`. Credentials
go only to the registry's own origin and, over TLS, to the token issuer that it names; redirects to other hosts get none.
"""

import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlencode, urljoin

from workstation.images.archive import Described
from workstation.images.credentials import Credentials
from workstation.images.place import Place
from workstation.images.transport import Answer, BrokenError, RegistryError, Transport, origin

_MAX_REDIRECTS: Final = 3
_TRIES: Final = 4
_MAX_WAIT_SECONDS: Final = 30.0
_PARAMETER: Final = re.compile(r'([a-zA-Z]+)="([^"\\]{0,2000})"')
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/=-]{1,32768}")
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_BUSY: Final = frozenset({429, 500, 502, 503, 504})
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})


class RegistryRefusedError(RegistryError):
    """The registry refuses these credentials, or refuses them this repository."""


@dataclass(frozen=True, slots=True)
class Registry:
    """One registry through one transport; `pause` waits for so many seconds."""

    place: Place
    transport: Transport
    credentials: Credentials | None = None
    pause: Callable[[float], None] = time.sleep
    _granted: dict[str, str] = field(default_factory=dict)  # repository ──> its Authorization header

    def check(self) -> None:
        """Check that a registry answers and accepts the credentials."""
        answer = self.call("GET", "/v2/")
        if answer.status != 200:
            raise RegistryError(f"{self.place.host} is not a registry: GET /v2/ answers {answer.status}{_reason(answer)}")

    def has_blob(self, repository: str, blob: Described) -> bool:
        """Whether the registry has a blob completely."""
        answer = self.call("HEAD", f"/v2/{repository}/blobs/{blob.digest}", repository)
        return answer.status == 200 and answer.headers.get("content-length", str(blob.size)) == str(blob.size)

    def begin(self, repository: str) -> str:
        """Begin an upload; returns the location of its next request."""
        path = f"/v2/{repository}/blobs/uploads/"
        return self._location(self.call("POST", path, repository), path, f"begin an upload into {repository}")

    def offset(self, repository: str, location: str) -> tuple[str, int] | None:
        """How many bytes of an upload have arrived, and its next location; None for an upload that no longer exists."""
        answer = self.call("GET", location, repository)
        if answer.status != 204:
            return None
        found = re.fullmatch(r"(?:bytes=)?0-([0-9]{1,15})", answer.headers.get("range", ""))
        return self._next(answer, location), int(found[1]) + 1 if found and found[1] != "0" else 0

    def send(self, repository: str, location: str, chunk: bytes, start: int) -> str:
        """Send the next chunk of an upload; returns the next location."""
        headers = {"Content-Type": "application/octet-stream", "Content-Range": f"{start}-{start + len(chunk) - 1}"}
        answer = self.call("PATCH", location, repository, headers, chunk)
        return self._location(answer, location, f"send a chunk to {repository}")

    def finish(self, repository: str, location: str, digest: str, chunk: bytes = b"", start: int = 0) -> None:
        """End an upload, with its last bytes if some are left; the registry compares the digest."""
        headers = {"Content-Type": "application/octet-stream"}
        if chunk and start:
            headers["Content-Range"] = f"{start}-{start + len(chunk) - 1}"
        joined = f"{location}{'&' if '?' in location else '?'}{urlencode({'digest': digest})}"
        answer = self.call("PUT", joined, repository, headers, chunk)
        if answer.status != 201:
            raise self._unexpected(answer, f"store blob {digest} of {repository}")
        self._same(answer, digest, f"{repository}: blob")

    def manifest(self, repository: str, reference: str, accept: str) -> bytes | None:
        """A manifest by tag or digest; None if it does not exist."""
        answer = self.call("GET", f"/v2/{repository}/manifests/{reference}", repository, {"Accept": accept})
        if answer.status == 404:
            return None
        if answer.status != 200:
            raise self._unexpected(answer, f"read {repository}:{reference}")
        return answer.body

    def digest(self, repository: str, reference: str, accept: str) -> str:
        """The digest of a tag or digest; empty if it does not exist."""
        answer = self.call("HEAD", f"/v2/{repository}/manifests/{reference}", repository, {"Accept": accept})
        found = answer.headers.get("docker-content-digest", "")
        return found if answer.status == 200 and _DIGEST.fullmatch(found) else ""

    def put_manifest(self, repository: str, reference: str, content: bytes, described: Described) -> None:
        """Write a manifest or index under a tag or digest."""
        path = f"/v2/{repository}/manifests/{reference}"
        answer = self.call("PUT", path, repository, {"Content-Type": described.media_type}, content)
        if answer.status != 201:
            raise self._unexpected(answer, f"store the manifest {repository}:{reference}")
        self._same(answer, described.digest, f"{repository}:{reference}")

    def lists_referrers(self, repository: str, digest: str) -> bool:
        """Whether the registry itself lists the referrers of a manifest."""
        answer = self.call("GET", f"/v2/{repository}/referrers/{digest}", repository)
        return answer.status == 200 and isinstance(_object(answer.body).get("manifests"), list)

    def call(
        self, method: str, path: str, repository: str = "", headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> Answer:
        """One request; redirects, a 401 and overload are handled."""
        url, asked = urljoin(self.place.origin, path), False
        for attempt in range(1, _TRIES + 1):
            answer = self._followed(method, url, repository, headers or {}, body)
            if answer.status == 401 and not asked:
                asked = True
                self._granted[repository] = self._grant(answer, repository)
                answer = self._followed(method, url, repository, headers or {}, body)
            if answer.status in {401, 403}:
                raise self._refused(answer, repository)
            if answer.status not in _BUSY:
                return answer
            if attempt < _TRIES:
                self.pause(_wait(answer, attempt))
        raise BrokenError(f"{self.place.host}: {method} answers {answer.status}{_reason(answer)}, {_TRIES} times")

    def _followed(self, method: str, url: str, repository: str, headers: Mapping[str, str], body: bytes) -> Answer:
        own = origin(self.place.origin)
        for _ in range(_MAX_REDIRECTS + 1):
            there = origin(url)
            if own[0] == "https" and there[0] != "https":
                raise RegistryError(f"{self.place.host} redirects to {there[1]} without TLS; nothing was sent there")
            granted = self._granted.get(repository, "") if there == own else ""
            answer = self.transport.exchange(method, url, {**headers, **({"Authorization": granted} if granted else {})}, body)
            if answer.status not in _REDIRECTS or method not in {"GET", "HEAD"}:
                return answer
            url = urljoin(url, answer.headers.get("location", ""))
        raise RegistryError(f"{self.place.host} redirects more than {_MAX_REDIRECTS} times")

    def _grant(self, answer: Answer, repository: str) -> str:
        """The answer to a 401, as the value of an Authorization header."""
        challenge = answer.headers.get("www-authenticate", "")
        kind, _, rest = challenge.partition(" ")
        if kind.lower() == "basic" and self.credentials:
            return self.credentials.basic()
        if kind.lower() == "bearer":
            return "Bearer " + self._token({name.lower(): value for name, value in _PARAMETER.findall(rest)}, repository)
        raise self._refused(answer, repository)

    def _token(self, parameters: Mapping[str, str], repository: str) -> str:
        realm = parameters.get("realm", "")
        issuer, own = origin(realm), origin(self.place.origin)
        if issuer != own and issuer[0] != "https":
            raise RegistryError(f"{self.place.host} uses the token issuer {issuer[1]} without TLS; nothing was sent there")
        query = {"service": parameters["service"]} if parameters.get("service") else {}
        query |= {"scope": f"repository:{repository}:pull,push"} if repository else {}
        headers = {"Authorization": self.credentials.basic()} if self.credentials else {}
        answer = self.transport.exchange("GET", f"{realm}{'&' if '?' in realm else '?'}{urlencode(query)}", headers)
        if answer.status in {400, 401, 403}:
            raise self._refused(answer, repository)
        document = _object(answer.body) if answer.status == 200 else {}
        token = document.get("token") or document.get("access_token")
        if not isinstance(token, str) or not _TOKEN.fullmatch(token):
            raise RegistryError(f"{issuer[1]} issued no token for {self.place.host}: {answer.status}{_reason(answer)}")
        return token

    def _location(self, answer: Answer, asked: str, what: str) -> str:
        if answer.status != 202:
            raise self._unexpected(answer, what)
        if not answer.headers.get("location"):
            raise RegistryError(f"{self.place.host}: could not {what}: the answer has no location for the next request")
        return self._next(answer, asked)

    def _next(self, answer: Answer, asked: str) -> str:
        """The next location of an upload; it may be on another host than the registry's."""
        return urljoin(urljoin(self.place.origin, asked), answer.headers.get("location") or asked)

    def _same(self, answer: Answer, digest: str, what: str) -> None:
        found = answer.headers.get("docker-content-digest", digest)
        if found != digest:
            raise RegistryError(f"{self.place.host} stored something else: {what} is {digest}, but it reports {found[:80]!r}")

    def _refused(self, answer: Answer, repository: str) -> RegistryRefusedError:
        user = self.credentials.user if self.credentials else None
        identity = f"the user {user!r} with this password" if user is not None else "a push without credentials"
        what = f" for {repository}" if repository else ""
        return RegistryRefusedError(f"{self.place.host} refuses {identity}{what}{_reason(answer)}")

    def _unexpected(self, answer: Answer, what: str) -> RegistryError:
        kind = BrokenError if answer.status in {404, 416} else RegistryError
        return kind(f"{self.place.host}: could not {what}: {answer.status}{_reason(answer)}")


def _object(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _reason(answer: Answer) -> str:
    """The registry's error message, as one short printable line."""
    errors = _object(answer.body).get("errors")
    first = errors[0] if isinstance(errors, list) and errors and isinstance(errors[0], dict) else {}
    message = " ".join(str(first.get(key) or "") for key in ("code", "message")).strip()
    text = "".join(char if char.isprintable() else " " for char in message)[:200]
    return f" ({text})" if text else ""


def _wait(answer: Answer, attempt: int) -> float:
    asked = answer.headers.get("retry-after", "")
    return min(float(asked), _MAX_WAIT_SECONDS) if re.fullmatch(r"[0-9]{1,6}", asked) else float(2**attempt)
