// One tenant: why it is as it is, its parts, and a slider that tries another quota.

const DAY_MS = 86400000;

function tenantPage(name) {
  const told = fetched("tenant", { name });
  const error = problem("tenant", { name });
  const back = el("p", {}, el("a", { href: "#", "data-key": "back" }, "\u2190 all tenants"));
  if (!told) return [el("section", {}, back, el("h2", {}, named(name)), el("p", { class: "soft" }, error ? visible(error) : "reading\u2026"))];
  const bars = state.picture.cohorts.flatMap((cohort) => cohort.lines.map((line) => [cohort, line])).filter(([, line]) => line.unit === "devices" && line.rows.some((row) => row.tenant === name));
  const queue = state.picture.queue.filter((row) => row.tenant === name);
  return [
    el("section", {}, back, el("h2", {}, "Tenant ", named(name)), causeOf(told), facts(told.facts)),
    el("section", {}, el("h2", {}, "Quota"), bars.length ? bars.map(([cohort, line]) => quotaTable(cohort.name, { ...line, rows: line.rows.filter((row) => row.tenant === name) })) : el("p", { class: "soft" }, "The ledger counts no devices for it."), trySection(name, told)),
    el("section", {}, el("h2", {}, `What waits (${queue.length})`), queue.length ? table([head("place", "number"), head("workload", "name"), head("requests", "asks"), head("waits for", "")],
      queue.slice(0, 25).map((row) => [row.place ? String(row.place) : "\u2013", named(row.name, true), visible(row.asks), [el("strong", {}, visible(row.reason)), el("br"), visible(row.text)]]), "queue") : el("p", { class: "soft" }, "Nothing waits for quota.")),
    usageSection(name),
    el("section", {}, el("h2", {}, "Conditions"), table([head("condition", "name"), head("", "short"), head("reason", ""), head("since", "short"), head("message", "")],
      told.conditions.map((item) => [visible(item.type), item.status === "True" ? level("ok", "\u2714 true") : el("span", { class: "level bad" }, `\u2716 ${visible(item.status)}`), visible(item.reason), ago(item.lastTransitionTime), visible(item.message)]), "conditions")),
    el("section", {}, el("h2", {}, "Parts of its plane"), table([head("pod", "name"), head("ready", ""), head("phase", ""), head("restarts", "number"), head("node", "")],
      told.parts.map((part) => [visible(part.name), part.ready, visible(part.phase), String(part.restarts), visible(part.node)]), "parts")),
    el("section", {}, el("h2", {}, "Recent events"), told.events.length ? table([head("", "short"), head("type", ""), head("reason", ""), head("object", ""), head("message", "")],
      told.events.map((event) => [ago(event.at), visible(event.type), visible(event.reason), named(event.object, true), visible(event.text)]), "events") : el("p", { class: "soft" }, "None.")),
    el("section", { class: "parts" }, el("div", {}, el("h2", {}, "Certificates"), certificateTable(told.certificates)),
      el("div", {}, el("h2", {}, "Snapshots"), told.snapshots.length ? table([head("snapshot", "name"), head("state", ""), head("taken", "short"), head("stored", "number")],
        told.snapshots.map((item) => [visible(item.name), item.whole ? level("ok", "\u2714 whole") : visible(item.text) || "being taken", ago(item.at), item.bytes ? amount("bytes", item.bytes) : ""]), "snapshots") : el("p", { class: "soft" }, "None."))),
    told.unread.length ? el("section", {}, told.unread.map((what) => el("p", { class: "soft" }, `not shown: ${visible(what)}`))) : null,
  ].filter(Boolean);
}

function causeOf({ cause }) {
  if (cause.healthy) return el("p", {}, level("ok"), ` ${visible(cause.what)}`);
  return el("div", { class: `alarm ${cause.level}` }, el("p", {}, level(cause.level), " ", el("strong", {}, visible(cause.reason))), el("p", {}, visible(cause.what), cause.since ? el("span", { class: "soft" }, `, for ${ago(cause.since)}`) : null),
    cause.next ? el("p", { class: "soft" }, "next: ", el("code", {}, visible(cause.next))) : null);
}

function facts(told) {
  return el("dl", {}, Object.entries(told).filter(([, value]) => value).map(([name, value]) => [el("dt", {}, name), el("dd", {}, visible(value))]));
}

function certificateTable(certificates) {
  if (!certificates.length) return el("p", { class: "soft" }, "None that you may read.");
  const now = Date.parse(state.picture.at);
  const left = (ends) => {
    const days = Math.floor((Date.parse(ends) - now) / DAY_MS);
    if (days < 0) return el("span", { class: "level bad" }, "\u2716 has ended");
    const soon = days ? plural(days, "day") : plural(Math.floor((Date.parse(ends) - now) / 3600000), "hour");
    return days < 20 ? el("span", { class: "level warn" }, `\u25b2 in ${soon}`) : `in ${days} days`;
  };
  const rows = certificates.map((item) => [named(item.subject, true), visible(item.where), left(item.ends)]);
  const heads = [head("certificate", "name"), head("Secret", ""), head("ends", "short")];
  return [table(heads, rows.slice(0, 6), "certificates"), rows.length > 6 ? remembered("certificates", `${rows.length - 6} more`, () => table(heads, rows.slice(6), "more certificates")) : null];
}

