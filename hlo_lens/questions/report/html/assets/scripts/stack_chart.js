// Bytes held at each instant, stacked by role, with the limit of the device and the peak.

import { css, roleColor, roleFill } from "colors";
import { formatBytes } from "format";
import { SchedulePicture } from "schedule_picture";

const HEIGHT = 330;
const LIMIT_SHOWN = 1.6; // a limit above so many peaks is named above the picture
const PEAK = 3; // pixels of the peak at least, which may be one instant of many thousands
const LABEL = 16;

export class StackChart extends SchedulePicture {
  constructor(model, loops, selection, { label, limit, onpoint, onchoose }) {
    super({ kind: "stack", label, length: model.length, height: HEIGHT, loops, selection });
    Object.assign(this, { model, limit, onpoint, onchoose, marked: null });
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
    this.drawInstant(ctx, this.instant() + 0.5, css("--accent"));
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

  // The name of a layer where it has most room.
  drawLabel(ctx, name, spans) {
    const width = ctx.measureText(name).width + 12;
    let best = null;
    for (let first = 0; first < spans.length;) {
      let { low, high } = spans[first];
      let end = first;
      while (end < spans.length && Math.min(low, spans[end].low) - Math.max(high, spans[end].high) >= LABEL) {
        low = Math.min(low, spans[end].low);
        high = Math.max(high, spans[end].high);
        end += 1;
      }
      if (end > first) {
        const from = spans[first].x;
        const room = spans[end - 1].x + spans[end - 1].width - from;
        const score = room * (low - high);
        if (room >= width && (!best || score > best.score)) best = { x: from + room / 2, y: (low + high) / 2, score };
      }
      first = Math.max(end, first + 1);
    }
    if (!best) return;
    ctx.textAlign = "center";
    ctx.fillStyle = roleColor(name);
    ctx.fillRect(best.x - width / 2, best.y - 8, width, LABEL);
    ctx.fillStyle = css("--on-role");
    ctx.fillText(name, best.x, best.y);
  }

  // Sizes, the limit and the peak.
  marks(ctx) {
    this.drawBytes(ctx, this.most, this.y);
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

  // Of the instants under one pixel the largest, so that a click on the peak is the peak.
  placeAt(x) {
    const { model } = this;
    const first = model.placeOf(Math.max(0, Math.floor(this.instantAt(x - 1))));
    const last = model.placeOf(Math.floor(this.instantAt(x + 1)));
    if (last - first < 3) return this.bounded(model.placeOf(Math.max(0, Math.floor(this.instantAt(x)))));
    let best = first;
    for (let k = first; k <= last; k += 1) if (model.held[k] > model.held[best]) best = k;
    return this.bounded(best);
  }

  bounded(place) {
    return Math.max(0, Math.min(this.model.places - 1, place));
  }

  pointed(x) {
    this.onpoint(x === null || x < this.left ? this.chosen : this.placeAt(x));
  }

  clicked(x) {
    if (x >= this.left) this.onchoose(this.placeAt(x));
  }

  moved(step) {
    this.go(this.bounded(this.chosen + step));
  }

  went(key) {
    this.go({ Home: 0, End: this.model.places - 1 }[key] ?? this.model.peakPlace);
  }

  go(place) {
    this.onchoose(place);
    this.reveal(this.model.instantOf(place));
  }
}
