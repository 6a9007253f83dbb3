// Lines over time, drawn by uPlot, which is loaded when the first plot is shown.

import { Component, count, createRef, html } from "./parts.js";

let loading = null;

function loaded() {
  loading ??= new Promise((resolve, reject) => {
    const address = new URL("./vendor/uplot.js", import.meta.url).href;
    const policy = globalThis.trustedTypes?.createPolicy("kcm-console", { createScriptURL: (url) => (url === address ? url : "") });
    const script = document.createElement("script");
    script.src = policy ? policy.createScriptURL(address) : address;
    script.onload = () => resolve(globalThis.uPlot);
    script.onerror = () => reject(new Error("uplot.js could not be loaded"));
    document.head.append(script);
  });
  return loading;
}

const COLOURS = ["--link", "--good", "--warn", "--bad", "--muted"];
const DASHES = [[], [8, 3], [2, 3], [8, 3, 2, 3], [1, 4]]; // lines differ in more than their colour

// series: names of the lines; data: [times, values of each line, ...]
export class Plot extends Component {
  constructor() {
    super();
    this.place = createRef();
  }

  async componentDidMount() {
    const uPlot = await loaded();
    if (!this.place.current) return;
    this.observer = new ResizeObserver(() => this.plot?.setSize(this.size()));
    this.observer.observe(this.place.current);
    this.scheme = matchMedia("(prefers-color-scheme: dark)");
    this.rebuild = () => this.build(uPlot);
    this.scheme.addEventListener("change", this.rebuild);
    this.themes = new MutationObserver(this.rebuild);
    this.themes.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    this.build(uPlot);
  }

  size() {
    return { width: Math.max(200, this.place.current.clientWidth), height: 220 };
  }

  build(uPlot) {
    this.plot?.destroy();
    const style = getComputedStyle(this.place.current);
    const colour = (name) => resolved(style, name);
    const axis = { stroke: colour("--muted"), grid: { stroke: colour("--faint"), width: 1 }, ticks: { stroke: colour("--faint"), width: 1 } };
    const series = this.props.series.map((label, index) => ({ label, stroke: colour(COLOURS[index]), width: 2, dash: DASHES[index], points: { show: false } }));
    const options = {
      ...this.size(),
      legend: { show: false },
      cursor: { show: false },
      scales: { y: { range: (_plot, _low, high) => [0, Math.max(1, high * 1.1)] } },
      axes: [axis, { ...axis, size: 60 }],
      series: [{}, ...series],
    };
    this.plot = new uPlot(options, this.props.data, this.place.current);
  }

  componentDidUpdate() {
    this.plot?.setData(this.props.data);
  }

  componentWillUnmount() {
    this.observer?.disconnect();
    this.themes?.disconnect();
    this.scheme?.removeEventListener("change", this.rebuild);
    this.plot?.destroy();
    this.plot = null;
  }

  render({ caption, series, data }) {
    const last = data.slice(1).map((values) => values[values.length - 1]);
    const text = series.map((name, index) => `${name} ${count(last[index])}`).join(", ");
    return html`<figure>
      <figcaption>${caption}</figcaption>
      <div ref=${this.place} role="img" aria-label=${`${caption} over time. Now: ${text}.`}></div>
      <ul class="swatches">${series.map((name, index) => html`<li>
        <svg width="28" height="10" aria-hidden="true"><line class=${`line-${index}`} x1="0" y1="5" x2="28" y2="5" stroke-dasharray=${DASHES[index].join(" ")} /></svg>
        ${" "}${name}: <b>${count(Math.round((last[index] || 0) * 10) / 10)}</b></li>`)}</ul>
    </figure>`;
  }
}

// Canvas does not know light-dark(), so the colour is taken from an element.
function resolved(style, name) {
  const probe = document.createElement("span");
  probe.style.color = style.getPropertyValue(name);
  document.body.append(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}
