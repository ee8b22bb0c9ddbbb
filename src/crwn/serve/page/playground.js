// The playground: the prediction of every task and the inferred task for a drawing or a row, updated while it changes.

import { request } from "./api.js";
import { byId, element, labelText, percent } from "./dom.js";
import { drawImage, inkOf, rowOf, rowsIn, showInk, sideOf } from "./drawing.js";
import { columnsOf, fieldsRow, fillFields, showFields } from "./fields.js";
import { answerOf, certaintyText, kindOf } from "./kinds.js";
import { state } from "./page.js";
import { photoRow, photoShape, showLook } from "./photo.js";

const SHOWN = 8;
const pad = byId("pad");
const brush = pad.getContext("2d", { willReadFrequently: true });
let drawn = null; // side of the images that rows of this length can be drawn as
let side = null; // the same, null while tasks are of tables
let photo = null; // channels, height and width where photos are taken
let row = null; // an array of numbers, or an object by column name
let running = null; // aborts the request under way
let timer = 0;
let pen = null;

export function startPlayground(model) {
  side = drawn = sideOf(model.input_shape);
  const width = model.input_shape ? model.input_shape.reduce((a, b) => a * b, 1) : null;
  photo = side === null ? photoShape(model.input_shape) : null;
  if (photo !== null) {
    byId("drop-text").textContent = "Drop a photo here, or choose one";
    byId("row-shape").textContent = `resized to ${photo.width} x ${photo.height} pixels`;
    byId("row-line").hidden = true;
  } else {
    byId("row-shape").textContent = width ? `${width} numbers, separated by commas` : "";
    byId("row-text").addEventListener("input", (event) => typed(event.target.value, width));
  }
  if (side !== null) {
    brush.lineCap = brush.lineJoin = "round";
    brush.strokeStyle = brush.fillStyle = "#f4fffc";
    brush.lineWidth = pad.width * (side >= 16 ? 0.075 : 0.13);
    showInk(byId("input-image"), null, side);
    startPad();
  }
  for (const id of ["drop-file", "row-file"]) byId(id).addEventListener("change", (event) => { take(event.target.files[0]); event.target.value = ""; });
  for (const target of document.querySelectorAll(".drop, .pad")) {
    for (const kind of ["dragover", "dragleave", "drop"]) {
      target.addEventListener(kind, (event) => {
        event.preventDefault();
        target.classList.toggle("over", kind === "dragover");
        if (kind === "drop") take(event.dataTransfer.files[0]);
      });
    }
  }
}

// Whether a task is of a table that cannot be drawn: texts and categories are columns of many inputs each, and columns of
// pixels are numbered. Rows of a text have 256 inputs, as images of 16 x 16 pixels do.
function tabular(task) {
  const columns = columnsOf(task);
  return Boolean(columns) && !(columns.length === drawn ** 2 && columns.every((name) => /[0-9]$/.test(name)));
}

// Shows inputs as the tasks have them: a pad for digits or other images, fields where columns have names.
export function showInputs() {
  const now = state.tasks.some(tabular) ? null : drawn;
  if (now !== side) row = null;
  side = now;
  byId("pad-column").hidden = side === null;
  byId("drop-column").hidden = side !== null;
  if (side !== null) {
    const digits = state.tasks.length > 0 && state.tasks.every((task) => task.classes.every((label) => /^[0-9]$/.test(String(label))));
    byId("playground-hint").textContent = `${digits ? "Draw a digit" : "Open or draw an image"}: what each task predicts, and the task that fits best.`;
    byId("pad-help").textContent = `Keys: ${digits ? "0 to 9 draw that digit" : "0 to 9 draw a digit"}, arrows move the pen, space lowers or lifts it, Delete clears.`;
    return;
  }
  if (photo !== null) {
    const looks = state.model.kind === "image-flynet" ? ", the task that fits best, and where its context looks" : ", and the task that fits best";
    byId("playground-hint").textContent = `Drop a photo: what each task predicts${looks}.`;
    return;
  }
  const named = state.tasks.filter((task) => columnsOf(task));
  const task = named.find((one) => one.name === state.selected) ?? named[0];
  byId("row-fields").hidden = !task;
  byId("row-line").hidden = Boolean(task);
  byId("playground-hint").textContent = `Enter a row${task ? "" : " of numbers"}: what each task predicts, and the task that fits best.`;
  if (!task) return;
  byId("row-shape").textContent = "its first line names the columns";
  byId("fields-task").textContent = task.name;
  showFields(columnsOf(task), () => {
    clearTimeout(timer);
    timer = setTimeout(() => { row = fieldsRow(); predict(); }, 150);
  });
}

