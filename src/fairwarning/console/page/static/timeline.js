// Zooming in by dragging across the chart. There are links for it without script.
"use strict";

for (const hint of document.querySelectorAll("[data-with-script]")) hint.hidden = false;

const chartBox = document.getElementById("density");
const brush = document.createElement("div");
brush.className = "brush";
brush.hidden = true;
document.body.append(brush);
let dragged; // from where, and across which range

const iso = (seconds) => `${new Date(seconds * 1000).toISOString().slice(0, 19)}Z`;
const within = (box, x) => Math.min(Math.max(x, box.left), box.right);

chartBox.addEventListener("pointerdown", (event) => {
  const drawing = event.target.closest("[data-brush]");
  if (!drawing || event.button) return;
  const { begin, end } = chartBox.dataset;
  dragged = { box: drawing.getBoundingClientRect(), from: event.clientX, begin: +begin, end: +end };
});

document.addEventListener("pointermove", (event) => {
  if (!dragged || Math.abs(event.clientX - dragged.from) < 5) return;
  const { box, from } = dragged;
  const [left, right] = [from, within(box, event.clientX)].sort((a, b) => a - b);
  Object.assign(brush.style, {
    left: `${left + scrollX}px`,
    top: `${box.top + scrollY}px`,
    width: `${right - left}px`,
    height: `${box.height}px`,
  });
  brush.hidden = false;
});

document.addEventListener("pointerup", (event) => {
  if (!dragged) return;
  const { box, from, begin, end } = dragged;
  dragged = undefined;
  if (brush.hidden) return;
  brush.hidden = true;
  const [left, right] = [from, within(box, event.clientX)]
    .sort((a, b) => a - b)
    .map((x) => Math.round(begin + ((x - box.left) / box.width) * (end - begin)));
  const page = new URL(location.href);
  page.searchParams.delete("window");
  page.searchParams.set("from", iso(left));
  page.searchParams.set("to", iso(Math.max(right, left + 60)));
  location.assign(page);
});
document.addEventListener("pointercancel", () => {
  dragged = undefined;
  brush.hidden = true;
});
// A link under the pointer would be dragged away.
chartBox.addEventListener("dragstart", (event) => event.preventDefault());
