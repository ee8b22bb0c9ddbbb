// The table of tasks: one page at a time, filtered by the start of their names, with a button that forgets a task.

import { request, taskPath } from "./api.js";
import { age, bytes, byId, element } from "./dom.js";
import { figureText, outputsText } from "./kinds.js";
import { refresh, select, state } from "./page.js";

const PAGE = 12;
let pages = [null]; // for each page up to this one, the name it starts after
let next = null;
let requests = 0;

export function startTasks() {
  let timer = 0;
  byId("search").addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => { pages = [null]; showTasks(); }, 150);
  });
  byId("next").addEventListener("click", () => { pages.push(next); showTasks(); });
  byId("previous").addEventListener("click", () => { pages.pop(); showTasks(); });
}

export async function showTasks() {
  const turn = ++requests;
  const query = new URLSearchParams({ prefix: byId("search").value, limit: PAGE });
  if (pages.at(-1) !== null) query.set("after", pages.at(-1));
  const found = await request("GET", `/v1/tasks?${query}`);
  if (turn !== requests) return found;
  if (!found.tasks.length && pages.length > 1) {
    pages.pop();
    return showTasks();
  }
  next = found.next;
  byId("task-count").textContent = found.total.toLocaleString();
  byId("previous").disabled = pages.length === 1;
  byId("next").disabled = next === null;
  const first = (pages.length - 1) * PAGE;
  byId("page-line").textContent = found.tasks.length ? `${first + 1} to ${first + found.tasks.length}` : "No task has such a name";
  byId("task-rows").replaceChildren(...found.tasks.map(rowOf));
  markRow();
  return found;
}

function rowOf(task) {
  const name = element("button", { className: "name", type: "button", title: task.name }, task.name);
  name.addEventListener("click", () => select(task.name));
  const row = element(
    "tr",
    {},
    element("td", {}, name),
    element("td", { className: "classes", title: outputsText(task, 1000) }, outputsText(task, 6)),
    element("td", { className: "number" }, figureText(task) ?? "–"),
    element("td", { className: "number", title: `${task.parameters.toLocaleString()} parameters` }, bytes(task.bytes)),
    element("td", { title: task.created }, age(task.created)),
  );
  const actions = element("td", { className: "actions" }, element(
    "a", { href: `${taskPath(task.name)}/context`, download: `${task.name}.safetensors`, "aria-label": `Download the context of ${task.name}` }, "Download",
  ));
  if (!state.model.read_only) {
    const forget = element("button", { className: "quiet", type: "button", "aria-label": `Forget ${task.name}` }, "Forget");
    forget.addEventListener("click", () => forgetTask(task.name));
    actions.append(" ", forget);
  }
  row.append(actions);
  row.dataset.task = task.name;
  return row;
}

function forgetTask(name) {
  const dialog = byId("confirm");
  byId("confirm-text").textContent = `The context of "${name}" will be deleted. Other tasks do not change.`;
  dialog.returnValue = "no";
  dialog.onclose = async () => {
    if (dialog.returnValue !== "yes") return;
    const line = byId("page-line");
    try {
      await request("DELETE", taskPath(name));
      if (state.selected === name) select(null);
      await refresh();
      line.textContent = `${name} was forgotten`;
    } catch (error) {
      line.textContent = error.message;
    }
    byId("search").focus();
  };
  dialog.showModal();
}

export function markRow() {
  for (const row of byId("task-rows").children) row.classList.toggle("selected-task", row.dataset.task === state.selected);
}
