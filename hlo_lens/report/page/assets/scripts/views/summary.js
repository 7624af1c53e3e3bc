// Summary: the head of the text report, findings, and the composition of the peak.

import { commandLine, el, table } from "../dom.js";
import { formatBytes, plural } from "../format.js";
import { factList, noteList, sectionTables } from "../sections.js";

const FINDINGS = 12;

export const view = {
  name: "summary",
  title: "Summary",
  command: (module) => `hlo-lens report ${module.command}`,
  howToRead: [
    "The lines are those that hlo-lens report prints: what must fit in the memory of one device, "
    + "the largest instant of the schedule (the peak), donation, communication and arithmetic of "
    + "one run.",
    "Figures are those of one device after partitioning. A sign ~ after a source line means that "
    + "the line was inferred from neighbours, because the value has none of its own.",
  ],
  render(container, data, page) {
    container.append(factList(data.facts));
    const found = findings(page);
    if (found) container.append(found);
    container.append(...sectionTables(data));
    const notes = noteList(data.notes);
    if (notes) container.append(notes);
  },
};

function findings(page) {
  const all = page.object && page.object.findings;
  if (!Array.isArray(all)) return null;
  const open = all.filter((one) => !one.suppressed);
  const block = el("div", { class: "block findings" },
    el("h3", {}, open.length ? plural(open.length, "finding") : "No findings"));
  for (const one of open.slice(0, FINDINGS)) block.append(finding(one));
  if (open.length > FINDINGS) {
    block.append(el("p", { class: "note" }, `[${open.length - FINDINGS} others]`));
  }
  block.append(commandLine(`hlo-lens lint ${page.module.command}`));
  return block;
}

function finding(one) {
  const place = one.source_file ? `${one.source_file}:${one.source_line ?? "?"}` : "";
  return el("article", { class: `finding ${one.severity}` },
    el("p", {}, el("b", {}, `${one.code} ${one.severity}`), " ", el("span", {}, one.name),
      place ? el("code", {}, place) : null,
      saving(one.saves) ? el("strong", { class: "saves" }, saving(one.saves)) : null),
    el("p", {}, one.message),
    one.fix ? el("p", { class: "fix" }, one.fix) : null,
    one.evidence && one.evidence.length ? el("details", {}, el("summary", {}, "evidence"),
      table([["evidence", "", false]], one.evidence.map((text) => [plain(text)]))) : null);
}

function plain(value) {
  return typeof value === "string" ? value : JSON.stringify(value);
}

function saving(saves) {
  if (!saves) return "";
  const parts = [];
  if (saves.bytes) parts.push(formatBytes(saves.bytes));
  else if (saves.low || saves.high) {
    parts.push(`${formatBytes(saves.low ?? 0)} to ${formatBytes(saves.high)}`);
  }
  if (saves.wire_bytes) parts.push(`${formatBytes(saves.wire_bytes)} on the wire`);
  if (saves.seconds) parts.push(`${saves.seconds} s`);
  return parts.length ? `saves ${parts.join(", ")}${saves.basis ? `, ${saves.basis}` : ""}` : "";
}
