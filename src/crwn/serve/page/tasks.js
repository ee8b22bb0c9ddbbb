// The list of tasks: a page at a time, found by the start of their names, forgotten on request.

import { age, ask, bytes, element, labelText, taskAddress } from "./api.js";
import { choose, refresh, state } from "./page.js";

const PAGE = 12;
const byId = (id) => document.getElementById(id);
let pages = [null]; // what each page so far starts after
let next = null;
let asked = 0;

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
  const turn = ++asked;
  const query = new URLSearchParams({ prefix: byId("search").value, limit: PAGE });
  if (pages.at(-1) !== null) query.set("after", pages.at(-1));
  const found = await ask("GET", `/v1/tasks?${query}`);
  if (turn !== asked) return found;
  if (!found.tasks.length && pages.length > 1) {
    pages.pop();
    return showTasks();
  }
  next = found.next;
  byId("task-count").textContent = found.total.toLocaleString();
  byId("previous").disabled = pages.length === 1;
  byId("next").disabled = next === null;
  const first = (pages.length - 1) * PAGE;
  byId("page-line").textContent = found.tasks.length ? `${first + 1} to ${first + found.tasks.length}` : "No tasks with such a name";
  byId("task-rows").replaceChildren(...found.tasks.map(rowOf));
  mark();
  return found;
}

function rowOf(task) {
  const classes = task.classes.map(labelText).join(", ");
  const accuracy = task.accuracy === null ? "–" : `${task.accuracy.toFixed(1)}%`;
  const name = element("button", { className: "name", type: "button", title: task.name }, task.name);
  name.addEventListener("click", () => choose(task.name));
  const row = element(
    "tr",
    {},
    element("td", {}, name),
    element("td", { className: "classes", title: classes }, task.classes.length > 6 ? `${task.classes.length} classes` : classes),
    element("td", { className: "number" }, accuracy),
    element("td", { className: "number", title: `${task.numbers.toLocaleString()} learned numbers` }, bytes(task.bytes)),
    element("td", { title: task.created }, age(task.created)),
  );
  const doing = element("td", { className: "do" }, element(
    "a", { href: `${taskAddress(task.name)}/context`, download: `${task.name}.safetensors`, "aria-label": `Download the context of ${task.name}` }, "Save",
  ));
  if (!state.model.read_only) {
    const forget = element("button", { className: "quiet", type: "button", "aria-label": `Forget ${task.name}` }, "Forget");
    forget.addEventListener("click", () => forgetTask(task.name));
    doing.append(" ", forget);
  }
  row.append(doing);
  row.dataset.task = task.name;
  return row;
}

function forgetTask(name) {
  const dialog = byId("confirm");
  byId("confirm-text").textContent = `What "${name}" learned will be gone. Other tasks are not touched.`;
  dialog.returnValue = "no";
  dialog.onclose = async () => {
    if (dialog.returnValue !== "yes") return;
    const line = byId("page-line");
    try {
      await ask("DELETE", taskAddress(name));
      if (state.chosen === name) choose(null);
      await refresh();
      line.textContent = `${name} is forgotten`;
    } catch (error) {
      line.textContent = error.message;
    }
    byId("search").focus();
  };
  dialog.showModal();
}

export function mark() {
  for (const row of byId("task-rows").children) row.classList.toggle("chosen-task", row.dataset.task === state.chosen);
}
