// Writes down whatever goes wrong on this page, so that `report.errors` below can be read by a test
// and by a reader's console. It runs before everything else.
(() => {
  const report = { errors: [], requests: [], marks: {} };
  window.niclabReport = report;
  const note = (text) => report.errors.push(String(text));
  window.addEventListener("error", (event) => {
    const of = event.target;
    note(of instanceof Element ? `could not load ${of.tagName} ${of.src || of.href}` : event.message);
  }, true);
  window.addEventListener("unhandledrejection", (event) => note(event.reason));
  document.addEventListener("securitypolicyviolation", (event) => {
    report.requests.push(event.blockedURI);
  });
  for (const level of ["error", "warn"]) {
    const spoken = console[level];
    console[level] = (...words) => {
      note(words.join(" "));
      spoken.apply(console, words);
    };
  }
  // What was asked of the network, and all of the above, as an attribute of the root element.
  report.publish = () => {
    for (const entry of performance.getEntriesByType("resource")) {
      if (!/^(data|blob):/.test(entry.name)) report.requests.push(entry.name);
    }
    const { errors, requests, marks } = report;
    // Pixels by which the page is wider than its window: tables scroll in boxes of their own.
    const root = document.documentElement;
    const wider = root.scrollWidth - root.clientWidth;
    root.dataset.report = JSON.stringify({ errors, requests, marks, wider });
  };
})();
