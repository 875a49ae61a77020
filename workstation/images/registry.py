"""A registry's API, as far as a push needs it (OCI distribution 1.1): who is there already, blobs in chunks, manifests, tags.

Flow of one request: `call` sends it with what this registry has asked for so far; a 401 is answered once, with a password or a
token; overload is waited for; anything else that is no answer to the question is a `RegistryError` in words. Credentials go to
the registry's own origin, and to the issuer of tokens that it names, over TLS; a redirect to another host is followed without.
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

_MOST_REDIRECTS: Final = 3
_TRIES: Final = 4
_MOST_WAIT: Final = 30.0
_PARAMETER: Final = re.compile(r'([a-zA-Z]+)="([^"\\]{0,2000})"')
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/=-]{1,32768}")
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_BUSY: Final = frozenset({429, 500, 502, 503, 504})
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})


class RegistryRefusedError(RegistryError):
    """The registry refuses these credentials, or refuses them this repository."""


@dataclass(frozen=True, slots=True)
class Registry:
    """One registry through one transport; `pause` waits some seconds."""

    place: Place
    transport: Transport
    credentials: Credentials | None = None
    pause: Callable[[float], None] = time.sleep
    _granted: dict[str, str] = field(default_factory=dict)  # what the requests for each repository carry

    def check(self) -> None:
        """Whether a registry answers there, and takes the credentials."""
        answer = self.call("GET", "/v2/")
        if answer.status != 200:
            raise RegistryError(f"{self.place.host} is no registry: GET /v2/ answers {answer.status}{_reason(answer)}")

    def has_blob(self, repository: str, blob: Described) -> bool:
        """Whether a blob is there, whole."""
        answer = self.call("HEAD", f"/v2/{repository}/blobs/{blob.digest}", repository)
        return answer.status == 200 and answer.headers.get("content-length", str(blob.size)) == str(blob.size)

    def begin(self, repository: str) -> str:
        """A new upload; returns where it goes on."""
        path = f"/v2/{repository}/blobs/uploads/"
        return self._location(self.call("POST", path, repository), path, f"begin an upload into {repository}")

    def offset(self, repository: str, location: str) -> tuple[str, int] | None:
        """How far an upload has come, and where it goes on; None for one that is no more."""
        answer = self.call("GET", location, repository)
        if answer.status != 204:
            return None
        found = re.fullmatch(r"(?:bytes=)?0-([0-9]{1,15})", answer.headers.get("range", ""))
        return self._next(answer, location), int(found[1]) + 1 if found and found[1] != "0" else 0

    def send(self, repository: str, location: str, chunk: bytes, start: int) -> str:
        """The next chunk of an upload; returns where it goes on."""
        headers = {"Content-Type": "application/octet-stream", "Content-Range": f"{start}-{start + len(chunk) - 1}"}
        answer = self.call("PATCH", location, repository, headers, chunk)
        return self._location(answer, location, f"send a chunk to {repository}")

    def finish(self, repository: str, location: str, digest: str, chunk: bytes = b"", start: int = 0) -> None:
        """The end of an upload, with its last bytes where there are some left; the registry compares the digest."""
        headers = {"Content-Type": "application/octet-stream"}
        if chunk and start:
            headers["Content-Range"] = f"{start}-{start + len(chunk) - 1}"
        joined = f"{location}{'&' if '?' in location else '?'}{urlencode({'digest': digest})}"
        answer = self.call("PUT", joined, repository, headers, chunk)
        if answer.status != 201:
            raise self._unexpected(answer, f"take blob {digest} of {repository}")
        self._same(answer, digest, f"{repository}: blob")

    def manifest(self, repository: str, reference: str, accept: str) -> bytes | None:
        """A manifest by tag or digest; None where there is none."""
        answer = self.call("GET", f"/v2/{repository}/manifests/{reference}", repository, {"Accept": accept})
        if answer.status == 404:
            return None
        if answer.status != 200:
            raise self._unexpected(answer, f"read {repository}:{reference}")
        return answer.body

    def digest(self, repository: str, reference: str, accept: str) -> str:
        """The digest behind a tag or digest; empty where there is nothing."""
        answer = self.call("HEAD", f"/v2/{repository}/manifests/{reference}", repository, {"Accept": accept})
        found = answer.headers.get("docker-content-digest", "")
        return found if answer.status == 200 and _DIGEST.fullmatch(found) else ""

    def put_manifest(self, repository: str, reference: str, content: bytes, described: Described) -> None:
        """Write a manifest or index under a tag or digest."""
        path = f"/v2/{repository}/manifests/{reference}"
        answer = self.call("PUT", path, repository, {"Content-Type": described.media_type}, content)
        if answer.status != 201:
            raise self._unexpected(answer, f"take the manifest {repository}:{reference}")
        self._same(answer, described.digest, f"{repository}:{reference}")

    def lists_referrers(self, repository: str, digest: str) -> bool:
        """Whether the registry itself lists what refers to a manifest."""
        answer = self.call("GET", f"/v2/{repository}/referrers/{digest}", repository)
        return answer.status == 200 and isinstance(_object(answer.body).get("manifests"), list)

    def call(
        self, method: str, path: str, repository: str = "", headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> Answer:
        """One request, whose answer is neither a redirect, nor a question for a password, nor overload."""
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
        for _ in range(_MOST_REDIRECTS + 1):
            there = origin(url)
            if own[0] == "https" and there[0] != "https":
                raise RegistryError(f"{self.place.host} sends to {there[1]} without TLS; nothing was sent there")
            granted = self._granted.get(repository, "") if there == own else ""
            answer = self.transport.exchange(method, url, {**headers, **({"Authorization": granted} if granted else {})}, body)
            if answer.status not in _REDIRECTS or method not in {"GET", "HEAD"}:
                return answer
            url = urljoin(url, answer.headers.get("location", ""))
        raise RegistryError(f"{self.place.host} redirects more than {_MOST_REDIRECTS} times")

    def _grant(self, answer: Answer, repository: str) -> str:
        """What a 401 asks for, as the value of an Authorization header."""
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
            raise RegistryError(f"{self.place.host} has its tokens issued by {issuer[1]} without TLS; nothing was sent there")
        query = {"service": parameters["service"]} if parameters.get("service") else {}
        query |= {"scope": f"repository:{repository}:pull,push"} if repository else {}
        headers = {"Authorization": self.credentials.basic()} if self.credentials else {}
        answer = self.transport.exchange("GET", f"{realm}{'&' if '?' in realm else '?'}{urlencode(query)}", headers)
        if answer.status in {400, 401, 403}:
            raise self._refused(answer, repository)
        document = _object(answer.body) if answer.status == 200 else {}
        token = document.get("token") or document.get("access_token")
        if not isinstance(token, str) or not _TOKEN.fullmatch(token):
            raise RegistryError(f"{issuer[1]} issues no token for {self.place.host}: {answer.status}{_reason(answer)}")
        return token

    def _location(self, answer: Answer, asked: str, what: str) -> str:
        if answer.status != 202:
            raise self._unexpected(answer, what)
        if not answer.headers.get("location"):
            raise RegistryError(f"{self.place.host}: could not {what}: its answer says not where to go on")
        return self._next(answer, asked)

    def _next(self, answer: Answer, asked: str) -> str:
        """Where an upload goes on; an answer may be of another host than the registry's own."""
        return urljoin(urljoin(self.place.origin, asked), answer.headers.get("location") or asked)

    def _same(self, answer: Answer, digest: str, what: str) -> None:
        found = answer.headers.get("docker-content-digest", digest)
        if found != digest:
            raise RegistryError(f"{self.place.host} has stored something else: {what} is {digest}, and it says {found[:80]!r}")

    def _refused(self, answer: Answer, repository: str) -> RegistryRefusedError:
        who = f"the user {self.credentials.user!r} with this password" if self.credentials else "a push without credentials"
        what = f" for {repository}" if repository else ""
        return RegistryRefusedError(f"{self.place.host} refuses {who}{what}{_reason(answer)}")

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
    """What the registry says of an error, in one short printable line."""
    errors = _object(answer.body).get("errors")
    first = errors[0] if isinstance(errors, list) and errors and isinstance(errors[0], dict) else {}
    said = " ".join(str(first.get(key) or "") for key in ("code", "message")).strip()
    text = "".join(char if char.isprintable() else " " for char in said)[:200]
    return f" ({text})" if text else ""


def _wait(answer: Answer, attempt: int) -> float:
    asked = answer.headers.get("retry-after", "")
    return min(float(asked), _MOST_WAIT) if re.fullmatch(r"[0-9]{1,6}", asked) else float(2**attempt)
