// Collectives over the schedule: a lane for each kind and axis, a bar from start to end for each;
// solid where work covers the transfer, hatched where not all of it. Drawn on a canvas.

import { css, onColors } from "./colors.js";
import { el } from "./dom.js";

const LANE = 22;
const LANE_WITH_LABEL = 34; // on narrow screens, where labels are above the bars
const BAR = 14;
const BRACKET = 15;
const DEEPEST = 3;
const AXIS = 20;

export class LaneChart {
  // Items: { lane, start, end, coverage: "covered" | "exposed" | "unknown", record }.
  constructor(items, lanes, { length, loops, label, onpoint, onchoose }) {
    Object.assign(this, { items, lanes, length, onpoint, onchoose });
    this.loops = loops.filter((one) => one.depth < DEEPEST);
    this.depth = this.loops.reduce((most, one) => Math.max(most, one.depth + 1), 0);
    this.range = [0, length];
    this.chosen = null;
    this.instant = null;
    this.canvas = el("canvas", { class: "lanes", tabindex: "0", role: "img", "aria-label": label });
    this.element = el("div", { class: "lane-chart" }, this.canvas);
    this.element.chart = this;
    this.ordered = [...items].sort((one, other) => one.start - other.start || one.lane - other.lane);
  }

  get lane() {
    return this.isNarrow ? LANE_WITH_LABEL : LANE;
  }

  get height() {
    return this.depth * BRACKET + this.lanes.length * this.lane + AXIS;
  }

  start() {
    this.draw();
    const watcher = new ResizeObserver(() => {
      if (!this.element.isConnected) watcher.disconnect();
      else if (this.element.clientWidth !== this.width) this.draw();
    });
    watcher.observe(this.element);
    onColors(() => { if (this.element.isConnected) this.draw(); });
    this.canvas.addEventListener("pointermove", (event) => this.onpoint(this.under(event)));
    this.canvas.addEventListener("pointerleave", () => this.onpoint(null));
    this.canvas.addEventListener("click", (event) => {
      const found = this.under(event);
      if (found) this.onchoose(found);
    });
    this.canvas.addEventListener("keydown", (event) => this.pressed(event));
  }

