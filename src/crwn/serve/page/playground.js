// The playground: a drawing or a row, every task's answer, and the inferred task, as one draws.

import { ask, element, labelText, percent } from "./api.js";
import { drawPicture, inkOf, numbersIn, rowOf, show, sideOf } from "./drawing.js";
import { state } from "./page.js";

const SHOWN = 8;
const byId = (id) => document.getElementById(id);
const pad = byId("pad");
const brush = pad.getContext("2d", { willReadFrequently: true });
let side = null;
let row = null;
let under = null;
let timer = 0;
let pen = null;

export function startPlayground(model) {
  side = sideOf(model.input_shape);
  const width = model.input_shape ? model.input_shape.reduce((a, b) => a * b, 1) : null;
  byId("pad-column").hidden = side === null;
  byId("drop-column").hidden = side !== null;
  if (side === null) {
    byId("playground-hint").textContent = "Hand over a row of numbers. Every task answers at once, and the task itself is inferred.";
    byId("row-shape").textContent = width ? `${width} numbers, separated by commas` : "";
    byId("row-text").addEventListener("input", (event) => typed(event.target.value, width));
  } else {
    brush.lineCap = brush.lineJoin = "round";
    brush.strokeStyle = brush.fillStyle = "#f4fffc";
    brush.lineWidth = pad.width * (side >= 16 ? 0.075 : 0.13);
    show(byId("seen"), null, side);
    listenToPad();
  }
  for (const id of ["drop-file", "row-file"]) byId(id).addEventListener("change", (event) => { take(event.target.files[0]); event.target.value = ""; });
  const target = document.querySelector(side === null ? ".drop" : ".pad");
  for (const kind of ["dragover", "dragleave", "drop"]) {
    target.addEventListener(kind, (event) => {
      event.preventDefault();
      target.classList.toggle("over", kind === "dragover");
      if (kind === "drop") take(event.dataTransfer.files[0]);
    });
  }
}

function listenToPad() {
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
    try { pad.setPointerCapture(event.pointerId); } catch { /* a pointer that is gone already */ }
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
  // A digit typed anywhere but in a field is meant for the pad.
  document.addEventListener("keydown", (event) => {
    const elsewhere = event.target === document.body;
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
  byId("turn").addEventListener("input", (event) => {
    byId("turn-value").textContent = `${event.target.value}°`;
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
      await drawPicture(pad, file);
      changed();
      return;
    }
    const width = state.model.input_shape.reduce((a, b) => a * b, 1);
    const rows = numbersIn(await file.text());
    const found = rows.find((one) => one.length === width);
    if (!found) throw new Error(`There is no row of ${width} numbers in ${file.name}.`);
    row = found;
    answer();
  } catch (error) {
    say(error.message);
  }
}

function typed(text, width) {
  const [found] = numbersIn(text);
  const whole = found && (width === null || found.length === width);
  row = whole ? found : null;
  clearTimeout(timer);
  if (row || !text.trim()) {
    timer = setTimeout(answer, 150);
    return;
  }
  under?.abort();
  byId("answers").replaceChildren();
  document.dispatchEvent(new CustomEvent("scores", { detail: [] }));
  if (!found) say("Only numbers, with commas between them.");
  else say(found.length < width ? `${found.length} of ${width} numbers so far.` : `${found.length} numbers, ${width} are wanted.`);
}

function changed() {
  clearTimeout(timer);
  timer = setTimeout(() => {
    const ink = inkOf(pad, side, Number(byId("turn").value));
    show(byId("seen"), ink, side);
    row = ink && rowOf(ink, side, state.scaling);
    answer();
  }, 80);
}

// Called again when tasks come and go, or another one is chosen.
export async function answer() {
  under?.abort();
  if (!row) {
    byId("answers").replaceChildren();
    say(side === null ? "Nothing to answer yet." : "Nothing drawn yet.");
    document.dispatchEvent(new CustomEvent("scores", { detail: [] }));
    return;
  }
  if (!state.total) {
    say("There are no tasks yet: teach one below.");
    return;
  }
  under = new AbortController();
  const { signal } = under;
  try {
    const found = await ask("POST", "/v1/infer-task", { body: { rows: [row], top: 300 }, signal });
    const names = found.ranking.slice(0, SHOWN).map((one) => one.task);
    if (state.chosen && !names.includes(state.chosen)) names.push(state.chosen);
    const said = await ask("POST", "/v1/predict", { body: { rows: names.map(() => row), task: names, probabilities: true }, signal });
    const scores = new Map(found.ranking.map((one) => [one.task, one.score]));
    tell(names.map((task, i) => ({
      task, label: labelText(said.labels[i]), share: Math.max(...said.probabilities[i]), score: scores.get(task),
    })), found);
    document.dispatchEvent(new CustomEvent("scores", { detail: found.ranking }));
  } catch (error) {
    if (error.name !== "AbortError") say(error.message);
  }
}

function say(text) {
  const verdict = byId("verdict");
  verdict.classList.remove("stranger");
  verdict.replaceChildren(element("p", { className: "verdict-empty" }, text));
}

function tell(answers, found) {
  const best = answers[0];
  const verdict = byId("verdict");
  verdict.classList.toggle("stranger", found.none_of_these === true);
  const whose = found.none_of_these
    ? element("p", {}, "None of the tasks knows rows like this one. The nearest is ", element("strong", {}, best.task), ".")
    : element("p", {}, "This looks like ", element("strong", {}, best.task), ", which is ", percent(best.share), " sure.");
  verdict.replaceChildren(element("span", { className: best.label.length > 3 ? "said long" : "said" }, best.label), whose);
  byId("answers").replaceChildren(...answers.map((one, i) => element(
    "li",
    { className: [i === 0 ? "best" : "", one.task === state.chosen ? "chosen-task" : ""].join(" ").trim() },
    element("span", { className: "name", title: one.task }, one.task),
    element("span", { className: "label", title: one.label }, one.label),
    element("meter", { min: 0, max: 1, value: one.share, "aria-label": `${one.task} says ${one.label}` }),
    element("span", { className: "share" }, percent(one.share)),
  )));
}
