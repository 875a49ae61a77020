// The map: racks with sums, and the nodes of those that are open. A letter for each device that a tenant holds.

const MANY = 16; // A node with more devices (time-sliced, MIG) is drawn as a bar with numbers.

function cells(node) {
  const shut = node.s === "closed" ? " shut" : "";
  const total = Math.max(node.c ?? 0, node.h.reduce((sum, [, count]) => sum + count, 0));
  const free = Math.max(0, total - node.h.reduce((sum, [, count]) => sum + count, 0));
  const told = [...node.h.map(([tenant, count]) => `${count} by ${paint(tenant).name}`), `${free} free`].join(", ");
  if (total > MANY) return el("div", { class: `stack many${shut}`, role: "img", "aria-label": visible(told), title: visible(told) }, stacked(node.h, total, free));
  const made = node.h.flatMap(([tenant, count]) => Array.from({ length: count }, () =>
    el("span", { class: `cell ${paint(tenant).look}${shut}${dimmed(tenant)}` }, paint(tenant).mark)));
  for (let at = 0; at < free; at += 1) made.push(el("span", { class: `cell free${shut}` }));
  return el("div", { class: "cells", role: "img", "aria-label": visible(told), title: visible(told) }, made);
}

function stacked(held, total, free) {
  const part = (look, count, text) => {
    const made = el("span", { class: look }, count / total > 0.04 + text.length * 0.02 ? text : "");
    made.style.flex = `${count} 0 0`;
    return made;
  };
  return [...held.map(([tenant, count]) => part(paint(tenant).look + dimmed(tenant), count, `${paint(tenant).mark}\u00a0${count}`)), free ? part("", free, "") : null].filter(Boolean);
}

// The flavor stands at the rack, and at its nodes only where they differ.
function nodeRow(node, mixed) {
  return el("div", { class: `node ${node.s}` }, el("span", { class: "title", title: visible(node.n) }, named(node.n), mixed && node.f ? el("span", { class: "soft" }, ` ${visible(node.f)}`) : null),
    cells(node), el("span", { class: "state" }, node.s), node.x ? el("span", { class: "closed-why" }, visible(node.x)) : null);
}

function rackNodes(resource, rack) {
  const nodes = nodesOf(resource, rack);
  if (!nodes) return el("div", { class: "nodes" }, el("p", { class: "soft" }, "reading the nodes\u2026"));
  const domains = grouped(nodes, (node) => node.d ?? "");
  return el("div", { class: "nodes", role: "group", "aria-label": `nodes of ${visible(rack.name)}` }, [...domains].map(([domain, listed]) => [
    domain ? el("h3", {}, "NVLink domain ", named(domain)) : null, el("div", { class: "grid" }, listed.map((node) => nodeRow(node, rack.flavors.length > 1)))]));
}

function rackCard(resource, rack) {
  const key = `${resource} ${rack.name}`;
  const open = state.open.has(key);
  const used = rack.held.reduce((sum, [, count]) => sum + count, 0);
  const closed = rack.states.closed ?? 0;
  const told = `${used} of ${rack.capacity} in use`;
  const holders = rack.held.map(([tenant, count]) => `${paint(tenant).name} ${count}`).join(", ");
  const card = el("button", {
    class: "rack", "aria-expanded": String(open), "data-key": `rack ${key}`, title: visible(holders),
    on: { click: () => { if (open) state.open.delete(key); else state.open.add(key); draw(); } },
  },
  el("span", { class: "title" }, named(rack.name || "no rack"), el("span", {}, `${used}/${rack.capacity}`)),
  el("span", { class: `stack${closed ? " shut" : ""}`, role: "img", "aria-label": visible(`${told}: ${holders}`) }, stacked(rack.held, Math.max(rack.capacity, used, 1), Math.max(0, rack.capacity - used))),
  el("small", {}, [plural(rack.count, "node"), ...["whole", "partial", "full"].filter((name) => rack.states[name]).map((name) => `${rack.states[name]} ${name}`), ...rack.flavors.map(visible)].join(" \u00b7 ")),
  closed ? el("small", { class: "level bad" }, `\u2716 ${plural(closed, "node")} closed`) : null);
  return open ? el("div", { class: "open" }, card, rackNodes(resource, rack)) : card;
}

function mapSection() {
  const { maps } = state.picture;
  const shown = maps.find((map) => map.resource === state.resource) ?? maps[0];
  if (!shown) return el("section", { id: "map" }, el("h2", {}, "Map"), el("p", { class: "soft" }, state.picture.reading ? "being read\u2026" : "No node has devices."));
  const sum = (call) => shown.racks.reduce((total, rack) => total + call(rack), 0);
  const capacity = sum((rack) => rack.capacity);
  const nodes = sum((rack) => rack.count);
  const counts = ["whole", "partial", "full", "closed"].map((name) => [name, sum((rack) => rack.states[name] ?? 0)]).filter(([, count]) => count);
  const tabs = maps.map((map) => el("button", {
    "aria-pressed": String(map === shown), "data-key": `resource ${map.resource}`, on: { click: () => { state.resource = map.resource; draw(); } },
  }, visible(map.resource)));
  const all = shown.racks.map((rack) => `${shown.resource} ${rack.name}`);
  const every = all.every((key) => state.open.has(key));
  const holders = [...new Set(shown.racks.flatMap((rack) => rack.held.map(([tenant]) => tenant)))].filter(Boolean);
  return el("section", { id: "map" }, el("h2", {}, `Map: ${capacity} ${visible(shown.resource)} on ${plural(nodes, "node")}`),
    el("div", { class: "tools" }, maps.length > 1 ? tabs : null,
      nodes <= 512 ? el("button", { "data-key": "all racks", on: { click: () => { all.forEach((key) => (every ? state.open.delete(key) : state.open.add(key))); draw(); } } }, every ? "close all racks" : "open all racks") : null,
      el("span", { class: "soft" }, `${counts.map(([name, count]) => `${count} ${name}`).join(", ")}. A node is whole if none of its devices is in use, partial if some are.`)),
    el("div", { class: "tools" }, holders.slice(0, 40).map((tenant) => el("span", {}, mark(tenant), " ", named(tenant))),
      holders.length > 40 ? el("span", { class: "soft" }, `and ${holders.length - 40} more tenants`) : null),
    el("div", { class: shown.racks.length > 60 ? "racks dense" : "racks" }, shown.racks.map((rack) => rackCard(shown.resource, rack))));
}
