// Summary: the head of the text report, findings, and the composition of the peak.

import { roleSlug } from "../colors.js";
import { append, commandLine, el } from "../dom.js";
import { formatBytes, plural } from "../format.js";
import { placeOfInstruction } from "../instruction_details.js";
import { instructionLink } from "../instruction_link.js";
import { limitLine } from "../memory_limit.js";
import { findValue, memoryModel } from "../memory_model.js";
import { roleKey } from "../role_key.js";
import { factList, noteList, sectionTables } from "../sections.js";
import { valueLink } from "../value_link.js";

const FINDINGS = 5;
const VALUES = 12;

export const view = {
  name: "summary",
  title: "Summary",
  command: (module) => `hlo-lens report ${module.command}`,
  howToRead: [
    "Figures are those of one device after partitioning, of one run of the program. What must fit is "
    + "the memory that XLA reserves: arguments, outputs and temporaries (temp), without what outputs "
    + "reuse. The peak is the most that is held at one instant; it is below what must fit where the "
    + "reserved memory has gaps.",
    "donation: arguments whose memory a result takes over, so that it counts once. replicated: bytes "
    + "that several devices hold alike. wire: bytes that a device sends to others. exposed: a transfer "
    + "that other work cannot hide. coverage: how much of the text hlo-lens understood.",
    "A finding names a change of the program and what it saves. At most: an upper bound, XLA may "
    + "save less. Proven: the program was compiled with the change. Of its own: the bytes of the value "
    + "alone, where values computed from it may follow.",
    "A sign ~ after a source line means that the line was inferred from neighbours, because the value "
    + "has none of its own.",
  ],
  render(container, data, page) {
    append(container, [limitLine(page.module.views.memory), factList(data.facts)]);
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
    el("p", { class: "headline" }, el("b", {}, one.message),
      saving(one.saves) ? el("strong", { class: "saves" }, saving(one.saves)) : null),
    one.fix ? el("p", {}, el("span", { class: "faint" }, "change: "), one.fix) : null,
    el("p", { class: "faint" }, el("span", {}, `${one.code} ${one.severity}`),
      el("span", {}, one.name), place ? el("code", {}, place) : null),
    values(one, page),
    el("details", {}, el("summary", {}, "evidence"), noteList(one.evidence || []),
      commandLine(`hlo-lens explain ${one.code}`)));
}

// The values and instructions of a finding that other views can show.
function values(one, page) {
  const links = (one.values || []).map((name) => linkTo(name, page)).filter(Boolean);
  if (!links.length) return null;
  const rest = links.length - VALUES;
  return el("p", { class: "names" }, links.slice(0, VALUES),
    rest > 0 ? el("span", { class: "faint" }, `[${plural(rest, "other")}]`) : null);
}

function linkTo(name, page) {
  const found = findValue(page, name);
  if (found) return valueLink(found.model.name(found.k), page, name);
  return placeOfInstruction(name, page) === undefined ? null : instructionLink(name, page);
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

function saving(saves) {
  if (!saves) return "";
  const parts = [];
  if (saves.bytes > 0) parts.push(formatBytes(saves.bytes));
  if (saves.sent_bytes > 0) parts.push(`${formatBytes(saves.sent_bytes)} sent`);
  if (saves.seconds > 0) parts.push(`${saves.seconds} s`);
  if (!parts.length) return "";
  const bound = saves.basis === "up to" ? "up to " : "";
  return `saves ${bound}${parts.join(", ")}${saves.basis === "compiled" ? " [compiled]" : ""}`;
}
