"""The values file with which the chart uses images by digest: `helm install -f`. Pure except for reading the existing file."""

import contextlib
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

_FILE_LIMIT_BYTES: Final = 1 << 20
_TITLE: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}:[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_OWN: Final = ("registry", "digests", "pullSecrets")
_HEAD: Final = "# Images by digest, written by `bulkhead images push`. helm install bulkhead … -f THIS_FILE\n"


def digests_in(path: Path, registry: str) -> dict[str, str]:
    """The digests in a values file for this registry, so that a push of some images keeps those of the others."""
    with contextlib.suppress(OSError, ValueError, yaml.YAMLError, AttributeError, TypeError):
        if path.is_file() and path.stat().st_size <= _FILE_LIMIT_BYTES:
            images = yaml.safe_load(path.read_text()).get("images")
            if images.get("registry") == registry:
                found = dict(images.get("digests"))
                return {key: value for key, value in found.items() if _TITLE.fullmatch(key) and _DIGEST.fullmatch(value)}
    return {}


def others_in(path: Path) -> tuple[str, ...]:
    """What a file has besides what `values` writes, such as `planes` or `images.pullPolicy`. Raises OSError."""
    if not path.is_file():
        return ()
    try:
        with path.open("rb") as stream:
            found = yaml.safe_load(stream.read(_FILE_LIMIT_BYTES).decode(errors="replace"))
    except (yaml.YAMLError, ValueError, RecursionError):
        return ("text that is not YAML",)
    if found is None:
        return ()
    if not isinstance(found, dict):
        return ("text without values",)
    images = found.get("images")
    own = [f"images.{name}" for name in images if name not in _OWN] if isinstance(images, dict) else []
    return (*(str(name) for name in found if name != "images"), *own)


def unwritable(path: Path) -> str:
    """Why a file cannot be written; empty if it can. A push that takes minutes asks before it begins."""
    if path.is_dir():
        return "it is a folder"
    if path.exists() and not path.is_file():
        return ""  # a device or a pipe, which is written itself
    folder = next(parent for parent in path.resolve().parents if parent.exists())
    if not folder.is_dir():
        return f"{folder} is not a folder"
    return "" if os.access(folder, os.W_OK | os.X_OK) else f"{folder} cannot be written to"


def values(registry: str, digests: Mapping[str, str], pull_secrets: Iterable[str]) -> str:
    """The text of the file."""
    images: dict[str, Any] = {"registry": registry, "digests": dict(sorted(digests.items()))}
    if named := list(pull_secrets):
        images["pullSecrets"] = named
    return _HEAD + yaml.safe_dump({"images": images}, sort_keys=False)
