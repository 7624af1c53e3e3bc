// Tables that are sorted by a click on a head and searched by part of a text, and sections of facts,
// tables and notes as Python wrote them.

import { append, block, button, commandLine, el, factList, noteList, plainTable, redrawn, replace,
  sourceLink, tableCell } from "dom";
import { formatCount, plural } from "format";

const SHOWN = 25;
const LEAST_SEARCHED = 12; // rows of a table that has a search
const SOURCES = new Set(["source", "group", "where"]);
const WORDS = /(?!^not known$)[a-z]{3}/; // of a cell that is no amount
const AMOUNT = /^[~<>=+]* ?(-?[\d,.]+) ?([KMGTPEk]?)(i?)(?:B|FLOP|s|%)?$/;

// The chosen record is shown wherever it is. Columns: { title, meaning, isNumber, cell(record) => text
// or node, by(record) => sort key, which is searched too }. The search is in the selection, by the name
// of the listing; without a selection there is none.
export class Listing {
  constructor(records, columns, options) {
    Object.assign(this, { records, columns, shown: SHOWN, isDescending: true, filter: null }, options);
    this.column = this.sortedBy === undefined ? null : columns[this.sortedBy];
    this.place = el("div", { class: "listing" });
    this.tools = el("div", { class: "tools" });
    this.element = el("div", {}, this.tools, this.place);
    if (this.selection) {
      this.tools.append(searchField(this.selection, this.name, this.placeholder, `search ${this.label}`));
      const state = () => [this.selection.get(`q.${this.name}`), this.chosen ? this.chosen() : null];
      let last = state();
      this.selection.subscribe(() => {
        const now = state();
        if (now.some((one, k) => one !== last[k])) this.draw();
        last = now;
      });
    }
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
    const key = this.column.key || this.column.by;
    const keys = new Map(found.map((one) => [one, key(one)]));
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
    replace(this.place, plainTable(this.columns.map(({ isNumber }) => ["", "", isNumber]), shown.map(row),
      this.tail ? this.tail(found, shown) : [], this.label, this.columns.map((column) => this.head(column))),
    rest ? button(`${plural(rest, "more row")}: show them`, () => {
      this.shown = Math.min(found.length, this.shown * 8);
      this.draw();
    }) : null,
    found.length < this.records.length ? el("p", { class: "note" },
      `${formatCount(found.length)} of ${plural(this.records.length, "row")} found`) : null);
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

// A text such as "<=1.5MiB" or "33.8G" as a number; null where it is none.
function amount(text) {
  const found = AMOUNT.exec(text);
  return found && Number(found[1].replaceAll(",", ""))
    * (found[3] ? 1024 : 1000) ** " KMGTPE".indexOf(found[2].toUpperCase() || " ");
}

// A table of Python as a listing of the numbers of its rows. Cells: by column, functions of text and
// number of the row that return a text or a node.
export function tableListing(table, page, { cells = {}, ...options } = {}) {
  const columns = table.columns.map(([title, meaning, isAmount], place) => {
    const text = (k) => table.rows[k][place];
    const isNumber = table.rows.every((row) => (isAmount ? !WORDS.test(row[place])
      : row[place] === "" || amount(row[place]) !== null));
    const cell = cells[title] || (title === "status" ? statusMark : SOURCES.has(title)
      ? (line) => sourceLink(line, page) : (content) => content);
    return { title, meaning, isNumber, cell: (k) => cell(text(k), k), by: text,
      key: (k) => (isNumber ? amount(text(k)) : text(k)) };
  });
  const isSearched = table.rows.length >= LEAST_SEARCHED;
  return new Listing(table.rows.map((_, k) => k), columns, { label: `rows of ${table.title}`, name: table.name,
    selection: isSearched ? page.selection : undefined,
    tail: (found) => (found.length === table.rows.length ? table.tail : []), ...options });
}

function statusMark(text) {
  return el("span", { class: `status ${text.split(" ")[0]}` }, text);
}

// Tables of a section. Options: for each by its name, those of its listing.
export function sectionTables(section, page, options = {}) {
  return section.tables.filter((one) => one.rows.length || one.tail.length).map((one) =>
    block(one.title, one.command ? commandLine(one.command) : null,
      tableListing(one, page, options[one.name]).element, one.notes.map((note) => el("p", { class: "note" }, note))));
}

export function sectionBlock(section, page, options = {}) {
  return append(el("div", { class: "section" }), [factList(section.facts),
    section.drawing.length ? el("pre", {}, section.drawing.join("\n")) : null,
    sectionTables(section, page, options), noteList(section.notes)]);
}
