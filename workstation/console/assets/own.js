// The page of a tenant's user: own quota, what waits and why, Slurm jobs, where the rest runs and how busy it is, device-hours.

const SHOWN = 50;

// A table of the first rows, and the rest on request.
function listed(key, rows, build, left = 0) {
  if (!rows.length) return el("p", { class: "soft" }, "None.");
  return [build(rows.slice(0, SHOWN)), rows.length > SHOWN ? remembered(key, `${rows.length - SHOWN} more`, () => build(rows.slice(SHOWN))) : null,
    left ? el("p", { class: "soft" }, `and ${left} more`) : null];
}

function why(reason, text, otherwise = "") {
  return [el("strong", {}, visible(reason || otherwise)), text ? [el("br"), visible(text)] : null];
}

// How busy devices are: a bar, the number, and a word where that is little.
function busyBar(use) {
  if (!use) return el("span", { class: "soft" }, "\u2013");
  if (use.busyPercent === null) return el("span", { class: "soft" }, "not measured");
  const fill = el("i", { class: "used" });
  fill.style.left = "0";
  fill.style.width = `${use.busyPercent}%`;
  return el("div", { class: "busy" }, el("div", { class: "bar", "aria-hidden": "true" }, fill), el("span", {}, `${Math.round(use.busyPercent)} %`),
    use.busyPercent < 5 ? el("span", { class: "level warn" }, "\u25b2 idle") : null);
}

function memoryOf(use) {
  if (!use || use.memoryUsedMiB === null) return "";
  const used = amount("bytes", use.memoryUsedMiB * 2 ** 20);
  return use.memoryMiB ? `${used} of ${amount("bytes", use.memoryMiB * 2 ** 20)}` : used;
}

function stateOf(row) {
  const errors = row.use?.xids ?? [];
  return [row.reason ? [el("strong", { class: "level warn" }, `\u25b2 ${visible(row.reason)}`), ` ${visible(row.text)}`] : visible(row.phase),
    errors.length ? [" ", el("strong", { class: "level bad" }, `\u2716 XID ${errors.join(", ")}`)] : null];
}

function useLine(use) {
  if (!use) return null;
  const parts = [];
  if (use.busyPercent !== null) parts.push(`${plural(use.devices, "device")} ${Math.round(use.busyPercent)} % busy on average`);
  if (use.idleDevices) parts.push(`${use.idleDevices} below 5 %`);
  if (use.watts) parts.push(`${Math.round(use.watts)} W`);
  if (use.simulated) parts.push("simulated values");
  return [parts.length ? el("p", {}, parts.join(", ")) : null, use.missing ? el("p", { class: "soft" }, `use not shown: ${visible(use.missing)}`) : null];
}

function startOf(row) {
  if (!row.starts) return "unknown";
  return [clock(row.starts), row.forecast === "Slurm" ? el("span", { class: "soft" }, ", as Slurm plans") : null];
}

function jobSection(jobs) {
  if (!jobs) return null;
  const jobName = (row) => [visible(row.job), " ", named(row.name, true)];
  const asks = (row) => [row.gpus ? `${row.gpus} GPU${row.gpus === 1 ? "" : "s"}` : "no GPU", row.nodes > 1 ? `, ${row.nodes} nodes` : ""].join("");
  const waits = [head("place", "number"), head("job", "name"), head("user", "short"), head("partition", "short"), head("requests", "asks"), head("why", ""), head("since", "short"), head("may start", "")];
  const runs = [head("job", "name"), head("user", "short"), head("partition", "short"), head("has", "asks"), head("on", ""), head("state", "short"), head("since", "short"), head("ends at the latest", "")];
  const waiting = (rows) => table(waits, rows.map((row) => [row.place ? String(row.place) : "\u2013", jobName(row), named(row.user), named(row.partition), asks(row),
    why(row.reason, row.text, "not judged yet"), ago(row.since), startOf(row)]), "Slurm jobs that wait");
  const running = (rows) => table(runs, rows.map((row) => [jobName(row), named(row.user), named(row.partition), asks(row), named(row.hosts, true),
    visible(row.state.toLowerCase()), ago(row.since), row.ends ? clock(row.ends) : "no limit"]), "Slurm jobs that run");
  if (jobs.missing) return el("section", { id: "jobs" }, el("h2", {}, "Slurm jobs"), el("p", { class: "soft" }, `not shown: ${visible(jobs.missing)}`));
  return el("section", { id: "jobs" }, el("h2", {}, `Slurm jobs that wait (${jobs.waiting.length + jobs.waitingLeft})`), listed("jobs", jobs.waiting, waiting, jobs.waitingLeft),
    el("h2", {}, `Slurm jobs that run (${jobs.running.length + jobs.runningLeft})`), listed("running jobs", jobs.running, running, jobs.runningLeft));
}

function hoursSection(hours) {
  if (!hours) return null;
  const heads = [head("", "name"), head("hours held", "number"), head("idle", "number"), head("busy", "number")];
  const rows = hours.totals.map((row) => [named(row.name), row.held.toFixed(1), row.idle.toFixed(1), row.busyPercent === null ? "not measured" : `${Math.round(row.busyPercent)} %`]);
  return el("section", { id: "usage" }, el("h2", {}, "Device-hours of your tenant, two weeks"),
    el("p", { class: "soft" }, `counted up to ${new Date(hours.until).toLocaleString()}; your platform writes this about every five minutes while devices are held`),
    rows.length ? table(heads, rows, "device-hours") : null, usageCharts(hours));
}

function ownPage() {
  const { picture } = state;
  const waits = [head("place", "number"), head("pod", "name"), head("requests", "asks"), head("why", ""), head("since", "short"), head("starts at the latest", "")];
  const holds = [head("pod", "name"), head("devices", "asks"), head("busy", "use"), head("memory", "short"), head("node", ""), head("state", ""), head("since", "short")];
  const waiting = (rows) => table(waits, rows.map((row) => [row.place ? String(row.place) : "\u2013", named(row.name, true), visible(row.asks),
    why(row.reason, row.text, "not judged yet"), ago(row.since), row.starts ? clock(row.starts) : "unknown"]), "pods that wait");
  const holding = (rows) => table(holds, rows.map((row) => [named(row.name, true), visible(row.asks), busyBar(row.use), memoryOf(row.use), named(row.node),
    stateOf(row), ago(row.since)]), "pods that hold devices");
  const limits = picture.limits.map(([name, used, hard]) => [visible(name), visible(used), visible(hard)]);
  return [
    el("section", { id: "wrong" }, el("h2", {}, "Your quota"),
      picture.lines.length ? [legendOfQuota(), picture.lines.map((line) => quotaTable("your tenant", line))]
        : el("p", { class: "soft" }, picture.told ? "Your tenant has no quota of devices." : "This cluster does not show your tenant's quota."),
      limits.length ? remembered("limits", `other limits: ${limits.length}`, () => table([head("limit", "name"), head("used", "number"), head("at most", "number")], limits, "other limits")) : null),
    el("section", { id: "queue" }, el("h2", {}, `Your pods that wait (${picture.waiting.length + picture.waitingLeft})`), listed("waiting", picture.waiting, waiting, picture.waitingLeft)),
    jobSection(picture.jobs),
    el("section", { id: "holding" }, el("h2", {}, `Your pods with devices (${picture.holding.length + picture.holdingLeft})`), useLine(picture.use),
      listed("holding", picture.holding, holding, picture.holdingLeft)),
    hoursSection(picture.hours),
    el("section", {}, picture.unread.map((what) => el("p", { class: "soft" }, `not shown: ${visible(what)}`))),
  ].filter(Boolean);
}
