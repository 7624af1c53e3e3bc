// What is alive at the instant that is selected: table, treemap, icicle, and places in the heap.

import { onColors } from "../colors.js";
import { choice, el, redrawn, replace, table } from "../dom.js";
import { formatBytes, formatCount, formatShare, plural } from "../format.js";
import { grouped, GROUPINGS } from "../groups.js";
import { HeapPicture } from "../heap_picture.js";
import { instructionLink } from "../instruction_link.js";
import { chosenSpace, memoryModel } from "../memory_model.js";
import { icicle, treemap } from "../rectangles.js";
import { swatch } from "../role_key.js";

const SHOWN = 50;
const PICTURES = [["table", "Table"], ["treemap", "Treemap"], ["icicle", "Icicle"],
  ["heap", "Places in the heap"]];

function spaceOption(module, selection) {
  const { color } = chosenSpace(module.views.memory, selection);
  return color ? ` --space ${color}` : "";
}

function instantOption(selection) {
  const instant = selection.get("instant");
  return instant === undefined ? "" : ` --at ${instant}`;
}

export const view = {
  name: "alive",
  title: "What is alive",
  command: (module, selection) => `hlo-lens memory ${module.command}${spaceOption(module, selection)}${
    instantOption(selection)} -n 0`,
  howToRead: [
    "The memory held at the instant that is selected above, at first the peak. Every picture shows "
    + "the same bytes: each byte counts once, for the youngest value that holds it.",
    "Table: values, largest first. Treemap: areas are bytes. Icicle: from the whole at the top to "
    + "single values at the bottom; widths are bytes. Choose what the bytes are grouped by: "
    + "operation path, source line, call stack, argument, role or use. A click on a group opens it.",
    "Places in the heap: from left to right the schedule, from bottom to top the bytes of one "
    + "allocation; each box is a value, as long as it lives and as high as it is large. White "
    + "between boxes is memory that is reserved and not used at that instant.",
    "The search takes a part of a name, operation path, source line, argument or shape. A value "
    + "that is selected is marked in all pictures and described at the bottom of the page; Escape "
    + "clears it.",
  ],
  render(container, data, page) {
    new Alive(container, page.module.views[data.values_of], page).start();
  },
};

class Alive {
  constructor(container, data, page) {
    this.data = data;
    this.page = page;
    this.selection = page.selection;
    this.container = container;
    this.picture = "table";
    this.by = "op";
    this.shown = SHOWN;
    this.words = "";
    this.zoom = [];
    this.allocation = null;
  }

  start() {
    this.head = el("p", { class: "readout" });
    this.place = el("div", { class: "picture" });
    this.search = el("input", { type: "search", id: "search", autocomplete: "off",
      placeholder: "part of a name, path, line, shape" });
    this.search.addEventListener("input", () => {
      this.words = this.search.value.toLowerCase();
      this.shown = SHOWN;
      this.draw();
    });
    const pictures = choice("picture", PICTURES, this.picture, (key) => {
      this.picture = key;
      this.draw();
    });
    this.grouping = choice("group by", GROUPINGS.map(([key, label]) => [key, label]), this.by,
      (key) => {
        this.by = key;
        this.zoom = [];
        this.draw();
      });
    this.groupTool = el("div", { class: "tools" }, el("span", {}, "by"), this.grouping.element);
    this.container.append(
      el("div", { class: "tools" }, pictures.element,
        el("label", { for: "search", class: "search" }, "search ", this.search)),
      this.groupTool, this.head, this.place);
    this.selection.subscribe(() => {
      if (!this.place.isConnected) return false;
      this.draw();
      return true;
    });
    this.draw();
    this.followWidth();
  }

  // Pictures are drawn for a width; a table fits any.
  followWidth() {
    let width = this.place.clientWidth;
    const watcher = new ResizeObserver(() => {
      if (!this.place.isConnected) { watcher.disconnect(); return; }
      if (this.place.clientWidth === width) return;
      width = this.place.clientWidth;
      if (this.picture !== "table") this.draw();
    });
    watcher.observe(this.place);
    onColors(() => { if (this.place.isConnected && this.picture !== "table") this.draw(); });
  }

  draw() {
    redrawn(this.place, () => this.drawAll());
  }

  drawAll() {
    const space = chosenSpace(this.data, this.selection);
    const model = memoryModel(this.data, space, this.page.strings);
    const instant = this.selection.get("instant");
    const at = instant === undefined ? model.peakPlace : model.placeOf(instant);
    const alive = model.alive(at);
    const found = alive.values.filter((k) => this.matches(model, k));
    found.sort((one, other) => model.values.size[other] - model.values.size[one]
      || (model.name(one) < model.name(other) ? -1 : 1));
    this.groupTool.hidden = this.picture === "table" || this.picture === "heap";
    this.drawHead(model, alive, found);
    if (this.picture === "table") this.drawTable(model, alive, found);
    else if (this.picture === "heap") this.drawHeap(model, at, found);
    else this.drawRectangles(model, alive, found);
  }

