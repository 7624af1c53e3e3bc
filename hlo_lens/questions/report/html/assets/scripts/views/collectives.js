// Collectives: sums by kind and axis, the mesh, bars over the schedule, and a table of all.

import { chipPicture, meshPicture } from "devices";
import { append, choice, el, filterKey, noteList, pictureTable, printable, replace, table } from "dom";
import { formatBytes, formatCount, formatShare, plural } from "format";
import { instructionLink, joined, sourceLink } from "links";
import { LaneChart } from "lane_chart";
import { Listing, number, word } from "listing";
import { loopBands } from "memory_model";

const LANES = 24;

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
    Object.assign(this, { container, data, page, axis: null, coverage: null, layout: "chips" });
    this.records = page.object.collectives.rows.map((row, k) => ({ ...row, k }));
  }

  start() {
    this.mesh = el("div", { class: "mesh-place" });
    this.readout = el("p", { class: "readout", "aria-live": "polite" });
    const axes = this.data.by_axis.map((one) => one.group);
    const choose = choice("axis", [["", "all axes"], ...axes.map((one) => [one, axisText(one)])], "",
      (key) => this.filterBy({ axis: key || null }));
    append(this.container, [el("p", {}, this.data.text), this.groups(),
      el("div", { class: "block columns" }, el("div", {}, el("h3", {}, "Bytes by axis, one run"),
        axes.length > 1 ? el("div", { class: "tools" }, choose.element) : null, this.axisTable()), this.mesh)]);
    this.drawMesh();
    this.addTimeLine();
    this.list = this.listing();
    append(this.container, [el("div", { class: "block singles" }, el("h3", {}, "Single collectives"),
      this.list.element), noteList(this.data.notes)]);
    this.page.selection.subscribe(() => this.describe(this.chosen()));
    this.describe(this.chosen());
    if (this.chart) this.chart.start();
  }

  chosen() {
    const name = this.page.selection.instruction();
    if (name === undefined) return null;
    return this.records.find((one) => [one.name, one.started_by, one.ended_by].includes(name)) || null;
  }

  groups() {
    const { page } = this;
    const listing = new Listing(this.data.groups, [
      word("kind"), word("axis", "mesh axes of the groups of devices"),
      { ...word("group_size", "devices in each group"), isNumber: true, by: (one) => Number(one.group_size) || 0 },
      word("element_type", "element types"), number("static_count", "collectives in the text"),
      { title: "times", meaning: "runs in one run of the program", isNumber: true, cell: (one) => one.times,
        by: (one) => one.dynamic_count },
      bytes("payload_bytes", "bytes of the full tensors of one group", "payload_bytes_is_at_most"),
      bytes("wire_bytes_per_run", "bytes that leave each device in one run", "wire_bytes_is_at_most"),
      number("exposed", "collectives that last longer than the overlapping work"),
      word("where", "source line of the largest", (one) => sourceLink(one.where, page)),
    ], { selection: page.selection, name: "groups", label: "by kind and axis", sortedBy: 7,
      placeholder: "kind, axis, line" });
    return el("div", { class: "block groups" },
      el("h3", {}, "Collectives by kind and axis, bytes of one run"), listing.element);
  }

  axisTable() {
    const sum = this.data.by_axis.reduce((total, one) => total + (one.wire_bytes_per_run || 0), 0);
    return table([["axis", "", false], ["wire", "bytes that leave each device", true],
      ["share", "", false]], this.data.by_axis.map((one) => [axisText(one.group),
      atMost(one.wire_bytes_per_run, one.wire_bytes_is_at_most),
      bar(one.wire_bytes_per_run, sum)]), { label: "bytes by axis" });
  }

  drawMesh() {
    const mesh = this.data.meshes[0];
    if (!mesh || !mesh.axes.length) {
      replace(this.mesh, el("p", { class: "note" }, "No text names mesh axes."));
      return;
    }
    const bytes = Object.create(null); // an axis may be called __proto__
    for (const one of this.data.by_axis) bytes[one.group] = one.wire_bytes_per_run || 0;
    if (!mesh.topology) {
      replace(this.mesh, meshPicture(mesh, bytes, this.axis), el("p", { class: "note" },
        "Devices are in the order of the mesh: the dump does not have their places in hardware."));
      return;
    }
    const layout = choice("layout", [["chips", "on the chips"], ["mesh", "by mesh axes"]], this.layout,
      (key) => { this.layout = key; this.drawMesh(); });
    const single = mesh.axes.map(([name]) => name).filter((name) => bytes[name] !== undefined);
    const drawn = single.includes(this.axis) ? this.axis
      : single.sort((one, other) => bytes[other] - bytes[one])[0];
    replace(this.mesh, el("div", { class: "tools" }, layout.element),
      this.layout === "mesh" ? meshPicture(mesh, bytes, this.axis) : chipPicture(mesh, drawn, bytes));
  }

  addTimeLine() {
    const { start, end, length } = this.data;
    const place = el("div", { class: "block" }, el("h3", {}, "Over the schedule"));
    this.container.append(place);
    const placed = this.records.filter((one) => start[one.k] >= 0 && end[one.k] >= start[one.k]);
    if (!length || !placed.length) {
      place.append(el("p", { class: "note" },
        "The schedule is not known: no live ranges, and no estimate was made."), this.readout);
      return;
    }
    const names = this.data.groups.map((one) => one.group);
    const lanes = names.length > LANES
      ? [...names.slice(0, LANES - 1), `[${names.length - LANES + 1} others]`] : names;
    const items = placed.map((record) => ({ record, start: start[record.k], end: end[record.k],
      lane: Math.min(lanes.length - 1, names.indexOf(`${record.kind} ${record.axis}`)),
      coverage: coverage(record) }));
    this.chart = new LaneChart(items, lanes.map(printable), { length, loops: loopBands(this.page), selection: this.page.selection,
      label: `${plural(items.length, "collective")} over ${formatCount(length)} instants`,
      chosen: () => this.chosen(), isFaint: (one) => !this.isWanted(one.record),
      onpoint: (one) => this.describe(one ? one.record : this.chosen()),
      onchoose: (one) => this.page.selection.set({ instruction: one.record.name, value: undefined }) });
    const key = filterKey("coverage", [["covered", "covered by work, at most", "swatch covered"],
      ["exposed", "exposed, in part or whole", "swatch exposed"], ["unknown", "not known", "swatch unknown"]],
    (only) => this.filterBy({ coverage: only }));
    append(place, [key, this.chart.element, this.readout,
      pictureTable("The time line as a table", [["start", "", true], ["end", "", true],
        ["name", "", false], ["covered_ratio", "", false]],
      () => this.chart.ordered.slice(0, 400).map((one) => [formatCount(one.start),
        formatCount(one.end), `${one.record.name} (${lanes[one.lane]})`, coveredText(one.record)])),
      placed.length < this.records.length ? el("p", { class: "note" }, `${plural(
        this.records.length - placed.length, "collective")} without a known instant`) : null]);
  }

  isWanted(record) {
    return (this.axis === null || record.axis === this.axis)
      && (this.coverage === null || coverage(record) === this.coverage);
  }

  filterBy(changes) {
    Object.assign(this, changes);
    this.list.filter = this.axis === null && this.coverage === null ? null : (one) => this.isWanted(one);
    if (this.chart) this.chart.draw();
    this.drawMesh();
    this.list.draw();
  }

  listing() {
    const { page } = this;
    const loops = (one) => one.loop_path.join(" > ");
    return new Listing(this.records, [
      word("kind"), word("axis"),
      { title: "dynamic_count", meaning: "runs in one run of the program", isNumber: true, cell: runs,
        by: (one) => one.dynamic_count },
      bytes("payload_bytes", "bytes of the full tensor of one group, each time"),
      bytes("wire_bytes_per_run", "bytes that leave each device in one run", "is_at_most"),
      bytes("uncovered_bytes_per_run", "least bytes of one run sent while no work runs"),
      { title: "covered_ratio", meaning: "largest share of the transfer that work covers",
        cell: coveredText, by: (one) => one.covered_ratio },
      word("name", "", (one) => instructionLink(one.name, page)),
      word("source", "", (one) => (one.source ? sourceLink(`${one.source}${one.origin_basis
        && one.origin_basis !== "own" ? " ~" : ""}`, page) : one.op_name || "")),
      { title: "loop_path", meaning: "loops around it", cell: loops, by: loops },
    ], { selection: page.selection, name: "collectives", label: "single collectives", sortedBy: 4,
      chosen: () => this.chosen(), placeholder: "kind, name, line, path",
      words: (one) => [one.kind, one.axis, one.name, one.source, one.op_name, one.argument].join(" ") });
  }

  describe(record) {
    if (!record) {
      replace(this.readout, "Point at a bar, or choose one.");
      return;
    }
    const work = this.data.work[record.k];
    const names = work ? work.map((number) => this.page.strings[number]) : [];
    replace(this.readout, el("b", {}, `${record.kind} over ${axisText(record.axis)}`), " ",
      instructionLink(record.name, this.page), `, ${formatBytes(record.payload_bytes)} of `
      + `${record.element_type || "?"}, ${runs(record)} times, `
      + `${atMost(record.wire_bytes_per_run, record.is_at_most)} on the wire; ${coveredText(record)}`,
      names.length ? [`: ${plural(names.length, "instruction")} between start and end, `,
        ...joined(names.slice(0, 12).map((name) => instructionLink(name, this.page))),
        names.length > 12 ? `, [${names.length - 12} others]` : ""] : "");
  }
}

