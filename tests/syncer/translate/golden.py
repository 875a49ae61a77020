"""The golden pairs as files, and `python -m tests.syncer.translate.golden` to rewrite the host side for review."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from syncer.translate import Untranslatable
from syncer.translate.registry import KINDS
from tests.kit.translationsamples import HERE, view
from tests.kit.yamlfiles import load

CASES = HERE / "cases"


def cases() -> Iterator[tuple[str, Path]]:
    """Name and virtual file of every case."""
    for path in sorted(CASES.glob("*/*.virtual.yaml")):
        yield f"{path.parent.name}/{path.name.removesuffix('.virtual.yaml')}", path


def host_file(path: Path) -> Path:
    """The file of what is expected on the host."""
    return path.with_name(path.name.replace(".virtual.yaml", ".host.yaml"))


def outcome(path: Path) -> Any:
    """The host object of a case, or `{refused: {reason, field}}`."""
    changes = path.with_name(path.name.replace(".virtual.yaml", ".view.yaml"))
    virtual = load(path)
    try:
        return KINDS[virtual["kind"]].to_host(virtual, view(load(changes) if changes.exists() else None))
    except Untranslatable as error:
        return {"refused": {"reason": str(error.reason), "field": error.field, "message": error.message}}


def main() -> None:
    """Rewrite every host file."""
    for _name, path in cases():
        host_file(path).write_text(yaml.safe_dump(outcome(path), sort_keys=True, width=120))


if __name__ == "__main__":
    main()