  matches(model, k) {
    if (!this.words) return true;
    return ["name", "op_name", "source", "argument", "shape"].some((key) => {
      const text = model.text(key, k);
      return text !== null && text.toLowerCase().includes(this.words);
    });
  }

  drawHead(model, alive, found) {
    const instruction = model.instruction(alive.place);
    const parts = [el("b", {}, formatBytes(alive.total)),
      ` held in ${model.space.name}, at instant ${formatCount(alive.instant)}`,
      alive.place === model.peakPlace ? ", the peak" : "",
      instruction ? [" (", instructionLink(instruction, this.page), ")"] : ""].flat();
    if (this.words) {
      const sum = found.reduce((bytes, k) => bytes + alive.owned.get(k), 0);
      parts.push(`; ${plural(found.length, "value")} of ${formatBytes(sum)} found`);
    } else {
      parts.push(`; ${plural(alive.values.length + alive.others, "value")}`);
    }
    replace(this.head, ...parts);
  }

  choose(k, model) {
    this.selection.set({ value: model.name(k), instruction: undefined });
  }

  // The place of the selected value; undefined if none is, or it is not listed.
  selected(model) {
    const name = this.selection.name();
    return name === undefined ? undefined : model.find(name);
  }

  drawTable(model, alive, found) {
    const chosen = this.selected(model);
    const shown = found.filter((k, number) => number < this.shown || k === chosen);
    const rows = shown.map((k) => this.row(model, k, alive.total));
    const tail = [];
    if (found.length > shown.length) {
      const rest = found.slice(this.shown).filter((k) => k !== chosen);
      const bytes = rest.reduce((sum, k) => sum + model.values.size[k], 0);
      tail.push(this.tailRow(`[${formatCount(rest.length)} others]`, bytes, alive.total));
    }
    if (!this.words) {
      if (alive.others) {
        tail.push(this.tailRow(`[${formatCount(alive.others)} others, each under `
          + `${formatBytes(model.space.least_bytes)}]`, alive.otherBytes, alive.total));
      }
      if (alive.shared) tail.push(this.tailRow("[bytes counted twice]", -alive.shared, alive.total));
      tail.push(this.tailRow("total", alive.total, alive.total));
    }
    const made = table([["size", "bytes it holds, padding included", true],
      ["share", "of the bytes held", true], ["value", "instruction and shape index", false],
      ["role", "what it is used for", false], ["source", "line of the program", false],
      ["shape", "shape with layout", false], ["op_name", "operation path or argument", false],
      ["lives", "first and last instant", true]], rows, { tail, label: "values that are alive" });
    this.markRows(made, shown, chosen);
    const more = found.length > shown.length
      ? el("button", { type: "button", onclick: () => { this.shown *= 4; this.draw(); } },
        `show ${formatCount(Math.min(found.length, this.shown * 4))}`) : null;
    replace(this.place, made, more);
  }

  markRows(made, shown, chosen) {
    [...made.querySelectorAll("tbody tr")].forEach((row, number) => {
      const isChosen = shown[number] === chosen;
      row.classList.toggle("chosen", isChosen);
      if (isChosen) row.setAttribute("aria-current", "true");
    });
  }

  row(model, k, total) {
    const bytes = model.values.size[k];
    const name = el("button", { type: "button", class: "name",
      onclick: () => this.choose(k, model) }, model.name(k));
    const role = model.role(k);
    return [formatBytes(bytes), formatShare(bytes, total), name,
      el("span", { class: "role", title: model.text("basis", k) }, swatch(role), role),
      model.text("source", k) || "", model.text("shape", k) || "",
      model.text("op_name", k) || model.text("argument", k) || "",
      `${formatCount(model.values.start[k])} to ${formatCount(model.values.end[k])}`];
  }

  tailRow(label, bytes, total) {
    return [formatBytes(bytes), formatShare(bytes, total), label, "", "", "", "", ""];
  }

  drawRectangles(model, alive, found) {
    const others = this.words ? 0 : alive.otherBytes;
    const tree = grouped(model, found, alive.owned, this.by, others, alive.others);
    const draw = this.picture === "treemap" ? treemap : icicle;
    draw(this.place, tree, { chosen: this.selected(model), model,
      onchoose: (k) => this.choose(k, model), zoom: this.zoom,
      onzoom: (path) => {
        this.zoom = path;
        this.draw();
      } });
  }

  drawHeap(model, at, found) {
    const heap = new HeapPicture(model, new Set(found), {
      at, isFiltered: this.words !== "", chosen: this.selected(model),
      allocation: this.allocation, onallocation: (index) => { this.allocation = index; },
      onchoose: (k) => this.choose(k, model) });
    replace(this.place, heap.element);
    heap.start();
  }
}
