// Text, operands, users and origin of an instruction, from the data of the view Program.

import { commandLine, el } from "./dom.js";
import { plural } from "./format.js";
import { instructionLink } from "./instruction_link.js";
import { quoted } from "./shell.js";

const places = new WeakMap();

// The place of an instruction among those that are listed; undefined if it is not.
export function placeOfInstruction(name, page) {
  const data = page.module.views.program;
  if (!data) return undefined;
  if (!places.has(data)) {
    places.set(data, new Map(data.name.map((number, k) => [page.strings[number], k])));
  }
  return places.get(data).get(name);
}

// The details of an instruction; null if it is not listed.
export function instructionDetails(name, page) {
  const k = placeOfInstruction(name, page);
  if (k === undefined) return null;
  const data = page.module.views.program;
  const text = (key) => (data[key][k] < 0 ? null : page.strings[data[key][k]]);
  const lines = [
    ["shape", text("shape")], ["computation", text("computation")], ["source", text("source")],
    ["operation", text("op_name")], ["stack", stack(text("stack"))],
    ["operands", links(data.operands[k], data.operand_count[k], page)],
    ["users", links(data.users[k], data.user_count[k], page)],
    ["calls", (data.calls[k] || []).map(([role, called]) => `${called} (${role})`).join(", ")],
    ["called by", links(...(data.callers[data.computation[k]] || [[], 0]), page)],
  ];
  const more = data.more[k] ? ` ... [${plural(data.more[k], "more character")}]` : "";
  return el("div", {},
    el("pre", { class: "hlo", tabindex: "0", "aria-label": "text" }, data.text[k], more),
    el("dl", { class: "facts" }, lines.filter(([, value]) => value).map(([label, value]) =>
      el("div", {}, el("dt", {}, label), el("dd", {}, value)))),
    commandLine(`hlo-lens show ${page.module.command} ${quoted(name)}`));
}

function stack(text) {
  if (!text) return null;
  return el("ol", { class: "stack" }, text.split(" < ").map((frame) => el("li", {}, frame)));
}

function links(numbers, count, page) {
  if (!count) return null;
  const nodes = numbers.flatMap((number, k) => {
    const link = instructionLink(page.strings[number], page);
    return k ? [", ", link] : [link];
  });
  const rest = count - numbers.length;
  return el("span", {}, nodes, rest > 0 ? `, [${rest} others]` : "");
}
