// Devices as grids: by the axes of a mesh, or on the chips of TPU slices, with lines along axes; and one
// value over the devices, a cell for each part.

import { el, pictureTable, svg } from "dom";
import { formatBytes, plural } from "format";

const CELL = 34;
const STEP = 52;
const EDGE = 26;
const MOST = 16;
const SHEETS = 8;
const MOST_TILES = 256;

// One grid. Boxes: [x, y, text]; lines: SVG elements made by line(center); across, down: names of its sides.
function sheet({ title, across, down, columns, rows, boxes, lines, label }) {
  const top = EDGE + (title ? 14 : 0);
  const width = 2 * EDGE + columns * STEP - 18;
  const height = top + EDGE + rows * STEP - 18;
  const center = ([x, y]) => [EDGE + x * STEP + CELL / 2, top + y * STEP + CELL / 2];
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img",
    "aria-label": `${title ? `${title}: ` : ""}${label}` },
  title ? svg("text", { x: EDGE, y: 11, class: "faint" }, title) : null,
  across ? svg("text", { x: EDGE, y: top - 12, class: "faint" }, `${across} \u2192`) : null,
  down ? svg("text", { x: 0, y: 0, class: "faint", transform: `translate(8 ${top}) rotate(90)` }, `${down} \u2192`) : null,
  lines(center), boxes.map(([x, y, text]) => {
    const [cx, cy] = center([x, y]);
    return [svg("rect", { x: cx - CELL / 2, y: cy - CELL / 2, width: CELL, height: CELL, rx: 4, class: "device" }),
      svg("text", { x: cx, y: cy + 4, "text-anchor": "middle", "font-size": String(text).length > 5 ? 8 : null }, text)];
  }));
}

function link([x1, y1], [x2, y2], kind, width) {
  return svg("line", { x1, y1, x2, y2, class: `link ${kind}`, "stroke-width": width });
}

// The mesh by its axes: the larger of the last two to the right, the other downwards, further ones as
// sheets; lines are as thick as the bytes of one run over their axis. Chosen: the axis that is marked.
export function meshPicture(mesh, bytes, chosen) {
  const axes = mesh.axes.filter(([, size]) => size > 1);
  const product = (some) => some.reduce((all, [, size]) => all * size, 1);
  const isTurned = axes.length > 1 && axes.at(-2)[1] > axes.at(-1)[1];
  const [down, across] = axes.length === 1 ? [null, axes[0]] : isTurned ? axes.slice(-2).reverse() : axes.slice(-2);
  const outer = axes.slice(0, -2);
  const [rows, columns] = [down, across].map((axis) => (axis ? axis[1] : 1));
  const [shownRows, shownColumns] = [rows, columns].map((count) => Math.min(count, MOST));
  const most = Math.max(1, ...Object.values(bytes));
  const line = (axis, from, to) => link(from, to, `${axis === chosen ? "chosen" : ""} ${bytes[axis] ? "" : "idle"}`,
    bytes[axis] ? 1.5 + 6 * Math.sqrt(bytes[axis] / most) : 1);
  const places = Array.from({ length: shownRows * shownColumns }, (_, k) => [k % shownColumns, Math.floor(k / shownColumns)]);
  const drawn = Array.from({ length: Math.min(product(outer), SHEETS) }, (_, number) => {
    let rest = number;
    const title = [...outer].reverse().map(([name, size]) => {
      const at = rest % size;
      rest = Math.floor(rest / size);
      return `${name} ${at}`;
    }).reverse().join(", ");
    return sheet({ title, across: across && across[0], down: down && down[0], columns: shownColumns, rows: shownRows,
      boxes: places.map(([x, y]) => {
        const place = number * rows * columns + (isTurned ? x * rows + y : y * columns + x);
        return [x, y, mesh.devices ? mesh.devices[place] : place];
      }),
      lines: (center) => places.flatMap(([x, y]) => [
        x + 1 < shownColumns ? line(across[0], center([x, y]), center([x + 1, y])) : null,
        y + 1 < shownRows ? line(down[0], center([x, y]), center([x, y + 1])) : null]),
      label: [across, down].filter(Boolean).map(([name, size]) =>
        `${name}: ${size} devices, ${formatBytes(bytes[name] || 0)} in one run`).join("; ") });
  });
  return figure(drawn, [`${plural(product(axes), "device")}: ${mesh.axes.map(([name, size]) => `${name}=${size}`).join(" x ")}`,
    Math.max(rows, columns) > MOST ? `the first ${MOST} of each axis are drawn` : "",
    product(outer) > SHEETS ? `${plural(product(outer) - SHEETS, "more sheet")} like these` : ""]);
}

function figure(drawn, texts, ...more) {
  return el("figure", { class: "mesh" }, el("div", { class: "sheets" }, drawn),
    el("figcaption", {}, texts.filter(Boolean).join(". ")), more);
}

