// A picture over the schedule on a canvas: instants from left to right, loops as brackets above.
// Pictures of one schedule show the same part of it, which is in the address (#z=first-last).

import { css, onColors } from "colors";
import { el } from "dom";
import { formatBytes, formatCount } from "format";

const BRACKET = 16;
const DEEPEST = 3;
const DRAG = 4;
const TICK = 90;
const LEAST = 8; // instants that are shown at least

export class SchedulePicture {
  // Loops: { name, start, end, trips, depth }; selection: null for a picture with a part of its own.
  constructor({ kind, label, length, height, loops = [], selection = null, left = 78 }) {
    Object.assign(this, { length, left, selection });
    this.loops = loops.filter((one) => one.end > one.start && one.depth < DEEPEST);
    this.top = this.loops.reduce((most, one) => Math.max(most, one.depth + 1), 0) * BRACKET + 4;
    this.bottom = this.top + height;
    this.canvas = el("canvas", { class: kind, tabindex: "0", role: "img", "aria-label": label });
    this.element = el("div", { class: "chart" }, this.canvas);
    this.element.chart = this;
  }

  get range() {
    const text = this.selection ? this.selection.get("zoom") : this.shown;
    const [first, last] = (/^\d+-\d+$/.test(text) ? text : `0-${this.length}`).split("-").map(Number);
    const low = Math.max(0, Math.min(first, this.length - LEAST));
    return [low, Math.min(this.length, Math.max(last, low + LEAST))];
  }

  show(first, last) {
    const span = Math.min(this.length, Math.max(LEAST, last - first));
    const low = Math.round(Math.max(0, Math.min(this.length - span, first)));
    const high = Math.round(low + span);
    const zoom = low === 0 && high >= this.length ? undefined : `${low}-${high}`;
    if (this.selection) this.selection.set({ zoom });
    else { this.shown = zoom; this.draw(); }
  }

  all() {
    this.show(0, this.length);
  }

  // Zoom around an instant: below 1 in, above 1 out.
  zoom(factor, center = this.center()) {
    const [first, last] = this.range;
    this.show(center - (center - first) * factor, center + (last - center) * factor);
  }

  // The instant that a zoom keeps in place.
  center() {
    const [first, last] = this.range;
    const at = this.instant();
    return at >= first && at <= last ? at : (first + last) / 2;
  }

  // The instant that is chosen; pictures say which.
  instant() {
    return this.length / 2;
  }

  // Show an instant that is outside the part shown.
  reveal(instant) {
    const [first, last] = this.range;
    const half = (last - first) / 2;
    if (instant < first || instant > last) this.show(instant - half, instant + half);
  }

  // Places on the canvas, as it was last drawn.
  x(instant) {
    const [first, last] = this.drawn;
    return this.left + ((instant - first) / (last - first)) * (this.width - this.left - 8);
  }

  instantAt(x) {
    const [first, last] = this.drawn;
    return first + ((x - this.left) / (this.width - this.left - 8)) * (last - first);
  }

  start() {
    this.draw();
    let width = this.element.clientWidth;
    const watcher = new ResizeObserver(() => {
      if (!this.element.isConnected) watcher.disconnect();
      else if (this.element.clientWidth !== width) { width = this.element.clientWidth; this.draw(); }
    });
    watcher.observe(this.element);
    let isAsked = false; // several changes before the next frame are drawn once
    const draw = () => {
      if (!isAsked) requestAnimationFrame(() => { isAsked = false; if (this.element.isConnected) this.draw(); });
      isAsked = true;
      return this.element.isConnected;
    };
    onColors(draw);
    if (this.selection) this.selection.subscribe(draw);
    this.listen();
  }

