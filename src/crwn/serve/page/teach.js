// Teaching: an uploaded file, a job, its progress as it comes, and the new task in the list.

import { ask, taskAddress } from "./api.js";
import { choose, refresh } from "./page.js";

const byId = (id) => document.getElementById(id);
let job = null;

export function startTeach(model) {
  byId("teach-form").hidden = model.read_only;
  byId("teach-closed").hidden = !model.read_only;
  byId("teach-form").addEventListener("submit", (event) => { event.preventDefault(); teach(); });
  byId("teach-cancel").addEventListener("click", () => job && ask("DELETE", `/v1/jobs/${job.id}`).catch((error) => say(error.message, true)));
  byId("teach-file").addEventListener("change", (event) => {
    const file = event.target.files[0];
    if (file && !byId("teach-name").value) byId("teach-name").value = file.name.replace(/\.[^.]*$/, "");
  });
}

async function teach() {
  const name = byId("teach-name").value.trim();
  const file = byId("teach-file").files[0];
  const query = new URLSearchParams({ batches: byId("teach-batches").value });
  if (byId("teach-replace").checked) query.set("replace", "true");
  busy(true);
  say("Sending the data…");
  try {
    const kind = file.name.toLowerCase().endsWith(".npz") ? "application/x-npz" : "text/csv";
    // A share is held out, so that the list can say how well the task does; too few rows are all learned from.
    if (file.size > 20000) query.set("validation", "0.1");
    job = await ask("POST", `${taskAddress(name)}/learn?${query}`, { body: file, kind });
    await follow(name);
  } catch (error) {
    say(error.message, true);
  }
  job = null;
  busy(false);
}

function follow(name) {
  const began = performance.now();
  const bar = byId("teach-bar");
  byId("teach-progress").hidden = false;
  bar.value = 0;
  say("");
  return new Promise((done) => {
    const events = new EventSource(job.events);
    const end = (text, bad) => { events.close(); byId("teach-progress").hidden = true; say(text, bad); done(); };
    const read = (event) => JSON.parse(event.data);
    events.addEventListener("progress", (event) => {
      const facts = read(event);
      if (facts.steps) bar.value = facts.step / facts.steps;
      const left = facts.step ? ((performance.now() - began) / facts.step) * (facts.steps - facts.step) / 1000 : null;
      byId("teach-bar-label").textContent = facts.state === "waiting"
        ? `${name} waits for its turn`
        : `${name}: batch ${facts.step} of ${facts.steps || "…"}${facts.loss === null ? "" : `, loss ${facts.loss.toFixed(3)}`}${left === null ? "" : `, ${Math.ceil(left)} s left`}`;
    });
    events.addEventListener("done", async (event) => {
      const { facts } = read(event);
      await refresh().catch(() => {});
      choose(name);
      const accuracy = facts?.accuracy === null || facts?.accuracy === undefined ? "" : `, ${facts.accuracy.toFixed(1)}% right on rows held out`;
      end(`${name} is learned${accuracy}.`);
    });
    events.addEventListener("failed", (event) => end(read(event).message, true));
    events.addEventListener("cancelled", (event) => end(`${name}: ${read(event).message}`, true));
    events.onerror = () => { if (events.readyState === EventSource.CLOSED) end("The service does not answer any more.", true); };
  });
}

function busy(working) {
  byId("teach-start").disabled = working;
  byId("teach-cancel").hidden = !working;
  if (!working) byId("teach-progress").hidden = true;
}

function say(text, bad = false) {
  const status = byId("teach-status");
  status.classList.toggle("bad", bad);
  status.textContent = text;
}
