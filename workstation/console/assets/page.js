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
  const focus = document.activeElement?.dataset?.key;
  const place = document.activeElement?.selectionStart;
  const { picture } = state;
  const top = el("header", {}, el("a", { class: "skip", href: "#wrong" }, "to what is wrong"), el("strong", {}, "Bulkhead"),
    picture ? named(picture.source) : null, el("span", { class: "soft state", id: "state", role: "status" }, connectionText()));
  document.body.replaceChildren(top, ...notices(), el("main", {}, ...(picture ? sections() : [el("p", { class: "soft" }, "reading the host\u2026")])));
  if (!focus) return;
  const again = [...document.querySelectorAll("[data-key]")].find((candidate) => candidate.dataset.key === focus);
  again?.focus({ preventScroll: true });
  if (again?.setSelectionRange && typeof place === "number") again.setSelectionRange(place, place);
}

function sections() {
  if (document.body.dataset.way === "own") return ownPage();
  const route = /^#tenant\/(.+)$/.exec(location.hash);
  if (route && document.body.dataset.way === "live") return tenantPage(decodeURIComponent(route[1]));
  return [alarmSection(), mapSection(), tenantSection(), quotaSection(), queueSection(), ...(document.body.dataset.way === "live" ? [remembered("usage", "Usage", () => usageSection(""))] : [])];
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
