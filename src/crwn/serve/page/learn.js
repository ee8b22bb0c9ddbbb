// Learning a task: uploads a file, follows the progress of its job, and shows the new task.

import { request, taskPath } from "./api.js";
import { byId } from "./dom.js";
import { figureText } from "./kinds.js";
import { refresh, select } from "./page.js";

let job = null;

export function startLearn(model) {
  byId("learn-form").hidden = model.read_only;
  byId("learn-closed").hidden = !model.read_only;
  byId("learn-form").addEventListener("submit", (event) => { event.preventDefault(); learn(); });
  byId("learn-cancel").addEventListener("click", () => job && request("DELETE", `/v1/jobs/${job.id}`).catch((error) => showStatus(error.message, true)));
  byId("learn-file").addEventListener("change", (event) => {
    const file = event.target.files[0];
    if (file && !byId("learn-name").value) byId("learn-name").value = file.name.replace(/\.[^.]*$/, "");
  });
}

async function learn() {
  const name = byId("learn-name").value.trim();
  const file = byId("learn-file").files[0];
  const query = new URLSearchParams({ kind: byId("learn-kind").value });
  if (byId("learn-batches").value) query.set("batches", byId("learn-batches").value);
  if (byId("learn-replace").checked) query.set("replace", "true");
  setBusy(true);
  showStatus("Uploading the data…");
  try {
    const contentType = file.name.toLowerCase().endsWith(".npz") ? "application/x-npz" : "text/csv";
    // A share of the rows is held out to measure accuracy; small files are used for training as a whole.
    if (file.size > 20000) query.set("validation", "0.1");
    if (contentType === "text/csv") {
      query.set("label", byId("learn-label").value.trim());
      for (const column of byId("learn-ignore").value.split(",")) if (column.trim()) query.append("ignore", column.trim());
    }
    job = await request("POST", `${taskPath(name)}/learn?${query}`, { body: file, contentType });
    await follow(name);
  } catch (error) {
    showStatus(error.message, true);
  }
  job = null;
  setBusy(false);
}

function follow(name) {
  const began = performance.now();
  const bar = byId("learn-bar");
  byId("learn-progress").hidden = false;
  bar.value = 0;
  showStatus("");
  return new Promise((done) => {
    const events = new EventSource(job.events);
    const end = (text, failed) => { events.close(); byId("learn-progress").hidden = true; showStatus(text, failed); done(); };
    const read = (event) => JSON.parse(event.data);
    events.addEventListener("progress", (event) => {
      const facts = read(event);
      if (facts.steps) bar.value = facts.step / facts.steps;
      const left = facts.step ? ((performance.now() - began) / facts.step) * (facts.steps - facts.step) / 1000 : null;
      byId("learn-bar-label").textContent = facts.state === "waiting"
        ? `${name}: waiting for other jobs`
        : `${name}: batch ${facts.step} of ${facts.steps || "…"}${facts.loss === null ? "" : `, loss ${facts.loss.toFixed(3)}`}${left === null ? "" : `, ${Math.ceil(left)} s left`}`;
    });
    events.addEventListener("done", async (event) => {
      const { facts } = read(event);
      await refresh().catch(() => {});
      select(name);
      const figure = facts?.info?.held_out ? figureText(facts) : null;
      const held = figure === null ? "" : `, ${figure}${figure.startsWith("R") ? "" : " accuracy"} on held-out rows`;
      end(`${name} was learned${held}.`);
    });
    events.addEventListener("failed", (event) => end(read(event).message, true));
    events.addEventListener("cancelled", (event) => end(`${name}: ${read(event).message}`, true));
    events.onerror = () => { if (events.readyState === EventSource.CLOSED) end("The connection to the service was lost.", true); };
  });
}

function setBusy(working) {
  byId("learn-start").disabled = working;
  byId("learn-cancel").hidden = !working;
  if (!working) byId("learn-progress").hidden = true;
}

function showStatus(text, failed = false) {
  const status = byId("learn-status");
  status.classList.toggle("failed", failed);
  status.textContent = text;
}
