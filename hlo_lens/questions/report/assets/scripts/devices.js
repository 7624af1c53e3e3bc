// The devices of a mesh as grids: on the chips of TPU slices, or else by the axes of the mesh, with lines
// between devices that are next to each other along an axis.

import { el, pictureTable, svg } from "dom";
import { formatBytes, plural } from "format";

const CELL = 34;
const STEP = 52;
const EDGE = 26;
const MOST = 16; // devices of a side that are drawn
const SHEETS = 8;

// Axis: the one that is chosen, or null; bytes: of one run by axis. On chips the lines are of that axis or
// of the one that sends most; without places all axes have lines, as thick as their bytes.
export function meshPicture(mesh, axis, bytes) {
  const single = mesh.axes.map(([name]) => name).filter((name) => bytes.has(name));
  const most = single.sort((one, other) => bytes.get(other) - bytes.get(one))[0];
  const { sizes, wraps, places } = mesh.topology || placesByAxes(mesh);
  const drawnAxes = mesh.topology ? [single.includes(axis) ? axis : most] : mesh.axes.map(([name]) => name);
  const steps = drawnAxes.flatMap((name) => stepsAlong(mesh, name).map(([a, b]) =>
    ({ name, a: places[a], b: places[b], apart: hops(places[a], places[b], sizes, wraps) })));
  const sheets = [...new Set(places.map(sheetOf))].sort((one, other) => one - other);
  const [columns, rows] = sizes.map((size) => Math.min(size, MOST));
  const width = (name) => (mesh.topology ? 5 : bytes.get(name) ? 1.5 + 6 * Math.sqrt(bytes.get(name) / bytes.get(most)) : 1);
  const drawn = sheets.slice(0, SHEETS).map((number) => {
    const isShown = (place) => sheetOf(place) === number && place[1] < MOST && place[2] < MOST;
    const cores = new Map();
    places.forEach((place, k) => {
      const key = place.slice(1, 3).join();
      if (isShown(place)) cores.set(key, [...(cores.get(key) || []), [place[4], mesh.devices ? mesh.devices[k] : k]]);
    });
    const boxes = [...cores].map(([key, all]) => [...key.split(",").map(Number),
      all.sort(([one], [other]) => one - other).map(([, device]) => device).join(" ")]);
    return sheet(columns, rows, boxes, sheetTitle(number, sheets, mesh.topology), (center) => steps.filter(({ a, b }) => isShown(a) && isShown(b)).map(({ name, a, b, apart }) => stepLine(center(a.slice(1, 3)),
        center(b.slice(1, 3)), apart === 1, width(name), name === axis && !mesh.topology ? "chosen" : bytes.get(name) ? "" : "idle")));
  });
  const texts = mesh.topology ? chipTexts(mesh, drawnAxes[0], bytes, steps)
    : ["Devices are in the order of the mesh: the dump does not have their places in hardware"];
  return el("figure", { class: "mesh" }, el("div", { class: "sheets" }, drawn), el("figcaption", {},
    [`${plural(places.length, "device")}: ${mesh.axes.map(([name, size]) => `${name}=${size}`).join(" x ")}`,
      ...single.map((name) => `${name}: ${formatBytes(bytes.get(name))} in one run`), ...texts,
      sheets.length > SHEETS ? `${plural(sheets.length - SHEETS, "more layer")} like these` : "",
      Math.max(sizes[0], sizes[1]) > MOST ? `the first ${MOST} of each side are drawn` : ""].filter(Boolean).join(". ")),
  pictureTable("The devices as a table", ["device", "slice", "x", "y", "z", "core"].map((one) => [one, "", true]),
    () => places.map((place, k) => [mesh.devices ? mesh.devices[k] : k, ...place])));
}

// Places of devices by the last two axes with more than one device; others are layers.
function placesByAxes({ axes }) {
  const total = axes.reduce((product, [, size]) => product * size, 1);
  const [across = 1, down = 1] = axes.map(([, size]) => size).filter((size) => size > 1).reverse();
  const places = Array.from({ length: total }, (_, k) => [0, k % across, Math.floor(k / across) % down,
    Math.floor(k / (across * down)), 0]);
  return { sizes: [across, down, total / (across * down)], wraps: [false, false, false], places };
}

function sheetOf([slice, , , z]) {
  return slice * 1000 + z;
}

function sheetTitle(number, sheets, topology) {
  if (sheets.length < 2) return "";
  return topology ? `slice ${Math.floor(number / 1000)}, z ${number % 1000}` : `layer ${number}`;
}

