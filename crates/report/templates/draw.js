// Draws the figures: near ones at once, the others when the page is idle, those that are folded when
// they are unfolded, and all that can be seen for print.
(() => {
  const report = window.niclabReport;
  const { specs, dark, config } = JSON.parse(document.getElementById("drawings").textContent);
  const plots = [...document.querySelectorAll(".plot")];
  const asked = new URLSearchParams(location.search);
  const prefers = window.matchMedia("(prefers-color-scheme: dark)");
  const drawn = new Map();
  let theme = "light";

  // The spec of a plot in a theme, without what the page itself shows around it.
  function dressed(plot, name) {
    const text = JSON.stringify(specs[plot.dataset.plot]);
    const spec = JSON.parse(text, (key, value) => {
      if (key === "legend") return null;
      return (name === "dark" && typeof value === "string" && dark[value]) || value;
    });
    delete spec.title;
    spec.width = "container";
    spec.config = config[name];
    return spec;
  }

  // Marks of the data that can be seen; bands of knees and touch areas do not count.
  function count(plot) {
    const groups = "g.role-mark:not(.mark-group):not([class*=knee_]) > *";
    const marks = [...plot.querySelectorAll(groups)];
    const seen = marks.filter((mark) => mark.getAttribute("opacity") !== "0" &&
      (mark.tagName !== "path" || mark.getAttribute("d")));
    report.marks[plot.dataset.plot] = seen.length;
  }

  async function embed(plot, theme) {
    const options = { renderer: "svg", actions: false, tooltip: { theme } };
    try {
      plot.view?.finalize();
      plot.view = (await vegaEmbed(plot, dressed(plot, theme), options)).view;
      count(plot);
    } catch (error) {
      report.marks[plot.dataset.plot] = 0;
      plot.textContent = `This figure could not be drawn: ${error}. Its data are below.`;
      console.error(error);
    }
  }

  // Draws a plot in the current theme, once, after whatever is being drawn in its place.
  function draw(plot) {
    const last = drawn.get(plot);
    if (last?.theme === theme) return last.done;
    const wanted = theme;
    const done = Promise.resolve(last?.done).then(() => embed(plot, wanted));
    drawn.set(plot, { theme, done });
    return done;
  }

  const near = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) draw(entry.target);
  }, { rootMargin: "400px" });

  // The rest, one after the other, so that the page stays responsive.
  const idle = (next) => window.requestIdleCallback
    ? requestIdleCallback(next, { timeout: 200 }) : setTimeout(next, 50);
  const isFolded = (plot) => plot.closest("details.folded:not([open])");
  async function drawRest() {
    for (const plot of plots) {
      if (isFolded(plot)) continue;
      if (asked.get("render") !== "all") await new Promise((next) => idle(next));
      await draw(plot);
    }
    report.publish();
  }

  function dress(name, remember) {
    theme = name;
    document.documentElement.dataset.theme = name;
    const button = document.getElementById("theme");
    button.hidden = false;
    button.textContent = name === "dark" ? "Light" : "Dark";
    button.setAttribute("aria-label", `Switch to the ${button.textContent.toLowerCase()} theme`);
    if (remember) {
      try { localStorage.setItem("niclab-theme", name); } catch { /* not kept, then */ }
    }
    for (const plot of plots) { near.unobserve(plot); near.observe(plot); }
  }

  function remembered() {
    try { return localStorage.getItem("niclab-theme"); } catch { return null; }
  }

  // Paper is white: each figure gets a light copy of its own, drawn at once.
  function printCopies() {
    for (const plot of plots) {
      if (isFolded(plot)) continue;
      const spec = { ...dressed(plot, "light"), width: 640, height: 230 };
      const copy = document.createElement("div");
      copy.className = "print-copy";
      plot.after(copy);
      const runtime = vega.parse(vegaLite.compile(spec).spec);
      new vega.View(runtime, { renderer: "svg", container: copy }).run();
    }
  }

  function removeCopies() {
    for (const copy of document.querySelectorAll(".print-copy")) copy.remove();
  }

  // A figure as a file: complete, with title and legend, in the light theme.
  async function save(plot, kind) {
    const spec = specs[plot.dataset.plot];
    const name = plot.closest("figure").id.replace(/^fig-/, "");
    let url;
    if (kind === "json") {
      url = URL.createObjectURL(new Blob([JSON.stringify(spec, null, 2)]));
    } else {
      const view = new vega.View(vega.parse(vegaLite.compile(spec).spec), { renderer: "none" });
      url = await view.toImageURL(kind, kind === "png" ? 2 : 1);
    }
    const link = document.createElement("a");
    link.href = url;
    link.download = `${name}.${kind === "json" ? "vl.json" : kind}`;
    link.click();
  }

  for (const line of document.querySelectorAll(".save")) {
    line.hidden = false;
    const plot = line.closest("figure").querySelector(".plot");
    line.addEventListener("click", (event) => {
      if (event.target.dataset.save) save(plot, event.target.dataset.save);
    });
  }
  // What a link leads to is unfolded.
  function unfold() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let at = target?.closest("details"); at; at = at.parentElement.closest("details")) {
      at.open = true;
    }
    target?.scrollIntoView();
  }
  window.addEventListener("hashchange", unfold);
  if (asked.get("render") === "all") {
    for (const folded of document.querySelectorAll("details.folded")) folded.open = true;
  }
  document.getElementById("theme").addEventListener("click", () => {
    dress(theme === "dark" ? "light" : "dark", true);
    drawRest();
  });
  prefers.addEventListener("change", () => {
    if (!remembered()) dress(prefers.matches ? "dark" : "light", false);
  });
  window.addEventListener("beforeprint", printCopies);
  window.addEventListener("afterprint", removeCopies);
  const first = asked.get("theme") || remembered() || (prefers.matches ? "dark" : "light");
  dress(first === "dark" ? "dark" : "light", false);
  if (location.hash) unfold();
  drawRest();
})();
