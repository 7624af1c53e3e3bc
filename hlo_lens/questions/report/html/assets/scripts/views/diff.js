// Changes between two compiles: memory over both schedules, at both peaks, and the programs.

import { button, choice, el, pictureTable, replace } from "../dom.js";
import { differenceIcicle, signed } from "../difference_icicle.js";
import { formatBytes, formatCount, plural } from "../format.js";
import { figurePairs } from "../figure_pairs.js";
import { Listing } from "../listing.js";
import { OverlayChart } from "../overlay_chart.js";
import { computationBlock } from "../side_by_side.js";

const COMPUTATIONS = 20;

export const view = {
  name: "diff",
  title: "Changes",
  command: (module) => `hlo-lens diff ${module.pair} -n 0`,
  howToRead: [
    "Figures: the upper bar is the base, the lower one the head; bars of one table have one scale.",
    "Memory over both schedules: the solid line is the head, the dashed one the base. Programs have "
    + "different lengths, so each is drawn from its begin to its end; the same place is not the same "
    + "instruction. Dots are the peaks. The arrow keys move the line, P goes to the head's peak.",
    "Memory at the peaks: from the whole at the top to single operation paths or source lines at the "
    + "bottom. Widths are bytes at the head's peak, colours the change from the base's peak: grown, "
    + "shrunk or the same, also printed with its sign. What is gone has no width and is in the table.",
    "Program: each row is a group of equal changes; noise such as renumbered names is not counted. "
    + "Open a row to see its instructions side by side: ~ changed, + added, - removed, > moved to "
    + "another computation. Texts are without metadata.",
  ],
  render(container, data, page) {
    if (data.snapshots.length) container.append(snapshotNote(data.snapshots));
    const figures = figurePairs(page.changes || {});
    if (figures) container.append(figures);
    if (data.spaces.length) container.append(timeLines(data, page));
    if (data.groups.op) container.append(peaks(data, page));
    const texts = data.computations.map((one) => ({ ...one, element: computationBlock(one) }));
    const rows = page.changes && page.changes.program_rows;
    if (rows && rows.length) container.append(programRows(rows, texts));
    if (texts.length) container.append(sideBySide(data, texts));
    if (!container.children.length) container.append(el("p", {}, "No change."));
  },
};

function snapshotNote(sides) {
  const [word, has] = sides.length > 1 ? ["Both sides are snapshots", "have"]
    : [`The ${sides[0]} is a snapshot`, "has"];
  return el("p", { class: "note" }, `${word}, which ${has} figures and the values at the peak. Memory `
    + "over the schedule and programs side by side need the dumps: hlo-lens diff BASE_DIR HEAD_DIR.");
}

function timeLines(data, page) {
  const readout = el("p", { class: "readout", "aria-live": "polite" });
  const place = el("div", {});
  const show = (color) => {
    const space = data.spaces.find((one) => one.color === color);
    const texts = ["base", "head"].filter((name) => space[name]).map((name) =>
      `${name} peak ${formatBytes(space[name].largest)}`);
    const chart = new OverlayChart(space, { label: `Bytes of ${space.name} held over both `
      + `schedules: ${texts.join(", ")}`, onpoint: (found) => describe(readout, found, space, page) });
    replace(place, chart.element, readout, pictureTable("The picture as a table: every twentieth "
      + "part of both schedules", [["part", "", true], ["base", "", true], ["head", "", true]],
    () => twentieths(chart)));
    chart.start();
  };
  const first = data.spaces[0];
  const spaces = choice("memory space", data.spaces.map((one) => [one.color, one.name]), first.color,
    show);
  setTimeout(() => show(first.color), 0);
  return el("div", { class: "block" }, el("h3", {}, "Memory over both schedules"),
    data.spaces.length > 1 ? el("div", { class: "tools" }, spaces.element) : null,
    el("ul", { class: "lane-key" }, el("li", {}, el("span", { class: "dash of-head" }), "head"),
      el("li", {}, el("span", { class: "dash of-base" }), "base")), place);
}

function describe(readout, found, space, page) {
  const parts = ["base", "head"].filter((name) => found[name]).flatMap((name, k) => {
    const { bytes, instant } = found[name];
    const number = space[name].schedule[found[name].k];
    const instruction = number >= 0 ? [" (", el("code", {}, page.strings[number]), ")"] : [];
    const peak = bytes === space[name].largest ? ", its peak" : "";
    return [k ? "; " : "", `${name} `, el("b", {}, formatBytes(bytes)),
      ` at instant ${formatCount(instant)}`, ...instruction, peak];
  });
  const delta = found.base && found.head
    ? `; ${signed(found.head.bytes - found.base.bytes)}` : "";
  replace(readout, ...parts, delta);
}

