// Places of values in an allocation over the schedule: a box for each value.

import { css, onColors, roleFill } from "./colors.js";
import { el, pictureTable, replace } from "./dom.js";
import { formatBytes, formatCount, plural } from "./format.js";
import { byteTicks } from "./stack_layout.js";

const HEIGHT = 420;
const LEFT = 74;
const AXIS = 20;
const TICK_WIDTH = 90;
const TABLE_ROWS = 400;

export class HeapPicture {
  constructor(model, found, { at, isFiltered, chosen, allocation, onallocation, onchoose }) {
    Object.assign(this, { model, found, at, isFiltered, chosen, onallocation, onchoose });
    this.allocation = this.firstAllocation(allocation);
    this.canvas = el("canvas", { class: "heap", role: "img", tabindex: "0" });
    this.readout = el("p", { class: "readout", "aria-live": "polite" });
    this.numbers = el("div", {}, this.table());
    this.element = el("div", {}, this.picker(), this.canvas, this.readout, this.numbers);
  }

  // That of the selected value, else the one that was shown, else the largest.
  firstAllocation(shown) {
    const { allocations } = this.model.space;
    const wanted = this.chosen === undefined ? [shown]
      : [this.model.values.allocation[this.chosen], shown];
    for (const index of wanted) {
      const known = allocations.find(([number]) => number === index);
      if (known) return known;
    }
    return [...allocations].sort((one, other) => other[1] - one[1])[0] || null;
  }

  picker() {
    const { allocations } = this.model.space;
    if (!allocations.length) return el("p", { class: "note" }, "There are no temporaries here.");
    const sorted = [...allocations].sort((one, other) => other[1] - one[1]);
    const select = el("select", { id: "allocation" }, sorted.map(([index, size]) =>
      el("option", { value: index, selected: this.allocation[0] === index },
        `allocation ${index}, ${formatBytes(size)}`)));
    select.addEventListener("change", () => {
      this.allocation = allocations.find(([index]) => String(index) === select.value);
      this.onallocation(this.allocation[0]);
      replace(this.numbers, this.table());
      this.draw();
    });
    return el("div", { class: "tools" }, el("label", { for: "allocation" }, "temporaries in "),
      select);
  }

  start() {
    if (!this.allocation) { this.canvas.remove(); return; }
    this.draw();
    this.canvas.addEventListener("pointermove", (event) => this.describe(this.under(event)));
    this.canvas.addEventListener("pointerleave", () => this.describe(this.chosen));
    this.canvas.addEventListener("click", (event) => {
      const k = this.under(event);
      if (k !== undefined) this.onchoose(k);
    });
    this.canvas.addEventListener("keydown", (event) => this.pressed(event));
    onColors(() => { if (this.canvas.isConnected) this.draw(); });
    this.describe(this.chosen);
  }

  boxes() {
    const { allocation } = this.model.values;
    const found = [];
    for (let k = 0; k < this.model.count; k += 1) {
      if (allocation[k] === this.allocation[0] && !this.model.isHeld(k)) found.push(k);
    }
    return found;
  }

  scaleX(instant) {
    return LEFT + (instant / this.model.length) * (this.width - LEFT);
  }

  scaleY(offset) {
    return HEIGHT - (offset / this.allocation[1]) * HEIGHT;
  }

  draw() {
    const ratio = devicePixelRatio;
    const { canvas, model } = this;
    this.width = canvas.parentElement.clientWidth || 800;
    canvas.width = this.width * ratio;
    canvas.height = (HEIGHT + AXIS) * ratio;
    this.fills = new Map();
    this.shown = this.boxes();
    canvas.setAttribute("aria-label", `${plural(this.shown.length, "value")} in allocation `
      + `${this.allocation[0]} of ${formatBytes(this.allocation[1])} over the schedule`);
    const ctx = canvas.getContext("2d");
    ctx.scale(ratio, ratio);
    ctx.fillStyle = css("--panel");
    ctx.fillRect(LEFT, 0, this.width - LEFT, HEIGHT);
    this.drawAxis(ctx);
    for (const k of this.shown) this.drawBox(ctx, k);
    if (this.chosen !== undefined) this.outline(ctx, this.chosen);
    ctx.fillStyle = css("--accent");
    ctx.fillRect(this.scaleX(model.instantOf(this.at)), 0, 1.5, HEIGHT);
  }

  drawAxis(ctx) {
    ctx.font = `11px ${css("--sans")}`;
    ctx.textAlign = "right";
    ctx.textBaseline = "middle";
    for (const offset of byteTicks(this.allocation[1])) {
      const y = Math.min(HEIGHT - 7, Math.max(7, this.scaleY(offset)));
      ctx.fillStyle = css("--faint");
      ctx.fillText(formatBytes(offset), LEFT - 8, y);
      ctx.fillStyle = css("--grid");
      ctx.fillRect(LEFT, this.scaleY(offset), this.width - LEFT, 1);
    }
    ctx.fillStyle = css("--faint");
    ctx.fillText("instant", LEFT - 12, HEIGHT + AXIS / 2 + 1);
    ctx.textAlign = "left";
    let free = LEFT;
    for (const instant of instantTicks(this.model.length, (this.width - LEFT) / TICK_WIDTH)) {
      if (this.scaleX(instant) < free) continue;
      ctx.fillText(formatCount(instant), this.scaleX(instant), HEIGHT + AXIS / 2 + 1);
      free = this.scaleX(instant) + TICK_WIDTH / 2;
    }
  }

