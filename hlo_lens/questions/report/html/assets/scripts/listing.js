// A table of records that is sorted by a click on a head and searched by part of a text.

import { append, button, el, redrawn, replace, tableCell } from "dom";
import { formatCount, plural } from "format";

const SHOWN = 25;

// The chosen record is shown wherever it is. Columns: { title, meaning, isNumber, cell(record) => text
// or node, by(record) => sort key, which is searched too }. The search is in the selection, by the name of the listing; without
// a selection there is none.
export class Listing {
  constructor(records, columns, options) {
    Object.assign(this, { records, columns, shown: SHOWN, isDescending: true, filter: null }, options);
    this.column = this.sortedBy === undefined ? null : columns[this.sortedBy];
    this.place = el("div", { class: "listing" });
    this.tools = el("div", { class: "tools" });
    this.element = el("div", {}, this.tools, this.place);
    if (!this.selection) return; // its owner draws it
    this.tools.append(searchField(this.selection, this.name, this.placeholder, `search ${this.label}`));
    const state = () => [this.selection.get(`q.${this.name}`), this.chosen ? this.chosen() : null];
    let last = state();
    this.selection.subscribe(() => {
      const now = state();
      if (now.some((one, k) => one !== last[k])) this.draw();
      last = now;
    });
    this.draw();
  }

  found() {
    const words = this.words || ((one) => this.columns.map((column) => column.by(one)).join(" "));
    const text = this.selection ? (this.selection.get(`q.${this.name}`) || "").toLowerCase() : "";
    return this.records.filter((one) => (!this.filter || this.filter(one))
      && (!text || words(one).toLowerCase().includes(text)));
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
    const rest = found.length - shown.length;
    const row = (one) => el("tr", { class: one === chosen ? "chosen" : null,
      "aria-current": one === chosen ? "true" : null },
    this.columns.map((column) => tableCell(column.cell(one), column.isNumber)));
    const tail = this.tail ? this.tail(found, shown) : [];
    replace(this.place, el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": this.label },
      el("table", {}, el("thead", {}, el("tr", {}, this.columns.map((column) => this.head(column)))),
        el("tbody", {}, shown.map(row)), tail.length ? el("tfoot", {}, tail.map((cells) =>
          append(el("tr", {}), cells.map((cell, k) => tableCell(cell, this.columns[k].isNumber))))) : null)),
    rest ? button(`${plural(rest, "more row")}: show them`, () => {
      this.shown = Math.min(found.length, this.shown * 8);
      this.draw();
    }) : null,
    found.length < this.records.length ? el("p", { class: "note" },
      `${found.length} of ${plural(this.records.length, "row")} found`) : null);
  }

  head(column) {
    const isSorted = column === this.column;
    const mark = isSorted ? (this.isDescending ? " \u25be" : " \u25b4") : "";
    return el("th", { scope: "col", class: column.isNumber ? "number" : null,
      "aria-sort": isSorted ? (this.isDescending ? "descending" : "ascending") : null },
    button(`${column.title}${mark}`, () => {
      this.isDescending = isSorted ? !this.isDescending : Boolean(column.isNumber);
      this.column = column;
      this.draw();
    }, { class: "sort", title: `${column.meaning || column.title}; click to sort` }));
  }
}

// Columns of records by their keys: text, and numbers.
export function word(key, meaning, cell = (one) => one[key] || "") {
  return { title: key, meaning, cell, by: (one) => one[key] || "" };
}

export function number(key, meaning, format = formatCount) {
  return { title: key, meaning, isNumber: true, cell: (one) => format(one[key], one), by: (one) => one[key] };
}

// The columns that have something in a cell.
export function withCells(columns, records) {
  return columns.filter((column) => records.some((one) => [column.cell(one) ?? ""].flat().some((part) => part !== "")));
}

// A field whose text is in the selection, and so in the address.
export function searchField(selection, name, placeholder, label) {
  const input = el("input", { type: "search", autocomplete: "off", "aria-label": label || "search",
    placeholder: placeholder || "part of a name", value: selection.get(`q.${name}`) || "" });
  input.addEventListener("input", () => selection.set({ [`q.${name}`]: input.value }));
  selection.subscribe(() => {
    const text = selection.get(`q.${name}`) || "";
    if (input.value !== text) input.value = text;
  });
  return el("label", { class: "search" }, "search ", input);
}

// Unknown (null) counts as largest, as in the text report.
function compared(one, other) {
  const isUnknown = (key) => key === null || key === undefined;
  if (isUnknown(one) || isUnknown(other)) return Number(isUnknown(one)) - Number(isUnknown(other));
  if (typeof one === "string") return one < other ? -1 : Number(one > other);
  return one - other;
}
