// The list of hosts: a page of rows at a time, so that ten thousand hosts cost nothing.
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const find = document.getElementById("find");
const order = document.getElementById("order");
const more = document.getElementById("more");
const body = document.getElementById("rows");
const PAGE = 100;
let shown = PAGE;

// A host is [name, firmware, figures, figure, difference, interval, distance, is odd].
const text = (host) => `${host[0]} ${host[1]} ${data.figures[host[3]] ?? ""}`.toLowerCase();
const searched = data.hosts.map(text);
const byName = data.hosts.map((_, at) => at);
const far = (at) => Math.abs(data.hosts[at][6] ?? 0);
const byDistance = [...byName].sort((a, b) => far(b) - far(a));

function cell(row, words, is_number) {
  const td = row.insertCell();
  td.textContent = words;
  if (is_number) td.className = "number";
}

function draw() {
  const wanted = find.value.trim().toLowerCase();
  const all = (order.value === "name" ? byName : byDistance).filter((at) => searched[at].includes(wanted));
  body.replaceChildren();
  for (const at of all.slice(0, shown)) {
    const [name, firmware, figures, figure, difference, interval, distance, is_odd] = data.hosts[at];
    const row = body.insertRow();
    if (is_odd) row.className = "is-odd";
    cell(row, name);
    cell(row, figure == null ? "" : `${difference} (${interval})`, true);
    cell(row, distance ?? "", true);
    cell(row, data.figures[figure] ?? "not compared");
    cell(row, firmware);
    cell(row, figures, true);
  }
  document.getElementById("count").textContent = `${Math.min(shown, all.length)} of ${all.length} hosts`;
  more.hidden = shown >= all.length;
}

function again() {
  shown = PAGE;
  draw();
}
find.addEventListener("input", again);
order.addEventListener("change", again);
more.addEventListener("click", () => {
  shown += PAGE * 10;
  draw();
});
draw();