function startPad() {
  let last = null;
  const place = (event) => {
    const box = pad.getBoundingClientRect();
    return [((event.clientX - box.left) * pad.width) / box.width, ((event.clientY - box.top) * pad.height) / box.height];
  };
  const line = (from, to) => {
    brush.beginPath();
    brush.moveTo(...from);
    brush.lineTo(...to);
    brush.stroke();
    changed();
  };
  pad.addEventListener("pointerdown", (event) => {
    try { pad.setPointerCapture(event.pointerId); } catch { /* the pointer is released already */ }
    last = place(event);
    line(last, last);
  });
  pad.addEventListener("pointermove", (event) => {
    if (!last) return;
    const at = place(event);
    line(last, at);
    last = at;
  });
  for (const kind of ["pointerup", "pointercancel"]) pad.addEventListener(kind, () => { last = null; });
  // A digit typed outside of a field is drawn on the pad.
  document.addEventListener("keydown", (event) => {
    const elsewhere = event.target === document.body && side !== null;
    if (elsewhere && /^[0-9]$/.test(event.key) && !event.ctrlKey && !event.metaKey && !event.altKey) write(event.key);
  });
  pad.addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (/^[0-9]$/.test(event.key) && !event.ctrlKey && !event.metaKey) write(event.key);
    else if (event.key === "Delete" || event.key === "Backspace") clear();
    else if (event.key === " ") {
      pen = pen ? { ...pen, down: !pen.down } : { at: [pad.width / 2, pad.height / 4], down: true };
      if (pen.down) line(pen.at, pen.at);
    } else if (moves[event.key]) {
      pen ??= { at: [pad.width / 2, pad.height / 4], down: false };
      const to = pen.at.map((value, i) => Math.min(pad.width - 10, Math.max(10, value + moves[event.key][i] * pad.width * 0.04)));
      if (pen.down) line(pen.at, to);
      pen.at = to;
    } else return;
    event.preventDefault();
  });
  byId("clear").addEventListener("click", clear);
  byId("rotate").addEventListener("input", (event) => {
    byId("rotate-value").textContent = `${event.target.value}°`;
    changed();
  });
}

function write(digit) {
  brush.clearRect(0, 0, pad.width, pad.height);
  brush.font = `${pad.width * 0.8}px "Segoe Print", "Comic Sans MS", sans-serif`;
  brush.textAlign = "center";
  brush.textBaseline = "middle";
  brush.fillText(digit, pad.width / 2, pad.height / 2);
  changed();
}

function clear() {
  brush.clearRect(0, 0, pad.width, pad.height);
  pen = null;
  changed();
}

async function take(file) {
  if (!file) return;
  try {
    if (file.type.startsWith("image/") && side !== null) {
      await drawImage(pad, file);
      changed();
      return;
    }
    if (file.type.startsWith("image/") && photo !== null) {
      row = await photoRow(byId("photo"), file, photo);
      byId("photo-figure").hidden = false;
      predict();
      return;
    }
    if (!byId("row-fields").hidden && side === null) {
      fillFields(await file.text(), file.name);
      row = fieldsRow();
      predict();
      return;
    }
    const width = state.model.input_shape.reduce((a, b) => a * b, 1);
    const rows = rowsIn(await file.text());
    const found = rows.find((one) => one.length === width);
    if (!found) throw new Error(`${file.name} has no row of ${width} numbers.`);
    row = found;
    predict();
  } catch (error) {
    showMessage(error.message);
  }
}

function typed(text, width) {
  const [found] = rowsIn(text);
  const whole = found && (width === null || found.length === width);
  row = whole ? found : null;
  clearTimeout(timer);
  if (row || !text.trim()) {
    timer = setTimeout(predict, 150);
    return;
  }
  running?.abort();
  byId("predictions").replaceChildren();
  document.dispatchEvent(new CustomEvent("scores", { detail: [] }));
  if (!found) showMessage("A row is numbers, separated by commas.");
  else showMessage(found.length < width ? `${found.length} of ${width} numbers so far.` : `${found.length} numbers, the model takes ${width}.`);
}

function changed() {
  clearTimeout(timer);
  timer = setTimeout(() => {
    const ink = inkOf(pad, side, Number(byId("rotate").value));
    showInk(byId("input-image"), ink, side);
    row = ink && rowOf(ink, side, state.scaling);
    predict();
  }, 80);
}

