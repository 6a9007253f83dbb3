// Controllers with their queues; one of them with everything that is known, and what can be done with it.

import { ActionButton, age, Component, controllerLink, ControlView, count, duration, Facts, html, Link, Notice, rate, Rates, State, Table } from "./parts.js";
import { Graph } from "./graph.js";
import { now, post } from "./session.js";

export const title = ({ rest }) => (rest ? rest : "Controllers");
export const topic = () => "system";

const since = (at) => (at ? duration(now() - at) : "–");

// A controller is skipped because of a flag or a feature gate, which is its reason.
const reason = (row) => (row.state === "Skipped" && row.reason ? `needs ${row.reason}` : row.reason);

export class View extends Component {
  constructor() {
    super();
    this.rates = new Rates();
  }

  render({ rows, params, access, isLive }) {
    const controllers = [];
    for (const [id, row] of rows) if (id.startsWith("controller/")) controllers.push(row);
    for (const row of controllers) {
      row.rate = this.rates.update(row.name, row.reconciled);
      row.failing = this.rates.update(`${row.name} failed`, row.failed);
    }
    if (!params.rest) return html`<${All} controllers=${controllers} brake=${rows.get("brake")} />`;
    const found = rows.get(`controller/${params.rest}`);
    if (!found) return isLive ? html`<${Notice} kind="bad">There is no controller ${params.rest}. <${Link} to="controllers">All controllers<//><//>` : null;
    return html`<${One} row=${found} rows=${rows} access=${access} />`;
  }
}

