"""The pictures of the pages are those of today's console: each is drawn again and compared.

Fonts and browsers differ a little, so both are compared small and in grey: what stands elsewhere, or is missing, is seen.
"""

import base64
from pathlib import Path
from typing import Final

import pytest

from tests.console import pictures
from tests.console.browser import Browser

pytestmark = pytest.mark.browser
# Of all cells, so many may differ by more than a sixth of the way from black to white.
MOST: Final = 0.02
_COMPARE: Final = """
const [first, second, done] = arguments;
const grey = async (source) => {
  const image = new Image();
  image.src = `data:image/png;base64,${source}`;
  await image.decode();
  const [width, height] = [Math.round(image.width / 10), Math.round(image.height / 10)];
  const canvas = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
  canvas.imageSmoothingQuality = "high";
  canvas.drawImage(image, 0, 0, width, height);
  const { data } = canvas.getImageData(0, 0, width, height);
  const cells = Array.from({ length: width * height }, (_, at) => (data[4 * at] + data[4 * at + 1] + data[4 * at + 2]) / 3);
  return [width, height, cells];
};
Promise.all([grey(first), grey(second)]).then(([one, other]) => {
  const same = one[0] === other[0] && one[1] === other[1];
  done(same ? one[2].filter((value, at) => Math.abs(value - other[2][at]) > 43).length / one[2].length : 1);
}).catch((error) => done(String(error)));
"""


def differing(browser: Browser, one: Path, other: Path) -> float:
    """The part of two pictures that differs, from 0 to 1."""
    browser.open("about:blank")
    found = browser.driver.execute_async_script(
        _COMPARE, *(base64.b64encode(path.read_bytes()).decode() for path in (one, other))
    )
    assert isinstance(found, int | float), found
    return found


def test_the_pictures_of_the_pages_show_todays_console(browser: Browser, tmp_path: Path) -> None:
    drawn = list(pictures.draw_all(browser, tmp_path, tmp_path))
    stale = {path.name: part for path in drawn if (part := differing(browser, pictures.FOLDER / path.name, path)) > MOST}
    assert stale == {}, "draw them again with `python -m tests.console.pictures`"
    # The comparison sees what it is for: one alarm more, and a tenant's row elsewhere.
    assert differing(browser, tmp_path / "console.png", tmp_path / "console-frozen.png") > MOST
    assert differing(browser, tmp_path / "console-exhausted.png", tmp_path / "console-node.png") > MOST
