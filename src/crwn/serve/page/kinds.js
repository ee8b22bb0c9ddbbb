// What a task predicts, as text: one class, several labels or numbers, and how good it is at that.

import { labelText, percent } from "./dom.js";

export const kindOf = (task) => task?.info?.kind ?? "classification";

const listed = (labels) => labels.map(labelText).join(", ");
const number = (value) => (Math.abs(value) >= 1e6 || (value && Math.abs(value) < 1e-3) ? value.toExponential(3) : String(Number(value.toPrecision(6))));

export function outputsText(task, most) {
  const count = task.classes.length;
  if (kindOf(task) === "regression") return count === 1 ? "a number" : `${count} numbers`;
  const what = kindOf(task) === "multilabel" ? "labels" : "classes";
  if (count > most) return `${count} ${what}`;
  return kindOf(task) === "multilabel" ? `any of ${listed(task.classes)}` : listed(task.classes);
}

// Accuracy on rows held out, or R² of a regression; null when it was not measured.
export function figureText(task) {
  if (kindOf(task) === "regression") return typeof task.info.r2 === "number" ? `R² ${task.info.r2.toFixed(3)}` : null;
  return typeof task.accuracy === "number" ? `${task.accuracy.toFixed(1)}%` : null;
}

// A prediction: its text, and how certain it is (0..1), where the task has probabilities.
export function answerOf(kind, label, probabilities) {
  if (kind === "regression") return { label: (Array.isArray(label) ? label : [label]).map(number).join(", "), certainty: null, note: "" };
  if (kind === "multilabel") {
    const certainty = Math.min(...probabilities.map((share) => Math.max(share, 1 - share)));
    return { label: label.length ? listed(label) : "no label", certainty, note: "the least certain of its labels" };
  }
  return { label: labelText(label), certainty: Math.max(...probabilities), note: "" };
}

export const certaintyText = (certainty) => (certainty === null ? "" : percent(certainty));
