"""The page for every reader: in light and dark, at a desk's and a phone's width, by keyboard, without red and green.

Pages are files that are constructed here, so a browser is all that it needs.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import pytest

from tests.console import eyes, ownsample, sample
from tests.console.browser import Browser
from tests.console.conftest import PICTURES
from workstation.cli.console.drawing import picture_of
from workstation.console import page
from workstation.console.picture import as_json

pytestmark = pytest.mark.browser


def _host(make: Callable[[], sample.Host]) -> str:
    return page.document(as_json(picture_of(make().seen()), nodes=True), live=False)


def _own() -> str:
    return page.document(ownsample.own_work(), live=False).replace('data-way="file"', 'data-way="own"')


STATES: Final[Mapping[str, Callable[[], str]]] = {
    "lab": lambda: _host(sample.lab),
    "hostile": lambda: _host(sample.small),
    "frozen": lambda: _host(sample.frozen_plane),
    "exhausted": lambda: _host(sample.exhausted),
    "node": lambda: _host(sample.dead_node),
    "large": lambda: _host(lambda: sample.large(racks=70, nodes=4, tenants=20)),
    "own": _own,
}
WIDE: Final = (1400, 1000)
PHONE: Final = (390, 844)


@pytest.fixture(scope="module", params=STATES)
def shown(request: pytest.FixtureRequest, browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Browser:
    """A page of one state."""
    path = tmp_path_factory.mktemp("page") / f"{request.param}.html"
    path.write_text(STATES[request.param](), encoding="utf-8")
    browser.size(*WIDE)
    browser.open(path.as_uri())
    browser.until(lambda: browser.run("return document.querySelectorAll('section').length") or None, "a section")
    return browser


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_word_is_readable_and_nothing_is_cut_off(
    shown: Browser, request: pytest.FixtureRequest, size: tuple[int, int], *, dark: bool
) -> None:
    shown.size(*size)
    shown.dark(on=dark)
    try:
        name = request.node.callspec.id
        shown.picture(PICTURES / "every-reader" / f"{name}.png")
        assert eyes.faint(shown) == []
        assert eyes.cut(shown) == []
        assert shown.run("return document.documentElement.scrollWidth <= innerWidth")
    finally:
        shown.dark(on=False)
        shown.size(*WIDE)


def test_a_finger_hits_what_it_aims_at(shown: Browser) -> None:
    shown.size(*PHONE)
    try:
        assert eyes.small(shown) == []
    finally:
        shown.size(*WIDE)


def test_every_control_is_reached_by_tab_and_shows_that(shown: Browser) -> None:
    assert eyes.unreached(shown) == []


def test_the_skip_link_leads_past_the_header_and_stays_there_when_the_page_is_drawn_again(shown: Browser) -> None:
    shown.run("document.activeElement?.blur(); getSelection().removeAllRanges(); scrollTo(0, 0)")
    shown.run("document.querySelector('.skip').focus()")
    shown.press("Enter")
    assert shown.run("return document.activeElement.tagName") == "MAIN"
    shown.run("dispatchEvent(new HashChangeEvent('hashchange'))")
    assert shown.run("return document.activeElement.tagName") == "MAIN"


def test_a_long_name_shows_its_end_whole_and_is_copied_whole(shown: Browser) -> None:
    """The pods of a job differ by their ends alone."""
    for size in (WIDE, PHONE):
        shown.size(*size)
        wrong = shown.run(
            "return [...document.querySelectorAll('.long')].filter((name) => name.checkVisibility()).filter((name) => {"
            "  const end = name.lastElementChild.getBoundingClientRect(), cell = name.parentElement.getBoundingClientRect();"
            "  return !end.width || end.right > cell.right + 1 || name.innerText !== name.title"
            "}).map((name) => name.innerText)"
        )
        assert wrong == []
    shown.size(*WIDE)


def test_the_focus_stays_in_its_part_of_the_page(browser: Browser, tmp_path: Path) -> None:
    """A tenant is linked in the map, the list, the quotas and the queue: a reader there is not thrown back to the map."""
    path = tmp_path / "exhausted.html"
    path.write_text(STATES["exhausted"](), encoding="utf-8")
    browser.size(*WIDE)
    browser.open(path.as_uri())
    browser.shows("Map: ")
    browser.run("[...document.querySelectorAll('#queue .mark')].at(-1).focus()")
    key = browser.run("return document.activeElement.dataset.key")
    first = browser.run("return document.querySelector(`[data-key='${arguments[0]}']`).closest('section').id", key)
    assert first != "queue", "the same key is in an earlier part too"
    browser.run("dispatchEvent(new HashChangeEvent('hashchange'))")
    assert browser.run("return [document.activeElement.dataset.key, document.activeElement.closest('section').id]") == [
        key,
        "queue",
    ]
    browser.press("Enter")
    chosen = "[...document.querySelectorAll('#queue .mark[aria-pressed=true]')]"
    shadows = browser.run(f"return {chosen}.map((mark) => getComputedStyle(mark).boxShadow)")
    assert isinstance(shadows, list)
    assert shadows
    assert "none" not in shadows, "what is chosen shows it"


def test_what_is_wrong_has_a_sign_beside_its_colour(shown: Browser) -> None:
    assert eyes.wordless(shown) == []


def test_parts_of_a_bar_differ_by_their_pattern(shown: Browser) -> None:
    looks = shown.run(
        "return ['used', 'borrowed', 'lent'].map((kind) => document.querySelector(`.legend .bar .${kind}`))"
        ".filter(Boolean).map((part) => getComputedStyle(part).backgroundImage)"
    )
    assert isinstance(looks, list)
    assert len(looks) == len(set(looks)) == 3


@pytest.mark.parametrize("kind", eyes.KINDS)
def test_pictures_for_eyes_that_lack_colours_are_left_to_be_looked_at(browser: Browser, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "node.html"
    path.write_text(STATES["node"](), encoding="utf-8")
    browser.size(*WIDE)
    browser.open(path.as_uri())
    browser.shows("Map: ")
    eyes.without(browser, kind)
    try:
        assert browser.picture(PICTURES / "every-reader" / f"{kind}.png").stat().st_size
    finally:
        eyes.without(browser, "none")
