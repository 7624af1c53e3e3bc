// Sections of a report as the text report prints them: facts, tables, notes.

import { commandLine, el, table } from "./dom.js";

export function factList(facts) {
  return el("dl", { class: "facts" }, facts.map(([label, text]) =>
    el("div", {}, el("dt", {}, label), el("dd", {}, text))));
}

export function sectionTables(section) {
  return section.tables.filter((one) => one.rows.length || one.tail.length).map((one) =>
    el("div", { class: "block" },
      el("h3", {}, one.title),
      table(one.columns, one.rows.map((row) => shownRow(one.columns, row)), { tail: one.tail, label: one.title }),
      one.notes.map((note) => el("p", { class: "note" }, note)),
      one.command ? commandLine(one.command) : null));
}

// A row with its verdict marked, where it has one.
function shownRow(columns, row) {
  if (columns[0][0] !== "status") return row;
  return [el("span", { class: `status ${row[0].split(" ")[0]}` }, row[0]), ...row.slice(1)];
}

export function sectionBlock(section) {
  return el("div", { class: "section" },
    section.facts.length ? factList(section.facts) : null,
    section.drawing.length ? el("pre", {}, section.drawing.join("\n")) : null,
    sectionTables(section),
    noteList(section.notes));
}

export function noteList(notes) {
  if (!notes.length) return null;
  return el("ul", { class: "notes" }, notes.map((note) => el("li", {}, note)));
}
