// Loops: the levels of the program as a tree, with runs and communication of each.

import { button, el } from "../dom.js";
import { formatBytes, formatCount, plural } from "../format.js";
import { instructionLink } from "../instruction_link.js";

export const view = {
  name: "loops",
  title: "Loops",
  command: (module) => `hlo-lens loops ${module.command}`,
  howToRead: [
    "The skeleton of the program: the entry, and below it each loop and branch with what it holds. "
    + "x32 after a loop: its body runs 32 times each time the loop runs; x? where no text gives the "
    + "number.",
    "Bytes are those that leave each device, of the level itself, without loops inside it: each trip "
    + "and in one run of the program. <= marks what is under a conditional, and so may not run.",
    "Open and close a level with its triangle, or with Enter and Space on it.",
  ],
  render(container, data, page) {
    const roots = nested(data.levels);
    container.append(el("div", { class: "loop-tree" }, roots.map((node) => branch(node, page))));
    if (data.others) {
      container.append(el("p", { class: "note" }, `[${data.others} other levels, `
        + `${formatBytes(data.others_wire_bytes_per_run)} on the wire in one run]`));
    }
  },
};

function nested(levels) {
  const roots = [];
  const open = [];
  for (const level of levels) {
    const node = { level, children: [] };
    open.length = level.depth;
    const above = open[level.depth - 1];
    (above ? above.children : roots).push(node);
    open[level.depth] = node;
  }
  return roots;
}

function branch(node, page) {
  const { level, children } = node;
  return el("details", { open: level.depth < 3 }, el("summary", {}, title(level),
    el("span", { class: "sum" }, sums(level))),
  el("div", { class: "level" }, facts(level, page),
    level.collectives.length ? el("ul", { class: "sends" }, level.collectives.map((one) =>
      el("li", {}, el("b", {}, `${one.kind} ${one.axis}`), ` ${each(one, level)}, `
        + `${one.wire_bytes_is_at_most ? "<=" : ""}${formatBytes(one.wire_bytes_per_run)} on the wire`,
      one.where ? el("span", { class: "faint" }, ` ${one.where}`) : null))) : null,
    children.map((child) => branch(child, page))));
}

function title(level) {
  const runs = level.kind === "loop" ? ` x${level.trip_count === null ? "?" : level.trip_count}` : "";
  const name = level.kind === "branch" ? `${level.loop} branch ${level.branch}` : level.loop;
  return el("span", {}, el("code", {}, name), el("b", {}, runs));
}

function sums(level) {
  if (!level.static_count) return "";
  const sign = level.is_at_most ? "<=" : "";
  return `${sign}${formatBytes(level.wire_bytes_per_run)} on the wire, `
    + `${plural(level.static_count, "collective")}`;
}

function each(group, level) {
  const text = `${formatCount(group.static_count)} each trip, ${group.times} in one run`;
  return level.kind === "loop" ? text : `${group.times} in one run`;
}

function facts(level, page) {
  const memory = page.module.views.memory;
  const band = (memory ? memory.loops : []).find(([name]) => page.strings[name] === level.loop);
  const parts = [level.op_name, level.source
    ? `${level.source}${level.origin_basis && level.origin_basis !== "own" ? " ~" : ""}` : null,
  plural(level.instructions, "instruction"),
  level.reason ? `trip count not known: ${level.reason}` : null].filter(Boolean);
  return el("p", { class: "faint" }, parts.join("  \u00b7  "), " ",
    level.kind === "entry" ? null : instructionLink(level.loop, page), " ",
    band ? button("show in the memory", () => page.selection.set({ instant: band[1] })) : null);
}
