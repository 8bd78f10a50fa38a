// Names the machine under the pointer or the arrow keys, and opens it.
"use strict";

const map = document.getElementById("map");
const ring = document.getElementById("map-ring");
const label = document.getElementById("map-machine");
let shown; // the square that is named
let wanted = 0;

// Where the squares of a drawing are: as fleet_map.py places them.
function places(drawing) {
  const columns = drawing.viewBox.baseVal.width;
  let y = 0;
  return drawing.dataset.domains.split(",").flatMap((machines) => {
    const top = y;
    y += Math.ceil(machines / columns) + 0.4;
    return Array.from({ length: machines }, (_, n) => [n % columns, top + Math.floor(n / columns)]);
  });
}

function placeAt(drawing, event) {
  const box = drawing.getBoundingClientRect();
  const view = drawing.viewBox.baseVal;
  const x = Math.floor(((event.clientX - box.left) / box.width) * view.width);
  const y = ((event.clientY - box.top) / box.height) * view.height + view.y;
  return places(drawing).findIndex((at) => at[0] === x && Math.abs(at[1] - y) <= 0.5);
}

function hide() {
  shown = undefined;
  ring.hidden = label.hidden = true;
}

async function show(part, place) {
  const drawing = part.querySelector("svg");
  const at = places(drawing)[place];
  if (!at) return hide();
  const [first, ...group] = part.dataset.key.split(" ");
  const number = Number(first) + place;
  if (shown?.part === part && shown.place === place) return;
  shown = { part, place, link: "" };
  const box = drawing.getBoundingClientRect();
  const unit = box.width / drawing.viewBox.baseVal.width;
  const left = box.left + scrollX + at[0] * unit;
  const top = box.top + scrollY + at[1] * unit;
  Object.assign(ring.style, { left: `${left}px`, top: `${top}px`, width: `${unit * 0.8}px`, height: `${unit * 0.8}px` });
  ring.hidden = false;
  const request = ++wanted;
  await new Promise((resume) => setTimeout(resume, 40)); // while the pointer only passes by
  if (request !== wanted) return;
  const query = new URLSearchParams({ group: group.join(" "), place: number });
  const answer = await fetch(`${map.dataset.machine}&${query}`, { headers: { "X-Page": location.pathname } }).catch(() => null);
  if (!answer?.ok || request !== wanted || !shown) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  label.replaceChildren(...page.body.children);
  shown.link = label.querySelector("a").href;
  label.hidden = false;
  label.style.top = `${top + 2 * unit}px`;
  label.style.left = `${Math.max(Math.min(left, scrollX + innerWidth - label.offsetWidth - 24), 0)}px`;
}

map.addEventListener("pointermove", (event) => {
  const drawing = event.target.closest("svg");
  if (!drawing) return hide();
  show(drawing.closest("li"), placeAt(drawing, event));
});
map.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && hide());
map.addEventListener("focusout", hide);

map.addEventListener("keydown", (event) => {
  const part = event.target.closest("li");
  const columns = part?.querySelector("svg").viewBox.baseVal.width;
  const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns }[event.key];
  if (!step) return;
  event.preventDefault();
  const last = places(part.querySelector("svg")).length - 1;
  const from = shown?.part === part ? shown.place : step > 0 ? -step : last - step;
  show(part, Math.min(Math.max(from + step, 0), last));
});

// The first tap of a finger names a machine, the next one opens it. Without a name, the link of the
// group works as it does without script.
map.addEventListener("click", (event) => {
  if (event.ctrlKey || event.metaKey || event.shiftKey) return;
  const drawing = event.target.closest("svg");
  const part = drawing?.closest("li");
  const place = drawing && placeAt(drawing, event);
  if (drawing && (shown?.part !== part || shown.place !== place)) show(part, place);
  else if (shown?.link) location.assign(shown.link);
  else return;
  event.preventDefault();
});

for (const hint of document.querySelectorAll("[data-with-script]")) hint.hidden = false;
