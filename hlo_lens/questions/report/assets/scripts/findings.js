// Findings in words of the text report, each opened for what to do and why.

import { commandLine, el, instructionLink, noteList, sourceLink, valueLink } from "dom";
import { plural } from "format";
import { findValue, placeOfInstruction } from "memory_model";

const SHOWN = 12;
const VALUES = 12;

// The findings of a module; null where they are not known.
export function findingsList(page) {
  const all = page.object && page.object.findings;
  if (!Array.isArray(all)) return null;
  const open = all.map((one, k) => ({ ...one, saving: page.module.savings[k] })).filter((one) => !one.suppressed);
  const made = open.map((one, k) => finding(one, page, k === 0));
  return el("div", { class: "findings", tabindex: "0", role: "region", "aria-label": "findings" },
    el("h3", {}, open.length ? plural(open.length, "finding") : "No findings"), made.slice(0, SHOWN),
    made.length > SHOWN ? el("details", {}, el("summary", {}, plural(made.length - SHOWN, "other")), made.slice(SHOWN)) : null,
    commandLine(`hlo-lens lint ${page.module.command}`));
}

function finding(one, page, isOpen) {
  const place = one.source_file ? `${one.source_file}:${one.source_line ?? "?"}` : "";
  return el("details", { class: `finding ${one.severity}`, open: isOpen },
    el("summary", {}, el("span", { class: "kind" }, `${one.code} ${one.severity} `),
      one.saving ? el("strong", {}, `${one.saving} `) : null, one.message, " ", sourceLink(place, page)),
    one.fix ? el("p", {}, el("span", { class: "faint" }, "fix "), one.fix) : null,
    values(one, page), noteList(one.evidence || []), commandLine(`hlo-lens help ${one.code}`));
}

// The values and instructions of a finding that other views can show.
function values(one, page) {
  const links = (one.values || []).map((name) => {
    const found = findValue(page, name);
    if (found) return valueLink(found.model.name(found.k), page, name);
    return placeOfInstruction(name, page) === undefined ? null : instructionLink(name, page);
  }).filter(Boolean);
  const rest = links.length - VALUES;
  return links.length ? el("p", { class: "names" }, links.slice(0, VALUES),
    rest > 0 ? el("span", { class: "faint" }, `[${plural(rest, "other")}]`) : null) : null;
}
