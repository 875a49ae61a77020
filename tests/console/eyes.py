"""What people see of a page: words too faint to read, things cut off or too small to touch, what no key reaches.

Each function returns what is wrong as lines, with the element that it is about (`eyes.js`). Bounds are those of WCAG 2.2, AA.
"""

from pathlib import Path
from typing import Any, Final

from tests.console.browser import Browser

KINDS: Final = ("protanopia", "deuteranopia", "tritanopia", "achromatopsia")
_SCRIPT: Final = Path(__file__).with_suffix(".js").read_text()
_MOST_TABS: Final = 400


def _ask(browser: Browser, function: str) -> Any:
    return browser.run(f"{_SCRIPT}\nreturn {function}();")


def faint(browser: Browser) -> list[str]:
    """Text with too little contrast to what is behind it."""
    return [str(line) for line in _ask(browser, "faint")]


def cut(browser: Browser) -> list[str]:
    """What lies beyond the window, unless its part of the page scrolls; text that is cut, unless a title has it whole."""
    return [str(line) for line in _ask(browser, "cut")]


def small(browser: Browser) -> list[str]:
    """What a finger misses."""
    return [str(line) for line in _ask(browser, "small")]


def wordless(browser: Browser) -> list[str]:
    """States that only a colour tells."""
    return [str(line) for line in _ask(browser, "wordless")]


def unreached(browser: Browser) -> list[str]:
    """What Tab does not reach from the top, or reaches without showing where it is. Nothing may draw the page meanwhile."""
    missing = set(_ask(browser, "numbered"))
    browser.run("document.activeElement?.blur(); getSelection().removeAllRanges(); scrollTo(0, 0)")
    wrong = []
    for _ in range(_MOST_TABS):
        browser.press("Tab")
        there = _ask(browser, "focused")
        if there is None or (there[0] and there[0] not in missing):
            break  # once around
        missing.discard(there[0])
        if not there[2]:
            wrong.append(f"without a whole frame: {there[1]}")
        if not there[3]:
            wrong.append(f"outside the window: {there[1]}")
    script = "return arguments[0].map((at) => document.querySelector(`[data-reached='${at}']`).outerHTML.slice(0, 120))"
    named: Any = browser.run(script, sorted(missing))
    return [*wrong, *(f"not reached: {item}" for item in named)]


def without(browser: Browser, kind: str) -> None:
    """Show the page as a reader who lacks colours sees it; "none" ends that."""
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedVisionDeficiency", {"type": kind})
