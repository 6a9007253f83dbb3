// Drawing of a directed graph, laid out by dagre, which is loaded when the first graph is shown.

import { Component, html, ROOT } from "./parts.js";

const CHARACTER = 7.2; // pixels of a letter
const HEIGHT = 26;
const MOST_NODES = 400;

export class Graph extends Component {
  constructor() {
    super();
    this.state = { dagre: null };
  }

  async componentDidMount() {
    this.setState({ dagre: await import("./vendor/dagre.js") });
  }

  shouldComponentUpdate(next, state) {
    const signature = JSON.stringify([next.nodes, next.edges]);
    const changed = signature !== this.signature || state.dagre !== this.state.dagre;
    this.signature = signature;
    return changed;
  }

  render({ nodes, edges, label }, { dagre }) {
    if (!dagre) return html`<p role="status">Loading the drawing</p>`;
    if (!nodes.length) return html`<p>Nothing to draw.</p>`;
    const shown = nodes.slice(0, MOST_NODES);
    const known = new Map(shown.map((node) => [node.id, node]));
    const graph = new dagre.Graph();
    graph.setGraph({ rankdir: "LR", nodesep: 8, ranksep: 90, marginx: 8, marginy: 8 });
    graph.setDefaultEdgeLabel(() => ({}));
    for (const node of shown) graph.setNode(node.id, { width: node.text.length * CHARACTER + 16, height: HEIGHT });
    for (const [from, to] of edges) if (known.has(from) && known.has(to)) graph.setEdge(from, to);
    dagre.layout(graph);
    const { width, height } = graph.graph();
    return html`<div class="scroll graph" tabindex="0" role="region" aria-label=${label}>
      <svg width=${Math.ceil(width)} height=${Math.ceil(height)} role="group" aria-label=${label}>
        ${graph.edges().map((edge) => html`<path class="edge" d=${curve(graph.edge(edge).points)} />`)}
        ${shown.map((node) => {
          const at = graph.node(node.id);
          const box = html`<rect x=${at.x - at.width / 2} y=${at.y - HEIGHT / 2} width=${at.width} height=${HEIGHT} rx="4" />
            <text x=${at.x} y=${at.y + 4} text-anchor="middle">${node.text}</text>`;
          return node.to ? html`<a class="node ${node.kind}" href=${ROOT + node.to}>${box}</a>` : html`<g class="node ${node.kind}">${box}</g>`;
        })}
      </svg></div>`;
  }
}

const curve = (points) => `M${points.map((point) => `${point.x.toFixed(1)},${point.y.toFixed(1)}`).join("L")}`;
