// Bytes held over two schedules, each from its begin to its end: base dashed, head solid.

import { onColors } from "./colors.js";
import { cumulated } from "./data.js";
import { el } from "./dom.js";
import { formatBytes } from "./format.js";
import { byteTicks } from "./stack_layout.js";
import { svg } from "./svg.js";

const HEIGHT = 260;
const LEFT = 78;
const BOTTOM = 8;

export class OverlayChart {
  // Sides: { base, head } with length, largest, instants (differences), held; or null.
  constructor(space, { label, onpoint }) {
    this.sides = ["base", "head"].filter((name) => space[name]).map((name) =>
      ({ name, ...space[name], at: cumulated(space[name].instants) }));
    this.most = Math.max(1, ...this.sides.map((one) => one.largest)) * 1.05;
    this.label = label;
    this.onpoint = onpoint;
    this.share = null;
    this.element = el("div", { class: "overlay", tabindex: "0" });
    this.element.chart = this;
    this.element.addEventListener("pointermove", (event) => {
      const area = this.element.getBoundingClientRect();
      this.point((event.clientX - area.left - LEFT) / (this.width - LEFT));
    });
    this.element.addEventListener("keydown", (event) => this.pressed(event));
  }

  start() {
    this.draw();
    const watcher = new ResizeObserver(() => {
      if (!this.element.isConnected) watcher.disconnect();
      else if (this.element.clientWidth !== this.width) this.draw();
    });
    watcher.observe(this.element);
    onColors(() => { if (this.element.isConnected) this.draw(); });
    this.toPeak();
  }

  pressed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const step = (event.shiftKey ? 10 : 1) / 500;
    const to = { ArrowLeft: this.share - step, ArrowRight: this.share + step, Home: 0, End: 1 };
    if (event.key in to) this.point(to[event.key]);
    else if (event.key === "p" || event.key === "P") this.toPeak();
    else return;
    event.preventDefault();
  }

  toPeak() {
    const side = this.sides[this.sides.length - 1];
    const k = side.held.indexOf(side.largest);
    this.point(side.at[k] / side.length, k);
  }

  // Point at a share of both schedules; of the last side at a stored instant, if one is given.
  point(share, exact) {
    this.share = Math.max(0, Math.min(1, share));
    const found = {};
    for (const side of this.sides) {
      const isLast = side === this.sides[this.sides.length - 1];
      const k = isLast && exact !== undefined ? exact
        : nearest(side.at, this.share * side.length);
      found[side.name] = { k, instant: side.at[k], bytes: side.held[k] };
    }
    const x = LEFT + this.share * (this.width - LEFT);
    this.cursor.setAttribute("x1", x);
    this.cursor.setAttribute("x2", x);
    this.onpoint(found);
  }

  draw() {
    this.width = this.element.clientWidth || 800;
    const x = (side, k) => LEFT + (side.at[k] / side.length) * (this.width - LEFT);
    const y = (bytes) => HEIGHT - BOTTOM - (bytes / this.most) * (HEIGHT - BOTTOM - 14);
    const parts = [];
    for (const bytes of byteTicks(this.most)) {
      parts.push(svg("line", { x1: LEFT, x2: this.width, y1: y(bytes), y2: y(bytes), class: "grid" }),
        svg("text", { x: LEFT - 8, y: y(bytes) + 4, "text-anchor": "end", class: "faint" },
          formatBytes(bytes)));
    }
    for (const side of this.sides) {
      const points = [];
      for (let k = 0; k < side.held.length; k += 1) {
        const end = k + 1 < side.held.length ? x(side, k + 1) : this.width;
        points.push(`${x(side, k).toFixed(1)},${y(side.held[k]).toFixed(1)}`,
          `${end.toFixed(1)},${y(side.held[k]).toFixed(1)}`);
      }
      parts.push(svg("polyline", { points: points.join(" "), class: `series ${side.name}` }));
      const k = side.held.indexOf(side.largest);
      parts.push(svg("circle", { cx: x(side, k), cy: y(side.largest), r: 4, class: `peak ${side.name}` }));
    }
    this.cursor = svg("line", { x1: LEFT, x2: LEFT, y1: 8, y2: HEIGHT - BOTTOM, class: "cursor" });
    this.element.replaceChildren(svg("svg", { width: this.width, height: HEIGHT, role: "img",
      "aria-label": this.label }, parts, this.cursor));
    if (this.share !== null) this.point(this.share);
  }
}

function nearest(at, instant) {
  let low = 0;
  let high = at.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (at[middle] <= instant) low = middle; else high = middle - 1;
  }
  return low;
}
