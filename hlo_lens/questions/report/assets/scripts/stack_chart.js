// Bytes held at each instant on a canvas, stacked by role, with the limit of the device and the peak:
// instants from left to right, loops as brackets above. The part that is shown is in the address
// (#z=first-last).

import { css, onColors, roleColor, roleFill } from "colors";
import { el } from "dom";
import { formatBytes, formatCount } from "format";

const HEIGHT = 330;
const LEFT = 78;
const LIMIT_SHOWN = 1.6; // a limit above so many peaks is named above the picture
const PEAK = 3; // pixels of the peak at least, which may be one instant of many thousands
const LABEL = 16;
const BRACKET = 16;
const DEEPEST = 3;
const DRAG = 4;
const TICK = 90;
const LEAST = 8; // instants that are shown at least

// The first and last instant that pictures of a schedule show.
export function shownRange(selection, length) {
  const text = selection.get("zoom");
  const [first, last] = (/^\d+-\d+$/.test(text) ? text : `0-${length}`).split("-").map(Number);
  const low = Math.max(0, Math.min(first, length - LEAST));
  return [low, Math.min(length, Math.max(last, low + LEAST))];
}

export class StackChart {
  // Loops: { name, start, end, trips, depth }.
  constructor(model, loops, selection, { label, limit, onpoint, onchoose }) {
    Object.assign(this, { model, selection, limit, onpoint, onchoose, marked: null, left: LEFT, length: model.length });
    this.loops = loops.filter((one) => one.end > one.start && one.depth < DEEPEST);
    this.top = this.loops.reduce((most, one) => Math.max(most, one.depth + 1), 0) * BRACKET + 4;
    this.bottom = this.top + HEIGHT;
    this.canvas = el("canvas", { class: "stack", tabindex: "0", role: "img", "aria-label": label });
    this.element = el("div", { class: "chart" }, this.canvas);
    this.element.chart = this;
  }

  get range() {
    return shownRange(this.selection, this.length);
  }

  show(first, last) {
    const span = Math.min(this.length, Math.max(LEAST, last - first));
    const low = Math.round(Math.max(0, Math.min(this.length - span, first)));
    const high = Math.round(low + span);
    this.selection.set({ zoom: low === 0 && high >= this.length ? undefined : `${low}-${high}` });
  }

  all() {
    this.show(0, this.length);
  }

