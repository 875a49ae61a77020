"""Where images are pushed to: `HOST[:PORT][/PATH]`, as an admin writes it and the chart takes it. Pure."""

import re
from dataclasses import dataclass
from typing import Final

_FORM: Final = re.compile(
    r"(?P<host>[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?)(?::(?P<port>[0-9]{1,5}))?(?P<path>(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*)"
)
_MOST: Final = 255
_HUB: Final = {"docker.io": "registry-1.docker.io", "index.docker.io": "registry-1.docker.io"}


class PlaceError(ValueError):
    """A text that names no place in a registry; the text says how one is written."""


@dataclass(frozen=True, slots=True)
class Place:
    """A registry, and the path in it below which our repositories lie."""

    host: str
    path: str
    plain: bool = False

    @property
    def text(self) -> str:
        """As the chart's `images.registry` has it."""
        return f"{self.host}/{self.path}" if self.path else self.host

    @property
    def origin(self) -> str:
        """Scheme and authority of its API."""
        return f"{'http' if self.plain else 'https'}://{_HUB.get(self.host, self.host)}"

    def repository(self, name: str) -> str:
        """The repository of one image."""
        return f"{self.path}/{name}" if self.path else name


def parse(text: str, *, plain: bool = False) -> Place:
    """The place that `text` names."""
    found = _FORM.fullmatch(text)
    if not found or len(text) > _MOST or not 0 < int(found["port"] or 443) < 65536:
        raise PlaceError(
            f"{text[:100]!r} is no place in a registry; write HOST[:PORT][/PATH] without a scheme, "
            "such as registry.example.org/bulkhead"
        )
    host = found["host"] + (f":{found['port']}" if found["port"] else "")
    return Place(host, found["path"].removeprefix("/"), plain)
