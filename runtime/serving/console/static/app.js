// Shell of the console: navigation, sign-in, and the stream of the shown page.

import { get, isSignedIn, onSignOut, signIn, signOut, Stream, takeKey } from "./session.js";
import { address, Component, go, html, Link, Notice, onNavigation, render, ROOT } from "./parts.js";

// A page is a module with `title(params)`, `topic(params)` (name and query of its stream, or null), and View.
const PAGES = {
  tree: ["Supervision", () => import("./tree.js"), "system"],
  controllers: ["Controllers", () => import("./controllers.js"), "system"],
  zones: ["Zones", () => import("./zones.js"), "zones"],
  rates: ["Rates", () => import("./rates.js"), "rates"],
  pods: ["Rollouts and pods", () => import("./pods.js"), "pods"],
  story: ["Story of an object", () => import("./story.js"), "story"],
  why: ["Why", () => import("./why.js"), "why"],
  faults: ["Faults", () => import("./faults.js"), "faults"],
  journal: ["Journal", () => import("./journal.js"), "journal"],
};

class App extends Component {
  constructor() {
    super();
    this.state = { access: null, page: null, module: null, error: "", key: "" };
    this.stream = null;
    this.streamPath = null;
    onNavigation((how) => this.show(how));
    onSignOut(() => this.leave());
    addEventListener("popstate", () => this.show({}));
    document.addEventListener("click", (event) => this.follow(event));
  }

  componentDidMount() {
    if (isSignedIn()) this.enter();
  }

  async enter() {
    try {
      const access = await get("/console/api/access");
      access.pages = new Set([...access.topics, ...access.questions]);
      this.setState({ access, error: "" }, () => this.show({ first: true }));
    } catch (error) {
      if (error.status === 401 || error.status === 403) signOut();
      this.setState({ error: error.status === 403 ? `This user may not use the console: ${error.message}` : error.message });
      if (error.status === 0 || error.status >= 500) setTimeout(() => this.enter(), 3000);
    }
  }

  leave() {
    this.closeStream();
    this.setState({ access: null, module: null });
  }

  // Links within the console change the page without loading it again.
  follow(event) {
    const link = event.target.closest?.("a[href]");
    if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey)
      return;
    const url = new URL(link.getAttribute("href") || link.href.baseVal, location.href);
    if (url.origin !== location.origin || !url.pathname.startsWith(ROOT) || link.hasAttribute("download")) return;
    if (url.hash && url.pathname === location.pathname) return;
    event.preventDefault();
    go(url.pathname + url.search);
  }

  available() {
    const { access } = this.state;
    return Object.keys(PAGES).filter((id) => access?.pages.has(PAGES[id][2]));
  }

  async show({ replace = false, first = false }) {
    const ids = this.available();
    if (!this.state.access) return this.setState({});
    const { path, query } = address();
    const [id, ...rest] = path.split("/");
    if (!id && ids.length) return go(`${ROOT}${ids[0]}`, { replace: true });
    const params = { id, rest: rest.join("/"), query };
    if (!ids.includes(id)) return this.setState({ page: params, module: null, error: `There is no page ${path}.` });
    let module;
    try {
      module = await PAGES[id][1]();
    } catch {
      return this.setState({ error: "The page could not be loaded. Reload it." });
    }
    const changed = this.state.page?.id !== id || this.state.page?.rest !== params.rest;
    this.openStream(module.topic(params));
    this.setState({ page: params, module, error: "" }, () => {
      document.title = `${module.title(params)} · kcm console`;
      if (changed && !first && !replace) document.getElementById("title")?.focus();
    });
  }

  openStream(path) {
    if (path === this.streamPath && this.stream) return;
    this.closeStream();
    this.streamPath = path;
    if (path) this.stream = new Stream(`/console/live/${path}`, () => this.setState({}));
  }

  closeStream() {
    this.stream?.close();
    this.stream = null;
    this.streamPath = null;
  }

  render(_props, { access, page, module, error }) {
    if (!isSignedIn()) return html`<${SignIn} error=${error} entered=${() => this.enter()} />`;
    const stream = this.stream;
    const lost = stream?.state === "lost" ? stream.error : "";
    return html`
      <a class="skip" href="#title">Skip to the content</a>
      <header>
        <${Link} to="" class="brand">kcm<//>
        <nav aria-label="Pages"><ul>${this.available().map(
          (id) => html`<li><${Link} to=${id} aria-current=${page?.id === id ? "page" : undefined}>${PAGES[id][0]}<//></li>`,
        )}</ul></nav>
        <div class="tools">
          <span class="live" role="status">${lost ? "Connection lost" : stream ? (stream.state === "live" ? "Live" : "Connecting") : ""}</span>
          <${Theme} />
          <button type="button" onClick=${signOut}>Sign out</button>
        </div>
      </header>
      <main>
        <h1 id="title" tabindex="-1">${module && page ? module.title(page) : "kcm console"}</h1>
        ${error && html`<${Notice} kind="bad">${error}<//>`}
        ${lost && html`<${Notice} kind="bad">Not live: ${lost}<//>`}
        ${module && page && access && html`<${module.View} key=${page.id + "/" + page.rest} rows=${stream?.rows || new Map()}
          isLive=${stream?.state === "live"} params=${page} access=${access} />`}
      </main>`;
  }
}

class SignIn extends Component {
  render({ error, entered }) {
    const submit = (event) => {
      event.preventDefault();
      const value = new FormData(event.target).get("token");
      if (!value.trim()) return;
      signIn(value);
      entered();
      this.setState({});
    };
    return html`<main class="sign-in">
      <h1 id="title" tabindex="-1">kcm console</h1>
      ${error && html`<${Notice} kind="bad">${error}<//>`}
      <p>With an embedded cluster, open the link that <code>run-kcm</code> printed when it started. Otherwise sign in with a
        bearer token, for example of <code>kubectl create token</code>. It stays in this tab.</p>
      <form onSubmit=${submit}>
        <label for="token">Bearer token</label>
        <input id="token" name="token" type="password" autocomplete="off" required />
        <button type="submit">Sign in</button>
      </form>
    </main>`;
  }
}

class Theme extends Component {
  render() {
    const stored = localStorage.getItem("kcm-console-theme") || "system";
    const choose = (event) => {
      const value = event.target.value;
      localStorage.setItem("kcm-console-theme", value);
      applyTheme();
      this.setState({});
    };
    return html`<label class="theme">Theme
      <select value=${stored} onChange=${choose}>
        ${["system", "light", "dark"].map((value) => html`<option value=${value} selected=${value === stored}>${value}</option>`)}
      </select></label>`;
  }
}

function applyTheme() {
  const stored = localStorage.getItem("kcm-console-theme") || "system";
  if (stored === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = stored;
}

applyTheme();
takeKey();
render(html`<${App} />`, document.getElementById("app"));
