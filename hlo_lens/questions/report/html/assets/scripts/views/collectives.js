// Collectives: sums by kind and axis, the mesh, bars over the schedule, and a table of all.

import { chipPicture } from "../chip_picture.js";
import { choice, el, pictureTable, replace, table } from "../dom.js";
import { formatBytes, formatCount, formatShare, plural } from "../format.js";
import { instructionLink } from "../instruction_link.js";
import { LaneChart } from "../lane_chart.js";
import { Listing } from "../listing.js";
import { meshPicture } from "../mesh_picture.js";
import { printable } from "../printable.js";
import { noteList } from "../sections.js";

const LANES = 24;

export const view = {
  name: "collectives",
  title: "Collectives",
  command: (module) => `hlo-lens collectives ${module.command} -n 0`,
  howToRead: [
    "Collectives move bytes between devices. Each logical operation counts once in the text and as "
    + "often as its loops run in one run of the program. Wire: bytes that leave each device, by the "
    + "ring algorithm. An axis is a dimension of the mesh of devices; data,model are both together, and "
    + "data:(1)2 is a part of an axis: of 8, data:(1)2 is the most major 2, data:(2)4 the other 4.",
    "The mesh: boxes are devices with their ids, lines the axes; the thicker a line, the more bytes "
    + "are sent over its axis. Choose an axis to see only what goes over it. Of a TPU dump that has "
    + "its topology, boxes are chips in their places, and lines join neighbours along one axis of the "
    + "mesh: solid to the next chip, dashed further away. The order in which XLA sends may differ.",
    "The time line: from left to right the instructions in program order, not time; a loop's body "
    + "appears once, under a bracket with the number of its runs. A bar goes from the start of a "
    + "transfer to its end. Solid: other work between can cover all of it, at most. Hatched: "
    + "exposed, the transfer lasts longer than that work. Grey: not known.",
    "Click a bar or a name to open the collective and the work that covers it. Arrow keys go to the "
    + "one before or after, + and - zoom, 0 shows all. Click a head of the table to sort.",
  ],
  render(container, data, page) {
    new Collectives(container, data, page).start();
  },
};

class Collectives {
  constructor(container, data, page) {
    Object.assign(this, { container, data, page });
    this.records = page.object.collectives.rows.map((row, k) => ({ ...row, k }));
    this.axis = null;
    this.layout = "chips";
  }

  start() {
    this.mesh = el("div", { class: "mesh-place" });
    this.readout = el("p", { class: "readout", "aria-live": "polite" });
    const axes = this.data.by_axis.map((one) => one.group);
    const choose = choice("axis", [["", "all axes"], ...axes.map((one) => [one, axisText(one)])], "",
      (key) => this.filterBy(key));
    this.container.append(el("p", {}, this.data.text), this.groups(),
      el("div", { class: "block columns" }, el("div", {}, el("h3", {}, "Bytes by axis, one run"),
        axes.length > 1 ? el("div", { class: "tools" }, choose.element) : null, this.axisTable()),
      this.mesh));
    this.drawMesh();
    this.addTimeLine();
    this.list = this.listing();
    this.container.append(el("div", { class: "block singles" }, el("h3", {}, "Single collectives"),
      this.list.element));
    const notes = noteList(this.data.notes);
    if (notes) this.container.append(notes);
    this.page.selection.subscribe(() => this.update());
    this.update();
  }

  update() {
    if (!this.readout.isConnected && !this.mesh.isConnected) return false;
    const record = this.chosen();
    if (this.chart) this.chart.mark(record, this.page.selection.get("instant"));
    this.describe(record);
    this.list.draw();
    return true;
  }

  chosen() {
    const name = this.page.selection.instruction();
    if (name === undefined) return null;
    return this.records.find((one) => [one.name, one.started_by, one.ended_by].includes(name)) || null;
  }

