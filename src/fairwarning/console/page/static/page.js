// Keeps the page fresh and sends its forms without a reload. Without it everything reads and works.
"use strict";

const notice = document.getElementById("notice");
const clock = document.getElementById("clock");

function say(text) {
  notice.replaceChildren(document.createElement("p"));
  notice.firstChild.textContent = text;
}

// --- Fresh parts: make one element like another, keeping what did not change -------------------

// What the reader has done to an element is the reader's: what it opened, typed, ticked, chose.
const THEIRS = new Set(["open", "value", "checked", "selected"]);

const keyOf = (node) => node.id || node.dataset?.key || "";
const alike = (old, fresh) => old.nodeName === fresh.nodeName && keyOf(old) === keyOf(fresh);

function become(old, fresh) {
  if (old.isEqualNode(fresh)) return;
  if (old.nodeType !== Node.ELEMENT_NODE) return void (old.nodeValue = fresh.nodeValue);
  const ours = old.matches("[type=hidden], progress");
  for (const { name } of [...old.attributes])
    if (!fresh.hasAttribute(name) && (ours || !THEIRS.has(name))) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes)
    if (old.getAttribute(name) !== value && (ours || !THEIRS.has(name)))
      old.setAttribute(name, value);
  if (!old.matches("[data-error]")) becomeChildren(old, fresh);
}

function becomeChildren(old, fresh) {
  const keyed = new Map();
  for (const child of old.children) if (keyOf(child)) keyed.set(keyOf(child), child);
  let next = old.firstChild;
  for (const child of [...fresh.childNodes]) {
    const key = keyOf(child);
    let match = key ? keyed.get(key) : next;
    if (!key) while (match && keyOf(match)) match = match.nextSibling;
    if (!match || !alike(match, child)) {
      old.insertBefore(document.importNode(child, true), next);
      continue;
    }
    if (match === next) next = next.nextSibling;
    else old.insertBefore(match, next);
    become(match, child);
  }
  while (next) {
    const { nextSibling } = next;
    next.remove();
    next = nextSibling;
  }
}

let asked = false;
let busy = false;

async function refresh() {
  asked = true;
  if (busy) return;
  busy = true;
  while (asked) {
    asked = false;
    const began = performance.now();
    try {
      const answer = await fetch(location.href, { headers: { "X-Page": location.pathname } });
      if (answer.status === 401) location.reload();
      if (!answer.ok) say((await answer.json()).error);
      else swap(new DOMParser().parseFromString(await answer.text(), "text/html"));
    } catch {
      // The stream tells when the service is back.
    }
    // A page that takes long to make is asked for less often.
    const pause = 150 + 4 * (performance.now() - began);
    await new Promise((resume) => setTimeout(resume, pause));
  }
  busy = false;
}

function swap(fresh) {
  for (const part of document.querySelectorAll("[data-live]")) {
    const other = fresh.getElementById(part.id);
    if (other) become(part, other);
  }
}

// --- Time --------------------------------------------------------------------------------------

let seen = performance.now();
const two = (number) => String(number).padStart(2, "0");

function countdown(left) {
  if (left >= 86400) return `${Math.floor(left / 86400)} d ${Math.floor((left % 86400) / 3600)} h`;
  const [hours, minutes, seconds] = [left / 3600, (left % 3600) / 60, left % 60].map(Math.floor);
  return hours ? `${hours}:${two(minutes)}:${two(seconds)}` : `${minutes}:${two(seconds)}`;
}

function tick() {
  const rate = Number(clock.dataset.rate);
  if (!rate) return;
  const now = Number(clock.dataset.now) + ((performance.now() - seen) / 1000) * rate;
  clock.querySelector("[data-clock]").textContent = new Date(now * 1000).toISOString().slice(11, 19);
  for (const one of document.querySelectorAll("[data-until]"))
    one.textContent = countdown(Math.max(Math.floor(Number(one.dataset.until) - now), 0));
}

let stream;

// Only while it is looked at: a browser keeps few connections, and every tab would hold one.
function listen() {
  stream?.close();
  if (document.hidden) return;
  stream = new EventSource("/api/stream");
  for (const kind of ["open", "line", "clock"]) stream.addEventListener(kind, refresh);
}

function follow() {
  listen();
  document.addEventListener("visibilitychange", listen);
  new MutationObserver(() => (seen = performance.now())).observe(clock, { attributes: true });
  setInterval(tick, 250);
  setInterval(() => Number(clock.dataset.rate) && !document.hidden && refresh(), 5000);
}

// --- Forms -------------------------------------------------------------------------------------

async function send(form, button) {
  const wrong = form.querySelector("[data-error]");
  const body = new URLSearchParams(new FormData(form, button));
  const headers = { "X-Page": location.pathname };
  form.setAttribute("aria-busy", "true");
  try {
    const action = button?.getAttribute("formaction") || form.getAttribute("action");
    const answer = await fetch(action, { method: "POST", body, headers });
    const told = await answer.json();
    if (wrong) wrong.textContent = told.error || "";
    if (told.error) return wrong || say(told.error);
    form.elements.key.value = told.key;
    if (told.to !== location.pathname) return location.assign(told.to);
    say(told.notice);
    refresh();
  } catch {
    say("The service did not answer. Is it still up?");
  } finally {
    form.removeAttribute("aria-busy");
  }
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.matches("[data-form]") || event.submitter?.getAttribute("formmethod") === "get") return;
  event.preventDefault();
  if (form.getAttribute("aria-busy") !== "true") send(form, event.submitter);
});

// --- Tabs --------------------------------------------------------------------------------------

for (const box of document.querySelectorAll("[data-tabs]")) {
  const panels = [...box.querySelectorAll(":scope > section")];
  const list = document.createElement("div");
  list.setAttribute("role", "tablist");
  list.setAttribute("aria-label", box.dataset.tabs);
  const tabs = panels.map((panel, at) => {
    const tab = document.createElement("button");
    const title = panel.querySelector("h2");
    tab.type = "button";
    tab.id = `tab-${panel.id}`;
    tab.textContent = title.textContent;
    title.hidden = true;
    tab.setAttribute("role", "tab");
    tab.setAttribute("aria-controls", panel.id);
    panel.setAttribute("role", "tabpanel");
    panel.setAttribute("aria-labelledby", tab.id);
    tab.addEventListener("click", () => open(at));
    tab.addEventListener("keydown", ({ key }) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[key];
      if (step) open((at + step + tabs.length) % tabs.length).focus();
    });
    return tab;
  });
  const open = (chosen) => {
    tabs.forEach((tab, at) => {
      tab.setAttribute("aria-selected", String(at === chosen));
      tab.tabIndex = at === chosen ? 0 : -1;
      panels[at].hidden = at !== chosen;
    });
    return tabs[chosen];
  };
  list.append(...tabs);
  box.prepend(list);
  box.classList.add("live");
  open(0);
}

if (clock) follow();
