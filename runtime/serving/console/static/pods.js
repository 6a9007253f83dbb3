// Pods and the work of the controllers over time, and rollouts.

import { count, html, Notice, objectLink, State, Table } from "./parts.js";
import { Plot } from "./plot.js";

export const title = () => "Rollouts and pods";
export const topic = () => "pods";

export function View({ rows }) {
  const chunks = [];
  const rollouts = [];
  for (const [id, row] of rows) (id.startsWith("points/") ? chunks : rollouts).push([id, row]);
  chunks.sort(([a], [b]) => (a < b ? -1 : 1));
  const points = chunks.flatMap(([, samples]) => samples);
  const lines = rollouts.map(([, row]) => row);
  const times = points.map((point) => point[0]);
  const column = (index) => points.map((point) => point[index]);
  const reconciled = points.map((point, index) => {
    const before = points[index - 1];
    return before ? Math.max(0, (point[7] - before[7]) / Math.max(0.1, point[0] - before[0])) : null;
  });
  return html`
    ${points.length < 3 && html`<${Notice}>Samples are taken while this page is open, once a second.<//>`}
    <div class="plots">
      <${Plot} caption="Pods" series=${["All", "Ready", "Pending", "Deleting", "Failed"]} data=${[times, ...[1, 2, 3, 4, 5].map(column)]} />
      <${Plot} caption="Work of the controllers" series=${["Reconciliations per second", "Queued and delayed keys"]} data=${[times, reconciled, column(6)]} />
    </div>
    <${Table} caption="Rollouts" rows=${lines} keyOf=${(row) => `${row.kind}/${row.namespace}/${row.name}`}
      filter=${(row) => `${row.kind} ${row.namespace}/${row.name} ${row.done ? "complete" : "in progress"}`}
      empty="There are no Deployments, StatefulSets or DaemonSets." columns=${[
        { id: "name", title: "Workload", sort: (row) => `${row.namespace}/${row.name}`, cell: (row) => objectLink(row.kind, row.namespace, row.name, `${row.namespace}/${row.name}`) },
        { id: "kind", title: "Kind", sort: (row) => row.kind, cell: (row) => row.kind },
        { id: "state", title: "State", sort: (row) => row.done, cell: (row) => html`<${State} value=${row.done ? "Complete" : "In progress"} />` },
        { id: "wanted", title: "Desired", number: true, sort: (row) => row.wanted, cell: (row) => count(row.wanted) },
        { id: "updated", title: "Updated", number: true, sort: (row) => row.updated, cell: (row) => count(row.updated) },
        { id: "ready", title: "Ready", number: true, sort: (row) => row.ready, cell: (row) => count(row.ready) },
        { id: "available", title: "Available", number: true, sort: (row) => row.available, cell: (row) => count(row.available) },
      ]} />`;
}
