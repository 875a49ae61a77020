"""The audit trail that a class requests, as `PlaneSpec` holds it: how much is kept, and where it is sent. Data only."""

from dataclasses import dataclass, field
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Receiver:
    """The receiver of an audit trail, and the credential that the plane sends."""

    url: str
    address: str
    certificate_authority: str
    secret: str
    namespace: str = ""  # of its pods, if they run on the host
    credential: tuple[tuple[str, str], ...] = field(
        default=(), repr=False
    )  # files and their content in base64; empty if no credential is known
    trouble: str = ""  # why the Secret could not be read or used

    @property
    def host(self) -> str:
        """The name or address in the URL."""
        return urlsplit(self.url).hostname or ""

    @property
    def port(self) -> int:
        """The port in the URL."""
        return urlsplit(self.url).port or 443


@dataclass(frozen=True, slots=True)
class Audit:
    """The audit trail that a class requests."""

    requests: bool = False  # whether bodies of requests are recorded, too
    sink: str = "File"
    file_mib: int = 32
    backups: int = 2
    days: int = 30
    retain: bool = False  # whether the files are on etcd's volume
    receiver: Receiver | None = None

    @property
    def files(self) -> bool:
        """Whether it is written to files."""
        return self.sink == "File"

    @property
    def room_mib(self) -> int:
        """The most MiB that the files take: when a new file begins, one old file too many still exists."""
        return self.file_mib * (self.backups + 2)
