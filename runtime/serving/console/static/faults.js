// Fault board of the embedded cluster.

import { ActionButton, ControlView, count, html, Notice, objectLink, State, Table } from "./parts.js";
import { post } from "./session.js";

export const title = () => "Faults";
export const topic = () => "faults";

const PATH = "/console/api/fault";

export class View extends ControlView {
  paths() {
    return [PATH];
  }

  render({ rows }) {
    const may = this.rights.may[PATH];
    const all = [...rows.values()];
    const of = (kind) => all.filter((row) => row.kind === kind);
    const on = all.filter((row) => row.kind !== "zone" && row.on).length;
    const button = (row, start, end) => html`<${ActionButton} label=${row.on ? end : start} disabled=${!may}
      title=${`${row.on ? end : start}: ${row.name}`} onDone=${this.done} act=${() => post(PATH, { fault: row.kind, name: row.name, on: !row.on })} />`;
    const writes = rows.get("writes");
    return html`
      <p>${on ? `${count(on)} faults are on.` : "No fault is on."} Faults stay on until they are undone, or the manager ends; silent nodes stay silent.</p>
      ${may === false && html`<p>Read-only: this user may not switch faults.</p>`}
      ${this.announcements()}
      <div class="choices" role="group" aria-label="All">
        ${writes && button({ ...writes, name: "" }, "Refuse writes", "Accept writes")}
        <${ActionButton} label="Undo all faults" disabled=${!may || !on} onDone=${this.done} act=${() => post(PATH, { fault: "all", on: false })} />
      </div>
      ${writes?.on && html`<${Notice} kind="bad">The API server refuses all writes of the manager with status 503, except those of Leases.<//>`}
      <${Table} caption="Zones" rows=${of("zone")} keyOf=${(row) => row.name} empty="There are no nodes." columns=${[
        { id: "zone", title: "Zone", cell: (row) => row.name || "none" },
        { id: "nodes", title: "Nodes", number: true, cell: (row) => count(row.nodes) },
        { id: "silent", title: "Silent", number: true, cell: (row) => count(row.silent) },
        { id: "act", title: "Switch", cell: (row) => button(row, "Silence the zone", "Let it recover") },
      ]} />
      <${Table} caption="Nodes" rows=${of("node")} keyOf=${(row) => row.name} filter=${(row) => `${row.name} ${row.zone}`} empty="There are no nodes." columns=${[
        { id: "node", title: "Node", cell: (row) => objectLink("Node", "", row.name) },
        { id: "zone", title: "Zone", cell: (row) => row.zone },
        { id: "ready", title: "Ready", cell: (row) => html`<${State} value=${row.ready} />` },
        { id: "silent", title: "Fault", cell: (row) => (row.on ? "silent" : "none") },
        { id: "act", title: "Switch", cell: (row) => button(row, "Silence", "Let it recover") },
      ]} />
      <${Table} caption="Watches of the manager" rows=${of("watch")} keyOf=${(row) => row.name} columns=${[
        { id: "resource", title: "Resource", cell: (row) => row.name },
        { id: "state", title: "Fault", cell: (row) => (row.on ? "cut" : "none") },
        { id: "act", title: "Switch", cell: (row) => button(row, "Cut", "Allow") },
      ]} />`;
  }
}
