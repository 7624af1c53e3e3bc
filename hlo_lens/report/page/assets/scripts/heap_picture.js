// Places of values in an allocation over the schedule: a box for each value.

import { css, onColors, roleColor } from "./colors.js";
import { el, replace } from "./dom.js";
import { formatBytes, formatCount, plural } from "./format.js";

const HEIGHT = 420;
const LEFT = 74;

export class HeapPicture {
  constructor(model, found, { at, isFiltered, chosen, onchoose }) {
    Object.assign(this, { model, found, at, isFiltered, chosen, onchoose });
    this.allocation = this.firstAllocation();
    this.canvas = el("canvas", { class: "heap", role: "img", tabindex: "0" });
    this.readout = el("p", { class: "readout", "aria-live": "polite" });
    this.element = el("div", {}, this.picker(), this.canvas, this.readout);
  }

  firstAllocation() {
    const { allocations } = this.model.space;
    if (this.chosen !== undefined) {
      const index = this.model.values.allocation[this.chosen];
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
    canvas.height = (HEIGHT + 4) * ratio;
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
    for (let k = 0; k <= 4; k += 1) {
      const offset = (this.allocation[1] * k) / 4;
      const y = Math.min(HEIGHT - 7, Math.max(7, this.scaleY(offset)));
      ctx.fillStyle = css("--faint");
      ctx.fillText(formatBytes(Math.round(offset)), LEFT - 8, y);
      ctx.fillStyle = css("--grid");
      ctx.fillRect(LEFT, this.scaleY(offset), this.width - LEFT, 1);
    }
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
    ctx.fillStyle = roleColor(this.model.role(k));
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
