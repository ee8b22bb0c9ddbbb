// The page as a whole: what is known, what is chosen, and the parts that show it.

import { age, ask, bytes, element, labelText, taskAddress, token } from "./api.js";
import { markMap, pointOf, showAtlas } from "./atlas.js";
import { answer, startPlayground } from "./playground.js";
import { mark, showTasks, startTasks } from "./tasks.js";
import { startTeach } from "./teach.js";

export const state = { model: null, chosen: null, total: 0, scaling: null };
const byId = (id) => document.getElementById(id);

export async function refresh() {
  const [found] = await Promise.all([showTasks(), showAtlas()]);
  state.total = found.total;
  if (state.scaling === null && found.tasks.length) state.scaling = found.tasks[0].info.scaling || [0, 1];
  await answer();
}

export async function choose(name) {
  state.chosen = name;
  mark();
  markMap();
  const place = byId("chosen");
  if (name === null) {
    place.replaceChildren();
    return;
  }
  try {
    const task = await ask("GET", taskAddress(name));
    if (state.chosen !== name) return;
    const point = pointOf(name);
    const facts = [
      `${task.classes.length} classes: ${task.classes.slice(0, 10).map(labelText).join(", ")}${task.classes.length > 10 ? "…" : ""}`,
      task.info.rows ? `${task.info.rows.toLocaleString()} rows` : null,
      task.accuracy === null ? null : `${task.accuracy.toFixed(1)}% right`,
      bytes(task.bytes),
      age(task.created) === "just now" ? "just now" : `${age(task.created)} ago`,
    ].filter(Boolean);
    place.replaceChildren(element("strong", {}, name), element("p", { className: "soft" }, facts.join(" · ")));
    if (point?.nearest) {
      const near = element("button", { className: "quiet", type: "button" }, point.nearest);
      near.addEventListener("click", () => choose(point.nearest));
      place.append(element("p", { className: "soft" }, `Most alike (${point.similarity.toFixed(2)}): `, near));
    }
  } catch (error) {
    place.replaceChildren(element("p", { className: "soft" }, error.message));
  }
  answer();
}

async function start() {
  try {
    const model = (state.model = await ask("GET", "/v1/model"));
    byId("model-line").textContent = `${model.kind}, ${model.numbers_per_task.toLocaleString()} learned numbers per task, ${model.fingerprint.slice(0, 8)}`;
    byId("version").textContent = `crwn ${model.version}`;
    byId("token-form").hidden = !model.token_needed || model.read_only;
    byId("token").value = token.get();
    byId("token").addEventListener("input", (event) => token.set(event.target.value.trim()));
    byId("token-form").addEventListener("submit", (event) => event.preventDefault());
    startPlayground(model);
    startTasks();
    startTeach(model);
    await refresh();
    document.body.dataset.ready = "yes";
  } catch (error) {
    byId("notice").hidden = false;
    byId("notice").textContent = error.message;
  }
}

start();
