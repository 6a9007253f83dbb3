// Story of an object: what happened to it, who decided what, and the objects around it.

import { clockTime, Component, count, createRef, Facts, go, html, Link, Notice, objectLink, ROOT, setQuery, State, Table } from "./parts.js";
import { Graph } from "./graph.js";

const subject = ({ query }) => ({ kind: query.get("kind") || "", namespace: query.get("namespace") || "", name: query.get("name") || "" });

export function title(params) {
  const { kind, namespace, name } = subject(params);
  return name ? `${kind} ${namespace ? `${namespace}/` : ""}${name}` : "Story of an object";
}

export function topic(params) {
  const { kind, namespace, name } = subject(params);
  return kind && name ? `story?${new URLSearchParams({ kind, namespace, name })}` : null;
}

const KINDS = { event: "Events", decision: "Decisions", command: "Commands", object: "Changes" }; // of entries, with labels

export function View({ rows, params, access }) {
  const wanted = subject(params);
  const form = html`<${Choose} page="story" ...${wanted} />`;
  const object = rows.get("object");
  if (!wanted.name || !object) return form;
  const hidden = new Set((params.query.get("without") || "").split(" ").filter(Boolean));
  const entries = [];
  for (const [id, row] of rows) if (id.startsWith("entry/")) entries.push([id, row]);
  entries.sort(([a], [b]) => (a < b ? 1 : -1));
  const shown = entries.filter(([, entry]) => !hidden.has(entry.kind));
  const toggle = (kind) => {
    const next = new Set(hidden);
    if (!next.delete(kind)) next.add(kind);
    setQuery({ without: [...next].join(" ") });
  };
  return html`${form}
    ${!object.exists && html`<${Notice} kind="bad">The object does not exist, or the manager has not seen it yet.<//>`}
    ${object.eventsProblem && html`<${Notice} kind="bad">Its events cannot be read: ${object.eventsProblem}<//>`}
    ${object.exists && html`<${Facts} pairs=${[
      ["Created", clockDate(object.created)],
      ["Deletion", object.deleting ? clockDate(object.deleting) : ""],
      ["Phase", object.phase],
      ["Finalizers", object.finalizers.join(", ")],
      ["Generation", object.generation],
      ["Version", object.version],
      ["UID", object.uid],
    ]} />`}
    ${access.pages.has("why") && html`<p><${Link} to=${`why?${new URLSearchParams(wanted)}`}>Why is it as it is?<//></p>`}
    <h2>Timeline, newest first</h2>
    <div class="choices" role="group" aria-label="Shown entries">
      ${Object.entries(KINDS).map(([kind, label]) => html`<button type="button" aria-pressed=${!hidden.has(kind)} onClick=${() => toggle(kind)}>
        ${label} (${count(entries.filter(([, entry]) => entry.kind === kind).length)})</button>`)}
    </div>
    <ol class="timeline" reversed>${shown.map(([id, entry]) => html`<li key=${id}>
      <time datetime=${new Date(entry.at * 1000).toISOString()}>${clockTime(entry.at)}</time>
      <span class="kind">${entry.kind === "object" ? "change" : entry.kind}</span>
      <span class=${entry.bad ? "bad" : ""}>${entry.bad ? "▲ " : ""}${entry.title}</span>
      ${entry.who && html`<span> – ${entry.who}</span>`}
      ${entry.cause && html`<span>, for ${entry.cause.kind} ${objectLink(entry.cause.kind, entry.cause.namespace, entry.cause.name)}</span>`}
      ${entry.details.length > 0 && html`<ul>${entry.details.map((detail) => html`<li>${detail}</li>`)}</ul>`}
    </li>`)}</ol>
    ${shown.length === 0 && html`<p>Nothing is known.</p>`}
    ${object.exists && object.conditions.length > 0 && html`<${Table} caption="Conditions" rows=${object.conditions} keyOf=${(condition) => condition.type} columns=${[
      { id: "type", title: "Condition", cell: (condition) => condition.type },
      { id: "status", title: "Status", cell: (condition) => html`<${State} value=${condition.status} />` },
      { id: "reason", title: "Reason", cell: (condition) => condition.reason },
      { id: "message", title: "Message", cell: (condition) => condition.message },
    ]} />`}
    <h2>Owners and dependents</h2>
    <${Graph} label="Owners and dependents" ...${graphOf(rows.get("graph"))} />`;
}

function graphOf(graph) {
  const nodes = (graph?.nodes || []).map((node) => ({
    id: node.id,
    text: `${node.kind} ${node.name}`,
    to: `story?${new URLSearchParams({ kind: node.kind, namespace: node.namespace, name: node.name })}`,
    kind: "object",
  }));
  return { nodes, edges: graph?.edges || [] };
}

const clockDate = (at) => (at ? new Date(at * 1000).toLocaleString() : "");

// Form that opens a page about an object. What is typed stays while the page is updated.
export class Choose extends Component {
  constructor() {
    super();
    this.form = createRef();
  }

  values() {
    const { kind, namespace, name } = this.props;
    return { kind: kind || "Pod", namespace: kind ? namespace : "default", name };
  }

  componentDidUpdate(before) {
    const { kind, namespace, name } = this.props;
    if (before.kind === kind && before.namespace === namespace && before.name === name) return;
    for (const [field, value] of Object.entries(this.values())) this.form.current.elements[field].value = value;
  }

  render({ page }) {
    const values = this.values();
    const submit = (event) => {
      event.preventDefault();
      const data = new FormData(event.target);
      const query = new URLSearchParams();
      for (const field of ["kind", "namespace", "name"]) query.set(field, data.get(field).trim());
      go(`${ROOT}${page}?${query}`);
    };
    const field = (id, text, required) => html`<div class="field"><label for=${id}>${text}</label>
      <input id=${id} name=${id} defaultValue=${values[id]} required=${required} autocomplete="off" spellcheck="false" /></div>`;
    return html`<form ref=${this.form} onSubmit=${submit}>
      ${field("kind", "Kind", true)}
      ${field("namespace", "Namespace (empty for cluster-wide objects)", false)}
      ${field("name", "Name", true)}
      <button type="submit">Show</button>
    </form>`;
  }
}
