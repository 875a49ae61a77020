"""YAML by libyaml if PyYAML has it: ten times as fast as in Python; collecting tests reads hundreds of files."""

from pathlib import Path
from typing import Any, Final

import yaml

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def load(path: Path) -> Any:
    """The one document of a file."""
    return yaml.load(path.read_text(encoding="utf-8"), Loader=_LOADER)  # noqa: S506 -- a safe loader


def documents(text: str) -> list[Any]:
    """Every document of a text that is not empty."""
    return [item for item in yaml.load_all(text, Loader=_LOADER) if item]