  listen() {
    const { canvas } = this;
    let from = null;
    canvas.addEventListener("pointerdown", (event) => {
      from = event.offsetX;
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      this.dragged = from !== null && Math.abs(event.offsetX - from) > DRAG
        ? [Math.min(from, event.offsetX), Math.max(from, event.offsetX)] : null;
      if (from !== null) this.draw();
      this.pointed(event.offsetX, event.offsetY);
    });
    canvas.addEventListener("pointerup", (event) => {
      const part = this.dragged;
      this.dragged = from = null;
      if (part) this.show(...part.map((x) => this.instantAt(x)));
      else this.clicked(event.offsetX, event.offsetY);
    });
    canvas.addEventListener("pointerleave", () => this.pointed(null));
    canvas.addEventListener("dblclick", () => this.all());
    canvas.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (event.key === "+" || event.key === "=") this.zoom(0.5);
      else if (event.key === "-") this.zoom(2);
      else if (event.key === "0") this.all();
      else if (step) this.moved(event.shiftKey ? 10 * step : step);
      else if (["Home", "End", "p", "P"].includes(event.key)) this.went(event.key);
      else return;
      event.preventDefault();
    });
  }

  went(key) {
    this.moved(key === "End" ? Infinity : -Infinity);
  }

  draw() {
    const ratio = devicePixelRatio;
    this.drawn = this.range;
    this.width = this.element.clientWidth || 800;
    const height = this.bottom + 20;
    this.canvas.width = this.width * ratio;
    this.canvas.height = height * ratio;
    this.canvas.style.height = `${height}px`;
    const ctx = this.canvas.getContext("2d");
    ctx.scale(ratio, ratio);
    ctx.font = `11px ${css("--sans")}`;
    ctx.textBaseline = "middle";
    this.drawInstants(ctx);
    this.drawLoops(ctx);
    this.clipped(ctx, () => this.paint(ctx));
    if (this.marks) this.marks(ctx);
    if (this.dragged) {
      ctx.fillStyle = css("--veil");
      ctx.fillRect(this.dragged[0], this.top, this.dragged[1] - this.dragged[0], this.bottom - this.top);
    }
  }

  clipped(ctx, paint) {
    ctx.save();
    ctx.beginPath();
    ctx.rect(this.left, 0, this.width - this.left - 8, this.bottom);
    ctx.clip();
    paint();
    ctx.restore();
  }

  drawInstants(ctx) {
    const [first, last] = this.range;
    let step = 1;
    while ((last - first) / step > Math.max(2, (this.width - this.left) / TICK)) step *= 10;
    for (const part of [5, 2]) {
      if (step % part === 0 && (last - first) / (step / part) <= (this.width - this.left) / TICK) step /= part;
    }
    ctx.fillStyle = css("--faint");
    ctx.textAlign = "right";
    ctx.fillText("instant", this.left - 12, this.bottom + 11);
    ctx.textAlign = "center";
    for (let t = Math.ceil(first / step) * step; t <= last; t += step) {
      if (this.x(t) < this.width - 20) ctx.fillText(formatCount(t), Math.max(this.left + 4, this.x(t)), this.bottom + 11);
    }
  }

  drawLoops(ctx) {
    ctx.textAlign = "left";
    for (const one of this.loops) {
      const from = Math.max(this.left, this.x(one.start));
      const to = Math.min(this.width - 8, this.x(one.end + 1));
      if (to - from < 3) continue;
      const y = one.depth * BRACKET;
      ctx.fillStyle = css("--band");
      if (one.depth === 0) ctx.fillRect(from, y + BRACKET, to - from, this.bottom - y - BRACKET);
      ctx.fillStyle = css("--faint");
      ctx.fillRect(from, y + BRACKET - 2, to - from, 1);
      const runs = `x${one.trips === null ? "?" : formatCount(one.trips)}`;
      const text = [`${one.name} ${runs}`, runs].find((words) => ctx.measureText(words).width < to - from - 6);
      if (text) ctx.fillText(text, from + 3, y + BRACKET / 2 - 1);
    }
  }

  // Sizes on the left, with lines; y: height of a size.
  drawBytes(ctx, most, y) {
    let step = 1;
    while (most / step > 6) step *= 2;
    ctx.textAlign = "right";
    for (let bytes = 0; bytes <= most; bytes += step) {
      ctx.fillStyle = css("--faint");
      ctx.fillText(formatBytes(bytes), this.left - 8, Math.max(this.top + 6, Math.min(this.bottom - 5, y(bytes))));
      ctx.fillStyle = css("--grid");
      ctx.fillRect(this.left, y(bytes), this.width - this.left - 8, 1);
    }
    ctx.textAlign = "left";
  }

  drawInstant(ctx, instant, color) {
    ctx.fillStyle = color;
    ctx.fillRect(this.x(instant) - 0.75, this.top, 1.5, this.bottom - this.top);
  }
}
