// The whole page: its state, the selected task, and the start of all parts.

import { request, taskPath, token } from "./api.js";
import { markPoint, pointOf, showAtlas } from "./atlas.js";
import { age, bytes, byId, decimal, element } from "./dom.js";
import { typicalScaling } from "./drawing.js";
import { figureText, outputsText } from "./kinds.js";
import { startLearn } from "./learn.js";
import { predict, showInputs, startPlayground } from "./playground.js";
import { markRow, showTasks, startTasks } from "./tasks.js";

// `tasks` are those that are known: of the table's page, and the selected one.
export const state = { model: null, selected: null, total: 0, scaling: null, tasks: [] };

// Reads tasks and atlas again; call it when tasks have changed.
export async function refresh() {
  const [found] = await Promise.all([showTasks(), showAtlas()]);
  state.total = found.total;
  state.tasks = found.tasks;
  showInputs();
  state.scaling = typicalScaling(found.tasks) ?? state.scaling;
  await predict();
}

export async function select(name) {
  state.selected = name;
  markRow();
  markPoint();
  const place = byId("selected");
  if (name === null) {
    place.replaceChildren();
    return;
  }
  try {
    const task = await request("GET", taskPath(name));
    if (state.selected !== name) return;
    if (!state.tasks.some((one) => one.name === name)) state.tasks = [...state.tasks, task];
    showSelected(place, task);
    showInputs();
  } catch (error) {
    place.replaceChildren(element("p", { className: "soft" }, error.message));
  }
  predict();
}

function showSelected(place, task) {
  const figure = figureText(task);
  const facts = [
    `predicts ${outputsText(task, 10)}`,
    task.info.rows ? `${task.info.rows.toLocaleString()} training rows` : null,
    figure === null ? null : figure.startsWith("R") ? figure : `${figure} accuracy`,
    `${task.parameters.toLocaleString()} parameters, ${bytes(task.bytes)}`,
    age(task.created) === "just now" ? "just now" : `${age(task.created)} ago`,
  ].filter(Boolean);
  place.replaceChildren(element("strong", {}, task.name), element("p", { className: "soft" }, facts.join(" · ")));
  const point = pointOf(task.name);
  if (!point?.nearest) return;
  const nearest = element("button", { className: "link", type: "button" }, point.nearest);
  nearest.addEventListener("click", () => select(point.nearest));
  place.append(element("p", { className: "soft" }, "Most similar context: ", nearest, ` (cosine ${decimal(point.similarity)})`));
}

async function start() {
  try {
    const model = (state.model = await request("GET", "/v1/model"));
    byId("model-line").textContent = `${model.kind} · ${model.params_per_task.toLocaleString()} parameters per task · fingerprint ${model.fingerprint.slice(0, 8)}`;
    byId("version").textContent = `crwn ${model.version}`;
    byId("token-form").hidden = !model.token_needed || model.read_only;
    byId("token").value = token.get();
    byId("token").addEventListener("input", (event) => token.set(event.target.value.trim()));
    byId("token-form").addEventListener("submit", (event) => event.preventDefault());
    startPlayground(model);
    startTasks();
    startLearn(model);
    await refresh();
    document.body.dataset.ready = "yes";
  } catch (error) {
    byId("notice").hidden = false;
    byId("notice").textContent = error.message;
  }
}

start();
