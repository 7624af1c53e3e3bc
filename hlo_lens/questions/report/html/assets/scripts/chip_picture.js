// The devices of a mesh on the chips of TPU slices: a grid for each layer (z) and slice, and lines
// between devices that are next to each other along one axis of the mesh, its rings closed.

import { el, pictureTable, svg } from "dom";
import { formatBytes, plural } from "format";

const CELL = 34;
const GAP = 18;
const STEP = CELL + GAP;
const MARGIN = 26;
const EDGE = CELL / 2 + 9;
const MOST = 16;
const SHEETS = 8;

// Mesh: axes, devices and topology; axis: the one whose lines are drawn; bytes: of one run, by axis.
export function chipPicture(mesh, axis, bytes) {
  const { sizes, wraps, places, name } = mesh.topology;
  const steps = stepsAlong(mesh, axis);
  const near = steps.filter((one) => hops(places[one[0]], places[one[1]], sizes, wraps) <= 1);
  const chips = new Set(places.map((place) => place.slice(0, 4).join())).size;
  const one = chips < places.length ? "one chip or neighbouring chips" : "neighbouring chips";
  const sheets = [...new Set(places.map(sheetOf))].sort((one, other) => one - other);
  const drawn = sheets.slice(0, SHEETS).map((sheet) => oneSheet(mesh, sheet, steps, axis));
  const longest = Math.max(0, ...steps.map(([a, b]) => hops(places[a], places[b], sizes, wraps)));
  const wrapped = wraps.flatMap((one, k) => (one && sizes[k] > 1 ? ["xyz"[k]] : []));
  const text = [`${name}: ${plural(places.length, "device")}, ${wrapped.length
    ? `links wrap around along ${wrapped.join(", ")}` : "no links around the edges"}`];
  if (axis && steps.length) {
    const far = longest === Infinity ? ", others in another slice"
      : longest > 1 ? `, others up to ${longest} links apart` : "";
    text.push(`${axis}: ${formatBytes(bytes[axis] || 0)} in one run; ${near.length} of `
      + `${plural(steps.length, "pair")} of neighbours in the mesh are on ${one}${far}`);
  }
  const left = sheets.length - drawn.length;
  if (left > 0) text.push(`${plural(left, "more layer")} like these`);
  if (Math.max(sizes[0], sizes[1]) > MOST) text.push(`the first ${MOST} chips of each axis are drawn`);
  return el("figure", { class: "mesh" }, el("div", { class: "sheets" }, drawn),
    el("figcaption", {}, text.join(". ")),
    pictureTable("The chips as a table", ["device", "slice", "x", "y", "z", "core"].map((one) =>
      [one, "", true]), () => places.map((place, k) => [mesh.devices[k], ...place])));
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
export function stepsAlong(mesh, axis) {
  const k = mesh.axes.findIndex(([name]) => name === axis);
  if (k < 0 || mesh.axes[k][1] < 2) return [];
  const size = mesh.axes[k][1];
  const stride = mesh.axes.slice(k + 1).reduce((product, [, one]) => product * one, 1);
  const found = [];
  for (let place = 0; place < mesh.topology.places.length; place += 1) {
    const at = Math.floor(place / stride) % size;
    if (at + 1 < size) found.push([place, place + stride]);
    else if (size > 2) found.push([place, place - at * stride]);
  }
  return found;
}

function oneSheet(mesh, sheet, steps, axis) {
  const { sizes, wraps, places } = mesh.topology;
  const columns = Math.min(sizes[0], MOST);
  const rows = Math.min(sizes[1], MOST);
  const title = sheetTitle(sheet, mesh.topology);
  const top = MARGIN + (title ? 14 : 0);
  const width = 2 * MARGIN + columns * STEP - GAP;
  const height = top + MARGIN + rows * STEP - GAP;
  const center = ([, x, y]) => [MARGIN + x * STEP + CELL / 2, top + y * STEP + CELL / 2];
  const isShown = (place) => sheetOf(place) === sheet && place[1] < MOST && place[2] < MOST;
  const lines = steps.filter(([a, b]) => isShown(places[a]) && isShown(places[b]))
    .map(([a, b]) => stepLine(center(places[a]), center(places[b]),
      hops(places[a], places[b], sizes, wraps) === 1));
  const label = `${title ? `${title}: ` : ""}${columns} x ${rows} chips${axis
    ? `, lines of axis ${axis}` : ""}; ${boxTexts(mesh, isShown).map(([place, text]) =>
    `x ${place[1]} y ${place[2]}: ${text}`).join(", ")}`;
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img",
    "aria-label": label },
  title ? svg("text", { x: MARGIN, y: 11, class: "faint" }, title) : null,
  svg("text", { x: MARGIN, y: top - 14, class: "faint" }, "x \u2192"),
  svg("text", { x: 0, y: 0, class: "faint", transform: `translate(8 ${top}) rotate(90)` }, "y \u2192"),
  grid(columns, rows, top, wraps), lines, boxes(mesh, isShown, center));
}

