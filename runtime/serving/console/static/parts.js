// Parts of all pages: elements, links, tables, numbers in words.

import { h, render, Component, createRef } from "./vendor/preact.js";
import htm from "./vendor/htm.js";
import { now, Rights } from "./session.js";

export { render, Component, createRef };
export const html = htm.bind(h);
export const ROOT = "/console/";

// The address is the state of a page: everything that a user chooses is in it.
export const address = () => ({
  path: decodeURIComponent(location.pathname.slice(ROOT.length)).replace(/\/$/, ""),
  query: new URLSearchParams(location.search),
});

let navigated = () => {};
export const onNavigation = (listener) => (navigated = listener);

export function go(path, { replace = false } = {}) {
  history[replace ? "replaceState" : "pushState"](null, "", path);
  navigated({ replace });
}

export function setQuery(changes, { replace = true } = {}) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value === "" || value === null || value === undefined) query.delete(name);
    else query.set(name, value);
  }
  const text = query.toString();
  go(location.pathname + (text ? `?${text}` : ""), { replace });
}

export const Link = ({ to, children, ...rest }) => html`<a href=${ROOT + to} ...${rest}>${children}</a>`;
export const controllerLink = (name) => html`<${Link} to=${`controllers/${encodeURIComponent(name)}`}>${name}<//>`;

export function objectLink(kind, namespace, name, text) {
  const query = new URLSearchParams({ kind, namespace: namespace || "", name });
  return html`<${Link} to=${`story?${query}`}>${text || name}<//>`;
}

// Text.

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const value = Math.max(0, seconds);
  if (value < 10) return `${value.toFixed(1)} s`;
  if (value < 120) return `${Math.round(value)} s`;
  if (value < 7200) return `${Math.floor(value / 60)} min`;
  if (value < 172800) return `${Math.floor(value / 3600)} h`;
  return `${Math.floor(value / 86400)} d`;
}

export const age = (at) => (at ? duration(Math.max(0, Math.round(now() - at))) : "–");
export const clockTime = (at) => (at ? new Date(at * 1000).toLocaleTimeString() : "–");
export const count = (value) => (value === null || value === undefined ? "–" : value.toLocaleString("en"));
export const rate = (value) => (value === null || value === undefined ? "–" : `${value.toFixed(value < 10 ? 1 : 0)}/s`);

const GOOD = new Set(["Running", "Ready", "True", "Normal", "Live", "Complete", "succeeded", "None"]);
const BAD = new Set(["Failed", "Restarting", "NotReady", "Unknown", "False", "FullDisruption", "Dead", "failed", "on"]);

// A state is a word beside its mark, so it does not depend on colours.
export function State({ value, title }) {
  const kind = GOOD.has(value) ? "good" : BAD.has(value) ? "bad" : "other";
  const mark = { good: "●", bad: "▲", other: "○" }[kind];
  return html`<span class="state ${kind}" title=${title}><span aria-hidden="true">${mark}</span> ${value}</span>`;
}

export const Notice = ({ kind = "info", children }) =>
  html`<p class="notice ${kind}" role=${kind === "bad" ? "alert" : "status"}>${children}</p>`;

// Rates of counters between two samples, by id.
export class Rates {
  constructor() {
    this.last = new Map();
    this.values = new Map();
  }

  update(id, value) {
    const at = performance.now() / 1000;
    const last = this.last.get(id);
    if (!last) {
      this.last.set(id, { at, value });
    } else if (at - last.at >= 0.9) {
      this.values.set(id, value < last.value ? 0 : (value - last.value) / (at - last.at));
      this.last.set(id, { at, value });
    }
    return this.values.get(id);
  }

  keep(ids) {
    for (const id of this.last.keys()) {
      if (ids.has(id)) continue;
      this.last.delete(id);
      this.values.delete(id);
    }
  }
}

// Table whose order and filter are in the address.
// columns: [{ id, title, cell: row => content, sort: row => value, number }]
const MOST_ROWS = 500;

