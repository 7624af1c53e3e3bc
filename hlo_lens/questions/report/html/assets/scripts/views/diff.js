// Changes between two compiles: both schedules and the causes, then figures, peaks and programs.

import { append, block, button, choice, el, filterKey, noteList, pictureTable, replace } from "dom";
import { differenceIcicle, signed } from "difference_icicle";
import { formatBytes, formatCount, plural } from "format";
import { joined, sourceLink } from "links";
import { Listing, number, word } from "listing";
import { OverlayChart } from "overlay_chart";
import { sectionTables } from "sections";
import { computationBlock } from "side_by_side";

const COMPUTATIONS = 20;
const CAUSES = 8;
const LINES = 6;

export const view = {
  name: "diff",
  title: "Changes",
  command: (module) => `hlo-lens diff ${module.pair} -n 0`,
  render(container, data, page) {
    const changes = page.changes || {};
    const texts = data.computations.map((one) => ({ ...one, element: computationBlock(one) }));
    const rows = changes.program_rows;
    append(container, [el("div", { class: "first-screen" },
      el("div", { class: "picture" }, data.spaces.length ? timeLines(data, page) : snapshotNote(data.snapshots)),
      causes(changes, data, page)), sectionTables(data.section, page),
    data.groups.op ? peaks(data, page) : null, rows && rows.length ? programRows(rows, texts, page) : null,
    texts.length ? sideBySide(data, texts) : null, noteList(data.section.notes)]);
  },
};

function snapshotNote(sides) {
  if (!sides.length) return null;
  const [word, has] = sides.length > 1 ? ["Both sides are snapshots", "have"]
    : [`The ${sides[0]} is a snapshot`, "has"];
  return el("p", { class: "note" }, `${word}, which ${has} figures and the values at the peak. Memory `
    + "over the schedule and programs side by side need the dumps: hlo-lens diff BASE_DIR HEAD_DIR.");
}

// The causes as a list, then the lines of the text that say what changed.
function causes(changes, data, page) {
  const all = changes.causes || [];
  const item = (one) => el("li", {}, el("b", {}, amounts(one)), one.what, el("br"),
    joined(one.sources.slice(0, LINES).map((line) => sourceLink(line, page))),
    one.sources.length > LINES ? `, ${one.sources.length - LINES} more` : "");
  const rest = all.slice(CAUSES);
  return el("div", { class: "findings", tabindex: "0", role: "region", "aria-label": "causes" }, all.length ? el("h3", {}, plural(all.length, "cause")) : null,
    el("ol", { class: "causes" }, all.slice(0, CAUSES).map(item)),
    rest.length ? el("details", {}, el("summary", {}, plural(rest.length, "other cause")),
      el("ol", { class: "causes", start: CAUSES + 1 }, rest.map(item))) : null,
    data.section.facts.map(([label, text]) => el("p", {}, el("span", { class: "faint" }, `${label} `), text)));
}

function amounts(one) {
  const of = { total_bytes: " must fit", peak_bytes: " at the peak", argument_bytes: " of arguments" };
  return [one.delta_bytes ? `${signed(one.delta_bytes)}${of[one.delta_bytes_of] || ""}` : "",
    one.delta_wire_bytes ? `${signed(one.delta_wire_bytes)} sent` : ""].filter(Boolean).map((text) => `${text}, `).join("");
}

function timeLines(data, page) {
  const readout = el("p", { class: "readout", "aria-live": "polite" });
  const place = el("div", {});
  let chart = null;
  const show = (color) => {
    const space = data.spaces.find((one) => one.color === color);
    const texts = ["base", "head"].filter((name) => space[name]).map((name) =>
      `${name} peak ${formatBytes(space[name].largest)}`);
    chart = new OverlayChart(space, { label: `Bytes of ${space.name} held over both `
      + `schedules: ${texts.join(", ")}`, onpoint: (found) => describe(readout, found, space, page) });
    replace(place, chart.element, readout, pictureTable("The picture as a table: every twentieth "
      + "part of both schedules", [["part", "", true], ["base", "", true], ["head", "", true]],
    () => twentieths(chart)));
    chart.start();
  };
  const first = data.spaces[0];
  const spaces = choice("memory space", data.spaces.map((one) => [one.color, one.name]), first.color, show);
  setTimeout(() => show(first.color), 0);
  const key = filterKey("sides", ["head", "base"].map((name) => [name, name, `dash of-${name}`]), (only) => {
    chart.only = only;
    chart.draw();
  });
  return [el("div", { class: "tools" }, el("b", {}, "Memory over both schedules"),
    data.spaces.length > 1 ? spaces.element : null,
    key), place];
}

