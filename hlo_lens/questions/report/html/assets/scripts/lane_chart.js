// Collectives over the schedule: a lane for each kind and axis, a bar from start to end for each;
// solid where work covers the transfer, hatched where not all of it.

import { css, hatching } from "colors";
import { SchedulePicture } from "schedule_picture";

const LANE = 22;
const BAR = 14;
const NARROW = 560; // screens on which labels are above the bars

export class LaneChart extends SchedulePicture {
  // Items: { lane, start, end, coverage: "covered" | "exposed" | "unknown", record }.
  constructor(items, lanes, { length, loops, label, selection, chosen, isFaint, onpoint, onchoose }) {
    super({ kind: "lanes", label, length, loops, selection, left: 190, height: lanes.length * LANE });
    Object.assign(this, { items, lanes, chosen, isFaint, onpoint, onchoose });
    this.ordered = [...items].sort((one, other) => one.start - other.start || one.lane - other.lane);
  }

  instant() {
    const item = this.items.find((one) => one.record === this.chosen());
    return item ? (item.start + item.end) / 2 : this.length / 2;
  }

  draw() {
    const isNarrow = this.element.clientWidth < NARROW;
    this.left = isNarrow ? 8 : 190;
    this.lane = isNarrow ? LANE + 12 : LANE;
    this.bottom = this.top + this.lanes.length * this.lane;
    super.draw();
  }

  box(one) {
    const x = this.x(one.start);
    return [x, this.top + (one.lane + 1) * this.lane - BAR - 4, Math.max(3, this.x(one.end + 1) - x), BAR];
  }

  paint(ctx) {
    const hatch = hatching(ctx);
    for (const one of this.items) {
      const [x, y, width, height] = this.box(one);
      if (x > this.width || x + width < this.left) continue;
      ctx.globalAlpha = this.isFaint(one) ? 0.15 : 1;
      ctx.fillStyle = css({ covered: "--covered", exposed: "--exposed" }[one.coverage] || "--overview");
      ctx.fillRect(x, y, width, height);
      if (one.coverage === "exposed") { ctx.fillStyle = hatch; ctx.fillRect(x, y, width, height); }
      ctx.strokeStyle = css(one.record === this.chosen() ? "--text" : "--background");
      ctx.lineWidth = one.record === this.chosen() ? 2 : 1;
      if (width > 6 || ctx.lineWidth > 1) ctx.strokeRect(x + 0.5, y + 0.5, width - 1, height - 1);
    }
    ctx.globalAlpha = 1;
    const instant = this.selection.get("instant");
    if (instant !== undefined) this.drawInstant(ctx, instant, css("--accent"));
  }

  marks(ctx) {
    const isNarrow = this.left < 100;
    ctx.textAlign = isNarrow ? "left" : "right";
    ctx.fillStyle = css("--text");
    this.lanes.forEach((label, lane) => {
      const y = this.top + (lane + 1) * this.lane - (isNarrow ? BAR + 10 : BAR / 2 + 4);
      const room = isNarrow ? this.width : this.left - 14;
      let text = label;
      while (text.length > 2 && ctx.measureText(text).width > room) text = `${text.slice(0, -2)}\u2026`;
      ctx.fillText(text, isNarrow ? this.left : this.left - 10, y);
    });
  }

  under(px, py) {
    const lane = Math.floor((py - this.top) / this.lane);
    const away = (one) => {
      const [x, , width] = this.box(one);
      return Math.max(0, x - px, px - x - width);
    };
    return this.items.filter((one) => one.lane === lane && away(one) < 8)
      .sort((one, other) => away(one) - away(other))[0];
  }

  pointed(x, y) {
    this.onpoint(x === null ? undefined : this.under(x, y));
  }

  clicked(x, y) {
    const one = this.under(x, y);
    if (one) this.onchoose(one);
  }

  moved(step) {
    const at = this.ordered.findIndex((one) => one.record === this.chosen());
    const one = this.ordered[Math.max(0, Math.min(this.ordered.length - 1, at < 0 ? 0 : at + step))];
    this.onchoose(one);
    this.reveal(one.start);
  }
}
