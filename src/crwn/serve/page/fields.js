// A row of a table by column name: a field for each column of a task, filled in by hand or from a CSV file.

import { byId, element } from "./dom.js";

let shown = [];

export const columnsOf = (task) => (Array.isArray(task?.info?.columns) ? task.info.columns : null);

// Shows a field for each column; values of columns that stay are kept.
export function showFields(columns, changed) {
  if (columns.length === shown.length && columns.every((name, i) => name === shown[i])) return;
  const before = values();
  shown = columns;
  byId("fields").replaceChildren(...columns.map((name, i) => {
    const input = element("input", { id: `field-${i}`, type: "text", autocomplete: "off", spellcheck: false, value: before[name] ?? "" });
    input.addEventListener("input", changed);
    return element("div", {}, element("label", { htmlFor: `field-${i}` }, name), input);
  }));
}

function values() {
  return Object.fromEntries(shown.map((name, i) => [name, byId(`field-${i}`).value.trim()]));
}

// The row in the fields, a missing value where one is empty; null when all are.
export function fieldsRow() {
  const row = values();
  if (!Object.values(row).some(Boolean)) return null;
  return Object.fromEntries(Object.entries(row).map(([name, value]) => [name, value === "" ? null : value]));
}

// Fills the fields from the first row of a CSV whose first line names the columns; throws where columns are missing.
export function fillFields(text, source) {
  const [head, first] = csvRows(text);
  if (!head || !first) throw new Error(`${source} has no row: its first line names the columns.`);
  const row = Object.fromEntries(head.map((name, i) => [name.trim(), first[i] ?? ""]));
  const missing = shown.filter((name) => !(name in row));
  if (missing.length) throw new Error(`${source} has no column ${missing[0]}; it has ${head.slice(0, 8).join(", ")}.`);
  shown.forEach((name, i) => { byId(`field-${i}`).value = row[name].trim(); });
}

// The first two rows of a CSV, with cells in quotes; separated by what is most frequent in its first line.
function csvRows(text) {
  const line = text.replace(/^\uFEFF/, "").split(/\r?\n/, 1)[0];
  const separator = [",", ";", "\t", "|"].reduce((best, one) => (line.split(one).length > line.split(best).length ? one : best));
  const rows = [[""]];
  let quoted = false;
  for (const sign of text.replace(/^\uFEFF/, "").replace(/\r\n?/g, "\n")) {
    const row = rows.at(-1);
    if (sign === '"') quoted = !quoted;
    else if (sign === separator && !quoted) row.push("");
    else if (sign === "\n" && !quoted) {
      if (rows.length === 2) break;
      rows.push([""]);
    } else row[row.length - 1] += sign;
  }
  return rows.filter((row) => row.some((cell) => cell.trim()));
}