function describe(readout, found, space, page) {
  const parts = ["base", "head"].filter((name) => found[name]).map((name, k) => {
    const { bytes, instant } = found[name];
    const number = space[name].schedule[found[name].k];
    const instruction = number >= 0 ? [" (", el("code", {}, page.strings[number]), ")"] : [];
    return [k ? "; " : "", `${name} `, el("b", {}, formatBytes(bytes)), ` at instant ${formatCount(instant)}`,
      instruction, bytes === space[name].largest ? ", its peak" : ""];
  });
  replace(readout, parts, found.base && found.head ? `; ${signed(found.head.bytes - found.base.bytes)}` : "");
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
    const picture = el("div", {});
    replace(place, el("p", { class: "readout" }, `base ${formatBytes(sums[0])}, head `,
      el("b", {}, formatBytes(sums[1])), `, ${signed(sums[1] - sums[0])}; `
      + `${plural(groups.filter((one) => one[1] && !one[2]).length, "group")} of `
      + `${formatBytes(groups.reduce((sum, one) => sum + (one[2] ? 0 : one[1]), 0))} gone`), picture);
    differenceIcicle(picture, groups, by === "op");
  };
  const grouping = choice("group by", [["op", "operation path"], ["source", "source line"]], "op", show);
  setTimeout(() => show("op"), 0);
  return block("Memory at both peaks",
    el("div", { class: "tools" }, el("span", {}, "by"), grouping.element), place);
}

function programRows(rows, texts, page) {
  const listing = new Listing(rows, [word("edit"), number("instructions"), word("opcode"), word("what"),
    { title: "texts", meaning: "side by side", cell: (one) => opener(one, texts), by: (one) => one.head[0] || one.base[0] || "" },
    word("source", "", (one) => sourceLink(one.source, page)), word("where"), word("op_name"),
  ], { selection: page.selection, name: "changes", label: "changes of the program", placeholder: "opcode, name, line, path",
    words: (one) => Object.values(one).flat().join(" ") });
  return block("Changes of the program", listing.element);
}

// A button that opens the computation with the first instruction of a row.
function opener(row, texts) {
  const name = row.head[0] || row.base[0];
  if (!name) return null;
  const column = row.head[0] ? 2 : 1;
  const isLine = (line) => line[0] !== "left out" && line[column] !== null
    && (line[column].startsWith(`${name} =`) || line[column].startsWith(`%${name} =`));
  const found = texts.find((one) => one.lines.some(isLine));
  if (!found) return name;
  return button(name, () => {
    for (let one = found.element; one; one = one.parentElement.closest("details")) one.open = true;
    setTimeout(() => {
      const line = found.element.querySelectorAll("tbody tr")[found.lines.findIndex(isLine)];
      for (const one of document.querySelectorAll("tr.chosen-line")) one.classList.remove("chosen-line");
      line.classList.add("chosen-line");
      line.scrollIntoView({ block: "center" });
    }, 0);
  }, { class: "name", title: "show side by side" });
}

// Computations: the first ones, the others when they are asked for.
function sideBySide(data, texts) {
  const all = texts.map((one) => one.element);
  const rest = all.slice(COMPUTATIONS);
  const left = data.computation_count - texts.length;
  return block("Computations with changes, side by side", all.slice(0, COMPUTATIONS),
    rest.length ? el("details", {}, el("summary", {},
      plural(rest.length, "other computation with changes", "other computations with changes")), rest) : null,
    left > 0 ? el("p", { class: "note" }, `[${left} other computations with changes; their texts `
      + "are not in this file]") : null);
}
