// Photos as rows of a model of images, and where a context looks in them.

// Channels, height and width of a model that takes images with 1 or 3 channels; null for other inputs.
export function photoShape(shape) {
  if (!shape || shape.length !== 3 || ![1, 3].includes(shape[0])) return null;
  return { channels: shape[0], height: shape[1], width: shape[2] };
}

// A photo, resized to the model's images and shown on the canvas, as bytes: channel after channel, row by row.
export async function photoRow(canvas, file, { channels, height, width }) {
  const picture = await createImageBitmap(file).catch(() => { throw new Error(`${file.name} is no image that this browser can read.`); });
  canvas.width = width;
  canvas.height = height;
  const brush = canvas.getContext("2d", { willReadFrequently: true });
  brush.imageSmoothingQuality = "high";
  brush.fillStyle = "#fff";
  brush.fillRect(0, 0, width, height);
  brush.drawImage(picture, 0, 0, width, height);
  const { data } = brush.getImageData(0, 0, width, height);
  const places = Array.from({ length: height * width }, (_, i) => 4 * i);
  if (channels === 1) return places.map((i) => Math.round(0.299 * data[i] + 0.587 * data[i + 1] + 0.114 * data[i + 2]));
  return [0, 1, 2].flatMap((channel) => places.map((i) => data[i + channel]));
}

// What speaks for a prediction in red, what speaks against it in blue, over the photo.
export function showLook(canvas, map) {
  const largest = Math.max(...map.map((line) => Math.max(...line.map(Math.abs)))) || 1;
  canvas.width = map[0].length;
  canvas.height = map.length;
  const brush = canvas.getContext("2d");
  const image = brush.createImageData(canvas.width, canvas.height);
  map.flat().forEach((value, i) => {
    image.data.set([...(value > 0 ? [214, 40, 40] : [29, 78, 216]), Math.round(200 * Math.abs(value) / largest)], 4 * i);
  });
  brush.putImageData(image, 0, 0);
}
