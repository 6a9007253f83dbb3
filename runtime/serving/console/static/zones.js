// Zones with their states and eviction queues, which can be steered, and the nodes in them.

import { ActionButton, age, ControlView, count, duration, html, objectLink, State, Table } from "./parts.js";
import { now, post } from "./session.js";

export const title = () => "Zones and nodes";
export const topic = () => "zones";

const VERBS = ["pause", "resume", "rate"];
const path = (zone, verb) => `/zones/${encodeURIComponent(zone.name)}/${verb}`;
const plain = (zone, verb) => `/zones/${zone.name}/${verb}`;

export class View extends ControlView {
  paths({ rows }) {
    const zones = [...rows.values()].filter((row) => "usualQps" in row);
    return zones.flatMap((zone) => VERBS.map((verb) => plain(zone, verb)));
  }

  render({ rows }) {
    const zones = [];
    const nodes = [];
    for (const [id, row] of rows) (id.startsWith("zone/") ? zones : nodes).push(row);
    const bad = nodes.filter((node) => node.ready !== "True").length;
    return html`
      <p>${count(zones.length)} zones, ${count(nodes.length)} nodes, ${count(bad)} of them not ready.</p>
      ${this.announcements()}
      <${Table} caption="Zones" rows=${zones} keyOf=${(zone) => zone.name} empty="No zone has nodes, or node-lifecycle-controller does not run." columns=${[
        { id: "zone", title: "Zone", cell: (zone) => zone.name },
        { id: "state", title: "State", cell: (zone) => html`<${State} value=${zone.state} />` },
        { id: "ready", title: "Ready", number: true, cell: (zone) => count(zone.ready) },
        { id: "other", title: "Not ready", number: true, cell: (zone) => count(zone.notReady) },
        { id: "rate", title: "Evictions", cell: (zone) => html`<span class="whole">${rateOf(zone)}</span>` },
        { id: "waiting", title: "Nodes that wait for eviction", cell: (zone) => waiting(zone) },
        { id: "released", title: "Evicted", number: true, cell: (zone) => count(zone.released) },
        { id: "act", title: "Control", cell: (zone) => html`<${Control} zone=${zone} may=${this.rights.may} done=${this.done} />` },
      ]} />
      <${Table} caption="Nodes" rows=${nodes} keyOf=${(node) => node.name} filter=${(node) => `${node.name} ${node.zone} ${node.ready === "True" ? "ready" : "not ready"} ${node.taints.join(" ")}`}
        empty="There are no nodes." columns=${[
          { id: "name", title: "Node", sort: (node) => node.name, cell: (node) => objectLink("Node", "", node.name) },
          { id: "zone", title: "Zone", sort: (node) => node.zone, cell: (node) => node.zone },
          { id: "ready", title: "Ready", sort: (node) => node.ready, cell: (node) => html`<${State} value=${node.ready} />` },
          { id: "since", title: "Since", cell: (node) => (node.since ? age(Date.parse(node.since) / 1000) : "–") },
          { id: "taints", title: "Taints", cell: (node) => node.taints.join(", ") },
          { id: "fault", title: "Fault", cell: (node) => (node.silent ? "silenced" : "") },
          { id: "kubelet", title: "Kubelet", cell: (node) => node.kubelet },
        ]} />`;
  }
}

function Control({ zone, may, done }) {
  const verb = zone.paused ? "resume" : "pause";
  const id = `rate-${zone.name}`;
  const set = async (event) => {
    event.preventDefault();
    const qps = Number(new FormData(event.target).get("qps"));
    try {
      await post(path(zone, "rate"), { qps });
      done({ kind: "info", text: `${zone.name} releases ${qps} nodes per second.` });
    } catch (error) {
      done({ kind: "bad", text: error.message });
    }
  };
  if (!may[plain(zone, verb)] && !may[plain(zone, "rate")]) return "read-only";
  return html`<div class="choices">
    <${ActionButton} key=${verb} label=${verb === "pause" ? "Pause" : "Resume"} title=${`${verb === "pause" ? "Pause" : "Resume"} evictions in ${zone.name}`}
      disabled=${!may[plain(zone, verb)]} act=${() => post(path(zone, verb))} onDone=${done} />
    ${may[plain(zone, "rate")] && html`<form onSubmit=${set}><label for=${id}>Nodes/s<span class="unseen"> in ${zone.name}</span></label>
      <input id=${id} name="qps" type="number" min="0" max="1000" step="any" required size="6" />
      <button type="submit">Set</button></form>
      ${zone.isSet && html`<${ActionButton} label="Usual rate" title=${`Usual rate of ${zone.name}`} act=${() => post(path(zone, "rate"), { qps: null })} onDone=${done} />`}`}
  </div>`;
}

function rateOf(zone) {
  if (zone.spared) return "none: the zone is spared";
  if (zone.paused) return "paused";
  return zone.qps === null ? "–" : `${zone.qps} nodes/s${zone.isSet ? " (set)" : ""}`;
}

function waiting(zone) {
  if (!zone.waiting) return "none";
  const names = zone.nextNodes.join(", ") + (zone.waiting > zone.nextNodes.length ? ", …" : "");
  const next = zone.nextInAt ? `; next in ${duration(Math.max(0, zone.nextInAt - now()))}` : "";
  return `${zone.waiting}: ${names}${next}`;
}
