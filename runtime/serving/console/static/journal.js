// Time travel over a journal: each step of the run, with the tables and queues as they were after it.

import { Component, controllerLink, count, html, Notice, setQuery, Table } from "./parts.js";
import { get } from "./session.js";

export const title = () => "Journal";
export const topic = () => null;

const FIELDS = ["at", "controller", "actor", "table", "object"];

export class View extends Component {
  constructor() {
    super();
    this.state = { found: null, error: "", busy: false };
  }

  componentDidMount() {
    this.ask();
  }

  componentDidUpdate() {
    this.ask();
  }

  // One question at a time: while the slider moves, only the last position is asked for.
  async ask() {
    const wanted = new URLSearchParams();
    for (const field of FIELDS) if (this.props.params.query.get(field)) wanted.set(field, this.props.params.query.get(field));
    const query = wanted.toString();
    if (query === this.asked || this.state.busy) return;
    this.asked = query;
    this.setState({ busy: true });
    try {
      this.setState({ found: await get(`/console/api/journal?${query}`), error: "", busy: false });
    } catch (error) {
      this.setState({ error: error.message, busy: false });
    }
  }

  render({ params }, { found, error, busy }) {
    if (!found) return error ? html`<${Notice} kind="bad">${error}<//>` : html`<p role="status">The journal is read</p>`;
    const to = (at) => setQuery({ at: at ? String(at) : "" });
    const step = found.step;
    const seconds = (step.at - found.began).toFixed(3);
    const at = Number(params.query.get("at") || 0);
    const jump = (label, target) => html`<button type="button" disabled=${target === null || busy} onClick=${() => to(target)}>${label}</button>`;
    return html`
      ${error && html`<${Notice} kind="bad">${error}<//>`}
      ${found.differs && html`<${Notice} kind="bad">The controller of this version sends other commands than in the run; its queues may differ as well.<//>`}
      <label for="position">Step ${count(at)} of ${count(found.steps - 1)}, ${seconds} s after the start (${new Date(step.at * 1000).toLocaleString()})</label>
      <input id="position" type="range" min="0" max=${found.steps - 1} value=${at} onInput=${(event) => to(Number(event.target.value))} />
      <div class="choices" role="group" aria-label="Steps">
        ${jump("First", 0)} ${jump("Back", found.previous)} ${jump("Forward", found.next)} ${jump("Last", found.steps - 1)}
        <${Select} id="actor" label="Only steps of" value=${params.query.get("actor") || ""} options=${found.actors} all="all actors" />
        <${Select} id="controller" label="Queues of" value=${params.query.get("controller") || ""} options=${found.controllers} all="no controller" />
        <span role="status">${busy ? "Replaying" : ""}</span>
      </div>
      <h2>Message ${step.number}</h2>
      <p><b>${step.receiver}</b> handles, from ${step.sender || "outside"}: <span class="mono">${step.text}</span></p>
      ${step.cause !== null && html`<p><button type="button" onClick=${() => to(step.cause)}>Go to its cause, step ${step.cause}</button></p>`}
      <${Table} caption="Messages that this step sent" rows=${step.sent} keyOf=${(message) => message.number} empty="It sent none." columns=${[
        { id: "number", title: "Number", number: true, cell: (message) => message.number },
        { id: "to", title: "To", cell: (message) => message.receiver },
        { id: "text", title: "Message", cell: (message) => html`<span class="mono">${message.text}</span>` },
        { id: "go", title: "Handled in", cell: (message) => message.step === null ? "no step" : html`<button type="button" onClick=${() => to(message.step)}>Step ${message.step}</button>` },
      ]} />
      ${params.query.get("controller") && html`<${Table} caption=${`Queues of ${params.query.get("controller")} after this step`} rows=${found.queues}
        keyOf=${(key) => key.queue + key.key} empty="They are empty." columns=${[
          { id: "key", title: "Key", cell: (key) => key.key },
          { id: "queue", title: "Queue", cell: (key) => key.queue },
          { id: "state", title: "State", cell: (key) => key.state },
          { id: "awaits", title: "Awaits", cell: (key) => key.awaited.join(", ") },
        ]} />`}
      <${Table} caption="Tables after this step" rows=${found.tables.filter((table) => table.objects || table.id === found.table?.id)} keyOf=${(table) => table.id}
        empty="No table has objects yet." columns=${[
          { id: "table", title: "Table", cell: (table) => html`<button type="button" aria-pressed=${found.table?.id === table.id}
            onClick=${() => setQuery({ table: table.id, object: "" })}>${table.id}</button>` },
          { id: "objects", title: "Objects", number: true, cell: (table) => count(table.objects) },
          { id: "version", title: "Version", number: true, cell: (table) => table.version },
        ]} />
      ${found.table && html`<${Table} caption=${`Objects in ${found.table.id}`} rows=${found.table.keys} keyOf=${([key]) => key} filter=${([key]) => key} columns=${[
        { id: "key", title: "Object", cell: ([key]) => html`<button type="button" aria-pressed=${params.query.get("object") === key} onClick=${() => setQuery({ object: key })}>${key}</button>` },
        { id: "version", title: "Version", number: true, cell: ([, version]) => version },
      ]} />`}
      ${found.table?.more > 0 && html`<p>${count(found.table.more)} more objects are not shown.</p>`}
      ${found.table?.object && html`<h2>${params.query.get("object")}</h2>
        <pre tabindex="0" aria-label="The object as it was">${JSON.stringify(found.table.object, null, 2)}</pre>`}`;
  }
}

function Select({ id, label, value, options, all }) {
  return html`<label for=${id}>${label}</label>
    <select id=${id} onChange=${(event) => setQuery({ [id]: event.target.value })}>
      <option value="" selected=${!value}>${all}</option>
      ${options.map((option) => html`<option value=${option} selected=${option === value}>${option}</option>`)}
    </select>`;
}

export { controllerLink };
