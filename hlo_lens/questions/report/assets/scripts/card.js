// The value or instruction that is selected, described at the bottom of the page.

import { swatch } from "colors";
import { button, commandLine, el, factList, instructionLink, joined, quoted, replace, sourceLink,
  valueLink } from "dom";
import { formatBytes, formatCount, plural } from "format";
import { findValue, placeOfInstruction } from "memory_model";
import { makerOf } from "selection";

const NOTHING = { value: undefined, instruction: undefined };
const OPENERS = "button.name, button.box, canvas";

export function makeCard(page) {
  const card = el("aside", { class: "card", "aria-label": "the selected value or instruction", hidden: true });
  page.selection.subscribe(() => draw(card, page));
  setTimeout(() => draw(card, page), 0);
  return card;
}

// What is opened with a key moves the focus to the card, and closing the card gives it back. A click
// of a pointer leaves the focus where it is.
export function followKeys(page) {
  let opener = null;
  const enter = () => {
    const card = document.querySelector("aside.card:not([hidden])");
    if (!card) return;
    if (!card.contains(document.activeElement)) opener = document.activeElement;
    card.querySelector("h2").focus();
  };
  addEventListener("click", (event) => {
    if (event.detail === 0 && event.isTrusted && event.target.closest(OPENERS)) enter();
  });
  addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.target instanceof HTMLCanvasElement) enter();
    if (event.key !== "Escape" || page.selection.name() === undefined) return;
    if (opener && document.activeElement.closest("aside.card")) opener.focus({ preventScroll: true });
    opener = null;
    page.selection.set(NOTHING); // what is drawn anew keeps the focus
  });
}

function draw(card, page) {
  const value = page.selection.get("value");
  const name = page.selection.name();
  card.hidden = name === undefined;
  document.body.classList.toggle("has-card", name !== undefined);
  if (name === undefined) { replace(card); return; }
  const head = [el("h2", { tabindex: "-1" }, name),
    button("close", () => page.selection.set(NOTHING), { class: "close", title: "Key Escape" })];
  const details = instructionDetails(makerOf(name), page);
  if (value === undefined) {
    replace(card, head, itsMemory(name, page),
      details || el("div", {}, el("p", {}, "This instruction is not among those in this file."),
        commandLine(`hlo-lens show ${page.module.command} ${quoted(name)}`)));
    return;
  }
  const found = findValue(page, name);
  replace(card, head, found ? facts(found, page) : el("p", {}, "This value is not among those that are listed."),
    details ? el("details", {}, el("summary", {}, "its instruction"), details) : null,
    commandLine(`hlo-lens memory ${page.module.command}${found && found.space.color
      ? ` --space ${found.space.color}` : ""} --at ${quoted(name)}`));
}

// The largest value that an instruction makes; null if none is known.
function itsMemory(name, page) {
  const held = findValue(page, name);
  return held && el("p", {}, `holds ${formatBytes(held.model.values.size[held.k])}: `,
    valueLink(held.model.name(held.k), page));
}

function facts({ model, space, k }, page) {
  const { values } = model;
  return factList([
    ["size", `${formatBytes(values.size[k])} of ${space.name}, padding included`],
    ["role", [swatch(model.role(k)), `${model.role(k)}: ${model.text("basis", k)}`]],
    ["shape", model.text("shape", k)],
    ["lives", [`instant ${formatCount(values.start[k])} to ${formatCount(values.end[k])} of `
      + `${formatCount(model.length)} `, button("go to its begin", () => page.selection.set(
      { space: space.color, instant: values.start[k] }))]],
    ["place", `allocation ${values.allocation[k]} (${model.text("category", k)}), offset `
      + formatCount(values.offset[k])],
    ["source", sourceLink(model.text("source", k), page)], ["operation", model.text("op_name", k)],
    ["argument", model.text("argument", k)], ["opcode", model.text("opcode", k)],
    ["stack", stack(model.text("stack", k), page)],
  ]);
}

// The details of an instruction; null if it is not listed.
function instructionDetails(name, page) {
  const k = placeOfInstruction(name, page);
  if (k === undefined) return null;
  const data = page.module.views.program;
  const text = (key) => (data[key][k] < 0 ? null : page.strings[data[key][k]]);
  const more = data.more[k] ? ` ... [${plural(data.more[k], "more character")}]` : "";
  return el("div", {}, el("pre", { class: "hlo", tabindex: "0", "aria-label": "text" }, data.text[k], more),
    factList([["shape", text("shape")], ["computation", text("computation")],
      ["source", sourceLink(text("source"), page)], ["operation", text("op_name")],
      ["stack", stack(text("stack"), page)],
      ["operands", links(data.operands[k], data.operand_count[k], page)],
      ["users", links(data.users[k], data.user_count[k], page)]]),
    commandLine(`hlo-lens show ${page.module.command} ${quoted(name)}`));
}

// Frames of a call stack, innermost first: "file:line (function)".
function stack(text, page) {
  return text && el("ol", { class: "stack" }, text.split(" < ").map((frame) => el("li", {}, sourceLink(frame, page))));
}

function links(numbers, count, page) {
  if (!count) return null;
  const rest = count - numbers.length;
  return [joined(numbers.map((number) => instructionLink(page.strings[number], page))),
    rest > 0 ? `, [${rest} others]` : ""];
}
