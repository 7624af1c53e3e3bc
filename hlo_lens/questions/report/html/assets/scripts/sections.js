// Sections of a report as the text report prints them: facts, tables, notes.

import { button, commandLine, block, el, factList, noteList, table } from "dom";
import { sourceLink } from "links";

const SOURCES = new Set(["source", "group", "where"]);

export function sectionTables(section, page, open = null) {
  return section.tables.filter((one) => one.rows.length || one.tail.length).map((one) => {
    const cell = (text, k) => {
      if (one.columns[k][0] === "status") return el("span", { class: `status ${text.split(" ")[0]}` }, text);
      return SOURCES.has(one.columns[k][0]) ? sourceLink(text, page) : text;
    };
    const opens = one === section.tables[0] ? section.opens || [] : []; // modules that the rows open
    return block(one.title, one.command ? commandLine(one.command) : null,
      table(one.columns, one.rows.map((row, k) => row.map((text, column) => (column === 0 && opens[k]
        ? button(text, () => open(opens[k]), { class: "name", title: "show this module" }) : cell(text, column)))),
      { tail: one.tail, label: one.title }), one.notes.map((note) => el("p", { class: "note" }, note)));
  });
}

export function sectionBlock(section, page, open = null) {
  return el("div", { class: "section" }, section.command ? commandLine(section.command) : null,
    factList(section.facts), section.drawing.length ? el("pre", {}, section.drawing.join("\n")) : null,
    sectionTables(section, page, open), noteList(section.notes));
}
