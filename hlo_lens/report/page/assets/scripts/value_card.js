// The value or instruction that is selected, described at the bottom of the page.

import { roleSlug } from "./colors.js";
import { button, commandLine, el, replace } from "./dom.js";
import { formatBytes, formatCount } from "./format.js";
import { instructionDetails } from "./instruction_details.js";
import { chosenSpace, memoryModel } from "./memory_model.js";
import { quoted } from "./shell.js";

export const NOTHING = { value: undefined, instruction: undefined };

export function valueCard(page) {
  const card = el("aside", { class: "card", "aria-label": "the selected value or instruction", hidden: true });
  const update = () => {
    if (!card.isConnected) return false;
    draw(card, page);
    return true;
  };
  page.selection.subscribe(update);
  setTimeout(update, 0);
  return card;
}

function draw(card, page) {
  const value = page.selection.get("value");
  const instruction = page.selection.get("instruction");
  const name = value === undefined ? instruction : value;
  card.hidden = name === undefined;
  document.body.classList.toggle("has-card", name !== undefined);
  if (name === undefined) { replace(card); return; }
  const close = button("close", () => page.selection.set(NOTHING),
    { class: "close", title: "Key Escape" });
  const details = instructionDetails(value === undefined ? name : name.split("{")[0], page);
  if (value === undefined) {
    replace(card, close, el("h2", {}, name),
      details || el("div", {}, el("p", {}, "This instruction is not among those in this file."),
        commandLine(`hlo-lens show ${page.module.command} ${quoted(name)}`)));
  } else {
    const found = findValue(page, name);
    replace(card, close, el("h2", {}, name),
      found ? facts(found, page) : el("p", {}, "This value is not among those that are listed."),
      details ? el("details", {}, el("summary", {}, "its instruction"), details) : null,
      commandLine(`hlo-lens memory ${page.module.command} --at ${quoted(name)}`));
  }
}

function findValue(page, name) {
  const data = page.module.views.memory;
  if (!data) return null;
  const first = chosenSpace(data, page.selection);
  for (const space of [first, ...data.spaces.filter((one) => one !== first)]) {
    const model = memoryModel(data, space, page.strings);
    if (model.byName.has(name)) return { model, space, k: model.byName.get(name) };
  }
  return null;
}

function facts({ model, space, k }, page) {
  const { values } = model;
  const lines = [
    ["size", `${formatBytes(values.size[k])} of ${space.name}, padding included`],
    ["role", el("span", {}, el("span", { class: `swatch ${roleSlug(model.role(k))}` }),
      `${model.role(k)}: ${model.text("basis", k)}`)],
    ["shape", model.text("shape", k)],
    ["lives", el("span", {}, `instant ${formatCount(values.start[k])} to `
      + `${formatCount(values.end[k])} of ${formatCount(model.length)} `,
    button("go to its begin", () => page.selection.set(
      { space: space.color, instant: values.start[k] })))],
    ["place", `allocation ${values.allocation[k]} (${model.text("category", k)}), offset `
      + formatCount(values.offset[k])],
    ["source", model.text("source", k)], ["operation", model.text("op_name", k)],
    ["argument", model.text("argument", k)], ["opcode", model.text("opcode", k)],
    ["stack", model.text("stack", k)],
  ];
  return el("dl", { class: "facts" }, lines.filter(([, text]) => text).map(([label, text]) =>
    el("div", {}, el("dt", {}, label), el("dd", {}, text))));
}