  pressed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const steps = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity };
    if (event.key === "+" || event.key === "=") this.zoom(0.5);
    else if (event.key === "-") this.zoom(2);
    else if (event.key === "0") this.show(0, this.length);
    else if (event.key in steps) this.move(steps[event.key]);
    else return;
    event.preventDefault();
  }

  move(step) {
    const at = this.ordered.findIndex((one) => one.record === this.chosen);
    const next = Math.max(0, Math.min(this.ordered.length - 1, at < 0 ? 0 : at + step));
    const one = this.ordered[next];
    if (one.start < this.range[0] || one.start > this.range[1]) {
      const half = (this.range[1] - this.range[0]) / 2;
      this.show(one.start - half, one.start + half);
    }
    this.onchoose(one);
  }

  zoom(factor) {
    const item = this.items.find((one) => one.record === this.chosen);
    const middle = item ? (item.start + item.end) / 2 : (this.range[0] + this.range[1]) / 2;
    const half = Math.max(4, ((this.range[1] - this.range[0]) / 2) * factor);
    this.show(middle - half, middle + half);
  }

  show(first, last) {
    const span = Math.min(this.length, last - first);
    const low = Math.max(0, Math.min(this.length - span, first));
    this.range = [low, low + span];
    this.draw();
  }

  mark(record, instant) {
    if (record === this.chosen && instant === this.instant) return;
    this.chosen = record;
    this.instant = instant;
    this.draw();
  }

  x(instant) {
    const [first, last] = this.range;
    return this.left + ((instant - first) / (last - first)) * (this.width - this.left - 8);
  }

  y(lane) {
    return this.depth * BRACKET + (lane + 1) * this.lane - BAR - (LANE - BAR) / 2;
  }

  box(one) {
    const x = this.x(one.start);
    return [x, this.y(one.lane), Math.max(3, this.x(one.end + 1) - x), BAR];
  }

  under(event) {
    const area = this.canvas.getBoundingClientRect();
    const px = event.clientX - area.left;
    const py = event.clientY - area.top;
    const lane = Math.floor((py - this.depth * BRACKET) / this.lane);
    let best = null;
    let least = 8;
    for (const one of this.items) {
      if (one.lane !== lane) continue;
      const [x, , width] = this.box(one);
      const away = px < x ? x - px : Math.max(0, px - x - width);
      if (away < least) { best = one; least = away; }
    }
    return best;
  }

  draw() {
    const ratio = devicePixelRatio;
    this.width = this.element.clientWidth || 800;
    this.isNarrow = this.width < 560;
    this.left = this.isNarrow ? 8 : 190;
    this.canvas.width = this.width * ratio;
    this.canvas.height = this.height * ratio;
    this.canvas.style.height = `${this.height}px`;
    const ctx = this.canvas.getContext("2d");
    ctx.scale(ratio, ratio);
    ctx.font = `11px ${css("--sans")}`;
    ctx.textBaseline = "middle";
    this.drawLoops(ctx);
    this.drawLanes(ctx);
    const hatch = hatching(ctx, ratio);
    ctx.save();
    ctx.beginPath();
    ctx.rect(this.left, 0, this.width - this.left, this.height);
    ctx.clip();
    for (const one of this.items) this.drawBar(ctx, one, hatch);
    const marked = this.items.find((one) => one.record === this.chosen);
    if (marked) {
      const [x, y, width, height] = this.box(marked);
      ctx.strokeStyle = css("--text");
      ctx.lineWidth = 2;
      ctx.strokeRect(x - 2, y - 2, width + 4, height + 4);
    }
    if (this.instant !== null && this.instant !== undefined) {
      ctx.fillStyle = css("--accent");
      ctx.fillRect(this.x(this.instant), this.depth * BRACKET, 1, this.lanes.length * this.lane);
    }
    ctx.restore();
  }

  drawLoops(ctx) {
    for (const one of this.loops) {
      const x1 = Math.max(this.left, this.x(one.start));
      const x2 = Math.min(this.width - 8, this.x(one.end + 1));
      if (x2 <= x1) continue;
      const y = one.depth * BRACKET;
      ctx.fillStyle = css("--band");
      ctx.fillRect(x1, y, x2 - x1, this.depth * BRACKET - y + this.lanes.length * this.lane);
      ctx.fillStyle = css("--faint");
      ctx.fillRect(x1, y + BRACKET - 2, x2 - x1, 1);
      const text = `x${one.trips === null ? "?" : one.trips}`;
      if (x2 - x1 > 22) ctx.fillText(text, x1 + 3, y + BRACKET / 2 - 1);
    }
  }

  drawLanes(ctx) {
    for (let lane = 0; lane < this.lanes.length; lane += 1) {
      ctx.fillStyle = css("--grid");
      ctx.fillRect(this.left, this.y(lane) + BAR / 2, this.width - this.left - 8, 1);
    }
    this.drawLabels(ctx);
    ctx.fillStyle = css("--faint");
    const y = this.height - AXIS / 2;
    const [first, last] = this.range;
    ctx.textAlign = "left";
    ctx.fillText(`instant ${Math.round(first)}`, this.left, y);
    ctx.textAlign = "right";
    ctx.fillText(String(Math.round(last)), this.width - 8, y);
    ctx.textAlign = "left";
  }

  drawLabels(ctx) {
    this.lanes.forEach((label, lane) => {
      const y = this.y(lane) + (this.isNarrow ? -8 : BAR / 2);
      ctx.textAlign = this.isNarrow ? "left" : "right";
      const x = this.isNarrow ? this.left : this.left - 10;
      ctx.fillStyle = css("--text");
      ctx.fillText(fitted(ctx, label, this.isNarrow ? this.width : this.left - 14), x, y);
    });
    ctx.textAlign = "left";
  }

  drawBar(ctx, one, hatch) {
    const [x, y, width, height] = this.box(one);
    if (x > this.width || x + width < this.left) return;
    ctx.globalAlpha = one.isFaint ? 0.18 : 1;
    ctx.fillStyle = one.coverage === "covered" ? css("--covered")
      : one.coverage === "exposed" ? css("--exposed") : css("--overview");
    ctx.fillRect(x, y, width, height);
    if (one.coverage === "exposed") {
      ctx.fillStyle = hatch;
      ctx.fillRect(x, y, width, height);
    }
    if (width > 6) {
      ctx.strokeStyle = css("--background");
      ctx.lineWidth = 1;
      ctx.strokeRect(x + 0.5, y + 0.5, width - 1, height - 1);
    }
    ctx.globalAlpha = 1;
  }
}

function hatching(ctx, ratio) {
  const size = Math.round(6 * ratio);
  const tile = document.createElement("canvas");
  tile.width = tile.height = size;
  const draw = tile.getContext("2d");
  draw.strokeStyle = css("--background");
  draw.lineWidth = Math.max(1, ratio);
  draw.beginPath();
  for (const shift of [-size, 0, size]) {
    draw.moveTo(shift, size);
    draw.lineTo(shift + size, 0);
  }
  draw.stroke();
  return ctx.createPattern(tile, "repeat");
}

function fitted(ctx, text, width) {
  if (ctx.measureText(text).width <= width) return text;
  let cut = text;
  while (cut.length > 1 && ctx.measureText(`${cut}\u2026`).width > width) cut = cut.slice(0, -1);
  return `${cut}\u2026`;
}
