// Loops: the levels of the program as a tree, equal ones once, with runs and communication of each.

import { button, el } from "dom";
import { formatBytes, formatCount, plural } from "format";
import { instructionLink, sourceLink } from "links";

const SHOWN = 30; // levels below one level, before the others are asked for

export const view = {
  name: "loops",
  title: "Loops",
  command: (module) => `hlo-lens loops ${module.command}`,
  render(container, data, page) {
    container.append(el("div", { class: "loop-tree" }, branches(nested(data.levels), page)));
    if (data.others) {
      container.append(el("p", { class: "note" }, `[${formatCount(data.others)} other levels, `
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
    (level.depth ? open[level.depth - 1].children : roots).push(node);
    open[level.depth] = node;
  }
  return roots;
}

function branches(nodes, page) {
  const shown = nodes.slice(0, SHOWN).map((node) => branch(node, page));
  if (nodes.length <= SHOWN) return shown;
  const rest = nodes.slice(SHOWN);
  const more = button(`${formatCount(rest.length)} more: show them`,
    () => more.replaceWith(...rest.map((node) => branch(node, page))));
  return [...shown, more];
}

// What is inside a level is drawn when it is opened.
function branch(node, page) {
  const { level } = node;
  const made = el("details", {}, el("summary", {}, title(level), el("span", { class: "sum" }, sums(level))));
  const fill = () => {
    if (made.children.length > 1) return;
    made.append(el("div", { class: "level" }, facts(level, page), level.collectives.length
      ? el("ul", { class: "sends" }, level.collectives.map((one) => sends(one, level, page))) : null,
    branches(node.children, page)));
  };
  made.addEventListener("toggle", fill);
  made.open = level.depth < 3;
  if (made.open) fill();
  return made;
}

function title(level) {
  const runs = level.kind === "loop" ? ` x${level.trip_count ?? (level.trips_at_most === null ? "?" : `<=${level.trips_at_most}`)}` : "";
  const many = level.equal > 1 ? `${formatCount(level.equal)} x ` : "";
  const name = level.equal > 1 && level.kind === "loop" ? "while" : level.loop;
  return [many, el("code", {}, level.kind === "branch" ? `${name} branch ${level.branch}` : name), el("b", {}, runs)];
}

function sums(level) {
  if (!level.static_count) return "";
  return `${level.is_at_most ? "<=" : ""}${formatBytes(level.wire_bytes_of_equal)} on the wire, `
    + `${plural(level.static_count * level.equal, "collective")}`;
}

function sends(one, level, page) {
  const each = level.kind === "loop" ? `${formatCount(one.static_count)} each trip, ` : "";
  return el("li", {}, el("b", {}, `${one.kind} ${one.axis}`), ` ${each}${one.times} in one run, `
    + `${one.wire_bytes_is_at_most ? "<=" : ""}${formatBytes(one.wire_bytes_per_run)} on the wire`
    + `${level.equal > 1 ? ", of one of them" : ""} `, sourceLink(one.where, page));
}

function facts(level, page) {
  const memory = page.module.views.memory;
  const band = (memory ? memory.loops : []).find(([name]) => page.strings[name] === level.loop);
  const mark = level.origin_basis && level.origin_basis !== "own" ? " ~" : "";
  return el("p", { class: "faint" }, level.op_name, " ", level.source ? sourceLink(level.source + mark, page) : null,
    ` ${plural(level.instructions, "instruction")} `,
    level.reason ? `trip count not known: ${level.reason} ` : null,
    level.equal > 1 ? ["the first: "] : null,
    level.kind === "entry" ? null : instructionLink(level.loop, page), " ",
    band ? button("show in the memory", () => page.selection.set({ instant: band[1] })) : null);
}
