// Sections of a report as the text report prints them: facts, tables, notes.

import { button, commandLine, el, table } from "./dom.js";

export function factList(facts) {
  return el("dl", { class: "facts" }, facts.map(([label, text]) =>
    el("div", {}, el("dt", {}, label), el("dd", {}, text))));
}

// Opens: titles of the modules that the rows of the first table open, or null; open: what does.
export function sectionTables(section, open = null) {
  return section.tables.filter((one) => one.rows.length || one.tail.length).map((one) =>
    el("div", { class: "block" },
      el("h3", {}, one.title),
      table(one.columns, one.rows.map((row, k) => shownRow(one.columns, row,
        one === section.tables[0] ? (section.opens || [])[k] : null, open)),
      { tail: one.tail, label: one.title }),
      one.notes.map((note) => el("p", { class: "note" }, note)),
      one.command ? commandLine(one.command) : null));
}

// A row with its verdict marked, or a name that opens a module.
function shownRow(columns, row, title, open) {
  if (title) {
    return [button(row[0], () => open(title), { class: "name", title: "show this module" }),
      ...row.slice(1)];
  }
  if (columns[0][0] !== "status") return row;
  return [el("span", { class: `status ${row[0].split(" ")[0]}` }, row[0]), ...row.slice(1)];
}

export function sectionBlock(section, open = null) {
  return el("div", { class: "section" },
    section.command ? commandLine(section.command) : null,
    section.facts.length ? factList(section.facts) : null,
    section.drawing.length ? el("pre", {}, section.drawing.join("\n")) : null,
    sectionTables(section, open),
    noteList(section.notes));
}

export function noteList(notes) {
  if (!notes.length) return null;
  return el("ul", { class: "notes" }, notes.map((note) => el("li", {}, note)));
}
