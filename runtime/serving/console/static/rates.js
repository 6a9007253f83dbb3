// Rate limits of the API clients of controllers, and the storm brake.

import { ActionButton, age, Component, ControlView, count, createRef, html, Link, Notice, setQuery, State, Table } from "./parts.js";
import { post } from "./session.js";

export const title = () => "Rates";
export const topic = () => "rates";

const ENGAGE = "/brake/engage";
const RELEASE = "/brake/release";
const path = (name) => `/clients/${name}/rate`;
const address = (name) => `/clients/${encodeURIComponent(name)}/rate`;

export class View extends ControlView {
  paths({ rows }) {
    return rows.size ? [ENGAGE, RELEASE, ...clientsOf(rows).map((client) => path(client.name))] : [];
  }

  render({ rows, params, access }) {
    const { may } = this.rights;
    const clients = clientsOf(rows);
    const brake = rows.get("brake");
    const chosen = clients.find((client) => client.name === params.query.get("client"));
    const waiting = clients.reduce((sum, client) => sum + client.waiting, 0);
    const choose = (name) => setQuery({ client: name }, { replace: false });
    const control = (client) =>
      may[path(client.name)]
        ? html`<button type="button" aria-label=${`Change the rate of ${client.name}`} aria-pressed=${client === chosen} onClick=${() => choose(client.name)}>Change</button>`
        : "read-only";
    return html`
      <p>${`${count(clients.length)} clients, ${count(clients.filter((client) => client.isSet).length)} of them with a rate that was set; ${count(waiting)} commands wait.`}
        ${access.pages.has("zones") && html` The rates of evictions are on the page <${Link} to="zones">Zones<//>.`}</p>
      ${this.announcements()}
      ${brake && html`<${Brake} brake=${brake} may=${may} done=${this.done} />`}
      ${chosen && may[path(chosen.name)] && html`<${Change} key=${chosen.name} client=${chosen} done=${this.done} close=${() => choose("")} />`}
      <${Table} caption="API clients" rows=${clients} keyOf=${(client) => client.name}
        filter=${(client) => `${client.name} ${client.isSet ? "set" : ""}`} empty="No client has sent a command yet."
        columns=${[
          { id: "client", title: "Client", sort: (client) => client.name, cell: (client) => client.name },
          { id: "limit", title: "Limit", sort: (client) => client.qps, cell: (client) => html`<span class="whole">${limit(client.qps, client.burst)}${client.isSet ? " (set)" : ""}</span>` },
          { id: "usual", title: "Usual limit", cell: (client) => html`<span class="whole">${limit(client.usualQps, client.usualBurst)}</span>` },
          { id: "used", title: "Burst used", number: true, sort: (client) => client.used, cell: (client) => `${Math.round(100 * client.used)} %` },
          { id: "waiting", title: "Waiting", number: true, sort: (client) => client.waiting, cell: (client) => count(client.waiting) },
          { id: "throttled", title: "Throttled", number: true, sort: (client) => client.throttled, cell: (client) => count(client.throttled) },
          { id: "act", title: "Control", cell: control },
        ]} />`;
  }
}

const clientsOf = (rows) => [...rows.values()].filter((row) => "usualQps" in row);
const limit = (qps, burst) => (qps < 0 ? "none" : `${count(qps)}/s, burst ${count(burst)}`);

function Brake({ brake, may, done }) {
  const engage = async (event) => {
    event.preventDefault();
    const qps = new FormData(event.target).get("qps");
    try {
      await post(ENGAGE, qps === "" ? {} : { qps: Number(qps) });
      done({ kind: "info", text: "The storm brake holds back deletions and evictions." });
    } catch (error) {
      done({ kind: "bad", text: error.message });
    }
  };
  const release = async () => {
    await post(RELEASE);
    return { message: "The storm brake is released." };
  };
  return html`<h2>Storm brake</h2>
    ${brake.engaged
      ? html`<${Notice} kind="bad">It has held back deletions and evictions for ${age(brake.engagedAt)}: ${brake.reason}.
          ${count(brake.held)} wait, ${count(brake.passed)} were let through (${count(brake.brakedQps)} per second).<//>`
      : html`<p>It is released. Engaged, it holds back the deletions and evictions of all controllers.${brake.limit ? ` It engages by itself after ${count(brake.limit)} deletions and evictions within ${count(brake.windowSpan)} s.` : ""}</p>`}
    ${!brake.engaged && may[ENGAGE] && html`<form onSubmit=${engage}>
      <div class="field"><label for="brake-qps">Writes per second that it lets through (${count(brake.brakedQps)} by default)</label>
        <input id="brake-qps" name="qps" type="number" min="0" max="100000" step="any" /></div>
      <button type="submit">Engage the storm brake</button></form>`}
    ${brake.engaged && may[RELEASE] && html`<p><${ActionButton} label="Release the storm brake" act=${release} onDone=${done} /></p>`}
    ${may[ENGAGE] === false && may[RELEASE] === false && html`<p>Read-only: this user may not control the storm brake.</p>`}`;
}

// Form for the rate of one client. It takes the focus when it appears.
class Change extends Component {
  constructor() {
    super();
    this.first = createRef();
  }

  componentDidMount() {
    this.first.current?.focus();
  }

  render({ client, done, close }) {
    const set = async (event) => {
      event.preventDefault();
      const data = new FormData(event.target);
      const settings = { qps: Number(data.get("qps")), burst: data.get("burst") === "" ? null : Number(data.get("burst")) };
      try {
        const { result } = await post(address(client.name), settings);
        done({ kind: "info", text: `${client.name} has the limit ${limit(result.qps, result.burst)}.` });
      } catch (error) {
        done({ kind: "bad", text: error.message });
      }
    };
    const reset = async () => {
      await post(address(client.name), { qps: null });
      return { message: `${client.name} has its usual limit ${limit(client.usualQps, client.usualBurst)}.` };
    };
    return html`<h2>Rate of ${client.name}</h2>
      <form onSubmit=${set}>
        <div class="field"><label for="client-qps">Requests per second</label>
          <input id="client-qps" ref=${this.first} name="qps" type="number" min="0" max="100000" step="any" required defaultValue=${client.qps < 0 ? "" : client.qps} /></div>
        <div class="field"><label for="client-burst">Burst (empty for the usual one)</label>
          <input id="client-burst" name="burst" type="number" min="1" max="1000000" defaultValue=${client.burst} /></div>
        <button type="submit">Set</button>
        <${ActionButton} label="Usual rate" disabled=${!client.isSet} act=${reset} onDone=${done} />
        <button type="button" onClick=${close}>Close</button>
      </form>`;
  }
}
