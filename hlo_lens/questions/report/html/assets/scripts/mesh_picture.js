// The mesh of devices as a grid: the larger of the last two axes to the right, the other downwards,
// further ones as sheets; lines along the axes, as thick as the bytes that are sent over them.

import { el, svg } from "dom";
import { formatBytes, plural } from "format";

const CELL = 32;
const GAP = 16;
const MOST = 16;
const SHEETS = 4;

// Bytes: axis name to bytes of one run; chosen: the axis that is marked.
export function meshPicture(mesh, bytes, chosen) {
  const axes = mesh.axes.filter(([, size]) => size > 1);
  const count = axes.reduce((product, [, size]) => product * size, 1);
  const isTurned = axes.length > 1 && axes[axes.length - 2][1] > axes[axes.length - 1][1];
  const [rowAxis, columnAxis] = axes.length === 1 ? [null, axes[0]]
    : isTurned ? axes.slice(-2).reverse() : axes.slice(-2);
  const outer = axes.slice(0, -2);
  const rows = rowAxis ? rowAxis[1] : 1;
  const columns = columnAxis ? columnAxis[1] : 1;
  const sheets = outer.reduce((product, [, size]) => product * size, 1);
  const devices = mesh.devices || null;
  const drawn = [];
  for (let sheet = 0; sheet < Math.min(sheets, SHEETS); sheet += 1) {
    drawn.push(oneSheet({ rows, columns, rowAxis, columnAxis, bytes, chosen, devices, isTurned,
      first: sheet * rows * columns, title: sheetTitle(outer, sheet) }));
  }
  const cut = [rows > MOST || columns > MOST ? `the first ${MOST} of each axis are drawn` : "",
    sheets > SHEETS ? `${plural(sheets - SHEETS, "more sheet")} like these` : ""].filter(Boolean);
  return el("figure", { class: "mesh" }, drawn, el("figcaption", {},
    `${plural(count, "device")}: ${mesh.axes.map(([name, size]) => `${name}=${size}`).join(" x ")}`,
    cut.length ? `; ${cut.join(", ")}` : ""));
}

function sheetTitle(outer, sheet) {
  const parts = [];
  let rest = sheet;
  for (const [name, size] of [...outer].reverse()) {
    parts.unshift(`${name} ${rest % size}`);
    rest = Math.floor(rest / size);
  }
  return parts.join(", ");
}

function oneSheet({ rows, columns, rowAxis, columnAxis, bytes, chosen, devices, isTurned, first, title }) {
  const shownRows = Math.min(rows, MOST);
  const shownColumns = Math.min(columns, MOST);
  const step = CELL + GAP;
  const left = rowAxis ? 20 : 4;
  const top = (title ? 16 : 0) + 18;
  const width = left + shownColumns * step;
  const height = top + shownRows * step - GAP + 4;
  const most = Math.max(1, ...Object.values(bytes));
  const thick = (name) => (bytes[name] ? 1.5 + 6 * Math.sqrt(bytes[name] / most) : 1);
  const line = (axis, x1, y1, x2, y2) => svg("line", { x1, y1, x2, y2,
    class: `link ${axis === chosen ? "chosen" : ""} ${bytes[axis] ? "" : "idle"}`,
    "stroke-width": thick(axis) });
  const lines = [];
  const boxes = [];
  for (let row = 0; row < shownRows; row += 1) {
    for (let column = 0; column < shownColumns; column += 1) {
      const x = left + column * step;
      const y = top + row * step;
      if (column + 1 < shownColumns) {
        lines.push(line(columnAxis[0], x + CELL, y + CELL / 2, x + step, y + CELL / 2));
      }
      if (row + 1 < shownRows) {
        lines.push(line(rowAxis[0], x + CELL / 2, y + CELL, x + CELL / 2, y + step));
      }
      const place = first + (isTurned ? column * rows + row : row * columns + column);
      boxes.push(svg("rect", { x, y, width: CELL, height: CELL, rx: 4, class: "device" }),
        svg("text", { x: x + CELL / 2, y: y + CELL / 2 + 4, "text-anchor": "middle" },
          devices ? devices[place] : place));
    }
  }
  const label = [columnAxis, rowAxis].filter(Boolean).map(([name, size]) =>
    `${name}: ${size} devices, ${formatBytes(bytes[name] || 0)} in one run`).join("; ");
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img",
    "aria-label": `${title ? `${title}; ` : ""}${label}` },
  title ? svg("text", { x: left, y: 11, class: "faint" }, title) : null,
  columnAxis ? svg("text", { x: left, y: top - 6, class: "faint" }, `${columnAxis[0]} \u2192`) : null,
  rowAxis ? svg("text", { x: 0, y: 0, class: "faint",
    transform: `translate(12 ${top}) rotate(90)` }, `${rowAxis[0]} \u2192`) : null, lines, boxes);
}
