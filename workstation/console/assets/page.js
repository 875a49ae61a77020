// The page: what is shown, what the user opened, and how the picture comes.

const state = { picture: null, marks: new Map(), order: new Map(), chosen: null, resource: null, open: new Set(), folds: new Set(), wanted: "", fetched: new Map(), stale: new Set(), fresh: true, link: null, heard: true, tried: new Map() };

// A part that opens on request, stays open over redraws, and is not built before.
function remembered(key, title, build) {
  const open = state.folds.has(key);
  const made = el("details", { open }, el("summary", { "data-key": `fold ${key}` }, title), open ? build() : null);
  made.addEventListener("toggle", () => {
    if (made.open === state.folds.has(key)) return;
    if (made.open) state.folds.add(key); else state.folds.delete(key);
    draw();
  });
  return made;
}

function nodesOf(resource, rack) {
  return rack.nodes ?? fetched("nodes", { resource, rack: rack.name });
}

function take(picture) {
  state.picture = picture;
  if (document.body.dataset.way === "own") { draw(); return; }
  const names = picture.tenants.map((row) => row.name).sort();
  state.order = new Map(names.map((name, at) => [name, at]));
  state.marks = new Map(picture.tenants.map((row) => [row.name, row.mark]));
  state.stale = new Set(state.fetched.keys());
  if (state.fresh && !picture.reading) {
    // A small cluster is shown whole at once.
    for (const map of picture.maps) {
      const nodes = map.racks.reduce((sum, rack) => sum + rack.count, 0);
      if (nodes <= 64) map.racks.forEach((rack) => state.open.add(`${map.resource} ${rack.name}`));
    }
    state.fresh = false;
  }
  draw();
}

// A user who drags a slider or selects text is not interrupted.
let held = false;
let late = false;
const busy = () => held || getSelection()?.isCollapsed === false;
const free = () => { if (late && !busy()) draw(); };
document.addEventListener("pointerdown", (event) => { held = event.target.type === "range"; });
document.addEventListener("pointerup", () => { held = false; free(); });
document.addEventListener("selectionchange", free);

function draw() {
  late = busy();
  if (late) return;
  const active = document.activeElement;
  const place = active?.selectionStart;
  const refocus = focusOf(active);
  const { header, alerts, main } = frame();
  const { picture } = state;
  header.replaceChildren(el("a", { class: "skip", href: "#", "data-key": "skip", on: { click: skip } }, "to the content"), el("strong", {}, "Bulkhead"),
    picture ? named(picture.source) : "", el("span", { class: "soft state", id: "state" }, connectionText()));
  const told = notices();
  // Said once, and not at each drawing.
  if (told.map((notice) => notice.textContent).join() !== alerts.textContent) alerts.replaceChildren(...told);
  main.replaceChildren(...(picture ? sections() : [el("p", { class: "soft" }, "reading the host\u2026")]));
  const again = refocus();
  again?.focus({ preventScroll: true });
  if (again?.setSelectionRange && typeof place === "number") again.setSelectionRange(place, place);
}

// What stays over all drawings: readers that speak hear what is new in it, and a focus on it is kept.
let kept = null;
function frame() {
  if (!kept) {
    kept = { header: el("header"), alerts: el("div", { role: "alert" }), main: el("main", { tabindex: "-1" }) };
    document.body.replaceChildren(kept.header, kept.alerts, kept.main);
  }
  return kept;
}

function skip(event) {
  event.preventDefault();
  frame().main.focus();
}

// Finds, after the page was drawn again, the element that had the focus: a tenant is linked in several parts of the page.
function focusOf(active) {
  const key = active?.dataset?.key;
  if (!key) return () => null;
  const part = (item) => item.closest("section")?.id ?? "";
  const where = part(active);
  const all = () => [...document.querySelectorAll("[data-key]")].filter((item) => item.dataset.key === key);
  const same = () => all().filter((item) => part(item) === where);
  const at = same().indexOf(active);
  return () => { const now = same(); return now[at] ?? now.at(-1) ?? all()[0]; };
}

function sections() {
  if (document.body.dataset.way === "own") return ownPage();
  const route = /^#tenant\/(.+)$/.exec(location.hash);
  if (route && document.body.dataset.way === "live") return tenantPage(decoded(route[1]));
  return [alarmSection(), mapSection(), tenantSection(), quotaSection(), queueSection(), ...(document.body.dataset.way === "live" ? [remembered("usage", "Usage", () => usageSection(""))] : [])];
}

function decoded(text) {
  try { return decodeURIComponent(text); } catch { return text; }
}

const isCurrent = () => document.body.dataset.way === "file" || (state.heard && state.link?.ok !== false);

function connectionText() {
  const when = state.picture ? new Date(state.picture.at).toLocaleString() : "";
  if (document.body.dataset.way === "file") return `as of ${when}`;
  return state.picture ? (isCurrent() ? `live, changed ${when}` : `as of ${when}`) : "";
}

window.addEventListener("hashchange", () => { draw(); if (location.hash.startsWith("#tenant/")) scrollTo(0, 0); });

const embedded = JSON.parse(document.getElementById("picture").textContent);
if (embedded) take(embedded); else follow();
