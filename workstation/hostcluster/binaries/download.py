"""Official release files, checked by the SHA-256 sums that the same release publishes.

The check detects damage and mix-ups; against a forged release it is as strong as TLS to the publisher. A wrong sum is an error.
Only an unreachable publisher leads to a build instead.
"""

import hashlib
import http.client
import re
import tarfile
import urllib.request
from pathlib import Path

from workstation.hostcluster.binaries.versions import Download, Recipe
from workstation.hostcluster.component import Progress

_REACH_SECONDS = 4.0
_STALL_SECONDS = 30.0
_CHUNK = 1 << 20
_MAX_SUMS = 1 << 20


def digest_for(sums: str, file: str) -> str:
    """The SHA-256 of a file in a release's list: lines of `digest  file`, or one bare digest."""
    lines = [line.split() for line in sums.splitlines() if line.strip()]
    for parts in lines:
        if re.fullmatch(r"[0-9a-f]{64}", parts[0]) and (len(parts) == 1 or Path(parts[-1].lstrip("*")).name == file):
            return parts[0]
    raise ValueError(f"release checksums: {file} is not listed")


def _sums(item: Download) -> str | None:
    """The release's checksums, or None if the publisher cannot be reached."""
    try:
        with urllib.request.urlopen(item.checksums, timeout=_REACH_SECONDS) as answer:  # noqa: S310 - https, from our table
            return str(answer.read(_MAX_SUMS).decode("ascii", "replace"))
    except (OSError, http.client.HTTPException):
        return None


def _save(item: Download, to: Path, report: Progress) -> str:
    digest = hashlib.sha256()
    with urllib.request.urlopen(item.url, timeout=_STALL_SECONDS) as answer, to.open("wb") as out:  # noqa: S310 - the same
        size = int(answer.headers.get("Content-Length") or 0)
        done = 0
        while chunk := answer.read(_CHUNK):
            digest.update(chunk)
            out.write(chunk)
            done += len(chunk)
            report.detail(f"downloading {to.name}: {done >> 20} of {size >> 20} MiB")
    return digest.hexdigest()


def _unpack(item: Download, file: Path, into: Path) -> None:
    if not item.members:
        file.rename(into / item.name)
        (into / item.name).chmod(0o755)
        return
    with tarfile.open(file) as archive:
        for member, name in item.members:
            stream = archive.extractfile(member)
            if stream is None:
                raise RuntimeError(f"release {item.url}: {member} is not a file")
            (into / name).write_bytes(stream.read())
            (into / name).chmod(0o755)
    file.unlink()


def fetch(wanted: Recipe, into: Path, report: Progress) -> bool:
    """Download a component. False if it has no release, or if its publisher cannot be reached or breaks off."""
    for item in wanted.downloads:
        report.detail(f"looking for the release of {wanted.component} {wanted.version}")
        file = into.parent / item.url.rsplit("/", 1)[-1]
        sums = _sums(item)
        if sums is None:
            return False
        try:
            expected = digest_for(sums, file.name)
        except ValueError as error:
            # As a proxy's page is not a list.
            raise RuntimeError(f"{error} in {item.checksums}: does a proxy answer in its place?") from error
        try:
            found = _save(item, file, report)
        except (OSError, http.client.HTTPException) as error:
            report.warn(f"download of {item.url} broke off ({error}): building it instead")
            return False
        if found != expected:
            raise RuntimeError(f"release {item.url}: the SHA-256 must be {expected}, not {found}; the file is not used")
        _unpack(item, file, into)
    return bool(wanted.downloads)
