// A table of records that is sorted by a click on a head and searched by part of a text.

import { button, el, fullText, redrawn, replace } from "./dom.js";
import { plural } from "./format.js";

const SHOWN = 25;

// The chosen record is shown wherever it is. Columns: { title, meaning, isNumber, cell(record) => text or node, by(record) => sort key }.
export class Listing {
  constructor(records, columns, { label, words, chosen, tail, sortedBy, placeholder }) {
    Object.assign(this, { records, columns, label, words, chosen, tail });
    this.shown = SHOWN;
    this.column = sortedBy === undefined ? null : columns[sortedBy];
    this.isDescending = true;
    this.text = "";
    this.filter = null;
    this.place = el("div", { class: "listing" });
    this.input = el("input", { type: "search", autocomplete: "off", "aria-label": `search ${label}`,
      placeholder: placeholder || "part of a name" });
    this.input.addEventListener("input", () => {
      this.text = this.input.value.toLowerCase();
      this.shown = SHOWN;
      this.draw();
    });
    this.element = el("div", {}, el("div", { class: "tools" },
      el("label", { class: "search" }, "search ", this.input)), this.place);
    this.draw();
  }

  found() {
    return this.records.filter((one) => (!this.filter || this.filter(one))
      && (!this.text || this.words(one).toLowerCase().includes(this.text)));
  }

  sorted(found) {
    if (!this.column) return found;
    const sign = this.isDescending ? -1 : 1;
    const keys = new Map(found.map((one) => [one, this.column.by(one)]));
    return [...found].sort((one, other) => sign * compared(keys.get(one), keys.get(other)));
  }

  draw() {
    redrawn(this.place, () => this.drawAll());
  }

  drawAll() {
    const found = this.sorted(this.found());
    const chosen = this.chosen ? this.chosen() : null;
    const shown = found.slice(0, this.shown);
    if (chosen !== null && !shown.includes(chosen) && found.includes(chosen)) shown.push(chosen);
    const rows = shown.map((one) => this.row(one, one === chosen));
    const rest = found.length - rows.length;
    const body = el("table", {}, el("thead", {}, el("tr", {},
      this.columns.map((column) => this.headCell(column)))), el("tbody", {}, rows),
    this.tail ? el("tfoot", {}, this.tail(found)) : null);
    replace(this.place, el("div", { class: "scroll", tabindex: "0", role: "region",
      "aria-label": this.label }, body),
    rest ? button(`${plural(rest, "more row")}: show them`, () => {
      this.shown = Math.min(found.length, this.shown * 8);
      this.draw();
    }) : null,
    found.length < this.records.length ? el("p", { class: "note" },
      `${found.length} of ${plural(this.records.length, "row")} found`) : null);
  }

  headCell(column) {
    const isSorted = column === this.column;
    const sort = isSorted ? (this.isDescending ? "descending" : "ascending") : null;
    const mark = isSorted ? (this.isDescending ? " \u25be" : " \u25b4") : "";
    return el("th", { scope: "col", class: column.isNumber ? "number" : null, "aria-sort": sort },
      button(`${column.title}${mark}`, () => {
        this.isDescending = isSorted ? !this.isDescending : Boolean(column.isNumber);
        this.column = column;
        this.draw();
      }, { class: "sort", title: `${column.meaning || column.title}; click to sort` }));
  }

  row(one, isChosen) {
    return el("tr", { class: isChosen ? "chosen" : null, "aria-current": isChosen ? "true" : null },
      this.columns.map((column) =>
        cellOf(column.cell(one), column.isNumber)));
  }
}

function cellOf(content, isNumber) {
  return el("td", { class: isNumber ? "number" : null, title: fullText(content) }, content);
}

// Unknown (null) counts as largest, as in the text report.
function compared(one, other) {
  const isUnknown = (key) => key === null || key === undefined;
  if (isUnknown(one) || isUnknown(other)) return Number(isUnknown(one)) - Number(isUnknown(other));
  if (typeof one === "string") return one < other ? -1 : Number(one > other);
  return one - other;
}