// The devices on the chips: a grid for each layer (z) and slice, and lines between devices that are next
// to each other along one axis of the mesh, its rings closed.
export function chipPicture(mesh, axis, bytes) {
  const { sizes, wraps, places, name } = mesh.topology;
  const steps = stepsAlong(mesh, axis).map(([a, b]) => [places[a], places[b], hops(places[a], places[b], sizes, wraps)]);
  const sheets = [...new Set(places.map(sheetOf))].sort((one, other) => one - other);
  const slices = new Set(places.map(([slice]) => slice)).size;
  const longest = Math.max(0, ...steps.map(([, , apart]) => apart));
  const wrapped = ["x", "y", "z"].filter((_, k) => wraps[k] && sizes[k] > 1);
  const chips = new Set(places.map((place) => place.slice(0, 4).join())).size;
  const far = longest === Infinity ? ", others in another slice" : longest > 1 ? `, others up to ${longest} links apart` : "";
  const [columns, rows] = sizes.map((size) => Math.min(size, MOST));
  const drawn = sheets.slice(0, SHEETS).map((number) => {
    const isShown = (place) => sheetOf(place) === number && place[1] < MOST && place[2] < MOST;
    const cores = new Map();
    places.forEach((place, k) => {
      const key = place.slice(1, 3).join();
      if (isShown(place)) cores.set(key, [...(cores.get(key) || []), [place[4], mesh.devices[k]]]);
    });
    const boxes = [...cores].map(([key, all]) => [...key.split(",").map(Number),
      all.sort(([one], [other]) => one - other).map(([, device]) => device).join(" ")]);
    const title = [slices > 1 ? `slice ${Math.floor(number / 1000)}` : "", sizes[2] > 1 ? `z ${number % 1000}` : ""];
    return sheet({ title: title.filter(Boolean).join(", "), across: "x", down: "y", columns, rows, boxes,
      lines: (center) => [idle(columns, rows, wraps, center), steps.filter(([a, b]) => isShown(a) && isShown(b))
        .map(([a, b, apart]) => stepLine(center(a.slice(1, 3)), center(b.slice(1, 3)), apart === 1))],
      label: `${columns} x ${rows} chips${axis ? `, lines of axis ${axis}` : ""}; ${boxes.map(([x, y, text]) =>
        `x ${x} y ${y}: ${text}`).join(", ")}` });
  });
  return figure(drawn, [`${name}: ${plural(places.length, "device")}, ${wrapped.length
    ? `links wrap around along ${wrapped.join(", ")}` : "no links around the edges"}`,
  axis && steps.length ? `${axis}: ${formatBytes(bytes[axis] || 0)} in one run; ${steps.filter(([, , apart]) => apart <= 1).length}`
    + ` of ${plural(steps.length, "pair")} of neighbours in the mesh are on ${chips < places.length ? "one chip or " : ""}`
    + `neighbouring chips${far}` : "",
  sheets.length > SHEETS ? `${plural(sheets.length - SHEETS, "more layer")} like these` : "",
  Math.max(sizes[0], sizes[1]) > MOST ? `the first ${MOST} chips of each axis are drawn` : ""],
  pictureTable("The chips as a table", ["device", "slice", "x", "y", "z", "core"].map((one) => [one, "", true]),
    () => places.map((place, k) => [mesh.devices[k], ...place])));
}

function sheetOf([slice, , , z]) {
  return slice * 1000 + z;
}

// Links between two devices: 0 on one chip, Infinity between slices.
function hops(one, other, sizes, wraps) {
  if (one[0] !== other[0]) return Infinity;
  return [0, 1, 2].reduce((sum, k) => {
    const apart = Math.abs(one[k + 1] - other[k + 1]);
    return sum + (wraps[k] ? Math.min(apart, sizes[k] - apart) : apart);
  }, 0);
}

// Pairs of places in the mesh that are next to each other along an axis, its ring closed.
function stepsAlong(mesh, axis) {
  const k = mesh.axes.findIndex(([name]) => name === axis);
  if (k < 0 || mesh.axes[k][1] < 2) return [];
  const size = mesh.axes[k][1];
  const stride = mesh.axes.slice(k + 1).reduce((product, [, one]) => product * one, 1);
  return mesh.topology.places.flatMap((_, place) => {
    const at = Math.floor(place / stride) % size;
    if (at + 1 < size) return [[place, place + stride]];
    return size > 2 ? [[place, place - at * stride]] : [];
  });
}

