// The tenants, those with trouble first.

function tenantName(tenant) {
  if (document.body.dataset.way !== "live") return named(tenant);
  return el("a", { href: `#tenant/${encodeURIComponent(tenant)}`, "data-key": `tenant ${tenant}` }, named(tenant));
}

function tenantSection() {
  const { tenants } = state.picture;
  const shown = tenants.filter((row) => !state.wanted || row.name.includes(state.wanted));
  const heads = [head("tenant", "name"), head("state", "short"), head("reason", ""), head("since", "short"), head("cohort", ""), head("devices", "number"), head("borrowed", "number"), head("in the queue", "number")];
  const rows = (from) => from.map((row) => [
    [mark(row.name), " ", tenantName(row.name)], level(row.level), row.level === "ok" ? "" : [el("strong", {}, visible(row.reason)), ` ${visible(row.text ?? "")}`],
    ago(row.since), row.cohort ? named(row.cohort) : "", `${row.used ?? 0}/${row.nominal ?? 0}`, row.borrowed ? String(row.borrowed) : "", row.waiting ? String(row.waiting) : ""]);
  const troubled = tenants.filter((row) => row.level !== "ok").length;
  return el("section", { id: "tenants" }, el("h2", {}, `Tenants (${tenants.length}${troubled ? `, ${troubled} not ready` : ""})`),
    tenants.length > 12 ? el("div", { class: "tools" }, el("label", {}, "name contains ", el("input", {
      "data-key": "wanted", value: state.wanted, on: { input: (event) => { state.wanted = event.target.value; draw(); } },
    }))) : null,
    table(heads, rows(shown.slice(0, 30)), "tenants"),
    shown.length > 30 ? remembered("tenants", `${shown.length - 30} more`, () => table(heads, rows(shown.slice(30)), "more tenants")) : null);
}
