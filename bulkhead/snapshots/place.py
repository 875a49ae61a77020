"""Where snapshots are stored, as it is configured. Pure.

s3://bucket/prefix     with credentials from the environment, as every S3 client reads them
file:///backups        a directory that exists, such as a volume that the controller mounts
"""

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import urlsplit

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
    """A target from its URL. Raises ValueError."""
    parts = urlsplit(url)
    prefix = parts.path.strip("/")
    if parts.query or parts.fragment or "@" in parts.netloc:
        raise ValueError(f"{url[:100]!r} must have no credentials, query or fragment")
    if parts.scheme == "file":
        if parts.netloc or not parts.path.startswith("/") or ".." in PurePosixPath(parts.path).parts:
            raise ValueError(f"{url[:100]!r} must be file:///DIRECTORY")
        return Place("file", parts.path.rstrip("/") or "/")
    if parts.scheme != "s3" or not _BUCKET.fullmatch(parts.netloc) or not _PREFIX.fullmatch(prefix):
        raise ValueError(f"{url[:100]!r} must be s3://BUCKET/PREFIX or file:///DIRECTORY")
    if endpoint:
        found = urlsplit(endpoint)
        if found.scheme not in {"https", "http"} or not found.hostname or found.username or found.query:
            raise ValueError(f"the endpoint {endpoint[:100]!r} must be https://HOST:PORT")
        if found.scheme == "http" and not plain_http:
            raise ValueError(f"the endpoint {endpoint[:100]!r} is not encrypted: it must be allowed explicitly")
    return Place("s3", parts.netloc, prefix, endpoint, region, plain_http)


def check_recipient(text: str) -> str:
    """A public key of age that looks like one. Raises ValueError."""
    if not _RECIPIENT.fullmatch(text):
        raise ValueError(f"{text[:80]!r} is not an age public key (age1...)")
    return text