// Links between neighbouring chips; links around the edges are short lines outwards.
function idle(columns, rows, wraps, center) {
  const made = [];
  const add = (from, to, isWrapped, [dx, dy]) => {
    const out = CELL / 2 + (isWrapped ? 10 : 0);
    made.push(link([from[0] - dx * out, from[1] - dy * out], [to[0] + dx * out, to[1] + dy * out], "idle", 1));
  };
  for (let y = 0; y < rows; y += 1) add(center([0, y]), center([columns - 1, y]), wraps[0] && columns > 1, [1, 0]);
  for (let x = 0; x < columns; x += 1) add(center([x, 0]), center([x, rows - 1]), wraps[1] && rows > 1, [0, 1]);
  return made;
}

// A step to the next chip; over a link around the edge it is two short lines outwards.
function stepLine([x1, y1], [x2, y2], isLink) {
  const [dx, dy] = [x2 - x1, y2 - y1];
  if (Math.abs(dx) + Math.abs(dy) <= STEP) return link([x1, y1], [x2, y2], "", 5);
  const path = (d, kind, width, dash) => svg("path", { d, class: `link ${kind}`, fill: "none", "stroke-width": width,
    "stroke-dasharray": dash });
  const [outX, outY] = [Math.sign(dx) * EDGE, Math.sign(dy) * EDGE];
  if (isLink) return path(`M${x1} ${y1}L${x1 - outX} ${y1 - outY}M${x2} ${y2}L${x2 + outX} ${y2 + outY}`, "around", 5);
  const length = Math.hypot(dx, dy);
  const [bendX, bendY] = [(x1 + x2) / 2 - (dy / length) * 16, (y1 + y2) / 2 + (dx / length) * 16];
  return path(`M${x1} ${y1}Q${bendX} ${bendY} ${x2} ${y2}`, "far", 2.5, "5 3");
}

// One value over the devices: a cell for each part with the devices that hold it. The last two divided
// dimensions are rows and columns, others sheets.
export function tilePicture({ sizes, counts, tiles }, name) {
  const divided = counts.flatMap((count, k) => (count > 1 ? [k] : []));
  const inner = divided.slice(-2);
  const [down, across] = inner.length === 1 && (inner[0] < sizes.length - 1 || sizes.length === 1)
    ? [inner[0], null] : [inner.at(-2) ?? null, inner.at(-1) ?? null];
  const range = (k, tile) => rangeText(sizes[k], counts[k], tile[k]);
  const slice = (tile) => `[${sizes.map((_, k) => range(k, tile)).join(", ")}]`;
  const sheets = new Map();
  for (const [tile, devices] of tiles.slice(0, MOST_TILES)) {
    const title = divided.slice(0, -2).map((k) => range(k, tile)).join(", ");
    if (!sheets.has(title)) sheets.set(title, new Map());
    const row = down === null ? "" : range(down, tile);
    if (!sheets.get(title).has(row)) sheets.get(title).set(row, []);
    sheets.get(title).get(row).push(el("td", { title: `${slice(tile)} on ${deviceText(devices)}` }, deviceText(devices)));
  }
  const parts = counts.flatMap((count, k) => (count > 1 ? [`dimension ${k} (${sizes[k]}) in ${count}`] : []));
  const copies = tiles.length ? tiles[0][1].length : 0;
  const sides = [across === null ? "" : `dimension ${across} to the right`, down === null ? "" : `dimension ${down} downwards`];
  return el("figure", { class: "tiles" }, [...sheets].slice(0, SHEETS).map(([title, rows]) =>
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `parts of ${name} ${title}` },
      el("table", { class: "tile-grid" }, title ? el("caption", {}, title) : null, el("tbody", {},
        [...rows].map(([row, cells]) => el("tr", {}, el("th", { scope: "row" }, row), cells)))))),
  el("figcaption", {}, [`${name}: ${parts.join(", ") || "not divided"}`, ...sides,
    copies > 1 ? `each part on ${copies} devices` : "", sheets.size > SHEETS
      ? `${plural(sheets.size - SHEETS, "more sheet")} like these` : ""].filter(Boolean).join("; ")),
  pictureTable("The parts as a table", [["part", "first and last index of each dimension", false],
    ["devices", "", false]], () => tiles.map(([tile, holders]) => [slice(tile), deviceText(holders)])));
}

function rangeText(size, count, tile) {
  if (count === 1) return ":";
  const length = Math.ceil(size / count);
  return `${Math.min(size, tile * length)}:${Math.min(size, (tile + 1) * length)}`;
}

// Device ids as ranges: 0-3, 8.
function deviceText(devices) {
  if (!devices.length) return "every device";
  const runs = [];
  for (const device of devices) {
    if (runs.length && runs.at(-1).at(-1) + 1 === device) runs.at(-1).push(device);
    else runs.push([device]);
  }
  return runs.map((run) => (run.length > 2 ? `${run[0]}-${run.at(-1)}` : run.join(", "))).join(", ");
}
