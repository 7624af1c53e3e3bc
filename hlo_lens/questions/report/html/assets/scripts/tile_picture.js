// One value over the devices: a box for each tile, as wide and high as its part of the value, with
// the devices that hold it. The last two divided dimensions are drawn, others as sheets.

import { el, pictureTable, svg } from "dom";
import { plural } from "format";

const WIDTH = 460;
const HEIGHT = 240;
const MOST_TILES = 256;
const SHEETS = 4;

export function tilePicture(drawing, name) {
  const { sizes, counts, tiles } = drawing;
  const divided = counts.map((count, k) => [count, k]).filter(([count]) => count > 1).map(([, k]) => k);
  const shown = divided.slice(-2);
  const [rowDimension, columnDimension] = shown.length === 1
    ? (shown[0] === sizes.length - 1 && sizes.length > 1 ? [null, shown[0]] : [shown[0], null])
    : [shown[0] ?? null, shown[1] ?? null];
  const sheets = new Map();
  for (const [tile, devices] of tiles) {
    const key = divided.slice(0, -2).map((k) => rangeText(sizes[k], counts[k], tile[k])).join(", ");
    if (!sheets.has(key)) sheets.set(key, []);
    sheets.get(key).push([tile, devices]);
  }
  const drawn = [...sheets].slice(0, SHEETS).map(([key, list]) =>
    sheet(drawing, list, rowDimension, columnDimension, key));
  const rest = sheets.size - drawn.length;
  return el("figure", { class: "tiles" }, drawn, el("figcaption", {}, caption(drawing, name),
    rest > 0 ? `; ${plural(rest, "more sheet")} like these` : ""),
  pictureTable("The parts as a table", [["part", "first and last index of each dimension", false],
    ["devices", "", false]], () => tiles.map(([tile, holders]) =>
    [sliceText(drawing, tile), deviceText(holders)])));
}

function sliceText({ sizes, counts }, tile) {
  return `[${sizes.map((size, k) => rangeText(size, counts[k], tile[k])).join(", ")}]`;
}

function caption({ sizes, counts, tiles }, name) {
  const parts = counts.map((count, k) => (count > 1 ? `dimension ${k} (${sizes[k]}) in ${count}` : ""))
    .filter(Boolean);
  const copies = tiles.length ? tiles[0][1].length : 0;
  const how = parts.length ? parts.join(", ") : "not divided";
  return `${name}: ${how}${copies > 1 ? `; each part on ${copies} devices` : ""}`;
}

function sheet({ sizes, counts }, list, rowDimension, columnDimension, key) {
  const rows = rowDimension === null ? 1 : counts[rowDimension];
  const columns = columnDimension === null ? 1 : counts[columnDimension];
  const left = 72;
  const top = key ? 34 : 18;
  const cells = list.slice(0, MOST_TILES).map(([tile, devices]) => {
    const row = rowDimension === null ? 0 : tile[rowDimension];
    const column = columnDimension === null ? 0 : tile[columnDimension];
    const width = WIDTH / columns;
    const height = Math.min(HEIGHT, Math.max(rows * 20, 64)) / rows;
    const x = left + column * width;
    const y = top + row * height;
    const text = deviceText(devices);
    return svg("g", {}, svg("rect", { x, y, width, height, class: (row + column) % 2
      ? "tile other-tile" : "tile" }),
    svg("title", {}, `${sliceText({ sizes, counts }, tile)} on ${text}`),
    height >= 11 && width > 16 ? svg("text", { x: x + width / 2, y: y + height / 2 + 4,
      "text-anchor": "middle" }, short(text, Math.floor(width / 6.5))) : null);
  });
  const height = top + Math.min(HEIGHT, Math.max(rows * 20, 64)) + 6;
  return svg("svg", { viewBox: `0 0 ${left + WIDTH + 6} ${height}`, width: left + WIDTH + 6, height,
    role: "img", "aria-label": list.slice(0, 64).map(([tile, devices]) =>
      `${sliceText({ sizes, counts }, tile)} on ${deviceText(devices)}`).join("; ") },
  key ? svg("text", { x: left, y: 11, class: "faint" }, key) : null,
  columnDimension === null ? null : svg("text", { x: left, y: top - 6, class: "faint" },
    `dimension ${columnDimension} of ${sizes[columnDimension]} \u2192`),
  rowDimension === null ? null : svg("text", { x: left - 8, y: top + 12, class: "faint",
    "text-anchor": "end" }, `dim. ${rowDimension} \u2193`), cells);
}

export function rangeText(size, count, tile) {
  if (count === 1) return ":";
  const length = Math.ceil(size / count);
  return `${Math.min(size, tile * length)}:${Math.min(size, (tile + 1) * length)}`;
}

// Device ids as ranges: 0-3, 8.
export function deviceText(devices) {
  if (!devices.length) return "every device";
  const parts = [];
  for (let k = 0; k < devices.length; k += 1) {
    let last = k;
    while (last + 1 < devices.length && devices[last + 1] === devices[last] + 1) last += 1;
    parts.push(last > k + 1 ? `${devices[k]}-${devices[last]}` : devices.slice(k, last + 1).join(", "));
    k = last;
  }
  return parts.join(", ");
}

function short(text, most) {
  return text.length > most ? `${text.slice(0, Math.max(1, most - 1))}\u2026` : text;
}
