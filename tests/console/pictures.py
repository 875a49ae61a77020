"""Draws the pictures of docs/observe.md and of the README: `python -m tests.console.pictures` (part of `make picture`).

Each is a screenshot of the page of `bulkhead top --html` in Debian's Chromium, of a host that is constructed here.

    a host at work, with a plane that does not answer, with a cohort without free devices, with a node that broke down ──┐
    a tenant as its user sees it ───────────────────────────────────────────────────────────> docs/pictures/ <───────────┘
"""

import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from tests.console import ownsample, sample
from tests.console.browser import Browser, browsing
from workstation.cli.console.drawing import picture_of
from workstation.console import page
from workstation.console.picture import as_json

FOLDER: Final = Path("docs/pictures")
STATES: Final[Mapping[str, Callable[[], sample.Host]]] = {
    "console": sample.lab,
    "console-frozen": sample.frozen_plane,
    "console-exhausted": sample.exhausted,
    "console-node": sample.dead_node,
}
_WIDTH: Final = 1280
_HEIGHT: Final = 900
_SHORT: Final = 560
_TALL: Final = 1340


def draw(browser: Browser, folder: Path, name: str, host: sample.Host, into: Path) -> Path:
    """One picture; its page is left in `folder`."""
    path = folder / f"{name}.html"
    path.write_text(page.document(as_json(picture_of(host.seen()), nodes=True), live=False), encoding="utf-8")
    browser.size(_WIDTH, _HEIGHT if name == "console" else _SHORT)
    browser.open(path.as_uri())
    browser.shows("Map: ")
    return browser.picture(into / f"{name}.png")


def draw_own(browser: Browser, folder: Path, into: Path) -> Path:
    """The page of a tenant's user."""
    path = folder / "console-own.html"
    text = page.document(ownsample.own_work(), live=False)
    path.write_text(text.replace('data-way="file"', 'data-way="own"'), encoding="utf-8")
    browser.size(_WIDTH, _TALL)
    browser.open(path.as_uri())
    browser.shows("Slurm jobs that run")
    return browser.picture(into / "console-own.png")


def draw_all(browser: Browser, folder: Path, into: Path) -> Iterator[Path]:
    """Every picture."""
    for name, make in STATES.items():
        yield draw(browser, folder, name, make(), into)
    yield draw_own(browser, folder, into)
    browser.dark(on=True)
    browser.size(390, 844)
    browser.open((folder / "console.html").as_uri())
    browser.shows("Map: ")
    yield browser.picture(into / "console-phone.png")
    browser.dark(on=False)


def main() -> int:
    with tempfile.TemporaryDirectory() as folder, browsing(Path(folder) / "profile") as browser:
        for path in draw_all(browser, Path(folder), FOLDER):
            print(path, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
