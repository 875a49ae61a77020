"""The destination of a push: `HOST[:PORT][/PATH]`, as an admin writes it and the chart accepts it. Pure."""

import re
from dataclasses import dataclass
from typing import Final

_FORM: Final = re.compile(
    r"(?P<host>[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?)(?::(?P<port>[0-9]{1,5}))?(?P<path>(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*)"
)
_MAX_CHARACTERS: Final = 255
_HUB: Final = {"docker.io": "registry-1.docker.io", "index.docker.io": "registry-1.docker.io"}


class PlaceError(ValueError):
    """A malformed destination; the text shows the right form."""


@dataclass(frozen=True, slots=True)
class Place:
    """A registry, and the path in it below which our repositories are."""

    host: str
    path: str
    plain: bool = False

    @property
    def text(self) -> str:
        """In the form of the chart's `images.registry`."""
        return f"{self.host}/{self.path}" if self.path else self.host

    @property
    def origin(self) -> str:
        """Scheme and host of its API."""
        return f"{'http' if self.plain else 'https'}://{_HUB.get(self.host, self.host)}"

    def repository(self, name: str) -> str:
        """The repository of one image."""
        return f"{self.path}/{name}" if self.path else name


def parse(text: str, *, plain: bool = False) -> Place:
    """The destination that `text` names."""
    found = _FORM.fullmatch(text)
    if not found or len(text) > _MAX_CHARACTERS or not 0 < int(found["port"] or 443) < 65536:
        raise PlaceError(
            f"the registry must be HOST[:PORT][/PATH] without a scheme, not {text[:100]!r}, "
            "such as registry.example.org/bulkhead"
        )
    host = found["host"] + (f":{found['port']}" if found["port"] else "")
    return Place(host, found["path"].removeprefix("/"), plain)
