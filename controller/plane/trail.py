"""The audit trail that a class asks for, as `PlaneSpec` holds it: how much of it is kept, and where it is sent. Data alone."""

from dataclasses import dataclass, field
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Receiver:
    """Where an audit trail is sent, and by what the plane signs in there."""

    url: str
    address: str
    certificate_authority: str
    secret: str
    namespace: str = ""  # of its pods, where they are the host's
    credential: tuple[tuple[str, str], ...] = field(
        default=(), repr=False
    )  # files and their content in base64, none: none known
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
    """The audit trail that a class asks for."""

    requests: bool = False  # whether what was sent is written down too
    sink: str = "File"
    file_mib: int = 32
    backups: int = 2
    days: int = 30
    retain: bool = False  # whether the files lie on etcd's volume
    receiver: Receiver | None = None

    @property
    def files(self) -> bool:
        """Whether it is written into files."""
        return self.sink == "File"

    @property
    def room_mib(self) -> int:
        """The most that the files take: while one is begun anew, a former one is still there."""
        return self.file_mib * (self.backups + 2)
