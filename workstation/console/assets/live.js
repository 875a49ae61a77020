// The live page: pictures come as server-sent events, details on request, and a lost connection is named until it is back.

const SILENCE_MS = 13000; // three beats of the server
const AGAIN_MS = 2000;
// How long an answer is taken as new, whatever happens on the host.
const PAUSE_MS = { nodes: 1000, tenant: 5000, try: 10000, usage: 60000 };

function follow() {
  let last = Date.now();
  let source = null;
  const hear = () => {
    last = Date.now();
    if (!state.heard) { state.heard = true; draw(); }
  };
  const lose = () => {
    if (state.heard) { state.heard = false; draw(); }
  };
  const connect = () => {
    source = new EventSource("events");
    source.addEventListener("beat", () => {
      hear();
      if (!location.hash.startsWith("#tenant/") || !state.picture) return;
      state.stale = new Set(state.fetched.keys());
      draw();
    });
    source.addEventListener("link", (event) => { hear(); state.link = JSON.parse(event.data); draw(); });
    source.addEventListener("picture", (event) => { hear(); take(JSON.parse(event.data)); });
    source.addEventListener("error", () => {
      lose();
      // A refused connection stays closed, others come back by themselves.
      if (source.readyState === EventSource.CLOSED) setTimeout(connect, AGAIN_MS);
    });
  };
  setInterval(() => { if (Date.now() - last > SILENCE_MS) lose(); }, 1000);
  connect();
  draw();
}

function notices() {
  if (document.body.dataset.way === "file") return [];
  if (!state.heard) {
    return [el("div", { class: "lost" }, "The console does not answer: what you see is old. If it was stopped, run bulkhead console again and open its new link.")];
  }
  if (state.link && !state.link.ok) {
    return [el("div", { class: "lost" }, `Connection to the cluster lost: what you see is old. Trying again. ${visible(state.link.why)}`)];
  }
  return [];
}

// The answer to a question, from the last time until a newer one is there; null before the first.
function fetched(name, parameters) {
  const key = `${name}?${new URLSearchParams(parameters)}`;
  const held = state.fetched.get(key);
  if (document.body.dataset.way === "file") return null;
  if (held && (!state.stale.has(key) || Date.now() - held.at < PAUSE_MS[name])) return held.answer;
  state.stale.delete(key);
  state.fetched.set(key, { answer: null, ...held, at: Date.now() });
  fetch(`api/${key}`).then((response) => response.json()).then((told) => {
    state.fetched.set(key, { answer: told.answer ?? null, error: told.error, at: Date.now() });
    draw();
  }).catch(() => { state.stale.add(key); });
  return held?.answer ?? null;
}
const problem = (name, parameters) => state.fetched.get(`${name}?${new URLSearchParams(parameters)}`)?.error;
