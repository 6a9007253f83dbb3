// Supervision tree: the manager, the actors that it restarts, and what each of them does now.

import { age, Component, controllerLink, count, duration, html, Link, rate, Rates, setQuery, State, Table } from "./parts.js";
import { Graph } from "./graph.js";
import { now } from "./session.js";

export const title = () => "Supervision tree";
export const topic = () => "system";

const KINDS = ["dispatcher", "recorder", "elector", "discovery", "controller", "informer"];

// Depth and order of each actor: an actor that a controller requested is below the controller.
function ordered(actors) {
  const below = new Map();
  for (const actor of actors) {
    const parent = actor.owner ? `controller:${actor.owner}` : actor.kind === "manager" ? "" : actor.kind;
    if (!below.has(parent)) below.set(parent, []);
    below.get(parent).push(actor);
  }
  const lines = (below.get("") || []).map((actor) => ({ actor, depth: 0 }));
  const kinds = [...below.keys()].filter((kind) => kind && !kind.startsWith("controller:"));
  kinds.sort((a, b) => KINDS.indexOf(a) - KINDS.indexOf(b) || (a < b ? -1 : 1));
  for (const kind of kinds) {
    for (const actor of below.get(kind).sort((a, b) => (a.name < b.name ? -1 : 1))) {
      lines.push({ actor, depth: 1 });
      const name = actor.kind === "controller" ? actor.controller || actor.name.replace(/^controller:/, "") : "";
      for (const child of (name && below.get(`controller:${name}`)) || []) lines.push({ actor: child, depth: 2 });
    }
  }
  return lines;
}

export class View extends Component {
  constructor() {
    super();
    this.rates = new Rates();
  }

  render({ rows, params }) {
    const actors = [];
    for (const [id, row] of rows) if (id.startsWith("actor/")) actors.push(row);
    this.rates.keep(new Set(actors.map((actor) => actor.name)));
    for (const actor of actors) actor.rate = this.rates.update(actor.name, actor.handled);
    const lines = ordered(actors);
    const restarts = actors.reduce((sum, actor) => sum + actor.restarts, 0);
    const waiting = actors.reduce((sum, actor) => sum + actor.mailbox, 0);
    const view = params.query.get("view") || "table";
    return html`
      <p>${count(actors.length)} actors, ${count(restarts)} restarts, ${count(waiting)} messages waiting.</p>
      <div class="choices" role="group" aria-label="View">
        ${["table", "graph"].map((each) => html`<button type="button" aria-pressed=${view === each}
          onClick=${() => setQuery({ view: each === "table" ? "" : each })}>${each === "table" ? "Table" : "Graph"}</button>`)}
      </div>
      ${view === "graph" ? html`<${Graph} label="Tables, and the controllers that read them" ...${graphOf(rows)} />` : this.table(lines)}`;
  }

  table(lines) {
    return html`<${Table} caption="Actors" rows=${lines} keyOf=${({ actor }) => actor.name} filter=${({ actor }) => actor.name}
      rowClass=${({ depth }) => `depth-${depth}`}
      columns=${[
        { id: "name", title: "Actor", sort: ({ actor }) => actor.name, cell: ({ actor }) =>
          actor.kind === "controller" ? controllerLink(actor.name.replace(/^controller:/, "")) : actor.name },
        { id: "state", title: "State", sort: ({ actor }) => stateOf(actor), cell: ({ actor }) => html`<${State} value=${stateOf(actor)} />` },
        { id: "mailbox", title: "Mailbox", number: true, sort: ({ actor }) => actor.mailbox, cell: ({ actor }) => count(actor.mailbox) },
        { id: "rate", title: "Messages", number: true, sort: ({ actor }) => actor.rate || 0, cell: ({ actor }) => rate(actor.rate) },
        { id: "busy", title: "Busy for", number: true, sort: ({ actor }) => -(actor.busyAt || Infinity), cell: ({ actor }) =>
          actor.busyAt ? html`<span title=${actor.doing}>${duration(now() - actor.busyAt)}</span>` : "–" },
        { id: "restarts", title: "Restarts", number: true, sort: ({ actor }) => actor.restarts, cell: ({ actor }) => count(actor.restarts) },
        { id: "up", title: "Up for", number: true, sort: ({ actor }) => -(actor.upAt || 0), cell: ({ actor }) => age(actor.upAt) },
        { id: "objects", title: "Objects", number: true, sort: ({ actor }) => actor.table?.objects ?? -1, cell: ({ actor }) =>
          actor.table ? count(actor.table.objects) : "" },
        { id: "error", title: "Last error", cell: ({ actor }) => actor.lastError || actor.table?.failure || "" },
      ]} />`;
  }
}

const stateOf = (actor) => (actor.gaveUp ? "Failed" : !actor.alive ? "Dead" : actor.busyAt ? "Busy" : actor.hungThreads ? "Hung threads" : "Running");

// Which controllers read which tables.
function graphOf(rows) {
  const nodes = [];
  const edges = [];
  for (const [id, row] of rows) {
    if (!id.startsWith("controller/") || row.state === "Disabled" || row.state === "Skipped") continue;
    nodes.push({ id: row.actor, text: row.name, to: `controllers/${encodeURIComponent(row.name)}`, kind: "controller" });
    for (const informer of row.informers) edges.push([informer, row.actor]);
  }
  for (const [id, row] of rows)
    if (id.startsWith("actor/") && row.kind === "informer") nodes.push({ id: row.name, text: row.name.replace(/^informer:/, ""), kind: "table" });
  return { nodes, edges };
}

export { Link };