function bytes(key, meaning, flag) {
  return number(key, meaning, (size, one) => atMost(size, one[flag]));
}

function coverage(record) {
  if (record.is_exposed === null) return "unknown";
  return record.is_exposed ? "exposed" : "covered";
}

function coveredText(record) {
  if (record.moves_nothing) return "moves nothing";
  if (record.is_exposed === null) return "not known";
  if (!record.covered_ratio) return "exposed";
  const work = `by ${plural(record.overlap_instructions, "instruction")}`;
  return `<=${formatShare(record.covered_ratio, 1)} ${work}`;
}

function runs(record) {
  if (record.dynamic_count === null) return "x?";
  return `${record.branches.length ? "<=" : ""}${formatCount(record.dynamic_count)}`;
}

function atMost(bytes, isAtMost) {
  return `${isAtMost && bytes !== null ? "<=" : ""}${formatBytes(bytes)}`;
}

function axisText(axis) {
  if (axis === "?") return "unknown axis";
  return axis === "-" ? "no axis" : axis;
}

function bar(part, whole) {
  const share = part === null ? "not known"
    : part && part / whole < 0.00005 ? "<0.01%" : formatShare(part, whole);
  return el("span", { class: "share-bar" }, el("span", { class: "bar", "aria-hidden": "true",
    style: { width: `${whole && part ? (part / whole) * 110 : 0}px` } }), share);
}
