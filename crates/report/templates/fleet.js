// The list of cards: a page of rows at a time, so that ten thousand cards cost nothing.
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const find = document.getElementById("find");
const order = document.getElementById("order");
const more = document.getElementById("more");
const body = document.getElementById("rows");
const PAGE = 100;
let shown = PAGE;

// A card is [host, device, firmware, figures, figure, difference, interval, z-score, is outlier].
const text = (card) => `${card[0]} ${card[1]} ${card[2]} ${data.figures[card[4]] ?? ""}`.toLowerCase();
const searched = data.cards.map(text);
const byName = data.cards.map((_, at) => at);
const far = (at) => Math.abs(data.cards[at][7] ?? 0);
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
    const [host, device, firmware, figures, figure, difference, interval, score, is_outlier] = data.cards[at];
    const row = body.insertRow();
    if (is_outlier) row.className = "is-outlier";
    cell(row, host);
    cell(row, device);
    cell(row, figure == null ? "" : `${difference} (${interval})`, true);
    cell(row, score ?? "", true);
    cell(row, data.figures[figure] ?? "not compared");
    cell(row, firmware);
    cell(row, figures, true);
  }
  document.getElementById("count").textContent = `${Math.min(shown, all.length)} of ${all.length} ${all.length === 1 ? "card" : "cards"}`;
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
