// What is wrong, and what waits.

function alarmSection() {
  const { alarms, unread, reading } = state.picture;
  const told = (alarm) => el("div", { class: `alarm ${alarm.level}` },
    el("p", {}, el("span", { class: `level ${alarm.level}` }, alarm.level === "bad" ? "\u2716 " : "\u25b2 ", `${alarm.kind} `),
      alarm.kind === "tenant" ? tenantName(alarm.subject) : named(alarm.subject), alarm.reason ? ` \u2013 ${visible(alarm.reason)}` : "",
      alarm.since ? el("span", { class: "soft" }, `, for ${ago(alarm.since)}`) : null),
    el("p", {}, visible(alarm.text)),
    alarm.next_step ? el("p", { class: "soft" }, "next: ", el("code", {}, visible(alarm.next_step))) : null);
  const first = alarms.slice(0, 12);
  const old = !isCurrent() ? ", as last seen" : "";
  return el("section", { id: "wrong" }, el("h2", {}, (alarms.length ? `What is wrong (${alarms.length})` : reading ? "Nothing is wrong with the tenants" : "Nothing is wrong") + old),
    reading ? el("p", { class: "soft" }, `still being read: ${visible(reading)}; the map, the queue and what is wrong with nodes follow`) : null,
    first.map(told),
    alarms.length > first.length
      ? remembered("alarms", `${alarms.length - first.length} more`, () => alarms.slice(first.length).map(told)) : null,
    (unread ?? []).map((what) => el("p", { class: "soft" }, `not shown: ${visible(what)}`)));
}

function queueSection() {
  const { queue, queueLeft, reading } = state.picture;
  if (reading) return el("section", { id: "queue" }, el("h2", {}, "Queue"), el("p", { class: "soft" }, "being read\u2026"));
  const shown = state.chosen === null ? queue : queue.filter((row) => row.tenant === state.chosen);
  const heads = [head("place", "number"), head("tenant", "name"), head("workload", "name"), head("requests", "asks"), head("waits for", ""), head("since", "short"), head("starts at the latest", "")];
  const rows = (from) => from.map((row) => [
    row.place ? String(row.place) : "\u2013", [mark(row.tenant), " ", tenantName(row.tenant)], [named(row.name, true), row.pods > 1 ? ` (${row.pods} pods)` : ""],
    visible(row.asks), [el("strong", {}, visible(row.reason)), el("br"), visible(row.text)], ago(row.since), row.starts_by ? clock(row.starts_by) : "unknown"]);
  const byCohort = Map.groupBy ? Map.groupBy(shown, (row) => row.cohort ?? "") : grouped(shown, (row) => row.cohort ?? "");
  return el("section", { id: "queue" }, el("h2", {}, `Queue (${queue.length + (queueLeft ?? 0)})`),
    shown.length ? [...byCohort].map(([cohort, listed]) => [
      el("h3", {}, cohort ? ["cohort ", named(cohort)] : "tenants without a cohort"),
      table(heads, rows(listed.slice(0, 25)), `queue of ${cohort}`),
      listed.length > 25 ? remembered(`queue ${cohort}`, `${listed.length - 25} more`, () => table(heads, rows(listed.slice(25)), `rest of the queue of ${cohort}`)) : null,
    ]) : el("p", { class: "soft" }, "No workload waits."),
    queueLeft ? el("p", { class: "soft" }, `${queueLeft} more wait behind these.`) : null);
}

function grouped(rows, keyOf) {
  const found = new Map();
  for (const row of rows) found.set(keyOf(row), [...(found.get(keyOf(row)) ?? []), row]);
  return found;
}