export function Table({ caption, columns, rows, keyOf, filter, empty = "Nothing to show.", initial = "", rowClass }) {
  const { query } = address();
  const wanted = query.get("sort") || initial;
  const descending = wanted.startsWith("-");
  const column = columns.find((each) => each.id === wanted.replace("-", "") && each.sort);
  const text = (query.get("q") || "").toLowerCase();
  let shown = filter && text ? rows.filter((row) => filter(row).toLowerCase().includes(text)) : rows;
  if (column) {
    const sign = descending ? -1 : 1;
    shown = [...shown].sort((a, b) => sign * compare(column.sort(a), column.sort(b)));
  }
  const left = shown.length - MOST_ROWS;
  return html`
    ${filter &&
    html`<div class="filter"><label for="q">Filter</label>
      <input id="q" type="search" autocomplete="off" spellcheck="false" value=${query.get("q") || ""}
        onInput=${(event) => setQuery({ q: event.target.value })} />
      <span role="status">${count(shown.length)} of ${count(rows.length)}</span></div>`}
    <div class="scroll" tabindex="0" role="region" aria-label=${caption}>
      <table>
        <caption>${caption}</caption>
        <thead><tr>${columns.map((each) => headerCell(each, column, descending))}</tr></thead>
        <tbody>
          ${shown.slice(0, MOST_ROWS).map(
            (row) => html`<tr key=${keyOf(row)} class=${rowClass?.(row)}>${columns.map((each, index) =>
              index === 0
                ? html`<th scope="row">${each.cell(row)}</th>`
                : html`<td class=${each.number ? "number" : ""}>${each.cell(row)}</td>`,
            )}</tr>`,
          )}
          ${shown.length === 0 && html`<tr><td colspan=${columns.length}>${empty}</td></tr>`}
        </tbody>
      </table>
    </div>
    ${left > 0 && html`<p>${count(left)} more: narrow the filter to see them.</p>`}`;
}

function headerCell(each, column, descending) {
  const sorted = column === each ? (descending ? "descending" : "ascending") : undefined;
  const next = column === each && !descending ? `-${each.id}` : column === each ? each.id : each.number ? `-${each.id}` : each.id;
  const arrow = sorted ? (descending ? " ▼" : " ▲") : "";
  return html`<th scope="col" aria-sort=${sorted} class=${each.number ? "number" : ""}>${
    each.sort
      ? html`<button type="button" class="sort" onClick=${() => setQuery({ sort: next })}>${each.title}<span
          aria-hidden="true">${arrow}</span></button>`
      : each.title
  }</th>`;
}

function compare(a, b) {
  if (a === b) return 0;
  if (a === null || a === undefined) return -1;
  if (b === null || b === undefined) return 1;
  return a < b ? -1 : 1;
}

// Definitions in two columns; pairs without a value are left out.
export const Facts = ({ pairs }) =>
  html`<dl class="facts">${pairs
    .filter(([, value]) => value !== "" && value !== null && value !== undefined)
    .map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;

// View whose user can act. It asks for the rights of the user to POST to `paths(props)`, which are then in
// `this.rights.may`, and announces the results of actions, which are handed to `done`.
export class ControlView extends Component {
  constructor() {
    super();
    this.state = { notice: null };
    this.rights = new Rights(() => this.setState({}));
    this.done = (notice) => this.setState({ notice });
  }

  componentDidMount() {
    this.componentDidUpdate();
  }

  componentDidUpdate() {
    this.rights.ask(this.paths(this.props));
  }

  announcements() {
    const { error } = this.rights;
    const { notice } = this.state;
    return html`${error && html`<${Notice} kind="bad">${error}<//>`}
      <div aria-live="polite">${notice && html`<${Notice} kind=${notice.kind}>${notice.text}<//>`}</div>`;
  }
}

// Button that posts once, and reports what came of it. It keeps the focus while the response is awaited.
export class ActionButton extends Component {
  constructor() {
    super();
    this.state = { busy: false };
  }

  render({ label, act, onDone, disabled, pressed, title }) {
    const press = async () => {
      if (this.state.busy) return;
      this.setState({ busy: true });
      try {
        const done = await act();
        onDone?.({ text: done?.message || `${label}: done.`, kind: "info" });
      } catch (error) {
        onDone?.({ text: `${label}: ${error.message}`, kind: "bad" });
      }
      this.setState({ busy: false });
    };
    return html`<button type="button" title=${title} aria-label=${title} aria-pressed=${pressed} aria-busy=${this.state.busy}
      disabled=${disabled} onClick=${press}>${label}</button>`;
  }
}
