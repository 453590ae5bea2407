// Draws the figures: near ones at once, the others when the page is idle, those that are folded when
// they are unfolded, and all that can be seen for print. Filters the page by device and mark.
(() => {
  const report = window.niclabReport;
  const { specs, dark, config } = JSON.parse(document.getElementById("drawings").textContent);
  const plots = [...document.querySelectorAll(".plot")];
  const asked = new URLSearchParams(location.search);
  const prefers = window.matchMedia("(prefers-color-scheme: dark)");
  const drawn = new Map();
  const filters = ["device", "mark"].map((name) => document.getElementById(`filter-${name}`));
  let theme = "light";

  // What the filters ask for; empty for all.
  function wanted() {
    const [device, mark] = filters.map((filter) => filter?.value || "");
    return { device, mark };
  }

  const isOf = (device, of) => !device || !of || of === device;
  const isMarked = (mark, marks) => !mark || (marks || "").split(/[^a-z-]+/).includes(mark);

  // Keeps in a spec the rows of a device, and publications, which stand beside every device. A layer
  // without rows would leave a scale without an extent.
  function keepDevice(spec, device) {
    const isKept = (row) => row.origin === "published" || isOf(device, row.device);
    for (const part of [spec, ...spec.layer]) {
      if (part.data) part.data.values = part.data.values.filter(isKept);
    }
    spec.layer = spec.layer.filter(({ data, transform }) => {
      const test = transform ? `return ${transform[0].filter}` : "return true";
      const holds = new Function("datum", "isValid", test);
      return (data || spec.data).values.some((row) => holds(row, (value) => value != null));
    });
  }

  // The spec of a plot in a theme, without what the page itself shows around it.
  function dressed(plot, name) {
    const text = JSON.stringify(specs[plot.dataset.plot]);
    const spec = JSON.parse(text, (key, value) => {
      if (key === "legend") return null;
      return (name === "dark" && typeof value === "string" && dark[value]) || value;
    });
    const { device } = wanted();
    if (device) keepDevice(spec, device);
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

  // Draws a plot in the current theme and filter, once, after whatever is being drawn in its place.
  function draw(plot) {
    const last = drawn.get(plot);
    const name = theme;
    const look = `${name} ${wanted().device}`;
    if (last?.look === look) return last.done;
    const done = Promise.resolve(last?.done).then(() => embed(plot, name));
    drawn.set(plot, { look, done });
    return done;
  }

  const near = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) draw(entry.target);
  }, { rootMargin: "400px" });

  // The rest, one after the other, so that the page stays responsive.
  const idle = (next) => window.requestIdleCallback
    ? requestIdleCallback(next, { timeout: 200 }) : setTimeout(next, 50);
  const isFolded = (plot) => plot.closest("details.folded:not([open]), [hidden]");
  async function drawRest() {
    for (const plot of plots) {
      if (isFolded(plot)) continue;
      if (asked.get("render") !== "all") await new Promise((next) => idle(next));
      await draw(plot);
    }
    report.publish();
  }

  // Hides what is of another device or without the mark, and sections in which nothing is left.
  function filter() {
    const { device, mark } = wanted();
    for (const one of document.querySelectorAll("[data-device]")) {
      one.hidden = !isOf(device, one.dataset.device);
    }
    for (const row of document.querySelectorAll("tbody tr")) {
      row.hidden = !isOf(device, row.dataset.device) || !isMarked(mark, row.dataset.marks);
    }
    for (const plot of plots) {
      const keptRows = specs[plot.dataset.plot].data.values.filter((row) =>
        row.origin !== "published" && isOf(device, row.device) && isMarked(mark, row.marks));
      plot.closest("figure, .glance").hidden = keptRows.length === 0;
    }
    for (const nothing of document.querySelectorAll("figure .nothing")) {
      nothing.closest("figure").hidden = !!(device || mark);
    }
    for (const table of document.querySelectorAll(".tabled")) {
      table.hidden = !table.querySelector("tbody tr:not([hidden])");
    }
    const data = "figure.drawn:not([hidden]), .tabled:not([hidden])";
    const left = mark ? data : `${data}, .answer:not([hidden]), .said li:not([hidden])`;
    for (const section of document.querySelectorAll(".experiment")) {
      section.hidden = !section.querySelector(left);
      // What is left may all be folded.
      const folded = section.querySelector(":scope > details.folded");
      const open = ":scope > .answer:not([hidden]), :scope > .said > li:not([hidden])";
      const isFound = mark ? !folded?.querySelector(data) : section.querySelector(open);
      if (folded && (device || mark) && !isFound) folded.open = true;
      const id = CSS.escape(`#${section.getAttribute("aria-labelledby")}`);
      document.querySelector(`.contents a[href=${id}]`).closest("li").hidden = section.hidden;
    }
    const found = document.querySelector(".first");
    found.hidden = !!(device || mark) && !found.querySelector(".findings > li:not([hidden])");
    const words = [device && `device ${device}`, mark && `figures and rows marked ${mark}`];
    const line = document.querySelector(".filtered");
    line.hidden = !device && !mark;
    line.firstElementChild.textContent = `Filtered: ${words.filter(Boolean).join(", ")}.`;
  }

  function showAll() {
    for (const one of filters) if (one) one.value = "";
    filter();
    drawRest();
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
    if (target?.closest("[hidden]")) showAll();
    for (let at = target?.closest("details"); at; at = at.parentElement.closest("details")) {
      at.open = true;
    }
    target?.scrollIntoView();
  }
  window.addEventListener("hashchange", unfold);
  if (asked.get("render") === "all") {
    for (const folded of document.querySelectorAll("details.folded")) folded.open = true;
  }
  for (const name of ["device", "mark"]) {
    const select = document.getElementById(`filter-${name}`);
    if (!select) continue;
    select.closest(".filter").hidden = false;
    select.value = asked.get(name) || "";
    select.addEventListener("change", () => { filter(); drawRest(); });
  }
  document.querySelector(".filtered button").addEventListener("click", showAll);
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
  if (filters.some((one) => one?.value)) filter();
  dress(first === "dark" ? "dark" : "light", false);
  if (location.hash) unfold();
  drawRest();
})();
