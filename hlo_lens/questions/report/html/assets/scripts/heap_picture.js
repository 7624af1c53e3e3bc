// Places of values in an allocation over the schedule: a box for each value.

import { css, roleFill } from "colors";
import { el, pictureTable, replace } from "dom";
import { formatBytes, formatCount, plural } from "format";
import { SchedulePicture } from "schedule_picture";

const HEIGHT = 420;
const TABLE_ROWS = 400;

export class HeapPicture extends SchedulePicture {
  // Found: places of the values that the search leaves, null for all; chosen: that of the selected one.
  constructor(model, selection, { found, chosen, at, onchoose }) {
    super({ kind: "heap", label: "places in the heap", length: model.length, height: HEIGHT, selection });
    Object.assign(this, { model, found, chosen, at, onchoose });
    this.allocations = [...model.space.allocations].sort((one, other) => other[1] - one[1]);
    const wanted = chosen === undefined ? selection.get("allocation")
      : String(model.values.allocation[chosen]);
    this.allocation = this.allocations.find(([index]) => String(index) === wanted) || this.allocations[0];
    this.readout = el("p", { class: "readout", "aria-live": "polite" });
    if (!this.allocation) {
      this.element = el("p", { class: "note" }, "There are no temporaries here.");
      return;
    }
    this.boxes = model.placesWhere((k) => model.values.allocation[k] === this.allocation[0] && !model.isHeld(k));
    this.canvas.setAttribute("aria-label", `${plural(this.boxes.length, "value")} in allocation `
      + `${this.allocation[0]} of ${formatBytes(this.allocation[1])} over the schedule`);
    this.element.prepend(this.picker());
    this.element.append(this.readout, pictureTable("The picture as a table: the largest values of the allocation",
      [["offset", "first byte in the allocation", true], ["size_bytes", "", true], ["value", "", false],
        ["role", "", false], ["start", "first instant", true], ["end", "last instant", true]], () => this.rows()));
    this.describe(chosen);
  }

  start() {
    if (this.allocation) super.start();
  }

  picker() {
    const select = el("select", { id: "allocation", onchange: () => this.selection.set(
      { allocation: select.value, value: undefined, instruction: undefined }) },
    this.allocations.map(([index, size]) => el("option", { value: index, selected: this.allocation[0] === index },
      `allocation ${index}, ${formatBytes(size)}`)));
    return el("div", { class: "tools" }, el("label", { for: "allocation" }, "temporaries in "), select);
  }

  instant() {
    return this.model.instantOf(this.at);
  }

  y(offset) {
    return this.bottom - (offset / this.allocation[1]) * HEIGHT;
  }

  corners(k) {
    const { start, end, offset, size } = this.model.values;
    const x = this.x(start[k]);
    const y = this.y(offset[k] + size[k]);
    return [x, y, Math.max(1, this.x(end[k] + 1) - x), Math.max(1, this.y(offset[k]) - y)];
  }

  paint(ctx) {
    ctx.fillStyle = css("--panel");
    ctx.fillRect(this.left, this.top, this.width, HEIGHT);
    const fills = new Map(this.model.roles.map(({ name }) => [name, roleFill(ctx, name)]));
    for (const k of this.boxes) {
      const [x, y, width, height] = this.corners(k);
      if (x > this.width || x + width < this.left) continue;
      ctx.globalAlpha = this.found && !this.found.has(k) ? 0.15 : 1;
      ctx.fillStyle = fills.get(this.model.role(k));
      ctx.fillRect(x, y, width, height);
      ctx.strokeStyle = css(k === this.chosen ? "--text" : "--background");
      ctx.lineWidth = k === this.chosen ? 2.5 : 0.75;
      if (k === this.chosen || (width > 2 && height > 2)) ctx.strokeRect(x, y, width, height);
      if (width > 70 && height > 14) {
        ctx.fillStyle = css("--on-role");
        ctx.fillText(`${this.model.name(k)} ${formatBytes(this.model.values.size[k])}`,
          Math.max(this.left, x) + 4, y + height / 2, width - 8);
      }
    }
    ctx.globalAlpha = 1;
    this.drawInstant(ctx, this.instant(), css("--accent"));
  }

  marks(ctx) {
    this.drawBytes(ctx, this.allocation[1], (offset) => this.y(offset));
  }

  under(px, py) {
    return this.boxes.findLast((k) => {
      const [x, y, width, height] = this.corners(k);
      return x <= px && px <= x + width && y <= py && py <= y + height;
    });
  }

  pointed(x, y) {
    this.describe(x === null ? this.chosen : this.under(x, y));
  }

  clicked(x, y) {
    const k = this.under(x, y);
    if (k !== undefined) this.onchoose(k);
  }

  // Values by the instant at which they begin.
  moved(step) {
    const { start } = this.model.values;
    const sorted = [...this.boxes].sort((one, other) => start[one] - start[other] || one - other);
    const place = sorted.indexOf(this.chosen) + step;
    if (sorted.length) this.onchoose(sorted[Math.max(0, Math.min(sorted.length - 1, place))]);
  }

  rows() {
    const { offset, size, start, end } = this.model.values;
    const sorted = [...this.boxes].sort((one, other) => size[other] - size[one] || one - other);
    const rows = sorted.slice(0, TABLE_ROWS).map((k) => [formatCount(offset[k]), formatBytes(size[k]),
      this.model.name(k), this.model.role(k), formatCount(start[k]), formatCount(end[k])]);
    const rest = sorted.length - rows.length;
    return rest > 0 ? [...rows, ["", "", `[${formatCount(rest)} others]`, "", "", ""]] : rows;
  }

  describe(k) {
    if (k === undefined) { replace(this.readout, "Point at a box, or use the arrow keys."); return; }
    const { size, start, end, offset } = this.model.values;
    replace(this.readout, el("b", {}, formatBytes(size[k])), " ", el("code", {}, this.model.name(k)),
      `, ${this.model.role(k)}, from instant ${formatCount(start[k])} to ${formatCount(end[k])}, at offset `
      + `${formatCount(offset[k])}. `, this.model.text("op_name", k) || "");
  }
}