function chipTexts({ topology, devices }, axis, bytes, steps) {
  const { name, sizes, wraps, places } = topology;
  const wrapped = ["x", "y", "z"].filter((_, k) => wraps[k] && sizes[k] > 1);
  const longest = Math.max(0, ...steps.map(({ apart }) => apart));
  const chips = new Set(places.map((place) => place.slice(0, 4).join())).size;
  const far = longest === Infinity ? ", others in another slice" : longest > 1 ? `, others up to ${longest} links apart` : "";
  return [`${name}: ${wrapped.length ? `links wrap around along ${wrapped.join(", ")}` : "no links around the edges"}`,
    steps.length ? `Lines: ${axis}; ${steps.filter(({ apart }) => apart <= 1).length} of ${plural(steps.length, "pair")}`
      + ` of neighbours in the mesh are on ${chips < devices.length ? "one chip or " : ""}neighbouring chips${far}` : ""];
}

// One grid. Boxes: [x, y, text]; lines: SVG elements made by lines(center).
function sheet(columns, rows, boxes, title, lines) {
  const top = EDGE + (title ? 14 : 0);
  const width = 2 * EDGE + columns * STEP - 18;
  const height = top + EDGE + rows * STEP - 18;
  const center = ([x, y]) => [EDGE + x * STEP + CELL / 2, top + y * STEP + CELL / 2];
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img",
    "aria-label": `${title} ${columns} x ${rows}; ${boxes.map(([x, y, text]) => `x ${x} y ${y}: ${text}`).join(", ")}` },
  title ? svg("text", { x: EDGE, y: 11, class: "faint" }, title) : null, lines(center), boxes.map(([x, y, text]) => {
    const [cx, cy] = center([x, y]);
    return [svg("rect", { x: cx - CELL / 2, y: cy - CELL / 2, width: CELL, height: CELL, rx: 4, class: "device" }),
      svg("text", { x: cx, y: cy + 4, "text-anchor": "middle", "font-size": String(text).length > 5 ? 8 : null }, text)];
  }));
}

// Links between two devices: 0 on one chip, Infinity between slices.
function hops(one, other, sizes, wraps) {
  if (one[0] !== other[0]) return Infinity;
  return [0, 1, 2].reduce((sum, k) => {
    const apart = Math.abs(one[k + 1] - other[k + 1]);
    return sum + (wraps[k] ? Math.min(apart, sizes[k] - apart) : apart);
  }, 0);
}

// Pairs of places in the mesh that are next to each other along an axis; on chips its ring is closed.
function stepsAlong(mesh, axis) {
  const k = mesh.axes.findIndex(([name]) => name === axis);
  if (k < 0 || mesh.axes[k][1] < 2) return [];
  const size = mesh.axes[k][1];
  const stride = mesh.axes.slice(k + 1).reduce((product, [, one]) => product * one, 1);
  const total = mesh.axes.reduce((product, [, one]) => product * one, 1);
  return Array.from({ length: total }, (_, place) => {
    const at = Math.floor(place / stride) % size;
    if (at + 1 < size) return [place, place + stride];
    return size > 2 && mesh.topology ? [place, place - at * stride] : null;
  }).filter(Boolean);
}

function link([x1, y1], [x2, y2], kind, width) {
  return svg("line", { x1, y1, x2, y2, class: `link ${kind}`, "stroke-width": width });
}

// A step to the next chip; over a link around the edge it is two short lines outwards.
function stepLine([x1, y1], [x2, y2], isLink, thickness, kind) {
  const [dx, dy] = [x2 - x1, y2 - y1];
  if (Math.abs(dx) + Math.abs(dy) <= STEP) return link([x1, y1], [x2, y2], kind, thickness);
  const path = (d, name, width, dash) => svg("path", { d, class: `link ${name}`, fill: "none", "stroke-width": width,
    "stroke-dasharray": dash });
  const [outX, outY] = [Math.sign(dx) * EDGE, Math.sign(dy) * EDGE];
  if (isLink) return path(`M${x1} ${y1}L${x1 - outX} ${y1 - outY}M${x2} ${y2}L${x2 + outX} ${y2 + outY}`, "around", thickness);
  const length = Math.hypot(dx, dy);
  const [bendX, bendY] = [(x1 + x2) / 2 - (dy / length) * 16, (y1 + y2) / 2 + (dx / length) * 16];
  return path(`M${x1} ${y1}Q${bendX} ${bendY} ${x2} ${y2}`, "far", 2.5, "5 3");
}
