// What is alive at the instant that is selected: table, treemap, icicle, and places in the heap.

import { onColors, roleSlug, swatch } from "colors";
import { choice, el, instructionLink, redrawn, replace, sourceLink, valueLink } from "dom";
import { formatBytes, formatCount, formatShare, plural } from "format";
import { Listing, searchField } from "listing";
import { chosenSpace, memoryModel } from "memory_model";
import { drawTree, pathParts, treeOf } from "rectangles";
import { heap } from "spans";

const PICTURES = [["table", "Table"], ["treemap", "Treemap"], ["icicle", "Icicle"],
  ["heap", "Places in the heap"]];
const GROUPINGS = [
  ["op", "operation path"], ["source", "source line"], ["stack", "call stack"],
  ["argument", "argument"], ["role", "role"], ["category", "use"],
];

export const view = {
  name: "alive",
  title: "What is alive",
  command: (module, selection) => {
    const { color } = chosenSpace(module.views.memory, selection);
    const instant = selection.get("instant");
    return `hlo-lens memory ${module.command}${color ? ` --space ${color}` : ""}${
      instant === undefined ? "" : ` --at ${instant}`} -n 0`;
  },
  render(container, data, page) {
    new Alive(container, page.module.views[data.values_of], page).start();
  },
};

class Alive {
  constructor(container, data, page) {
    Object.assign(this, { container, data, page, selection: page.selection, zoom: [] });
    this.head = el("p", { class: "readout" });
    this.place = el("div", { class: "picture" });
  }

  get picture() {
    const wanted = this.selection.get("picture");
    return PICTURES.some(([key]) => key === wanted) ? wanted : "table";
  }

  get by() {
    const wanted = this.selection.get("by");
    return GROUPINGS.some(([key]) => key === wanted) ? wanted : "op";
  }

  start() {
    const { selection } = this;
    const pictures = choice("picture", PICTURES, this.picture, (key) => selection.set(
      { picture: key === "table" ? undefined : key }));
    const grouping = choice("group by", GROUPINGS, this.by, (key) => {
      this.zoom = [];
      selection.set({ by: key === "op" ? undefined : key });
    });
    this.groupTool = el("div", { class: "tools" }, el("span", {}, "by"), grouping.element);
    this.container.append(el("div", { class: "tools" }, pictures.element,
      searchField(selection, "alive", "part of a name, path, line, shape", "search values")),
    this.groupTool, this.head, this.place);
    const state = () => ["space", "instant", "role", "q.alive", "picture", "by", "value", "instruction", "allocation"]
      .map((key) => selection.get(key)).join("\n");
    let last = null;
    const draw = () => {
      if (!this.place.isConnected) return false;
      if (last === state()) return true; // another part of the schedule, which pictures show themselves
      last = state();
      pictures.press(this.picture);
      grouping.press(this.by);
      this.draw();
      return true;
    };
    selection.subscribe(draw);
    draw();
    // Treemap and icicle are drawn for a width; the others fit any.
    let width = this.place.clientWidth;
    const fit = () => {
      if (!this.place.isConnected || this.groupTool.hidden || this.place.clientWidth === width) return;
      width = this.place.clientWidth;
      this.draw();
    };
    new ResizeObserver(fit).observe(this.place);
    onColors(fit);
  }

  draw() {
    const space = chosenSpace(this.data, this.selection);
    const model = memoryModel(this.data, space, this.page.strings);
    const instant = this.selection.get("instant");
    const at = instant === undefined ? model.peakPlace : model.placeOf(instant);
    const alive = model.alive(at);
    const words = (this.selection.get("q.alive") || "").toLowerCase();
    const role = this.selection.get("role");
    const isFiltered = words !== "" || role !== undefined;
    const found = alive.values.filter((k) => (role === undefined || model.role(k) === role)
      && (!words || model.hasWords(k, words)));
    found.sort((one, other) => model.values.size[other] - model.values.size[one]
      || (model.name(one) < model.name(other) ? -1 : 1));
    this.groupTool.hidden = this.picture === "table" || this.picture === "heap";
    this.drawHead(model, alive, found, isFiltered);
    const name = this.selection.name();
    const shown = { model, alive, found, isFiltered, chosen: name === undefined ? undefined : model.find(name) };
    redrawn(this.place, () => {
      if (this.picture === "table") this.drawTable(shown);
      else if (this.picture === "heap") replace(this.place, heap(model, this.selection, { chosen: shown.chosen,
        found: isFiltered ? new Set(found) : null, onchoose: (k) => this.choose(k, model) }));
      else this.drawRectangles(shown);
    });
  }

  drawHead(model, alive, found, isFiltered) {
    const instruction = model.instruction(alive.place);
    const sum = found.reduce((bytes, k) => bytes + alive.owned.get(k), 0);
    replace(this.head, el("b", {}, formatBytes(alive.total)),
      ` held in ${model.space.name}, at instant ${formatCount(alive.instant)}`,
      alive.place === model.peakPlace ? ", the peak" : "",
      instruction ? [" (", instructionLink(instruction, this.page), ")"] : "",
      isFiltered ? `; ${plural(found.length, "value")} of ${formatBytes(sum)} found`
        : `; ${plural(alive.values.length + alive.others, "value")}`);
  }

