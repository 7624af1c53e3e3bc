// The value or instruction that is selected, described at the bottom of the page.

import { roleSlug } from "./colors.js";
import { button, commandLine, el, replace } from "./dom.js";
import { formatBytes, formatCount } from "./format.js";
import { instructionDetails } from "./instruction_details.js";
import { chosenSpace, findValue, memoryModel } from "./memory_model.js";
import { makerOf } from "./selection.js";
import { quoted } from "./shell.js";
import { valueLink } from "./value_link.js";

export const NOTHING = { value: undefined, instruction: undefined };

// Close the card: nothing is selected, and the focus goes back to where the card was opened.
export function closeCard(page) {
  if (page.selection.name() === undefined) return;
  const hadFocus = document.activeElement && document.activeElement.closest("aside.card");
  page.selection.set(NOTHING);
  if (hadFocus) page.giveBackFocus();
}

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
  const name = page.selection.name();
  card.hidden = name === undefined;
  document.body.classList.toggle("has-card", name !== undefined);
  if (name === undefined) { replace(card); return; }
  const close = button("close", () => closeCard(page), { class: "close", title: "Key Escape" });
  const head = el("h2", { tabindex: "-1" }, name);
  const details = instructionDetails(makerOf(name), page);
  if (value === undefined) {
    replace(card, head, close, itsMemory(name, page),
      details || el("div", {}, el("p", {}, "This instruction is not among those in this file."),
        commandLine(`hlo-lens show ${page.module.command} ${quoted(name)}`)));
  } else {
    const found = findValue(page, name);
    replace(card, head, close,
      found ? facts(found, page) : el("p", {}, "This value is not among those that are listed."),
      details ? el("details", {}, el("summary", {}, "its instruction"), details) : null,
      commandLine(`hlo-lens memory ${page.module.command}${found && found.space.color
        ? ` --space ${found.space.color}` : ""} --at ${quoted(name)}`));
  }
}

// When an instruction runs, and the largest value that it makes; null if neither is known.
function itsMemory(name, page) {
  const data = page.module.views.memory;
  if (!data) return null;
  const space = chosenSpace(data, page.selection);
  const place = memoryModel(data, space, page.strings).placeOfInstruction(name);
  const held = findValue(page, name);
  if (place === undefined && !held) return null;
  return el("p", {}, place === undefined ? null : ["runs at ", instantLink(place, space, page), " "],
    held ? [`holds ${formatBytes(held.model.values.size[held.k])}: `,
      valueLink(held.model.name(held.k), page)] : null);
}

function instantLink(place, space, page) {
  const instant = memoryModel(page.module.views.memory, space, page.strings).instantOf(place);
  return button(`instant ${formatCount(instant)}`, () => page.selection.set(
    { space: space.color, instant }), { title: "select the instant in the memory" });
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
