// Summary: the head of the text report, findings, and the composition of the peak.

import { roleSlug } from "../colors.js";
import { button, commandLine, el, table } from "../dom.js";
import { formatBytes, plural } from "../format.js";
import { memoryModel } from "../memory_model.js";
import { roleKey } from "../role_key.js";
import { factList, noteList, sectionTables } from "../sections.js";

const FINDINGS = 5;
const VALUES = 12;

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
    const made = composition(page);
    if (made) container.append(made);
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
  for (const one of open.slice(0, FINDINGS)) block.append(finding(one, page));
  if (open.length > FINDINGS) {
    block.append(el("details", {}, el("summary", {}, plural(open.length - FINDINGS, "other")),
      open.slice(FINDINGS).map((one) => finding(one, page))));
  }
  block.append(commandLine(`hlo-lens lint ${page.module.command}`));
  return block;
}

function finding(one, page) {
  const place = one.source_file ? `${one.source_file}:${one.source_line ?? "?"}` : "";
  return el("article", { class: `finding ${one.severity}` },
    el("p", {}, el("b", {}, `${one.code} ${one.severity}`), " ", el("span", {}, one.name),
      place ? el("code", {}, place) : null,
      saving(one.saves) ? el("strong", { class: "saves" }, saving(one.saves)) : null),
    el("p", {}, one.message),
    one.fix ? el("p", { class: "fix" }, one.fix) : null,
    values(one, page),
    one.evidence && one.evidence.length ? el("details", {}, el("summary", {}, "evidence"),
      table([["evidence", "", false]], one.evidence.map((text) => [plain(text)]))) : null);
}

// The values of a finding that other views can show.
function values(one, page) {
  const data = page.module.views.memory;
  if (!data || !Array.isArray(one.values)) return null;
  const { byName } = memoryModel(data, data.spaces[0], page.strings);
  const known = one.values.map((name) => [name, `${name}{}`].find((text) => byName.has(text)))
    .filter(Boolean).slice(0, VALUES);
  if (!known.length) return null;
  return el("p", {}, known.map((name) => button(name,
    () => page.selection.set({ value: name }), { class: "name" })));
}

// What the peak is made of, as one bar.
function composition(page) {
  const data = page.module.views.memory;
  if (!data) return null;
  const model = memoryModel(data, data.spaces[0], page.strings);
  const key = roleKey(model);
  key.show(model.peakPlace);
  const total = model.held[model.peakPlace];
  const parts = [...model.roles].reverse().filter((one) => one.bytes[model.peakPlace] > 0);
  return el("div", { class: "block" }, el("h3", {}, "What the peak is made of"),
    el("div", { class: "bar", "aria-hidden": "true" }, parts.map((one) => el("span", {
      class: `box ${roleSlug(one.name)}`, title: one.name,
      style: { flexGrow: one.bytes[model.peakPlace] / total } },
    one.bytes[model.peakPlace] > 0.12 * total ? one.name : ""))), key.element,
    commandLine(`hlo-lens memory ${page.module.command} --by role`));
}

function plain(value) {
  return typeof value === "string" ? value : JSON.stringify(value);
}

function saving(saves) {
  if (!saves) return "";
  const parts = [];
  if (saves.own_bytes) {
    parts.push(`${formatBytes(saves.own_bytes)} of its own`);
    if (saves.bytes) parts.push(`at most ${formatBytes(saves.bytes)}`);
    return `saves ${parts.join(", ")}`;
  }
  if (saves.bytes) parts.push(formatBytes(saves.bytes));
  else if (saves.low || saves.high) {
    parts.push(`${formatBytes(saves.low ?? 0)} to ${formatBytes(saves.high)}`);
  }
  if (saves.wire_bytes) parts.push(`${formatBytes(saves.wire_bytes)} on the wire`);
  if (saves.seconds) parts.push(`${saves.seconds} s`);
  return parts.length ? `saves ${parts.join(", ")}${saves.basis ? `, ${saves.basis}` : ""}` : "";
}
