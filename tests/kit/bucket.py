"""A real S3 endpoint for tests: rclone's server over a folder, with one bucket."""

import contextlib
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from bulkhead.snapshots.place import Place
from bulkhead.snapshots.target import Target
from tests.kit import started
from tests.kit.ports import free_port
from tests.kit.servers import die_with_parent

BUCKET: Final = "backups"
KEY: Final = {"access_key_id": "backupkeyid", "secret_access_key": "backupsecretkey"}


@dataclass(frozen=True, slots=True)
class Bucket:
    """The endpoint, and the folder in which its objects are."""

    folder: Path
    port: int
    address: str = "127.0.0.1"

    @property
    def endpoint(self) -> str:
        return f"http://{self.address}:{self.port}"

    def place(self, **changes: str) -> Place:
        """The bucket as an installation names it."""
        given = {"root": BUCKET, "prefix": "", "endpoint": self.endpoint} | changes
        return Place("s3", plain_http=True, **given)

    def target(self, **changes: str) -> Target:
        return Target(self.place(**changes), KEY)

    def objects(self) -> dict[str, Path]:
        """Every object by its key."""
        root = self.folder / BUCKET
        return {path.relative_to(root).as_posix(): path for path in root.rglob("*") if path.is_file()}


@contextlib.contextmanager
def bucket(
    folder: Path, *options: str, key: Mapping[str, str] = MappingProxyType(KEY), address: str = "127.0.0.1"
) -> Iterator[Bucket]:
    """A bucket until the end of the block, at an address of this machine."""
    (folder / BUCKET).mkdir(parents=True, exist_ok=True)
    program = shutil.which("rclone", path=str(Path(sys.executable).parent)) or "rclone"
    made = Bucket(folder, free_port(), address)
    auth = ",".join(key.values())
    command = [program, "serve", "s3", str(folder), f"--addr={address}:{made.port}", f"--auth-key={auth}", *options]
    log = folder.parent / f"{folder.name}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*command, "--config=/dev/null"],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            preexec_fn=die_with_parent,  # noqa: PLW1509 -- started from the one thread there is
        )
    try:
        started.wait("rclone", process, log, lambda: _answers(made.endpoint), port=made.port)
        yield made
    finally:
        process.kill()
        process.wait()


def _answers(endpoint: str) -> bool:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with contextlib.suppress(urllib.error.HTTPError):  # it answers, and refuses
        opener.open(endpoint, timeout=2).close()
    return True