function sheetTitle(sheet, { sizes, places }) {
  const slices = new Set(places.map(([slice]) => slice)).size;
  const parts = slices > 1 ? [`slice ${Math.floor(sheet / 1000)}`] : [];
  if (sizes[2] > 1) parts.push(`z ${sheet % 1000}`);
  return parts.join(", ");
}

// Links between neighbouring chips; links around the edges are short lines outwards.
function grid(columns, rows, top, wraps) {
  const made = [];
  const line = (x1, y1, x2, y2) => made.push(svg("line", { x1, y1, x2, y2, class: "link idle",
    "stroke-width": 1 }));
  const right = MARGIN + columns * STEP - GAP;
  const bottom = top + rows * STEP - GAP;
  for (let row = 0; row < rows; row += 1) {
    const y = top + row * STEP + CELL / 2;
    line(MARGIN - (wraps[0] && columns > 1 ? 10 : 0), y, right + (wraps[0] && columns > 1 ? 10 : 0), y);
  }
  for (let column = 0; column < columns; column += 1) {
    const x = MARGIN + column * STEP + CELL / 2;
    line(x, top - (wraps[1] && rows > 1 ? 10 : 0), x, bottom + (wraps[1] && rows > 1 ? 10 : 0));
  }
  return made;
}

// A step to the next chip; over a link around the edge it is two short lines outwards.
function stepLine([x1, y1], [x2, y2], isLink) {
  const [dx, dy] = [x2 - x1, y2 - y1];
  if (Math.abs(dx) + Math.abs(dy) <= STEP) {
    return svg("line", { x1, y1, x2, y2, class: "link", "stroke-width": 5 });
  }
  if (isLink) {
    const [outX, outY] = [Math.sign(dx) * EDGE, Math.sign(dy) * EDGE];
    return svg("path", { d: `M${x1} ${y1}L${x1 - outX} ${y1 - outY}M${x2} ${y2}L${x2 + outX} ${y2 + outY}`,
      class: "link around", "stroke-width": 5 });
  }
  const length = Math.hypot(dx, dy);
  const [bendX, bendY] = [(x1 + x2) / 2 - (dy / length) * 16, (y1 + y2) / 2 + (dx / length) * 16];
  return svg("path", { d: `M${x1} ${y1}Q${bendX} ${bendY} ${x2} ${y2}`, class: "link far",
    fill: "none", "stroke-width": 2.5, "stroke-dasharray": "5 3" });
}

// Chips that are drawn, each with the numbers of its devices.
function boxTexts(mesh, isShown) {
  const chips = new Map();
  mesh.topology.places.forEach((place, k) => {
    if (!isShown(place)) return;
    const key = `${place[1]},${place[2]}`;
    if (!chips.has(key)) chips.set(key, [place, []]);
    chips.get(key)[1].push([place[4], mesh.devices[k]]);
  });
  return [...chips.values()].map(([place, cores]) => [place,
    cores.sort((one, other) => one[0] - other[0]).map(([, device]) => device).join(" ")]);
}

function boxes(mesh, isShown, center) {
  return boxTexts(mesh, isShown).flatMap(([place, text]) => {
    const [x, y] = center(place);
    return [svg("rect", { x: x - CELL / 2, y: y - CELL / 2, width: CELL, height: CELL, rx: 4,
      class: "device" }),
    svg("text", { x, y: y + 4, "text-anchor": "middle", "font-size": text.length > 5 ? 8 : null },
      text)];
  });
}