function All({ controllers, brake }) {
  const active = controllers.filter((row) => !["Disabled", "Skipped"].includes(row.state));
  const queued = active.reduce((sum, row) => sum + row.queued, 0);
  const failing = active.filter((row) => row.failuresInARow || row.problem).length;
  return html`
    ${brake?.engaged && html`<${Notice} kind="bad">The storm brake holds back ${count(brake.held)} writes: ${brake.reason}<//>`}
    <p>${`${count(active.length)} of ${count(controllers.length)} controllers are enabled, ${count(queued)} keys are queued, ${count(failing)} have a problem.`}</p>
    <${Table} caption="Controllers" rows=${controllers} keyOf=${(row) => row.name} filter=${(row) => `${row.name} ${row.state}`}
      columns=${[
        { id: "name", title: "Controller", sort: (row) => row.name, cell: (row) => controllerLink(row.name) },
        { id: "state", title: "State", sort: (row) => row.state, cell: (row) => html`<${State} value=${row.state} title=${reason(row)} />` },
        { id: "queued", title: "Queued", number: true, sort: (row) => row.queued, cell: (row) => count(row.queued) },
        { id: "delayed", title: "Delayed", number: true, sort: (row) => row.delayed, cell: (row) => count(row.delayed) },
        { id: "work", title: "In work", number: true, sort: (row) => row.inWork, cell: (row) => count(row.inWork) },
        { id: "oldest", title: "Oldest key waits", number: true, sort: (row) => -(row.longestWaitingAt || Infinity), cell: (row) => since(row.longestWaitingAt) },
        { id: "rate", title: "Reconciled", number: true, sort: (row) => row.rate || 0, cell: (row) => rate(row.rate) },
        { id: "failed", title: "Failed", number: true, sort: (row) => row.failed, cell: (row) => count(row.failed) },
        { id: "restarts", title: "Restarts", number: true, sort: (row) => row.restarts, cell: (row) => count(row.restarts) },
        { id: "problem", title: "Problem", cell: (row) => row.problem || reason(row) },
      ]} />`;
}

const VERBS = ["pause", "resume", "restart", "disable", "enable", "drain"];

class One extends ControlView {
  paths() {
    return VERBS.map((verb) => this.path(verb));
  }

  path(verb) {
    return `/controllers/${encodeURIComponent(this.props.row.name)}/${verb}`;
  }

  render({ row, rows, access }) {
    const { may } = this.rights;
    const useful = { pause: row.enabled && !row.paused, resume: row.paused, restart: row.enabled, disable: row.enabled, enable: !row.enabled && row.state !== "Skipped", drain: row.enabled };
    const allowed = VERBS.filter((verb) => may[this.path(verb)]);
    return html`
      <p><${State} value=${row.state} /> ${reason(row)}</p>
      ${row.problem && html`<${Notice} kind="bad">${row.problem}<//>`}
      <div class="choices" role="group" aria-label="Control">
        ${allowed.map((verb) => html`<${ActionButton} key=${verb} label=${verb[0].toUpperCase() + verb.slice(1)} disabled=${!useful[verb]}
          act=${() => post(this.path(verb))} onDone=${this.done} />`)}
        ${!allowed.length && html`<span>Read-only: this user may not control the controller.</span>`}
      </div>
      ${this.announcements()}
      <${Facts} pairs=${[
        ["Reconciled", `${count(row.reconciled)} (${rate(row.rate)})`],
        ["Failed", `${count(row.failed)} (${rate(row.failing)})`],
        ["Up for", age(row.upAt)],
        ["Incarnation", count(row.incarnation)],
        ["Mailbox", count(row.mailbox)],
        ["Busy for", row.busyAt ? `${since(row.busyAt)} ${row.doing}` : ""],
        ["Client", row.client && access.pages.has("rates") ? html`<${Link} to=${`rates?${new URLSearchParams({ q: row.client })}`}>${row.client}<//>` : row.client],
        ["Waits for tables", row.waitingForTables.join(", ")],
        ["Last error", row.lastError],
      ]} />
      <${Table} caption="Queues" rows=${row.queues} keyOf=${(queue) => queue.name} columns=${[
        { id: "queue", title: "Queue", cell: (queue) => queue.name },
        { id: "queued", title: "Queued", number: true, cell: (queue) => count(queue.queued) },
        { id: "delayed", title: "Delayed", number: true, cell: (queue) => count(queue.delayed) },
        { id: "work", title: "In work", number: true, cell: (queue) => count(queue.inWork) },
        { id: "oldest", title: "Oldest key", cell: (queue) => queue.longestWaiting ? `${queue.longestWaiting} (${since(queue.longestWaitingAt)})` : "–" },
        { id: "running", title: "Longest in work", cell: (queue) => queue.longestRunning ? `${queue.longestRunning} (${since(queue.longestRunningAt)})` : "–" },
        { id: "failures", title: "Failures in a row", number: true, cell: (queue) => count(queue.failuresInARow) },
        { id: "success", title: "Last success", cell: (queue) => queue.sinceSuccessAt ? `${age(queue.sinceSuccessAt)} ago` : "–" },
        { id: "error", title: "Last error", cell: (queue) => queue.lastError },
      ]} />
      ${row.passes.length > 0 && html`<${Table} caption="Passes" rows=${row.passes} keyOf=${(pass) => pass.name} columns=${[
        { id: "pass", title: "Pass", cell: (pass) => pass.name },
        { id: "due", title: "Due in", cell: (pass) => pass.dueInAt ? duration(Math.max(0, pass.dueInAt - now())) : pass.runningAt ? "runs" : "–" },
        { id: "failures", title: "Failures in a row", number: true, cell: (pass) => count(pass.failuresInARow) },
        { id: "error", title: "Last error", cell: (pass) => pass.lastError },
      ]} />`}
      ${row.held.length > 0 && html`<${Table} caption="Keys held back after they hung" rows=${row.held} keyOf=${(held) => held.queue + held.key} columns=${[
        { id: "key", title: "Key", cell: (held) => held.key },
        { id: "queue", title: "Queue", cell: (held) => held.queue },
        { id: "since", title: "For", cell: (held) => since(held.at) },
        { id: "hangs", title: "Its thread", cell: (held) => (held.hangs ? "still hangs" : "has returned") },
      ]} />`}
      ${row.denied.length > 0 && html`<${Table} caption="Rights that the API server denies" rows=${row.denied} keyOf=${(right) => right.verb + right.resource + right.namespace} columns=${[
        { id: "right", title: "Right", cell: (right) => `${right.verb} ${right.resource}` },
        { id: "namespace", title: "Namespace", cell: (right) => right.namespace },
        { id: "times", title: "Times", number: true, cell: (right) => count(right.times) },
        { id: "message", title: "Response", cell: (right) => right.message },
      ]} />`}
      <h2>Tables and actors</h2>
      <${Graph} label=${`Actors around ${row.name}`} ...${neighbours(row, rows)} />`;
  }
}

function neighbours(row, rows) {
  const nodes = [{ id: row.actor, text: row.name, kind: "controller" }, { id: "dispatcher", text: "dispatcher", kind: "table" }];
  const edges = [[row.actor, "dispatcher"]];
  for (const informer of row.informers) {
    nodes.push({ id: informer, text: informer.replace(/^informer:/, ""), kind: "table" });
    edges.push([informer, row.actor]);
  }
  for (const [id, actor] of rows) {
    if (!id.startsWith("actor/") || actor.owner !== row.name) continue;
    nodes.push({ id: actor.name, text: actor.name, kind: "child" });
    edges.push([row.actor, actor.name]);
  }
  return { nodes, edges };
}

