// A handler in JavaScript for Node 18 or newer. It is correct except for the flaw that its argument names.
const base = "http://169.254.169.254/metadata/";
const path = "scheduledevents?api-version=2020-07-01";
const headers = { Metadata: "true" };
const flaw = process.argv[2];
const readyAt = new Map(), approved = new Set();
const pause = () => new Promise((resume) => setTimeout(resume, 1000));

async function ask(path, options) {
  const answer = await fetch(base + path, { headers, signal: AbortSignal.timeout(10000), ...options });
  if (!answer.ok) throw new Error(`HTTP ${answer.status}`);
  return answer.text();
}

async function handle(event, name) {
  const own = flaw === "approves for all" ? event.Resources.includes(name) : event.Resources.join() === name;
  if (!own || event.EventStatus !== "Scheduled" || approved.has(event.EventId)) return;
  if (!readyAt.has(event.EventId)) readyAt.set(event.EventId, Date.now() + 2000);
  if (Date.now() < readyAt.get(event.EventId)) return;
  await ask(path, { method: "POST", body: JSON.stringify({ StartRequests: [{ EventId: event.EventId }] }) });
  approved.add(event.EventId);
}

async function main() {
  for (let name = ""; ; await pause()) {
    try {
      name ||= await ask("instance/compute/name?api-version=2021-02-01&format=text");
      for (const event of JSON.parse(await ask(path)).Events) await handle(event, name);
    } catch (error) {
      console.log(`no document: ${error.message}`);
    }
  }
}

main();
