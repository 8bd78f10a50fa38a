// Updates the page live and submits its forms without a reload. The page also works without it.
"use strict";

const notice = document.getElementById("notice");
const clock = document.getElementById("clock");
const headers = { "X-Page": location.pathname };

function showNotice(text) {
  notice.replaceChildren(Object.assign(document.createElement("p"), { textContent: text }));
}

// --- Live updates: change an element into its new version, node by node -------------------------

// Attributes that hold what the user opened, typed or selected; updates keep them.
const USER_STATE = new Set(["open", "value", "checked", "selected"]);

const keyOf = (node) => node.id || node.dataset?.key || "";

function morph(old, updated) {
  if (old.isEqualNode(updated)) return;
  if (old.nodeType !== Node.ELEMENT_NODE) return void (old.nodeValue = updated.nodeValue);
  const isKept = (name) => USER_STATE.has(name) && !old.matches("[type=hidden], progress");
  for (const { name } of [...old.attributes])
    if (!updated.hasAttribute(name) && !isKept(name)) old.removeAttribute(name);
  for (const { name, value } of updated.attributes)
    if (old.getAttribute(name) !== value && !isKept(name)) old.setAttribute(name, value);
  if (!old.matches("[data-error]")) morphChildren(old, updated);
}

function morphChildren(old, updated) {
  const keyed = new Map([...old.children].map((child) => [keyOf(child), child]));
  let next = old.firstChild;
  for (const child of [...updated.childNodes]) {
    const key = keyOf(child);
    let match = key ? keyed.get(key) : next;
    if (!key) while (match && keyOf(match)) match = match.nextSibling;
    if (match?.nodeName !== child.nodeName || keyOf(match) !== key) {
      old.insertBefore(document.importNode(child, true), next);
      continue;
    }
    if (match === next) next = next.nextSibling;
    else old.insertBefore(match, next);
    morph(match, child);
  }
  for (let extra = next; extra; extra = next) {
    next = extra.nextSibling;
    extra.remove();
  }
}

let [refreshWanted, refreshing] = [false, false];

async function refresh() {
  refreshWanted = true;
  if (refreshing) return;
  refreshing = true;
  while (refreshWanted) {
    refreshWanted = false;
    const started = performance.now();
    let mostPause = 5000;
    try {
      const response = await fetch(location.href, { headers, signal: AbortSignal.timeout(10000) });
      const text = await response.text();
      if (response.status === 401) location.reload();
      else if (response.status >= 500) throw new Error("no page");
      setConnected(true);
      if (!response.ok) showNotice(JSON.parse(text).error);
      else updateParts(new DOMParser().parseFromString(text, "text/html"));
    } catch {
      setConnected(false);
      mostPause = 1000; // however long it took to fail
    }
    // Request a slow page less often.
    const pause = Math.min(150 + 4 * (performance.now() - started), mostPause);
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

// --- Connection: without it, what the page shows is old, and nothing can be done ----------------

const lost = document.getElementById("lost");
const isConnected = () => lost.hidden;

function setConnected(connected) {
  if (connected === isConnected()) return;
  lost.hidden = connected;
  document.body.classList.toggle("old", !connected);
  const buttons = connected ? "[data-lost]" : "button:enabled:not([type=button])";
  for (const button of document.querySelectorAll(buttons)) {
    button.disabled = !connected;
    button.toggleAttribute("data-lost", !connected);
  }
  if (connected) return;
  showTime(Number(clock.dataset.now));
  const time = clock.querySelector("[data-clock]").textContent;
  lost.textContent = `Connection lost. This page shows the fleet as of ${time}; trying again.`;
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
  const passed = (performance.now() - lastUpdate) / 1000;
  if (rate && isConnected()) showTime(Number(clock.dataset.now) + passed * rate);
}

function showTime(now) {
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
  for (const kind of ["open", "changed", "clock", "error"]) stream.addEventListener(kind, refresh);
}

// A browser does not reopen a stream after an answer such as 503.
function checkConnection() {
  if (stream.readyState === EventSource.CLOSED) openStream();
  refresh();
}

if (clock) {
  openStream();
  document.addEventListener("visibilitychange", openStream);
  new MutationObserver(() => (lastUpdate = performance.now())).observe(clock, { attributes: true });
  setInterval(tick, 250);
  setInterval(() => document.hidden || checkConnection(), 5000);
}

// --- Forms -------------------------------------------------------------------------------------

async function submitForm(form, button) {
  const error = form.querySelector("[data-error]");
  const body = new URLSearchParams(new FormData(form, button));
  form.setAttribute("aria-busy", "true");
  try {
    const action = button?.getAttribute("formaction") || form.getAttribute("action");
    const response = await fetch(action, { method: "POST", body, headers });
    const result = await response.json();
    if (error) error.textContent = result.error || "";
    if (result.error) return error || showNotice(result.error);
    form.elements.key.value = result.key;
    if (result.again.after) {
      for (const name in result.again) form.elements[name].value = result.again[name];
      form.querySelector("progress").value = result.again.done;
      showNotice(result.notice);
      return await submitForm(form, button);
    }
    if (result.to !== location.pathname) return location.assign(result.to);
    showNotice(result.notice);
  } catch {
    showNotice("The service did not respond. Check that it is running.");
  } finally {
    form.removeAttribute("aria-busy");
  }
  refresh();
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.matches("[data-form]") || event.submitter?.getAttribute("formmethod") === "get") return;
  event.preventDefault();
  if (form.getAttribute("aria-busy") !== "true") submitForm(form, event.submitter);
});

// --- Commands to copy ---------------------------------------------------------------------------

// `execCommand` also works where a page without TLS has no `navigator.clipboard`.
for (const field of document.querySelectorAll("input.command")) {
  const button = document.createElement("button");
  Object.assign(button, { type: "button", textContent: "Copy", ariaLabel: `Copy ${field.value}` });
  button.addEventListener("click", () => {
    field.select();
    if (document.execCommand("copy")) button.textContent = "Copied";
  });
  field.after(button);
}
