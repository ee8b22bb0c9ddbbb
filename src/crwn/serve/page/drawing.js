// From ink on the pad to an input row: rotated, cropped, centred by mass, and averaged down.

// Mean and deviation of ink in the datasets that such models usually learn: MNIST (28 x 28) and digits (8 x 8).
const INK = { 28: [0.1307, 0.3081], 8: [0.3053, 0.376] };

// The side of a square grey image of this shape; null for other inputs.
export function sideOf(shape) {
  if (!shape) return null;
  const values = shape.reduce((a, b) => a * b, 1);
  const side = Math.round(Math.sqrt(values));
  const grey = shape.length < 3 || shape[0] === 1;
  return grey && side * side === values && side >= 6 && side <= 128 ? side : null;
}

// The pad's ink, 0..1, as side x side values; null when nothing is drawn.
export function inkOf(pad, side, degrees) {
  const size = pad.width;
  const turned = document.createElement("canvas");
  turned.width = turned.height = size;
  const brush = turned.getContext("2d", { willReadFrequently: true });
  brush.translate(size / 2, size / 2);
  brush.rotate((degrees * Math.PI) / 180);
  brush.drawImage(pad, -size / 2, -size / 2);
  const data = brush.getImageData(0, 0, size, size).data;
  let [left, top, right, bottom] = [size, size, -1, -1];
  for (let y = 0; y < size; y++) {
    for (let x = 0; x < size; x++) {
      if (data[4 * (y * size + x) + 3] > 24) {
        left = Math.min(left, x); right = Math.max(right, x);
        top = Math.min(top, y); bottom = Math.max(bottom, y);
      }
    }
  }
  if (right < 0) return null;
  // Digits of MNIST fill 20 of 28 pixels and are centred by mass; the small digits fill their whole box.
  const fine = side * 8;
  const share = side >= 16 ? 20 / 28 : 1;
  const scale = (share * fine) / Math.max(right - left + 1, bottom - top + 1);
  let [cx, cy] = [(left + right + 1) / 2, (top + bottom + 1) / 2];
  if (side >= 16) {
    let [mass, mx, my] = [0, 0, 0];
    for (let y = top; y <= bottom; y++) {
      for (let x = left; x <= right; x++) {
        const ink = data[4 * (y * size + x) + 3];
        mass += ink; mx += ink * (x + 0.5); my += ink * (y + 0.5);
      }
    }
    [cx, cy] = [mx / mass, my / mass];
  }
  const box = document.createElement("canvas");
  box.width = box.height = fine;
  const pen = box.getContext("2d", { willReadFrequently: true });
  pen.imageSmoothingQuality = "high";
  pen.drawImage(turned, fine / 2 - cx * scale, fine / 2 - cy * scale, size * scale, size * scale);
  const ink = pen.getImageData(0, 0, fine, fine).data;
  const out = new Float32Array(side * side);
  for (let y = 0; y < fine; y++) {
    for (let x = 0; x < fine; x++) out[(y >> 3) * side + (x >> 3)] += ink[4 * (y * fine + x) + 3] / 255 / 64;
  }
  return out;
}

const average = (scale) => (Array.isArray(scale) ? scale.reduce((a, b) => a + b, 0) / scale.length : scale);

// Mean and deviation of raw inputs: those of the task whose mean is the median. Null without any task.
export function typicalScaling(tasks) {
  const known = tasks.map((task) => task.info.scaling || [0, 1]).sort((a, b) => average(a[0]) - average(b[0]));
  return known[Math.floor((known.length - 1) / 2)] ?? null;
}

// Ink in the units of the tasks' data, by their mean and deviation: one for all values, or one per column.
export function rowOf(ink, side, scaling) {
  const [mean, deviation] = scaling || [0, 1];
  const [inkMean, inkDeviation] = INK[side] || INK[28];
  const at = (scale, i) => (Array.isArray(scale) ? scale[i] : scale);
  return Array.from(ink, (value, i) => at(mean, i) + (at(deviation, i) * (value - inkMean)) / inkDeviation);
}

export function showInk(canvas, ink, side) {
  canvas.width = canvas.height = side;
  const brush = canvas.getContext("2d");
  const image = brush.createImageData(side, side);
  for (let i = 0; i < side * side; i++) {
    const level = ink ? Math.round(255 * Math.min(1, ink[i])) : 0;
    image.data.set([level, level, level, 255], 4 * i);
  }
  brush.putImageData(image, 0, 0);
}

// Draws an image file on the pad as ink: dark on light becomes light on dark, as in the datasets.
export async function drawImage(pad, file) {
  const picture = await createImageBitmap(file);
  const size = pad.width;
  const scale = Math.min(size / picture.width, size / picture.height);
  const work = document.createElement("canvas");
  work.width = work.height = size;
  const brush = work.getContext("2d", { willReadFrequently: true });
  brush.drawImage(picture, (size - picture.width * scale) / 2, (size - picture.height * scale) / 2, picture.width * scale, picture.height * scale);
  const image = brush.getImageData(0, 0, size, size);
  const data = image.data;
  let [edge, count] = [0, 0];
  const grey = (i) => (0.299 * data[i] + 0.587 * data[i + 1] + 0.114 * data[i + 2]) / 255;
  for (let i = 0; i < data.length; i += 4) {
    const [x, y] = [(i / 4) % size, Math.floor(i / 4 / size)];
    if (data[i + 3] && (x < 12 || y < 12 || x >= size - 12 || y >= size - 12)) { edge += grey(i); count++; }
  }
  const light = count > 0 && edge / count > 0.5;
  for (let i = 0; i < data.length; i += 4) {
    const level = light ? 1 - grey(i) : grey(i);
    data.set([244, 255, 252, data[i + 3] ? Math.round(255 * Math.max(0, (level - 0.15) / 0.85)) : 0], i);
  }
  const pen = pad.getContext("2d");
  pen.clearRect(0, 0, size, size);
  pen.putImageData(image, 0, 0);
}

// The rows of numbers in CSV text; lines with anything else are left out.
export const rowsIn = (text) =>
  text.split(/\r?\n/).map((line) => line.split(/[,;\s]+/).filter(Boolean).map(Number)).filter((row) => row.length && row.every(Number.isFinite));
