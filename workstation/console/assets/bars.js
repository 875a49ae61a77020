// Quota as bars: nominal, used, borrowed, lent, and the numbers beside them.

function quotaBar(row, most) {
  const part = (kind, from, size) => {
    const made = el("i", { class: kind });
    made.style.left = `${(100 * from) / most}%`;
    if (size !== null) made.style.width = `${(100 * size) / most}%`;
    return made;
  };
  const own = Math.min(row.used, row.nominal);
  return el("div", { class: "bar", "aria-hidden": "true" },
    part("used", 0, own),
    row.used > row.nominal ? part("borrowed", row.nominal, row.used - row.nominal) : null,
    row.lent ? part("lent", row.nominal - row.lent, row.lent) : null,
    row.ceiling > row.nominal ? part("ceiling", Math.min(row.ceiling, most) * 0.995, null) : null,
    part("nominal", row.nominal * 0.99, null));
}

function quotaTable(cohort, line) {
  const most = Math.max(1, ...line.rows.map((row) => Math.max(row.nominal, row.used, Math.min(row.ceiling, 4 * Math.max(row.nominal, row.used, 1)))));
  const written = (value) => amount(line.unit, value);
  const rows = line.rows.map((row) => [
    row.tenant ? [mark(row.tenant), " ", tenantName(row.tenant)] : "you", quotaBar(row, most),
    written(row.nominal), written(row.used), row.borrowed ? written(row.borrowed) : "", row.lent ? written(row.lent) : "",
    row.waiting ? written(row.waiting) : ""]);
  const sum = (field) => line.rows.reduce((total, row) => total + row[field], 0);
  if (line.rows.length > 1) {
    rows.push(["all", "", written(sum("nominal")), written(sum("used")), written(sum("borrowed")), written(sum("lent")), written(sum("waiting"))]);
  }
  const heads = [head("tenant", "name"), head("", ""), head("quota", "number"), head("used", "number"),
    head("borrowed", "number"), head("lent", "number"), head("waiting", "number")];
  return [el("h3", {}, named(line.name)), table(heads, rows, `${cohort}: ${line.name}`)];
}

function legendOfQuota() {
  const key = (kind, text) => el("span", {}, el("span", { class: "bar" }, el("i", { class: kind })), text);
  return el("div", { class: "legend" }, key("used", "used"), key("borrowed", "borrowed from others"), key("lent", "lent to others"),
      key("nominal", "own quota"), key("ceiling", "most with what may be borrowed"));
}

function quotaSection() {
  const shown = state.picture.cohorts.filter((cohort) => cohort.lines.length);
  return el("section", { id: "quota" }, el("h2", {}, "Quota"), legendOfQuota(),
    shown.length ? shown.map((cohort) => {
      const devices = cohort.lines.filter((line) => line.unit === "devices");
      const others = cohort.lines.filter((line) => line.unit !== "devices");
      const title = cohort.name ? ["cohort ", named(cohort.name)] : ["tenants without a cohort"];
      return el("div", {}, el("h3", {}, title), devices.map((line) => quotaTable(cohort.name, line)),
        others.length ? remembered(`quota ${cohort.name}`, `cpu, memory and other lines: ${others.length}`,
          () => others.map((line) => quotaTable(cohort.name, line))) : null);
    }) : el("p", { class: "soft" }, "No tenant has a quota of devices."));
}
