"""Where snapshots are stored, as it is configured. Pure.

s3://bucket/prefix     with credentials from the environment, as every S3 client reads them
file:///backups        a directory that exists, such as a volume that the controller mounts
"""

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import SplitResult, urlsplit

_BUCKET: Final = re.compile(r"[a-z0-9][-a-z0-9.]{1,61}[a-z0-9]")
_PREFIX: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*(/[A-Za-z0-9][-A-Za-z0-9_.]*)*)?")
_RECIPIENT: Final = re.compile(r"age1[02-9ac-hj-np-z]{58}")


@dataclass(frozen=True, slots=True)
class Place:
    """A target as it is configured. `parse` has checked it."""

    scheme: str
    root: str  # bucket or directory
    prefix: str = ""
    endpoint: str = ""
    region: str = ""
    plain_http: bool = False

    def __str__(self) -> str:
        return f"s3://{self.root}/{self.prefix}".rstrip("/") if self.scheme == "s3" else f"file://{self.root}"


def parse(url: str, *, endpoint: str = "", region: str = "", plain_http: bool = False) -> Place:
    """A target from its URL. Raises ValueError, which never quotes credentials."""
    parts = _split(url, "the target")
    prefix = parts.path.strip("/")
    if parts.scheme == "file":
        if parts.netloc or not parts.path.startswith("/") or ".." in PurePosixPath(parts.path).parts:
            raise ValueError(f"{url[:100]!r} must be file:///DIRECTORY")
        return Place("file", parts.path.rstrip("/") or "/")
    if parts.scheme != "s3" or not _BUCKET.fullmatch(parts.netloc) or not _PREFIX.fullmatch(prefix):
        raise ValueError(f"{url[:100]!r} must be s3://BUCKET/PREFIX or file:///DIRECTORY")
    if endpoint:
        found = _split(endpoint, "the endpoint")
        if found.scheme not in {"https", "http"} or not found.hostname:
            raise ValueError(f"the endpoint {endpoint[:100]!r} must be https://HOST:PORT")
        if found.scheme == "http" and not plain_http:
            words = "is not encrypted: use https://, or allow it by --plain-http, in the chart by plainHTTP"
            raise ValueError(f"the endpoint {endpoint[:100]!r} {words}")
    return Place("s3", parts.netloc, prefix, endpoint, region, plain_http)


def _split(url: str, what: str) -> SplitResult:
    """The parts of a URL that has no credentials. Raises ValueError."""
    if "@" in url or "?" in url or "#" in url:
        # It is not quoted: what is wrong in it may be a secret key.
        where = "credentials of S3 are AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        raise ValueError(f"{what} must have no credentials, query or fragment: {where}")
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises for one that is not a number, or too large
    except ValueError as error:
        raise ValueError(f"{what} {url[:100]!r} is not a URL: {error}") from error
    return parts


def check_recipient(text: str) -> str:
    """A public key of age that looks like one. Raises ValueError."""
    if not _RECIPIENT.fullmatch(text):
        raise ValueError(f"{text[:80]!r} is not an age public key (age1...)")
    return text