// Predicts the current row with the best tasks and the selected one.
export async function predict() {
  running?.abort();
  if (!row) {
    byId("predictions").replaceChildren();
    showMessage(side === null ? "No row yet." : "Nothing drawn yet.");
    document.dispatchEvent(new CustomEvent("scores", { detail: [] }));
    return;
  }
  if (!state.total) {
    showMessage("There are no tasks yet: learn one below.");
    return;
  }
  running = new AbortController();
  const { signal } = running;
  try {
    const found = await rankTasks(signal);
    const names = found.ranking.slice(0, SHOWN).map((one) => one.task);
    const kinds = new Map(state.tasks.map((task) => [task.name, kindOf(task)]));
    // Only tasks of one class per row can be ranked: those of other kinds stand below, where they take such a row.
    names.push(...state.tasks.filter((task) => kindOf(task) !== "classification" && takes(task)).slice(0, SHOWN).map((task) => task.name));
    const selected = state.tasks.find((task) => task.name === state.selected);
    if (selected && takes(selected) && !names.includes(selected.name)) names.push(selected.name);
    if (!names.length) throw new Error("No task takes such a row.");
    showPredictions(await answersOf(names, kinds, signal), found);
    document.dispatchEvent(new CustomEvent("scores", { detail: found.ranking }));
    if (photo !== null && state.model.kind === "image-flynet") await lookWith(state.selected ?? names[0], signal);
  } catch (error) {
    if (error.name !== "AbortError") showMessage(error.message);
  }
}

async function lookWith(task, signal) {
  const found = await request("POST", "/v1/look", { body: { rows: [row], task }, signal });
  showLook(byId("look"), found.maps[0]);
  byId("look-text").textContent = `Where ${task} looks: red speaks for ${labelText(found.labels[0])}, blue against it.`;
}

// Whether a task can be asked about the current row: it has the row's columns, or none and the row is numbers.
function takes(task) {
  const columns = columnsOf(task);
  return Array.isArray(row) ? kindOf(task) === "classification" || !columns : Boolean(columns) && columns.every((name) => name in row);
}

async function rankTasks(signal) {
  const nothing = { ranking: [], none_of_these: null };
  const others = state.tasks.filter((task) => kindOf(task) !== "classification").length;
  if (others === state.total) return nothing;
  return request("POST", "/v1/infer-task", { body: { rows: [row], top: 300 }, signal });
}

// What each of these tasks predicts for the current row; numbers have no probabilities.
async function answersOf(names, kinds, signal) {
  const answers = new Map();
  for (const numeric of [false, true]) {
    const asked = names.filter((name) => (kinds.get(name) === "regression") === numeric);
    if (!asked.length) continue;
    const found = await request("POST", "/v1/predict", { body: { rows: asked.map(() => row), task: asked, probabilities: !numeric }, signal });
    asked.forEach((name, i) => answers.set(name, answerOf(kinds.get(name) ?? "classification", found.labels[i], found.probabilities?.[i])));
  }
  return names.map((task) => ({ task, ...answers.get(task) }));
}

function showMessage(text) {
  const verdict = byId("verdict");
  verdict.classList.remove("no-fit");
  verdict.replaceChildren(element("p", { className: "soft" }, text));
}

function showPredictions(predictions, found) {
  const best = predictions[0];
  const verdict = byId("verdict");
  verdict.classList.toggle("no-fit", found.none_of_these === true);
  const text = found.none_of_these
    ? element("p", {}, "No task fits this input. The closest is ", element("strong", {}, best.task), ".")
    : element("p", {}, found.ranking.length ? "Inferred task: " : "Task: ", element("strong", {}, best.task),
      best.certainty === null ? "." : `. Probability of this label: ${percent(best.certainty)}.`);
  verdict.replaceChildren(element("span", { className: best.label.length > 3 ? "label long" : "label" }, best.label), text);
  byId("predictions").replaceChildren(...predictions.map((one, i) => element(
    "li",
    { className: [i === 0 ? "best" : "", one.task === state.selected ? "selected-task" : ""].join(" ").trim() },
    element("span", { className: "name", title: one.task }, one.task),
    element("span", { className: "label", title: one.label }, one.label),
    one.certainty === null ? element("span") : element("meter", { min: 0, max: 1, value: one.certainty, title: one.note, "aria-label": `Probability of ${one.label} in ${one.task}` }),
    element("span", { className: "probability" }, certaintyText(one.certainty)),
  )));
}