  fill(ctx, role) {
    if (!this.fills.has(role)) this.fills.set(role, roleFill(ctx, role, devicePixelRatio));
    return this.fills.get(role);
  }

  corners(k) {
    const { start, end, offset, size } = this.model.values;
    const x = this.scaleX(start[k]);
    const y = this.scaleY(offset[k] + size[k]);
    return [x, y, Math.max(1, this.scaleX(end[k] + 1) - x), Math.max(1, this.scaleY(offset[k]) - y)];
  }

  drawBox(ctx, k) {
    const [x, y, width, height] = this.corners(k);
    ctx.globalAlpha = this.isFiltered && !this.found.has(k) ? 0.15 : 1;
    ctx.fillStyle = this.fill(ctx, this.model.role(k));
    ctx.fillRect(x, y, width, height);
    ctx.strokeStyle = css("--background");
    ctx.lineWidth = 0.75;
    if (width > 2 && height > 2) ctx.strokeRect(x, y, width, height);
    if (width > 70 && height > 14) {
      ctx.fillStyle = css("--on-role");
      ctx.textAlign = "left";
      ctx.textBaseline = "middle";
      ctx.font = `11px ${css("--sans")}`;
      ctx.save();
      ctx.beginPath();
      ctx.rect(x, y, width - 4, height);
      ctx.clip();
      ctx.fillText(`${this.model.name(k)} ${formatBytes(this.model.values.size[k])}`, x + 4,
        y + height / 2);
      ctx.restore();
    }
    ctx.globalAlpha = 1;
  }

  outline(ctx, k) {
    if (!this.shown.includes(k)) return;
    const [x, y, width, height] = this.corners(k);
    ctx.strokeStyle = css("--text");
    ctx.lineWidth = 2.5;
    ctx.strokeRect(x, y, width, height);
  }

  under(event) {
    const box = this.canvas.getBoundingClientRect();
    const x = event.clientX - box.left;
    const y = event.clientY - box.top;
    return this.shown.findLast((k) => {
      const [left, top, width, height] = this.corners(k);
      return left <= x && x <= left + width && top <= y && y <= top + height;
    });
  }

  table() {
    if (!this.allocation) return null;
    return pictureTable("The picture as a table: the largest values of the allocation",
      [["offset", "first byte in the allocation", true], ["size", "", true], ["value", "", false],
        ["role", "", false], ["lives", "first and last instant", true]], () => this.tableRows());
  }

  tableRows() {
    const { offset, size, start, end } = this.model.values;
    const sorted = [...this.boxes()].sort((one, other) => size[other] - size[one] || one - other);
    const rows = sorted.slice(0, TABLE_ROWS).map((k) => [formatCount(offset[k]), formatBytes(size[k]),
      this.model.name(k), this.model.role(k), `${formatCount(start[k])} to ${formatCount(end[k])}`]);
    const rest = sorted.length - rows.length;
    return rest > 0 ? [...rows, ["", "", `[${formatCount(rest)} others]`, "", ""]] : rows;
  }

  // Arrow keys go through the values by the instant at which they begin.
  pressed(event) {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step || !this.shown.length) return;
    event.preventDefault();
    const { start } = this.model.values;
    const sorted = [...this.shown].sort((one, other) => start[one] - start[other] || one - other);
    const place = sorted.indexOf(this.chosen);
    this.onchoose(sorted[(place + step + sorted.length) % sorted.length]);
  }

  describe(k) {
    if (k === undefined) {
      replace(this.readout, "Point at a box, or use the arrow keys.");
      return;
    }
    const { values } = this.model;
    replace(this.readout, el("b", {}, formatBytes(values.size[k])), " ",
      el("code", {}, this.model.name(k)), `, ${this.model.role(k)}, from instant `
      + `${formatCount(values.start[k])} to ${formatCount(values.end[k])}, at offset `
      + `${formatCount(values.offset[k])}. `, this.model.text("op_name", k) || "");
  }
}

// Round instants for the axis, at most a number of them.
function instantTicks(length, most) {
  let step = 1;
  while (length / step > Math.max(2, most)) step = nextRound(step);
  return Array.from({ length: Math.floor((length - 1) / step) + 1 }, (_, k) => k * step);
}

// 1, 2, 5, 10, 20, 50, ...
function nextRound(step) {
  return String(step)[0] === "2" ? step * 2.5 : step * 2;
}
