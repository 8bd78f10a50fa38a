// Updates the page live and submits its forms without a reload. The page also works without it.
"use strict";

const notice = document.getElementById("notice");
const clock = document.getElementById("clock");

function showNotice(text) {
  notice.replaceChildren(document.createElement("p"));
  notice.firstChild.textContent = text;
}

// --- Live updates: change an element into its new version, node by node -------------------------

// Attributes that hold what the user opened, typed or selected; updates keep them.
const USER_STATE = new Set(["open", "value", "checked", "selected"]);

const keyOf = (node) => node.id || node.dataset?.key || "";
const sameElement = (old, updated) =>
  old.nodeName === updated.nodeName && keyOf(old) === keyOf(updated);

function morph(old, updated) {
  if (old.isEqualNode(updated)) return;
  if (old.nodeType !== Node.ELEMENT_NODE) return void (old.nodeValue = updated.nodeValue);
  const serverOwned = old.matches("[type=hidden], progress");
  for (const { name } of [...old.attributes])
    if (!updated.hasAttribute(name) && (serverOwned || !USER_STATE.has(name)))
      old.removeAttribute(name);
  for (const { name, value } of updated.attributes)
    if (old.getAttribute(name) !== value && (serverOwned || !USER_STATE.has(name)))
      old.setAttribute(name, value);
  if (!old.matches("[data-error]")) morphChildren(old, updated);
}

function morphChildren(old, updated) {
  const keyed = new Map();
  for (const child of old.children) if (keyOf(child)) keyed.set(keyOf(child), child);
  let next = old.firstChild;
  for (const child of [...updated.childNodes]) {
    const key = keyOf(child);
    let match = key ? keyed.get(key) : next;
    if (!key) while (match && keyOf(match)) match = match.nextSibling;
    if (!match || !sameElement(match, child)) {
      old.insertBefore(document.importNode(child, true), next);
      continue;
    }
    if (match === next) next = next.nextSibling;
    else old.insertBefore(match, next);
    morph(match, child);
  }
  while (next) {
    const { nextSibling } = next;
    next.remove();
    next = nextSibling;
  }
}

let refreshWanted = false;
let refreshing = false;

async function refresh() {
  refreshWanted = true;
  if (refreshing) return;
  refreshing = true;
  while (refreshWanted) {
    refreshWanted = false;
    const started = performance.now();
    try {
      const response = await fetch(location.href, { headers: { "X-Page": location.pathname } });
      if (response.status === 401) location.reload();
      if (!response.ok) showNotice((await response.json()).error);
      else updateParts(new DOMParser().parseFromString(await response.text(), "text/html"));
    } catch {
      // The stream reconnects when the service is back, and triggers a refresh.
    }
    // Request a slow page less often.
    const pause = 150 + 4 * (performance.now() - started);
    await new Promise((resume) => setTimeout(resume, pause));
  }
  refreshing = false;
}

function updateParts(updated) {
  for (const part of document.querySelectorAll("[data-live]")) {
    const newPart = updated.getElementById(part.id);
    if (newPart) morph(part, newPart);
  }
}

// --- Time --------------------------------------------------------------------------------------

let lastUpdate = performance.now();
const twoDigits = (number) => String(number).padStart(2, "0");

function countdown(left) {
  if (left >= 86400) return `${Math.floor(left / 86400)} d ${Math.floor((left % 86400) / 3600)} h`;
  const [hours, minutes, seconds] = [left / 3600, (left % 3600) / 60, left % 60].map(Math.floor);
  return (hours ? `${hours}:${twoDigits(minutes)}` : minutes) + `:${twoDigits(seconds)}`;
}

function tick() {
  const rate = Number(clock.dataset.rate);
  if (!rate) return;
  const now = Number(clock.dataset.now) + ((performance.now() - lastUpdate) / 1000) * rate;
  clock.querySelector("[data-clock]").textContent = new Date(now * 1000).toISOString().slice(11, 19);
  for (const element of document.querySelectorAll("[data-until]"))
    element.textContent = countdown(Math.max(Math.floor(Number(element.dataset.until) - now), 0));
}

let stream;

// Stream only while the tab is visible: browsers limit connections, and each tab holds one.
function openStream() {
  stream?.close();
  if (document.hidden) return;
  stream = new EventSource("/api/stream?brief=true");
  for (const kind of ["open", "changed", "clock"]) stream.addEventListener(kind, refresh);
}

function startLiveUpdates() {
  openStream();
  document.addEventListener("visibilitychange", openStream);
  new MutationObserver(() => (lastUpdate = performance.now())).observe(clock, { attributes: true });
  setInterval(tick, 250);
  setInterval(() => Number(clock.dataset.rate) && !document.hidden && refresh(), 5000);
}

// --- Forms -------------------------------------------------------------------------------------

async function submitForm(form, button) {
  const error = form.querySelector("[data-error]");
  const body = new URLSearchParams(new FormData(form, button));
  const headers = { "X-Page": location.pathname };
  form.setAttribute("aria-busy", "true");
  try {
    const action = button?.getAttribute("formaction") || form.getAttribute("action");
    const response = await fetch(action, { method: "POST", body, headers });
    const result = await response.json();
    if (error) error.textContent = result.error || "";
    if (result.error) return error || showNotice(result.error);
    form.elements.key.value = result.key;
    if (result.to !== location.pathname) return location.assign(result.to);
    showNotice(result.notice);
    refresh();
  } catch {
    showNotice("The service did not respond. Check that it is running.");
  } finally {
    form.removeAttribute("aria-busy");
  }
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.matches("[data-form]") || event.submitter?.getAttribute("formmethod") === "get") return;
  event.preventDefault();
  if (form.getAttribute("aria-busy") !== "true") submitForm(form, event.submitter);
});

// --- Tabs --------------------------------------------------------------------------------------

for (const box of document.querySelectorAll("[data-tabs]")) {
  const panels = [...box.querySelectorAll(":scope > section")];
  const list = document.createElement("div");
  list.setAttribute("role", "tablist");
  list.setAttribute("aria-label", box.dataset.tabs);
  const tabs = panels.map((panel, index) => {
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
    tab.addEventListener("click", () => open(index));
    tab.addEventListener("keydown", ({ key }) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[key];
      if (step) open((index + step + tabs.length) % tabs.length).focus();
    });
    return tab;
  });
  const open = (chosen) => {
    tabs.forEach((tab, index) => {
      tab.setAttribute("aria-selected", String(index === chosen));
      tab.tabIndex = index === chosen ? 0 : -1;
      panels[index].hidden = index !== chosen;
    });
    return tabs[chosen];
  };
  list.append(...tabs);
  box.prepend(list);
  box.classList.add("live");
  open(0);
}

if (clock) startLiveUpdates();
