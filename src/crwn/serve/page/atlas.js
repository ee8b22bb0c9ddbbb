// The atlas: contexts on a map, selected by mouse or arrow keys; points grow with the score of their task for the drawing.

import { request } from "./api.js";
import { byId, percent } from "./dom.js";
import { select, state } from "./page.js";

const [WIDTH, HEIGHT, MARGIN] = [400, 320, 26];
const GROWTH = 1.7; // of the point with the best score
const map = byId("map");
let points = [];
let circles = [];

function svg(kind, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", kind);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

export async function showAtlas() {
  const atlas = await request("GET", "/v1/atlas");
  const focused = document.activeElement?.dataset?.task;
  points = atlas.points.map((point) => ({
    ...point,
    px: WIDTH / 2 + point.x * (WIDTH / 2 - MARGIN),
    py: HEIGHT / 2 - point.y * (HEIGHT / 2 - MARGIN),
  }));
  const size = points.length > 120 ? 4 : points.length > 40 ? 5.5 : 7;
  circles = points.map((point, i) => {
    const circle = svg("circle", { cx: point.px, cy: point.py, r: size, tabindex: i === 0 ? 0 : -1, role: "button", "aria-label": point.task });
    circle.dataset.task = point.task;
    circle.dataset.size = size;
    const title = svg("title", {});
    title.textContent = point.task;
    circle.append(title);
    circle.addEventListener("click", () => select(point.task));
    circle.addEventListener("keydown", (event) => onKey(event, i));
    return circle;
  });
  const labels = points.length <= 60 ? labelsOf(GROWTH * size) : [];
  map.replaceChildren(...circles, ...labels);
  const part = atlas.total > points.length ? ` ${points.length} of ${atlas.total.toLocaleString()} tasks are shown.` : "";
  byId("atlas-hint").textContent = points.length
    ? `Contexts of the tasks: similar ones lie close together. The map explains ${percent(atlas.explained)} of their variance.${part}`
    : "The map appears with the first task.";
  circles.find((circle) => circle.dataset.task === focused)?.focus();
  markPoint();
}

// Names above or below their points, left out where they would cover something.
function labelsOf(reach) {
  const taken = points.map((point) => [point.px - reach, point.py - reach, point.px + reach, point.py + reach]);
  return points.flatMap((point) => {
    const text = point.task.length > 18 ? `${point.task.slice(0, 17)}…` : point.task;
    const half = 2.9 * text.length;
    const x = Math.min(WIDTH - half - 2, Math.max(half + 2, point.px));
    for (const y of [point.py - reach - 3, point.py + reach + 9]) {
      const box = [x - half, y - 9, x + half, y + 2];
      if (taken.some((other) => box[0] < other[2] && box[2] > other[0] && box[1] < other[3] && box[3] > other[1])) continue;
      taken.push(box);
      const label = svg("text", { x, y });
      label.textContent = text;
      label.dataset.task = point.task;
      return [label];
    }
    return [];
  });
}

function onKey(event, i) {
  if (event.key === "Enter" || event.key === " ") {
    event.preventDefault();
    select(points[i].task);
    return;
  }
  const towards = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
  if (!towards) return;
  event.preventDefault();
  // The nearest point in that direction; distance across it counts twice.
  let [best, least] = [null, Infinity];
  points.forEach((point, j) => {
    const [dx, dy] = [point.px - points[i].px, point.py - points[i].py];
    const along = dx * towards[0] + dy * towards[1];
    const aside = Math.abs(dx * towards[1]) + Math.abs(dy * towards[0]);
    if (j !== i && along > 0.5 && along + 2 * aside < least) [best, least] = [j, along + 2 * aside];
  });
  if (best === null) return;
  circles[i].setAttribute("tabindex", -1);
  circles[best].setAttribute("tabindex", 0);
  circles[best].focus();
}

export function markPoint() {
  for (const made of map.children) made.classList.toggle("selected-task", made.dataset.task === state.selected);
}

export const pointOf = (name) => points.find((point) => point.task === name);

document.addEventListener("scores", (event) => {
  const scores = new Map(event.detail.map((one) => [one.task, one.score]));
  const values = [...scores.values()];
  const [low, high] = [Math.min(...values), Math.max(...values)];
  for (const circle of circles) {
    const score = scores.get(circle.dataset.task);
    const share = score === undefined || high === low ? 0 : (score - low) / (high - low);
    circle.setAttribute("r", Number(circle.dataset.size) * (1 + (GROWTH - 1) * share ** 4));
    circle.classList.toggle("bright", values.length > 1 && share === 1);
  }
});