  // Zoom around the chosen instant, which pictures know: below 1 in, above 1 out.
  zoom(factor) {
    const [first, last] = this.range;
    const at = this.instant();
    const center = at >= first && at <= last ? at : (first + last) / 2;
    this.show(center - (center - first) * factor, center + (last - center) * factor);
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
    this.selection.subscribe(draw);
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
    ctx.save();
    ctx.beginPath();
    ctx.rect(this.left, 0, this.width - this.left - 8, this.bottom);
    ctx.clip();
    this.paint(ctx);
    ctx.restore();
    this.marks(ctx);
    if (this.dragged) {
      ctx.fillStyle = css("--veil");
      ctx.fillRect(this.dragged[0], this.top, this.dragged[1] - this.dragged[0], this.bottom - this.top);
    }
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

  get chosen() {
    const instant = this.selection.get("instant");
    return instant === undefined ? this.model.peakPlace : this.model.placeOf(instant);
  }

  instant() {
    return this.model.instantOf(this.chosen);
  }

  // The roles that are drawn: all, or the one that is chosen in the key.
  get layers() {
    const role = this.selection.get("role");
    const only = this.model.roles.filter((one) => one.name === role);
    return only.length ? only : this.model.roles;
  }

  // Pixels from left to right with the place drawn there: of several under one pixel the largest.
  runs(sums) {
    const { model } = this;
    const [first, last] = this.drawn;
    const least = Math.floor(this.left);
    const best = new Int32Array(Math.max(0, Math.ceil(this.width - 8) - least)).fill(-1);
    for (let k = model.placeOf(first); k < model.places && model.instantOf(k) < last; k += 1) {
      const from = Math.max(0, Math.floor(this.x(model.instantOf(k))) - least);
      const to = Math.max(from + 1, Math.floor(this.x(model.instantOf(k + 1))) - least);
      for (let px = from; px < Math.min(to, best.length); px += 1) {
        if (best[px] < 0 || sums[k] > sums[best[px]]) best[px] = k;
      }
    }
    const { peakPlace } = model;
    const at = Math.floor(this.x(model.instantOf(peakPlace))) - least;
    if (sums === model.held) {
      for (let px = at - 1; px < at - 1 + PEAK; px += 1) if (px >= 0 && px < best.length) best[px] = peakPlace;
    }
    const found = [];
    best.forEach((k, px) => {
      if (found.length && found.at(-1).k === k) found.at(-1).width += 1;
      else if (k >= 0) found.push({ x: least + px, width: 1, k });
    });
    return found;
  }

  paint(ctx) {
    const { layers, model } = this;
    const sums = layers.length === 1 ? layers[0].bytes : model.held;
    const top = sums === model.held ? model.space.peak.bytes : sums.reduce((a, b) => Math.max(a, b), 0);
    this.isLimitShown = Boolean(this.limit) && sums === model.held && this.limit < top * LIMIT_SHOWN;
    this.most = Math.max(1, top, this.isLimitShown ? this.limit : 0) * 1.08;
    this.y = (bytes) => this.bottom - (bytes / this.most) * (this.bottom - this.top);
    const runs = this.runs(sums);
    this.shownRuns = runs;
    const base = new Float64Array(runs.length);
    for (const one of layers) {
      const spans = runs.map(({ x, width, k }, place) => {
        const low = this.y(base[place]);
        return { x, width, low, high: this.y(base[place] += one.bytes[k]) };
      });
      const top = new Path2D();
      for (const { x, width, high } of spans) { top.lineTo(x, high); top.lineTo(x + width, high); }
      const layer = new Path2D(top);
      for (const { x, width, low } of [...spans].reverse()) { layer.lineTo(x + width, low); layer.lineTo(x, low); }
      ctx.fillStyle = roleFill(ctx, one.name);
      ctx.fill(layer);
      ctx.strokeStyle = css("--background"); // a thin line between layers
      ctx.lineWidth = 0.5;
      ctx.stroke(top);
      this.drawLabel(ctx, one.name, spans);
    }
    this.drawFound(ctx, runs);
    ctx.fillStyle = css("--accent");
    ctx.fillRect(this.x(this.instant() + 0.5) - 0.75, this.top, 1.5, this.bottom - this.top);
    if (this.marked) {
      const from = this.x(this.marked[0]);
      ctx.fillStyle = css("--accent");
      ctx.fillRect(from, this.bottom - 6, Math.max(3, this.x(this.marked[1] + 1) - from), 6);
    }
  }

  // Bytes of the values that the search below leaves, as a line.
  drawFound(ctx, runs) {
    const words = (this.selection.get("q.alive") || "").toLowerCase();
    if (words !== this.words) {
      this.words = words;
      this.found = words ? this.model.seriesOf(this.model.placesWhere((k) => this.model.hasWords(k, words))) : null;
    }
    if (!this.found) return;
    ctx.beginPath();
    for (const { x, width, k } of runs) {
      ctx.lineTo(x, this.y(this.found[k]));
      ctx.lineTo(x + width, this.y(this.found[k]));
    }
    for (const [color, width] of [["--background", 5], ["--accent", 2.5]]) {
      ctx.strokeStyle = css(color);
      ctx.lineWidth = width;
      ctx.stroke();
    }
  }

  // The name of a layer where it is highest, if it is as wide there.
  drawLabel(ctx, name, spans) {
    const width = ctx.measureText(name).width + 12;
    const highest = spans.reduce((best, one) => (one.low - one.high > best.low - best.high ? one : best));
    const x = Math.max(this.left + width / 2, Math.min(this.width - 8 - width / 2, highest.x + highest.width / 2));
    const under = spans.filter((one) => one.x < x + width / 2 && one.x + one.width > x - width / 2);
    const [low, high] = [Math.min(...under.map((one) => one.low)), Math.max(...under.map((one) => one.high))];
    if (low - high < LABEL) return;
    ctx.textAlign = "center";
    ctx.fillStyle = roleColor(name);
    ctx.fillRect(x - width / 2, (low + high) / 2 - 8, width, LABEL);
    ctx.fillStyle = css("--on-role");
    ctx.fillText(name, x, (low + high) / 2);
  }

  // Sizes, the limit and the peak.
  marks(ctx) {
    let step = 1;
    while (this.most / step > 6) step *= 2;
    ctx.textAlign = "right";
    for (let bytes = 0; bytes <= this.most; bytes += step) {
      ctx.fillStyle = css("--faint");
      ctx.fillText(formatBytes(bytes), this.left - 8, Math.max(this.top + 6, Math.min(this.bottom - 5, this.y(bytes))));
      ctx.fillStyle = css("--grid");
      ctx.fillRect(this.left, this.y(bytes), this.width - this.left - 8, 1);
    }
    ctx.font = `600 11px ${css("--sans")}`;
    if (this.limit && !this.selection.get("role")) {
      ctx.fillStyle = css("--error");
      const y = this.isLimitShown ? this.y(this.limit) : this.top;
      if (this.isLimitShown) ctx.fillRect(this.left, y - 1, this.width - this.left - 8, 2);
      ctx.textAlign = "right";
      ctx.fillText(this.isLimitShown ? `limit ${formatBytes(this.limit)}`
        : `limit ${formatBytes(this.limit)}, above the picture \u2191`, this.width - 12, y + 9);
    }
    const { peakPlace, space } = this.model;
    const x = this.x(this.model.instantOf(peakPlace) + 0.5);
    if (x < this.left || x > this.width - 8) return;
    const y = this.y(this.selection.get("role") ? this.layers[0].bytes[peakPlace] : space.peak.bytes);
    ctx.fillStyle = css("--text");
    ctx.beginPath();
    ctx.moveTo(x, y - 1);
    ctx.lineTo(x - 5, y - 9);
    ctx.lineTo(x + 5, y - 9);
    ctx.fill();
    const isRight = x > this.width - 170;
    ctx.textAlign = isRight ? "right" : "left";
    ctx.fillText(`peak ${this.about}${formatBytes(space.peak.bytes)}`, x + (isRight ? -8 : 8), Math.max(this.top + 6, y - 6));
  }

  // The place that is drawn at a pixel, so that a click on the peak is the peak.
  placeAt(x) {
    const run = this.shownRuns.find((one) => x < one.x + one.width);
    return (run || this.shownRuns.at(-1)).k;
  }

  pointed(x) {
    this.onpoint(x === null || x < this.left ? this.chosen : this.placeAt(x));
  }

  clicked(x) {
    if (x >= this.left) this.onchoose(this.placeAt(x));
  }

  moved(step) {
    this.go(Math.max(0, Math.min(this.model.places - 1, this.chosen + step)));
  }

  went(key) {
    this.go({ Home: 0, End: this.model.places - 1 }[key] ?? this.model.peakPlace);
  }

  go(place) {
    this.onchoose(place);
    this.reveal(this.model.instantOf(place));
  }
}
