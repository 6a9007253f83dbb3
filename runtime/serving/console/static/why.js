// Why an object is as it is: causes, and what each controller decided.

import { age, Component, duration, html, Link, Notice, State, Table } from "./parts.js";
import { Choose } from "./story.js";
import { get, now } from "./session.js";

const subject = ({ query }) => ({ kind: query.get("kind") || "", namespace: query.get("namespace") || "", name: query.get("name") || "" });

export function title(params) {
  const { kind, namespace, name } = subject(params);
  return name ? `Why: ${kind} ${namespace ? `${namespace}/` : ""}${name}` : "Why is an object stuck?";
}

export const topic = () => null;

export class View extends Component {
  constructor() {
    super();
    this.state = { found: null, error: "", asked: "" };
  }

  componentDidMount() {
    this.ask();
  }

  componentDidUpdate() {
    this.ask();
  }

  async ask(again = false) {
    const wanted = subject(this.props.params);
    const query = new URLSearchParams(wanted).toString();
    if (!wanted.kind || !wanted.name || (query === this.asked && !again)) return;
    this.asked = query;
    try {
      const found = await get(`/console/api/why?${query}`);
      if (this.asked === query) this.setState({ found, error: "" });
    } catch (error) {
      if (this.asked === query) this.setState({ found: null, error: error.message });
    }
  }

  render({ params }, { found, error }) {
    const wanted = subject(params);
    return html`<${Choose} page="why" ...${wanted} />
      ${error && html`<${Notice} kind="bad">${error}<//>`}
      ${found && html`<${Found} found=${found} wanted=${wanted} />
        <p><button type="button" onClick=${() => this.ask(true)}>Look again</button></p>`}`;
  }
}

function Found({ found, wanted }) {
  const bad = found.verdict === "stuck" || found.verdict === "unknown";
  return html`
    <${Notice} kind=${bad ? "bad" : "info"}><b>${found.verdict[0].toUpperCase() + found.verdict.slice(1)}:</b> ${found.summary}<//>
    <p><${Link} to=${`story?${new URLSearchParams(wanted)}`}>Its story<//></p>
    ${found.causes.length > 0 && html`<h2>Causes, the root first</h2><ol class="timeline">${found.causes.map(
      (cause) => html`<li>
        <b>${cause.summary}</b> <code>${cause.code}</code>
        <ul>
          <li>concerns ${cause.about}</li>
          ${(cause.evidence || []).map((line) => html`<li>${line}</li>`)}
          ${cause.since && html`<li>for ${age(cause.since)}</li>`}
          ${next(cause) && html`<li>next attempt in ${duration(Math.max(0, next(cause) - now()))}</li>`}
        </ul>
        ${(cause.commands || []).map((command) => html`<pre tabindex="0"><code>${command}</code></pre>`)}
      </li>`,
    )}</ol>`}
    ${found.controllers.length > 0 && html`<${Table} caption="What each controller decided last" rows=${found.controllers}
      keyOf=${(report) => report.name + report.queue} columns=${[
        { id: "name", title: "Controller", cell: (report) => html`<${Link} to=${`controllers/${encodeURIComponent(report.name)}`}>${report.name}<//>` },
        { id: "state", title: "Its key is", cell: (report) => html`<${State} value=${report.state || "idle"} />` },
        { id: "when", title: "Decided", cell: (report) => (report.decided ? `${age(report.decided)} ago` : "–") },
        { id: "why", title: "Because", cell: (report) => (report.reasons || []).join("; ") },
        { id: "did", title: "Commands", cell: (report) => html`<ul>${(report.commands || []).map((line) => html`<li>${line}</li>`)}</ul>` },
        { id: "error", title: "Error", cell: (report) => report.error || report.trouble || "" },
      ]} />`}
    ${(found.notes || []).map((note) => html`<p>${note}</p>`)}`;
}

const next = (cause) => cause.next_attempt ?? cause.nextAttempt;
