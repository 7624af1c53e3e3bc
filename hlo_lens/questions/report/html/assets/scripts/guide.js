// What the page is and how it is used, for readers who do not know it.

import { el } from "./dom.js";

const WHAT = {
  report: "What XLA compiled: the memory that a device needs and when, the bytes sent between devices, "
    + "and changes to the program that would save some. All figures are from the compiler's dump; "
    + "nothing was run.",
  diff: "What changed between two compiles, the base and the head: memory, communication, shardings "
    + "and instructions. All figures are from the compiler's dumps; nothing was run.",
  check: "Whether a compile keeps its rules, on memory, communication or findings, and what the "
    + "program needs. All figures are from the compiler's dumps; nothing was run.",
};

const FIRST = {
  report: "Too much memory? Summary names what must fit, and findings: what to change, and what that "
    + "saves. Memory over the schedule shows when most is held (the peak) and by what; What is alive "
    + "lists the values there, with the source lines that make them.",
  diff: "The first sections name the cause and the figures before and after; Changes has the pictures, "
    + "and the texts of both programs side by side.",
  check: "The first section has the rules with their verdicts and figures; the views below show where "
    + "the figures come from.",
};

const USE = [
  "Select a value or an instruction in any view: it is marked in all of them, and described at the "
    + "bottom. It is then in the address of the page, which can be sent to others; the Back button of "
    + "the browser returns to what was selected before.",
  "Keyboard: Tab goes to the next control or picture, Enter opens a name, Escape closes it; arrow keys "
    + "move inside a picture. Below each picture are its numbers as a table.",
  "A line that begins with $ is the command that prints the numbers of its view, for a terminal with "
    + "hlo-lens and the dump.",
];

export function guide(kind) {
  if (!WHAT[kind]) return null;
  return el("div", { class: "guide" }, el("p", {}, WHAT[kind]),
    el("details", { class: "how" }, el("summary", {}, "How to use this page"),
      [FIRST[kind], ...USE].map((sentence) => el("p", {}, sentence))));
}
