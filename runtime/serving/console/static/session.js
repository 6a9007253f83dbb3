// Requests to the manager: the token, single responses, and streams that end while the page is hidden.

const STORED = "kcm-console-token";
let token = "";
let skew = 0; // seconds by which the server's clock is ahead of this one
const listeners = new Set();

// The key arrives in the fragment of the link, which is never sent, and is removed from the address at once.
export function takeKey() {
  const found = /^#key=([\w-]+)$/.exec(location.hash);
  if (found) {
    sessionStorage.setItem(STORED, found[1]);
    history.replaceState(null, "", location.pathname + location.search);
  }
  token = sessionStorage.getItem(STORED) || "";
}

export function signIn(value) {
  token = value.trim();
  sessionStorage.setItem(STORED, token);
}

export function signOut() {
  token = "";
  sessionStorage.removeItem(STORED);
  listeners.forEach((listener) => listener());
}

export const isSignedIn = () => token !== "";
export const onSignOut = (listener) => listeners.add(listener);
export const now = () => Date.now() / 1000 + skew;

export class Refused extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

async function send(path, options = {}) {
  const headers = { ...options.headers };
  if (token) headers.Authorization = `Bearer ${token}`;
  let response;
  try {
    response = await fetch(path, { cache: "no-store", credentials: "omit", ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, "The manager does not respond.");
  }
  const date = Date.parse(response.headers.get("Date") || "");
  if (Number.isFinite(date) && Math.abs(date - Date.now()) > 2000) skew = (date - Date.now()) / 1000;
  if (response.ok) return response;
  throw new Refused(response.status, explanation(response.status, await response.text()));
}

function explanation(status, body) {
  let text = body.trim();
  try {
    text = JSON.parse(body).message || text;
  } catch {
    // plain text
  }
  if (status === 401) return "The token is not accepted. Open the link that run-kcm printed last, or sign in again.";
  return text.slice(0, 500) || `The manager refused this with status ${status}.`;
}

export async function get(path) {
  return (await send(path)).json();
}

export async function post(path, body) {
  const response = await send(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body ?? {}),
  });
  const text = await response.text();
  try {
    return JSON.parse(text);
  } catch {
    return { message: text.trim() };
  }
}

const LONGEST = 1500; // characters of a question
const MOST_ASKED = 200; // paths; each costs the API server a review
const PAUSE = 5000; // milliseconds after a question that failed

// Whether the user may POST to each path. `changed` is called after each response.
export class Rights {
  constructor(changed) {
    this.changed = changed;
    this.may = {};
    this.error = "";
    this.asked = new Set();
    this.next = 0;
  }

  async ask(paths) {
    const fresh = paths.filter((path) => !this.asked.has(path)).slice(0, Math.max(0, MOST_ASKED - this.asked.size));
    if (!fresh.length || Date.now() < this.next) return;
    for (const path of fresh) this.asked.add(path);
    for (const question of questions(fresh)) {
      try {
        Object.assign(this.may, (await get(`/console/api/access?${question}`)).may);
        this.error = "";
      } catch (error) {
        this.error = `The rights of the user are unknown: ${error.message}`;
        this.next = Date.now() + PAUSE;
        for (const path of fresh) if (!(path in this.may)) this.asked.delete(path);
      }
      this.changed();
    }
  }
}

function questions(paths) {
  const found = [""];
  for (const path of paths) {
    const part = new URLSearchParams({ path }).toString();
    const last = found.length - 1;
    if (found[last].length + part.length >= LONGEST) found.push(part);
    else found[last] += (found[last] && "&") + part;
  }
  return found;
}

// Rows of one topic, by id. `changed` is called at most once a frame.
export class Stream {
  constructor(path, changed) {
    this.path = path;
    this.changed = changed;
    this.rows = new Map();
    this.state = "connecting";
    this.error = "";
    this.frame = 0;
    this.delay = 1000;
    this.onVisibility = () => (document.hidden ? this.pause() : this.resume());
    document.addEventListener("visibilitychange", this.onVisibility);
    if (!document.hidden) this.resume();
  }

  resume() {
    if (this.abort) return;
    this.abort = new AbortController();
    this.read(this.abort);
  }

  pause() {
    this.abort?.abort();
    this.abort = null;
    clearTimeout(this.timer);
    this.timer = 0;
  }

  close() {
    this.pause();
    document.removeEventListener("visibilitychange", this.onVisibility);
    cancelAnimationFrame(this.frame);
    this.changed = () => {};
  }

  async read(abort) {
    let why = "";
    try {
      const response = await send(this.path, { signal: abort.signal });
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        const parts = (rest + value).split("\n\n");
        rest = parts.pop();
        for (const part of parts) this.take(part);
      }
    } catch (error) {
      if (error.name === "AbortError") return;
      why = error.message;
      this.status = error.status;
    }
    if (this.abort !== abort) return;
    this.abort = null;
    if (why) {
      this.state = "lost";
      this.error = why;
      this.later();
    }
    const again = !why || this.status === 0 || this.status === 429 || this.status >= 500 || this.status === undefined;
    if (again) this.timer = setTimeout(() => !document.hidden && this.resume(), why ? this.delay : 100);
    this.delay = Math.min(this.delay * 2, 15000);
  }

  take(part) {
    if (!part.startsWith("data: ")) return;
    const event = JSON.parse(part.slice(6));
    if (event.error) {
      this.state = "lost";
      this.error = event.error;
    } else {
      if (event.full) this.rows = new Map();
      for (const [id, row] of Object.entries(event.set)) this.rows.set(id, row);
      for (const id of event.gone || []) this.rows.delete(id);
      this.state = "live";
      this.error = "";
      this.delay = 1000;
    }
    this.later();
  }

  later() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.changed();
    });
  }
}
