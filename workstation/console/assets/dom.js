// Elements without markup: whatever a name contains becomes a text node.

// Characters that reorder, hide or break a line, or that show nothing at all, are shown by their number.
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\u{e0000}-\u{e0fff}]/gu;
const visible = (text) => String(text ?? "").replace(HIDDEN, (character) =>
  `\u27e8U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}\u27e9`);

function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "on") for (const [event, call] of Object.entries(value)) made.addEventListener(event, call);
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
}

// A name of an object: isolated, so that right-to-left text moves nothing beside it, and whole in its title. A long one is cut
// before its end: the pods of a job differ only there.
const TAIL = 10;
function named(text, long = false) {
  const shown = visible(text);
  const cut = (long || shown.length > 60) && shown.length > 3 * TAIL;
  const parts = cut ? [el("span", { class: "start" }, shown.slice(0, -TAIL)), el("span", {}, shown.slice(-TAIL))] : shown;
  return el("bdi", { class: cut ? "long" : null, title: shown.length > 24 ? shown : null }, parts);
}

const plural = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;

// An amount of a line in people's units; the picture has millicores, bytes and devices.
function amount(unit, value) {
  if (unit === "millicores") return String(Math.round(value / 100) / 10);
  if (unit !== "bytes") return String(value);
  for (const [size, name] of [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"]]) {
    if (value >= size) return `${Math.round((value / size) * 10) / 10} ${name}`;
  }
  return `${value} B`;
}

// How long before the picture something was, as kubectl writes ages.
function ago(stamp) {
  const seconds = Math.floor((Date.parse(state.picture.at) - Date.parse(stamp)) / 1000);
  if (!stamp || Number.isNaN(seconds)) return "";
  for (const [unit, size, limit] of [["s", 1, 120], ["m", 60, 7200], ["h", 3600, 172800]]) {
    if (seconds < limit) return `${Math.max(0, Math.floor(seconds / size))}${unit}`;
  }
  return `${Math.floor(seconds / 86400)}d`;
}

// A time of day in the user's zone, and how far off it is.
function clock(stamp) {
  if (!stamp) return "";
  const minutes = Math.round((Date.parse(stamp) - Date.parse(state.picture.at)) / 60000);
  const day = new Date(stamp).toLocaleString([], { dateStyle: "short", timeStyle: "short" });
  const far = minutes < 120 ? `${minutes} min` : minutes < 2880 ? `${Math.round(minutes / 60)} h` : `${Math.round(minutes / 1440)} days`;
  return minutes >= 0 ? `${day} (in ${far})` : day;
}

// A table whose rows become cards at phone width.
function table(heads, rows, caption) {
  const cell = (content, at) => el("td", { "data-head": heads[at].text, class: heads[at].class }, content === "" ? "" : el("div", {}, content));
  return el("div", { class: "wide" }, el("table", { class: "cards", "aria-label": caption },
    el("thead", {}, el("tr", {}, heads.map((head) => el("th", { class: head.class, scope: "col" }, head.text)))),
    el("tbody", {}, rows.map((row) => el("tr", {}, row.map(cell))))));
}
const head = (text, kind) => ({ text, class: kind });

const WORDS = { bad: "\u2716 broken", warn: "\u25b2 look", ok: "\u2714 ready" };
const level = (name, words = WORDS[name]) => el("span", { class: `level ${name}` }, words ?? name);

// The colour, pattern and letters of a tenant.
function paint(tenant) {
  if (!tenant) return { look: "host", mark: "#", name: "the host" };
  const at = state.order.get(tenant);
  if (at === undefined) return { look: "host", mark: "?", name: tenant };
  return { look: `c${at % 8} p${Math.floor(at / 8) % 4}`, mark: state.marks.get(tenant), name: tenant };
}
const dimmed = (tenant) => (state.chosen !== null && state.chosen !== tenant ? " dim" : "");

function mark(tenant) {
  const { look, mark: letters, name } = paint(tenant);
  const pressed = state.chosen === tenant;
  return el("button", {
    class: `mark ${look}`, "data-key": `mark ${tenant}`, "aria-pressed": String(pressed),
    title: `show only ${visible(name)} in the map`, "aria-label": `${visible(name)}: show only its devices in the map`,
    on: { click: () => { state.chosen = pressed ? null : tenant; draw(); } },
  }, letters);
}