  choose(k, model) {
    this.selection.set({ value: model.name(k), instruction: undefined });
  }

  drawTable(shown) {
    const isOther = !this.list || this.now.model !== shown.model;
    this.now = shown;
    if (isOther) this.list = this.listing(shown.model);
    this.list.records = shown.found;
    if (!this.list.element.isConnected) replace(this.place, this.list.element);
    this.list.draw();
  }

  listing(model) {
    const { values } = model;
    const text = (title, key, meaning) => ({ title, meaning, cell: (k) => model.text(key, k) || "",
      by: (k) => model.text(key, k) || "" });
    const number = (title, key, meaning) => ({ title, meaning, isNumber: true,
      cell: (k) => formatCount(values[key][k]), by: (k) => values[key][k] });
    const columns = [
      { title: "size_bytes", meaning: "bytes it holds, padding included", isNumber: true,
        cell: (k) => formatBytes(values.size[k]), by: (k) => values.size[k] },
      { title: "share", meaning: "of the bytes held", isNumber: true, by: (k) => values.size[k],
        cell: (k) => formatShare(values.size[k], this.now.alive.total) },
      { title: "value", meaning: "instruction and shape index", by: (k) => model.name(k),
        cell: (k) => valueLink(model.name(k), this.page) },
      { title: "role", meaning: "what it is used for", by: (k) => model.role(k),
        cell: (k) => el("span", { class: "role", title: model.text("basis", k) }, swatch(model.role(k)), model.role(k)) },
      { title: "source", meaning: "line of the program", by: (k) => model.text("source", k) || "",
        cell: (k) => sourceLink(model.text("source", k), this.page) },
      text("opcode", "opcode"), text("shape", "shape", "shape with layout"),
      { title: "op_name", meaning: "operation path or argument", by: (k) => model.text("op_name", k) || "",
        cell: (k) => model.text("op_name", k) || model.text("argument", k) || "" },
      number("start", "start", "first instant"), number("end", "end", "last instant"),
    ];
    return new Listing([], columns, { label: "values that are alive", shown: 50,
      chosen: () => this.now.chosen ?? null, tail: (all, listed) => this.tail(this.now, listed, columns.length) });
  }

  // What the rows leave out, so that they add up to the total.
  tail({ model, alive, found, isFiltered }, listed, width) {
    const row = (label, bytes) => [formatBytes(bytes), formatShare(bytes, alive.total), label,
      ...Array(width - 3).fill("")];
    const sum = (values) => values.reduce((bytes, k) => bytes + model.values.size[k], 0);
    const rows = [];
    if (found.length > listed.length) {
      rows.push(row(`[${formatCount(found.length - listed.length)} others]`, sum(found) - sum(listed)));
    }
    if (isFiltered) return rows;
    if (alive.others) {
      rows.push(row(`[${formatCount(alive.others)} others, each under ${formatBytes(model.space.least_bytes)}]`,
        alive.otherBytes));
    }
    if (alive.shared) rows.push(row("[bytes counted twice]", -alive.shared));
    return [...rows, row("total", alive.total)];
  }

  drawRectangles({ model, alive, found, isFiltered, chosen }) {
    const ends = found.filter((k) => alive.owned.get(k)).map((k) =>
      [groupsOf(model, k, this.by), { name: model.name(k), bytes: alive.owned.get(k), k }]);
    if (!isFiltered && alive.otherBytes) ends.push([[], { name: `[${alive.others} others]`, bytes: alive.otherBytes }]);
    const look = ({ data: { name, k }, value }) => (k === undefined ? null : {
      kind: roleSlug(model.role(k)) + (k === chosen ? " chosen" : ""), onclick: () => this.choose(k, model),
      title: [`${name} ${formatBytes(value)}`, `${model.role(k)}: ${model.text("basis", k)}`, model.text("shape", k),
        model.text("op_name", k), model.text("source", k)].filter(Boolean).join("\n"),
      label: () => [model.isHeld(k) ? model.text("argument", k) || name : name,
        `${formatBytes(value)}, ${formatShare(value, alive.total)}`] });
    drawTree(this.place, this.picture, treeOf(ends), { look, zoom: this.zoom, onzoom: (path) => {
      this.zoom = path;
      this.draw();
    }, table: { summary: "The rectangles as a table", columns: [["bytes", "", true], ["share", "", true],
      ["name", "", false]], row: (node, root) => [formatBytes(node.value), formatShare(node.value, root.value),
      `${"\u2007\u2007".repeat(node.depth)}${node.data.name}`] } });
  }
}

// The path of the groups that a value is in.
function groupsOf(model, k, by) {
  const text = (key) => model.text(key, k);
  const unnamed = text("category") === "argument" ? "[parameters]" : "[unattributed]";
  if (by === "role") return [model.role(k)];
  if (by === "category") return [text("category")];
  if (by === "argument") return [text("argument") || "[not an argument]"];
  if (by === "stack") return text("stack") ? text("stack").split(" < ").reverse() : [text("source") || unnamed];
  if (text("category") === "argument") return [unnamed];
  if (by === "source") return [text("source") || text("argument") || unnamed];
  return text("op_name") ? pathParts(text("op_name")) : [unnamed];
}