  groups() {
    const text = (title, key, meaning) => ({ title, meaning, cell: (one) => one[key] || "",
      by: (one) => one[key] || "" });
    const listing = new Listing(this.data.groups, [
      text("kind", "kind"), text("axis", "axis", "mesh axes of the groups of devices"),
      { ...text("group size", "group_size", "devices in each group"), isNumber: true,
        by: (one) => Number(one.group_size) || 0 },
      text("type", "element_type", "element types"),
      { title: "in the text", meaning: "collectives in the text", isNumber: true,
        cell: (one) => formatCount(one.static_count), by: (one) => one.static_count },
      { title: "runs", meaning: "in one run of the program", isNumber: true,
        cell: (one) => one.times, by: (one) => one.dynamic_count },
      { title: "payload", meaning: "bytes of the full tensors of one group", isNumber: true,
        cell: (one) => atMost(one.payload_bytes, one.payload_bytes_is_at_most),
        by: (one) => one.payload_bytes },
      { title: "wire", meaning: "bytes that leave each device", isNumber: true,
        cell: (one) => atMost(one.wire_bytes_per_run, one.wire_bytes_is_at_most),
        by: (one) => one.wire_bytes_per_run },
      { title: "exposed", meaning: "collectives that last longer than the overlapping work",
        isNumber: true, cell: (one) => formatCount(one.exposed), by: (one) => one.exposed },
      text("where", "where", "source line of the largest"),
    ], { label: "by kind and axis", sortedBy: 7, placeholder: "kind, axis, line",
      words: (one) => [one.kind, one.axis, one.element_type, one.where].join(" ") });
    return el("div", { class: "block groups" },
      el("h3", {}, "By kind and axis, bytes of one run"), listing.element);
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
    const memory = this.page.module.views.memory;
    const loops = (memory ? memory.loops : []).map(([name, first, last, trips, depth]) =>
      ({ name: this.page.strings[name], start: first, end: last, trips, depth }));
    this.chart = new LaneChart(items, lanes.map(printable), { length, loops,
      label: `${plural(items.length, "collective")} over ${formatCount(length)} instants`,
      onpoint: (one) => this.describe(one ? one.record : this.chosen()),
      onchoose: (one) => this.page.selection.set({ instruction: one.record.name, value: undefined }) });
    place.append(this.key(), this.chart.element, this.readout,
      pictureTable("The time line as a table", [["start", "", true], ["end", "", true],
        ["collective", "", false], ["covered", "", false]],
      () => this.chart.ordered.slice(0, 400).map((one) => [formatCount(one.start),
        formatCount(one.end), `${one.record.name} (${lanes[one.lane]})`, coveredText(one.record)])));
    if (placed.length < this.records.length) {
      place.append(el("p", { class: "note" }, `${plural(this.records.length - placed.length,
        "collective")} without a known instant`));
    }
    this.chart.start();
  }

  key() {
    return el("ul", { class: "lane-key" }, [["covered", "covered by work, at most"],
      ["exposed", "exposed, in part or whole"], ["unknown", "not known"]].map(([name, text]) =>
      el("li", {}, el("span", { class: `swatch ${name}`, "aria-hidden": "true" }), text)));
  }

  filterBy(axis) {
    this.axis = axis || null;
    this.list.filter = axis ? (one) => one.axis === axis : null;
    if (this.chart) {
      for (const one of this.chart.items) one.isFaint = Boolean(axis) && one.record.axis !== axis;
      this.chart.draw();
    }
    this.drawMesh();
    this.list.draw();
  }

  listing() {
    const { page } = this;
    return new Listing(this.records, [
      { title: "kind", cell: (one) => one.kind, by: (one) => one.kind },
      { title: "axis", cell: (one) => one.axis, by: (one) => one.axis },
      { title: "runs", meaning: "runs in one run of the program", isNumber: true,
        cell: (one) => runs(one), by: (one) => one.dynamic_count },
      { title: "payload", meaning: "bytes of the full tensor of one group, each time",
        isNumber: true, cell: (one) => formatBytes(one.payload_bytes), by: (one) => one.payload_bytes },
      { title: "wire", meaning: "bytes that leave each device in one run", isNumber: true,
        cell: (one) => atMost(one.wire_bytes_per_run, one.is_at_most),
        by: (one) => one.wire_bytes_per_run },
      { title: "not covered", meaning: "least bytes of one run sent while no work runs",
        isNumber: true, cell: (one) => formatBytes(one.uncovered_bytes_per_run),
        by: (one) => one.uncovered_bytes_per_run },
      { title: "covered", meaning: "largest share of the transfer that work covers",
        cell: coveredText, by: (one) => one.covered_ratio },
      { title: "name", cell: (one) => instructionLink(one.name, page), by: (one) => one.name },
      { title: "source", cell: (one) => sourceText(one), by: (one) => one.source || "" },
      { title: "loops", meaning: "loops around it", cell: (one) => one.loop_path.join(" > "),
        by: (one) => one.loop_path.join(" > ") },
    ], { label: "single collectives", sortedBy: 4, chosen: () => this.chosen(),
      placeholder: "kind, name, line, path",
      words: (one) => [one.kind, one.axis, one.name, one.source, one.op_name, one.argument,
        one.loop_path.join(" ")].join(" ") });
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

function joined(nodes) {
  return nodes.flatMap((node, k) => (k ? [", ", node] : [node]));
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

function sourceText(record) {
  if (!record.source) return record.op_name || "";
  return record.origin_basis && record.origin_basis !== "own" ? `${record.source} ~` : record.source;
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
