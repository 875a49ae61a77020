// The page of a tenant's user: own quota, what waits and why, and where the rest runs.

function ownPage() {
  const { picture } = state;
  const waits = [head("place", "number"), head("pod", "name"), head("requests", "asks"), head("why", ""), head("since", "short"), head("starts at the latest", "")];
  const holds = [head("pod", "name"), head("devices", "asks"), head("node", ""), head("state", ""), head("since", "short")];
  const waiting = (rows) => table(waits, rows.map((row) => [row.place ? String(row.place) : "\u2013", named(row.name, true), visible(row.asks),
    [el("strong", {}, visible(row.reason || "not judged yet")), el("br"), visible(row.text)], ago(row.since), row.starts ? clock(row.starts) : "unknown"]), "pods that wait");
  const holding = (rows) => table(holds, rows.map((row) => [named(row.name, true), visible(row.asks), named(row.node),
    row.reason ? [el("strong", { class: "level warn" }, `\u25b2 ${visible(row.reason)}`), ` ${visible(row.text)}`] : visible(row.phase), ago(row.since)]), "pods that hold devices");
  const limits = picture.limits.map(([name, used, hard]) => [visible(name), visible(used), visible(hard)]);
  return [
    el("section", { id: "wrong" }, el("h2", {}, "Your quota"),
      picture.lines.length ? [legendOfQuota(), picture.lines.map((line) => quotaTable("your tenant", line))]
        : el("p", { class: "soft" }, picture.told ? "Your tenant has no quota of devices." : "This cluster does not show your tenant's quota."),
      limits.length ? remembered("limits", `other limits: ${limits.length}`, () => table([head("limit", "name"), head("used", "number"), head("at most", "number")], limits, "other limits")) : null),
    el("section", { id: "queue" }, el("h2", {}, `Your pods that wait (${picture.waiting.length + picture.waitingLeft})`),
      picture.waiting.length ? [waiting(picture.waiting.slice(0, 50)), picture.waiting.length > 50 ? remembered("waiting", `${picture.waiting.length - 50} more`, () => waiting(picture.waiting.slice(50))) : null]
        : el("p", { class: "soft" }, "None."), picture.waitingLeft ? el("p", { class: "soft" }, `and ${picture.waitingLeft} more`) : null),
    el("section", {}, el("h2", {}, `Your pods with devices (${picture.holding.length + picture.holdingLeft})`),
      picture.holding.length ? [holding(picture.holding.slice(0, 50)), picture.holding.length > 50 ? remembered("holding", `${picture.holding.length - 50} more`, () => holding(picture.holding.slice(50))) : null]
        : el("p", { class: "soft" }, "None.")),
    el("section", {}, picture.unread.map((what) => el("p", { class: "soft" }, `not shown: ${visible(what)}`))),
  ];
}
