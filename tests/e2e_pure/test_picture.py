"""The picture of a terminal: what was printed is in it, in its colours, and it fetches nothing."""

import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

from e2e.demo import picture

ROOT = Path(__file__).parents[2]
SHOWN = "cohort demo\r\n  gpu-sim-0  \x1b[32mBBBB\x1b[0m....  broken\r\n"


def texts(svg: str) -> str:
    return "".join(ET.fromstring(svg).itertext()).replace("\xa0", " ")  # noqa: S314 - drawn here


def test_it_has_the_text_and_the_colours() -> None:
    svg = picture.drawn(SHOWN, "$ bulkhead top", 60)
    assert "gpu-sim-0  BBBB....  broken" in re.sub(r"\n\s*", "", texts(svg))
    assert "$ bulkhead top" in texts(svg)
    assert len(set(re.findall(r"terminal-r\d+ \{ fill: (#\w+)", svg))) == 2


def test_the_same_output_gives_the_same_picture_which_needs_nothing_of_others() -> None:
    svg = picture.drawn(SHOWN, "t", 60)
    assert svg == picture.drawn(SHOWN, "t", 60)
    assert set(re.findall(r"https?://[^\s\"')]+", svg)) == {"http://www.w3.org/2000/svg"}


def test_a_command_is_run_in_a_terminal_of_that_size() -> None:
    asks = "import os, sys; print(sys.stdout.isatty(), os.get_terminal_size().columns)"
    assert picture.in_terminal((sys.executable, "-c", asks), {}).split() == ["True", str(picture.COLUMNS)]


def test_the_picture_of_the_readme_is_one_of_these() -> None:
    found = texts((ROOT / picture.PICTURE).read_text())
    assert "NOMINAL" in found
    assert "team-b" in found
    assert "make picture" in (ROOT / picture.PICTURE).read_text()