function twentieths(chart) {
  return Array.from({ length: 20 }, (_, part) => {
    const cells = ["base", "head"].map((name) => {
      const side = chart.sides.find((one) => one.name === name);
      if (!side) return "not known";
      const inside = side.held.filter((_bytes, k) => Math.floor((side.at[k] / side.length) * 20) === part);
      return inside.length ? formatBytes(Math.max(...inside)) : "";
    });
    return [`${part * 5} to ${part * 5 + 5}%`, ...cells];
  });
}

function peaks(data, page) {
  const place = el("div", {});
  const show = (by) => {
    const { label, base, head, others, others_base, others_head } = data.groups[by];
    const groups = label.map((number, k) => [page.strings[number], base[k], head[k]]);
    if (others) groups.push([`[${others} others]`, others_base, others_head]);
    const sums = groups.reduce(([one, other], group) => [one + group[1], other + group[2]], [0, 0]);
    replace(place, el("p", { class: "readout" }, `base ${formatBytes(sums[0])}, head `,
      el("b", {}, formatBytes(sums[1])), `, ${signed(sums[1] - sums[0])}; `
      + `${plural(groups.filter((one) => one[1] && !one[2]).length, "group")} of `
      + `${formatBytes(groups.reduce((sum, one) => sum + (one[2] ? 0 : one[1]), 0))} gone`));
    const picture = el("div", {});
    place.append(picture);
    differenceIcicle(picture, groups, by === "op");
  };
  const grouping = choice("group by", [["op", "operation path"], ["source", "source line"]], "op", show);
  setTimeout(() => show("op"), 0);
  return el("div", { class: "block" }, el("h3", {}, "Memory at both peaks"),
    el("div", { class: "tools" }, el("span", {}, "by"), grouping.element), place);
}

function programRows(rows, texts) {
  const listing = new Listing(rows, [
    { title: "edit", cell: (one) => one.edit, by: (one) => one.edit },
    { title: "instructions", isNumber: true, cell: (one) => formatCount(one.instructions),
      by: (one) => one.instructions },
    { title: "opcode", cell: (one) => one.opcode, by: (one) => one.opcode },
    { title: "what", cell: (one) => one.what, by: (one) => one.what || "" },
    { title: "texts", meaning: "side by side", cell: (one) => opener(one, texts),
      by: (one) => (one.head[0] || one.base[0] || "") },
    { title: "source", cell: (one) => one.source, by: (one) => one.source || "" },
    { title: "where", cell: (one) => one.where, by: (one) => one.where || "" },
    { title: "operation", cell: (one) => one.op_name, by: (one) => one.op_name || "" },
  ], { label: "changes of the program", placeholder: "opcode, name, line, path",
    words: (one) => [one.edit, one.opcode, one.what, one.source, one.op_name, one.where,
      one.base.join(" "), one.head.join(" ")].join(" ") });
  return el("div", { class: "block" }, el("h3", {}, "Changes of the program"), listing.element);
}

// A button that opens the computation with the first instruction of a row.
function opener(row, texts) {
  const name = row.head[0] || row.base[0];
  if (!name) return null;
  const column = row.head[0] ? 2 : 1;
  const found = texts.find((one) => one.lines.some((line) => isLineOf(line, column, name)));
  if (!found) return name;
  return button(name, () => {
    found.element.open = true;
    const outer = found.element.parentElement.closest("details");
    if (outer) outer.open = true;
    const place = found.lines.findIndex((line) => isLineOf(line, column, name));
    setTimeout(() => {
      const line = found.element.querySelectorAll("tbody tr")[place];
      for (const one of document.querySelectorAll("tr.chosen-line")) one.classList.remove("chosen-line");
      line.classList.add("chosen-line");
      line.scrollIntoView({ block: "center" });
    }, 0);
  }, { class: "name", title: "show side by side" });
}

function isLineOf(line, column, name) {
  if (line[0] === "left out" || line[column] === null) return false;
  return line[column].startsWith(`${name} =`) || line[column].startsWith(`%${name} =`);
}

// Computations: the first ones, the others when they are asked for.
function blocks(elements) {
  const rest = elements.slice(COMPUTATIONS);
  if (!rest.length) return elements;
  const others = el("details", {}, el("summary", {},
    plural(rest.length, "other computation with changes", "other computations with changes")), rest);
  return [...elements.slice(0, COMPUTATIONS), others];
}

function sideBySide(data, texts) {
  const rest = data.computation_count - texts.length;
  return el("div", { class: "block" }, el("h3", {}, "Computations with changes, side by side"),
    blocks(texts.map((one) => one.element)),
    rest > 0 ? el("p", { class: "note" }, `[${rest} other computations with changes; their texts `
      + "are not in this file]") : null);
}