function trySection(name, told) {
  const lines = told.lines.filter((line) => line.unit === "devices");
  if (!lines.length) return null;
  return el("div", {}, el("h3", {}, "Try another quota (nothing is changed)"), lines.map((line) => {
    const key = `${name} ${line.name}`;
    const tried = state.tried.get(key) ?? line.nominal;
    const rows = state.picture.cohorts.flatMap((cohort) => cohort.lines.filter((other) => other.name === line.name && other.rows.some((row) => row.tenant === name)).flatMap((other) => other.rows));
    const most = Math.max(8, 2 * line.nominal, rows.reduce((sum, row) => sum + row.nominal, 0));
    const shown = el("strong", {}, String(tried));
    const slider = el("input", {
      type: "range", min: 0, max: most, value: tried, "data-key": `try ${key}`, "aria-label": `quota of ${visible(line.name)} to try`,
      on: {
        input: (event) => { shown.textContent = event.target.value; },
        change: (event) => { state.tried.set(key, Number(event.target.value)); draw(); },
      },
    });
    return el("div", {}, el("label", { class: "tools" }, visible(line.name), slider, shown, el("span", { class: "soft" }, `now ${line.nominal}`)),
      tried === line.nominal ? null : outcome({ name, line: line.name, nominal: String(tried) }));
  }));
}

function outcome(parameters) {
  const told = fetched("try", parameters);
  const error = problem("try", parameters);
  if (error) return el("p", { class: "level bad" }, visible(error));
  if (!told) return el("p", { class: "soft" }, "computing\u2026");
  const pod = (item) => [[mark(item.tenant), " ", named(item.tenant)], named(`${item.namespace}/${item.pod}`, true), Object.entries(item.asks).filter(([key]) => key.includes("/")).map(([key, value]) => `${value} ${visible(key)}`).join(", ")];
  return el("div", { class: "outcome" }, told.warnings.map((warning) => el("p", { class: "level warn" }, `\u25b2 ${visible(warning)}`)),
    told.lost.length ? el("p", {}, el("span", { class: "level bad" }, "\u2716 would lose devices: "), told.lost.map(([tenant, count], at) => [at ? ", " : "", named(tenant), ` ${count}`]))
      : el("p", {}, level("ok", "\u2714"), " no pod would be evicted"),
    told.losses.length ? table([head("tenant", "name"), head("pod", "name"), head("devices", ""), head("why", ""), head("gone by", "")],
      told.losses.map((item) => [...pod(item), visible(item.cause), clock(item.by)]), "pods that would be evicted") : null,
    told.lossesLeft ? el("p", { class: "soft" }, `and ${told.lossesLeft} more pods`) : null,
    told.kept.map((item) => el("p", {}, named(item.tenant), ` would hold ${item.over} ${visible(item.resource)} more than it may, until its pods end`)),
    told.starts.length ? [el("p", {}, "would start at once:"), table([head("tenant", "name"), head("pod", "name"), head("devices", "")], told.starts.map(pod), "pods that would start")] : null);
}

function usageSection(name) {
  const parameters = name ? { name } : {};
  const told = fetched("usage", parameters);
  const error = problem("usage", parameters);
  const body = error ? el("p", { class: "soft" }, `not shown: ${visible(error)}`) : told ? usageCharts(told) : el("p", { class: "soft" }, "adding up\u2026");
  return el("section", { id: "usage" }, el("h2", {}, "Usage, device-hours a day"), body);
}

function usageCharts(told) {
  if (!told.rows.length) return el("p", { class: "soft" }, "No device was held in that time.");
  const days = Array.from({ length: told.days }, (_, at) => new Date(Date.parse(told.since) + at * DAY_MS).toISOString().slice(0, 10));
  return [el("div", { class: "legend" }, el("span", {}, el("span", { class: "bar" }, el("i", { class: "used" })), "used"), el("span", {}, el("span", { class: "bar" }, el("i", { class: "borrowed" })), "held, and nothing ran")),
    [...grouped(told.rows, (row) => row.resource)].map(([resource, rows]) => {
      const byDay = new Map(rows.map((row) => [row.day, row]));
      const most = Math.max(1, ...rows.map((row) => row.used + row.idle));
      const bars = days.map((day) => {
        const row = byDay.get(day) ?? { used: 0, idle: 0 };
        const part = (kind, from, size) => { const made = el("i", { class: kind }); made.style.bottom = `${(100 * from) / most}%`; made.style.height = `${(100 * size) / most}%`; return made; };
        const words = `${day}: ${row.used.toFixed(1)} h used, ${row.idle.toFixed(1)} h idle`;
        return el("div", { class: "day" }, el("div", { class: "column", role: "img", "aria-label": words, title: words }, part("used", 0, row.used), part("borrowed", row.used, row.idle)), el("small", {}, day.slice(8)));
      });
      return el("div", {}, el("h3", {}, named(resource), el("span", { class: "soft" }, ` most in a day: ${most.toFixed(1)} h`)), el("div", { class: "days" }, bars));
    })];
}
