// Collectives: sums by kind and axis, the mesh, bars over the schedule, and a table of all.

import { meshPicture } from "devices";
import { append, block, choice, el, filterKey, instructionLink, noteList, pictureTable, printable,
  replace } from "dom";
import { formatCount, plural } from "format";
import { tableListing } from "listing";
import { loopBands } from "memory_model";
import { lanes } from "spans";

const LANES = 24;
const ROWS = 400;

export const view = {
  name: "collectives",
  title: "Collectives",
  command: (module) => `hlo-lens collectives ${module.command} -n 0`,
  render(container, data, page) {
    new Collectives(container, data, page).start();
  },
};

class Collectives {
  constructor(container, data, page) {
    Object.assign(this, { container, data, page, axis: null, coverage: null });
    this.records = page.object.collectives.rows.map((row, k) => ({ ...row, k }));
    const place = (title) => data.singles.columns.findIndex(([name]) => name === title);
    this.cell = (k, title) => data.singles.rows[k][place(title)] || "";
    const rows = new Map(data.singles.rows.map((row, k) => [row[place("name")], k]));
    this.rowOf = (record) => rows.get(record.name);
    const records = new Map(this.records.map((one) => [this.rowOf(one), one]));
    this.recordOf = (k) => records.get(k);
  }

  start() {
    const { data, page } = this;
    this.mesh = el("div", { class: "mesh-place" });
    this.readout = el("p", { class: "readout", "aria-live": "polite" });
    const [groups, axes] = data.tables;
    const choose = choice("axis", [["", "all axes"], ...data.axes.map(([one, words]) => [one, words])], "",
      (key) => this.filterBy({ axis: key || null }));
    this.list = tableListing(data.singles, page, { selection: page.selection, name: "collectives",
      label: "single collectives", placeholder: "kind, name, line, path", chosen: () => this.rowOf(this.chosen() || {}) ?? null,
      words: (k) => `${data.singles.rows[k].join(" ")} ${this.recordOf(k).op_name}`,
      cells: { name: (name) => instructionLink(name, page) } });
    append(this.container, [el("p", {}, data.text),
      el("div", { class: "groups" }, block(groups.title, tableListing(groups, page).element)),
      el("div", { class: "block columns" }, el("div", {}, el("h3", {}, "Bytes by axis, one run"),
        data.axes.length > 1 ? el("div", { class: "tools" }, choose.element) : null,
        tableListing(axes, page, { label: "bytes by axis" }).element), this.mesh), this.timeLine(),
      el("div", { class: "block singles" }, el("h3", {}, data.singles.title), this.list.element), noteList(data.notes)]);
    this.drawMesh();
    const follow = () => {
      this.describe(this.chosen());
      this.mark();
    };
    page.selection.subscribe(follow);
    follow();
  }

  chosen() {
    const name = this.page.selection.instruction();
    if (name === undefined) return null;
    return this.records.find((one) => [one.name, one.started_by, one.ended_by].includes(name)) || null;
  }

  drawMesh() {
    const mesh = this.data.meshes[0];
    replace(this.mesh, mesh && mesh.axes.length ? meshPicture(mesh, this.axis, new Map(
      this.data.axes.map(([axis, , bytes]) => [axis, bytes || 0])))
      : el("p", { class: "note" }, "No text names mesh axes."));
  }

  timeLine() {
    const { start, end, length, lanes: names } = this.data;
    const placed = this.records.filter((one) => start[one.k] >= 0 && end[one.k] >= start[one.k]);
    if (!length || !placed.length) {
      return block("Over the schedule", el("p", { class: "note" },
        "The schedule is not known: no live ranges, and no estimate was made."), this.readout);
    }
    const shown = names.length > LANES
      ? [...names.slice(0, LANES - 1), `[${names.length - LANES + 1} others]`] : names;
    const items = placed.map((record) => ({ record, start: start[record.k], end: end[record.k],
      lane: Math.min(shown.length - 1, names.indexOf(`${record.kind} ${record.axis}`)), coverage: coverage(record), title: `${record.name}: ${this.cell(this.rowOf(record), "covered_ratio")}` }))
      .sort((one, other) => one.start - other.start);
    this.chart = lanes(items, shown.map(printable), this.page.selection, { length, loops: loopBands(this.page),
      label: `${plural(items.length, "collective")} over ${formatCount(length)} instants`,
      onpoint: (record) => this.describe(record || this.chosen()),
      onchoose: (record) => this.page.selection.set({ instruction: record.name, value: undefined }) });
    const key = filterKey("coverage", [["covered", "covered by work, at most", "swatch covered"],
      ["exposed", "exposed, in part or whole", "swatch exposed"], ["unknown", "not known", "swatch unknown"]],
    (only) => this.filterBy({ coverage: only }));
    const left = this.records.length - placed.length;
    return block("Over the schedule", key, this.chart.element, this.readout,
      pictureTable("The time line as a table", [["start", "", true], ["end", "", true], ["name", "", false],
        ["covered_ratio", "", false]], () => items.slice(0, ROWS).map((one) => [formatCount(one.start),
        formatCount(one.end), `${one.record.name} (${shown[one.lane]})`, this.cell(this.rowOf(one.record), "covered_ratio")])),
      left ? el("p", { class: "note" }, `${plural(left, "collective")} without a known instant`) : null);
  }

  isWanted(record) {
    return (this.axis === null || record.axis === this.axis)
      && (this.coverage === null || coverage(record) === this.coverage);
  }

  filterBy(changes) {
    Object.assign(this, changes);
    this.list.filter = (k) => this.isWanted(this.recordOf(k));
    this.mark();
    this.drawMesh();
    this.list.draw();
  }

  mark() {
    if (this.chart) this.chart.mark(this.chosen(), (record) => !this.isWanted(record));
  }

  describe(record) {
    if (!record) {
      replace(this.readout, "Point at a bar, or choose one.");
      return;
    }
    const cell = (title) => this.cell(this.rowOf(record), title);
    replace(this.readout, el("b", {}, `${record.kind} over ${cell("axis")}`), " ",
      instructionLink(record.name, this.page), `, ${cell("payload_bytes")} of ${record.element_type || "?"}, `
      + `${cell("dynamic_count")} times, ${cell("wire_bytes_per_run")} on the wire; ${cell("covered_ratio") || "cover not known"}`);
  }
}

function coverage(record) {
  if (record.is_exposed === null) return "unknown";
  return record.is_exposed ? "exposed" : "covered";
}
