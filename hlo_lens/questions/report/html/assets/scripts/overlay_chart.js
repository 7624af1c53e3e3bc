// Bytes held over two schedules, each from its begin to its end: base dashed, head solid.

import { css } from "colors";
import { cumulated } from "data";
import { SchedulePicture } from "schedule_picture";

const HEIGHT = 280;
const PARTS = 10_000; // of both schedules, which have different lengths

export class OverlayChart extends SchedulePicture {
  // Sides: { base, head } with length, largest, instants (differences), held; or null.
  constructor(space, { label, onpoint }) {
    super({ kind: "overlay", label, length: PARTS, height: HEIGHT });
    this.sides = ["base", "head"].filter((name) => space[name]).map((name) =>
      ({ name, ...space[name], at: cumulated(space[name].instants) }));
    this.most = Math.max(1, ...this.sides.map((one) => one.largest)) * 1.06;
    Object.assign(this, { onpoint, only: null });
    this.toPeak();
  }

  drawInstants() {} // the schedules have different ones

  instant() {
    return this.part;
  }

  y(bytes) {
    return this.bottom - (bytes / this.most) * HEIGHT;
  }

  paint(ctx) {
    for (const side of this.sides.filter((one) => !this.only || one.name === this.only)) {
      const isBase = side.name === "base";
      ctx.strokeStyle = css(isBase ? "--faint" : "--accent");
      ctx.fillStyle = ctx.strokeStyle;
      ctx.lineWidth = isBase ? 1.25 : 1.75;
      ctx.setLineDash(isBase ? [5, 3] : []);
      ctx.beginPath();
      side.held.forEach((bytes, k) => {
        ctx.lineTo(this.x(this.partOf(side, k)), this.y(bytes));
        ctx.lineTo(this.x(k + 1 < side.held.length ? this.partOf(side, k + 1) : PARTS), this.y(bytes));
      });
      ctx.stroke();
      ctx.beginPath();
      ctx.arc(this.x(this.partOf(side, side.held.indexOf(side.largest))), this.y(side.largest), 4, 0, 7);
      ctx.fill();
    }
    this.drawInstant(ctx, this.part, css("--text"));
  }

  marks(ctx) {
    this.drawBytes(ctx, this.most, (bytes) => this.y(bytes));
  }

  partOf(side, k) {
    return (side.at[k] / side.length) * PARTS;
  }

  // Go to a part of both schedules, and report the instants there.
  go(part) {
    this.part = Math.max(0, Math.min(PARTS, part));
    this.draw();
    this.onpoint(Object.fromEntries(this.sides.map((side) => {
      const next = side.at.findIndex((_, k) => this.partOf(side, k) > this.part + 0.5);
      const k = next < 0 ? side.at.length - 1 : Math.max(0, next - 1);
      return [side.name, { k, instant: side.at[k], bytes: side.held[k] }];
    })));
  }

  toPeak() {
    const side = this.sides.at(-1);
    this.part = this.partOf(side, side.held.indexOf(side.largest));
  }

  start() {
    super.start();
    this.go(this.part);
  }

  pointed(x) {
    if (x !== null && x > this.left) this.go(this.instantAt(x));
  }

  clicked() {}

  moved(step) {
    this.go(this.part + step * (PARTS / 500));
  }

  went(key) {
    this.toPeak();
    this.go({ Home: 0, End: PARTS }[key] ?? this.part);
  }
}
