// Zones with their states and eviction queues, and the nodes in them.

import { age, count, duration, html, objectLink, State, Table } from "./parts.js";
import { now } from "./session.js";

export const title = () => "Zones and nodes";
export const topic = () => "zones";

export function View({ rows }) {
  const zones = [];
  const nodes = [];
  for (const [id, row] of rows) (id.startsWith("zone/") ? zones : nodes).push(row);
  const bad = nodes.filter((node) => node.ready !== "True").length;
  return html`
    <p>${count(zones.length)} zones, ${count(nodes.length)} nodes, ${count(bad)} of them not ready.</p>
    <${Table} caption="Zones" rows=${zones} keyOf=${(zone) => zone.name} empty="No zone has nodes." columns=${[
      { id: "zone", title: "Zone", cell: (zone) => zone.name.replaceAll("\0", "") },
      { id: "state", title: "State", cell: (zone) => zone.state ? html`<${State} value=${zone.state} />` : "–" },
      { id: "ready", title: "Ready", number: true, cell: (zone) => count(zone.ready) },
      { id: "other", title: "Not ready", number: true, cell: (zone) => count(zone.notReady) },
      { id: "rate", title: "Eviction rate", cell: (zone) => rateOf(zone.queue) },
      { id: "waiting", title: "Nodes that wait for eviction", cell: (zone) => waiting(zone.queue) },
      { id: "released", title: "Evicted", number: true, cell: (zone) => count(zone.queue?.released) },
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

function rateOf(queue) {
  if (!queue) return "–";
  if (queue.problem) return queue.problem;
  if (queue.paused) return "paused";
  return queue.rate === null ? "–" : `${queue.rate} nodes/s`;
}

function waiting(queue) {
  if (!queue || queue.problem) return "–";
  if (!queue.length) return "none";
  const names = queue.waiting.join(", ") + (queue.length > queue.waiting.length ? ", …" : "");
  const next = queue.nextAt ? `; next in ${duration(Math.max(0, queue.nextAt - now()))}` : "";
  return `${queue.length}: ${names}${next}`;
}
