// What is wrong with a page for its readers, as lines: read by eyes.py, which says what each function is for.

const about = (item) => {
  const text = item.textContent.trim().slice(0, 40) || item.getAttribute("aria-label") || "";
  return `${item.tagName.toLowerCase()}.${item.className} ${JSON.stringify(text)}`;
};
const seen = (selector) => [...document.body.querySelectorAll(selector)].filter((item) => item.checkVisibility());

const numbers = (text) => {
  const found = text.match(/[\d.]+/g).map(Number);
  return [...found.slice(0, 3), found[3] ?? 1];
};
const over = (above, below) => above.slice(0, 3).map((value, at) => value * above[3] + below[at] * (1 - above[3]));
const light = (colour) => {
  const [red, green, blue] = colour.map((value) => {
    const part = value / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
};
const contrast = (one, other) => {
  const [low, high] = [light(one), light(other)].sort((first, second) => first - second);
  return (high + 0.05) / (low + 0.05);
};

// The colours behind a text: all elements around it laid over each other, and with each colour of a pattern once more.
function behind(holder) {
  const around = [];
  for (let item = holder; item; item = item.parentElement) around.unshift(getComputedStyle(item));
  let back = [255, 255, 255];
  let lines = [];
  for (const style of around) {
    const colour = numbers(style.backgroundColor);
    if (colour[3]) [back, lines] = [over(colour, back), []];
    for (const [part] of style.backgroundImage.matchAll(/rgba?\([^)]*\)/g)) lines.push(over(numbers(part), back));
  }
  return [back, ...lines];
}

function faint() {
  const found = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const holder = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || !holder.checkVisibility() || !holder.getClientRects().length) continue;
    const style = getComputedStyle(holder);
    const size = parseFloat(style.fontSize);
    const least = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700) ? 3 : 4.5;
    for (const back of behind(holder)) {
      const here = contrast(over(numbers(style.color), back), back);
      if (here < least) found.add(`contrast ${here.toFixed(1)} of ${least}: ${about(holder)}`);
    }
  }
  return [...found];
}

function cut() {
  const found = new Set();
  for (const item of seen("*")) {
    const scroller = item.closest(".wide");
    const inside = scroller !== null && item !== scroller;
    const box = item.getBoundingClientRect();
    if (box.width && box.right > innerWidth + 1 && !inside && !item.closest(".skip")) found.add(`beyond the window: ${about(item)}`);
    const clipped = getComputedStyle(item).overflowX === "hidden" && item.scrollWidth > item.clientWidth + 1;
    const told = [...item.querySelectorAll("[title]"), item.closest("[title]")].some((one) => one?.title.includes(one === item ? one.textContent : item.textContent));
    if (clipped && item.textContent.trim() && !told) found.add(`cut off: ${about(item)}`);
  }
  return [...found];
}

function small() {
  return seen("button, input, select, summary").map((item) => [item, item.getBoundingClientRect()])
    .filter(([, box]) => box.width < 24 || box.height < 24)
    .map(([item, box]) => `${box.width.toFixed(0)}x${box.height.toFixed(0)}: ${about(item)}`);
}

function wordless() {
  return seen(".level").filter((item) => !/[\u2716\u25b2\u2714]/.test(item.textContent)).map(about);
}

function numbered() {
  return seen("a[href], button, input, select, summary").map((item, at) => {
    item.dataset.reached = String(at);
    return String(at);
  });
}

// Whether the frame around an element that has the focus is there, and no element around it cuts it off.
function framed(item) {
  const style = getComputedStyle(item);
  const [wide, off] = [parseFloat(style.outlineWidth), parseFloat(style.outlineOffset)];
  if (style.outlineStyle === "none" || wide < 2) return false;
  const box = item.getBoundingClientRect();
  for (let around = item.parentElement; around; around = around.parentElement) {
    if (getComputedStyle(around).overflowX === "visible") continue;
    const outer = around.getBoundingClientRect();
    const room = off + wide - 1;
    if (box.left - room < outer.left || box.top - room < outer.top || box.right + room > outer.right || box.bottom + room > outer.bottom) return false;
  }
  return true;
}

// The number of what has the focus, what it is, whether it shows that, and whether a reader sees it.
function focused() {
  const item = document.activeElement;
  if (!item || item === document.body) return null;
  const box = item.getBoundingClientRect();
  return [item.dataset.reached ?? "", about(item), framed(item), box.bottom > 0 && box.top < innerHeight];
}
