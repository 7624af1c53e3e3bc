// Changes between two compiles: both schedules and the causes, then figures, peaks and programs.

import { append, block, choice, el, filterKey, noteList, pictureTable, replace, svg } from "dom";
import { formatBytes, formatCount, plural } from "format";
import { sectionTables } from "listing";
import { cumulated } from "memory_model";
import { drawTree, pathParts, treeOf } from "rectangles";

const COMPUTATIONS = 20;
const [WIDTH, HEIGHT] = [1000, 280]; // of the picture of both schedules
const PARTS = 20; // rows of its table
const SIGNS = { same: " ", changed: "~", added: "+", removed: "-", moved: ">" };
const WORD = /[\w.-]+|[^\w.-]/g;
const KINDS = [["grown", "+ grown or new", "swatch grown"], ["shrunk", "- shrunk", "swatch shrunk"],
  ["even", "= no change", "swatch even"]];

export const view = {
  name: "diff",
  title: "Changes",
  command: (module) => `hlo-lens diff ${module.pair} -n 0`,
  render(container, data, page) {
    append(container, [el("div", { class: "first-screen" },
      el("div", { class: "picture" }, data.spaces.length ? timeLines(data) : data.note && el("p", { class: "note" }, data.note)),
      el("div", { class: "findings", tabindex: "0", role: "region", "aria-label": "causes" }, causes(data.section.facts))),
    data.groups.op ? peaks(data, page) : null, sectionTables(data.section, page),
    data.computations.length ? sideBySide(data) : null, noteList(data.section.notes)]);
  },
};

// The lines of the text: causes as a list, what follows from each below it, then the other facts.
function causes(facts) {
  const list = el("ol", { class: "causes" });
  const others = [];
  for (const [label, text] of facts) {
    if (label === "cause") list.append(el("li", {}, text));
    else if (!label.trim() && list.lastChild && !others.length) append(list.lastChild, [el("p", {}, text)]);
    else others.push(el("p", {}, el("span", { class: "faint" }, `${label} `), text));
  }
  return [list.children.length ? el("h3", {}, plural(list.children.length, "cause")) : null, list, others];
}

// ---- memory over both schedules, each from its begin to its end, as they have different lengths

function timeLines(data) {
  const place = el("div", {});
  let [space, only] = [data.spaces[0], null];
  const draw = () => replace(place, picture(space, only), pictureTable("The picture as a table: every twentieth "
    + "part of both schedules", [["part", "", true], ["base", "", true], ["head", "", true]], () => twentieths(space)));
  const spaces = choice("memory space", data.spaces.map((one) => [one.color, one.name]), space.color,
    (color) => { space = data.spaces.find((one) => one.color === color); draw(); });
  const key = filterKey("sides", ["head", "base"].map((name) => [name, name, `dash of-${name}`]),
    (name) => { only = name; draw(); });
  draw();
  return [el("div", { class: "tools" }, el("b", {}, "Memory over both schedules"),
    data.spaces.length > 1 ? spaces.element : null, key), place];
}

function picture(space, only) {
  const sides = ["base", "head"].filter((name) => space[name]).map((name) => ({ name, ...space[name] }));
  const most = Math.max(1, ...sides.map((one) => one.largest)) * 1.06;
  const texts = sides.map(({ name, largest, instants, held, length }) =>
    `${name} peak ${formatBytes(largest)} at instant ${formatCount(cumulated(instants)[held.indexOf(largest)])} of ${formatCount(length)}`);
  const y = (bytes) => HEIGHT - (bytes / most) * HEIGHT;
  return [el("p", { class: "readout" }, texts.join("; ")),
    svg("svg", { class: "overlay", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img",
      "aria-label": `Bytes of ${space.name} held over both schedules: ${texts.join(", ")}` },
    sides.filter((one) => !only || one.name === only).map(({ name, instants, held, length }) => {
      const x = [...cumulated(instants).map((instant) => (instant / length) * WIDTH), WIDTH];
      return svg("polyline", { class: `of-${name}`, points: held.map((bytes, k) =>
        `${x[k]},${y(bytes)} ${x[k + 1]},${y(bytes)}`).join(" ") });
    }))];
}

function twentieths(space) {
  return Array.from({ length: PARTS }, (_, part) => [`${part * 5} to ${part * 5 + 5}%`, ...["base", "head"].map((name) => {
    if (!space[name]) return "not known";
    const at = cumulated(space[name].instants);
    const inside = space[name].held.filter((_bytes, k) => Math.floor((at[k] / space[name].length) * PARTS) === part);
    return inside.length ? formatBytes(Math.max(...inside)) : "";
  })]);
}

// ---- memory at both peaks as one icicle: widths are bytes of the head, colours the change from the
// base, which each box also prints with its sign; groups that are gone have no width, the table has them

function peaks(data, page) {
  const [readout, place] = [el("p", { class: "readout" }), el("div", {})];
  let [by, only, groups] = ["op", null, []];
  const show = (key) => {
    by = key;
    const { label, base, head, others, others_base: othersBase, others_head: othersHead } = data.groups[by];
    groups = label.map((number, k) => [page.strings[number], base[k], head[k]]);
    if (others) groups.push([`[${others} others]`, othersBase, othersHead]);
    const gone = groups.filter((one) => one[1] && !one[2]);
    const sum = (some, k) => some.reduce((bytes, one) => bytes + one[k], 0);
    replace(readout, `base ${formatBytes(sum(groups, 1))}, head `, el("b", {}, formatBytes(sum(groups, 2))),
      `, ${signed(sum(groups, 2) - sum(groups, 1))}; ${plural(gone.length, "group")} of ${formatBytes(sum(gone, 1))} gone`);
    draw();
  };
  const draw = () => {
    if (!place.isConnected) { requestAnimationFrame(draw); return; }
    const ends = groups.filter(([, base, head]) => only === null || kindOf(head - base) === only);
    const tree = treeOf(ends.map(([label, base, head]) => {
      const parts = by === "op" && !label.startsWith("[") ? pathParts(label) : [label];
      return [parts.slice(0, -1), { name: parts.at(-1) || label, title: label, bytes: head, base }];
    }));
    const baseOf = (node) => (node.children ? node.children.reduce((sum, one) => sum + baseOf(one), 0) : node.data.base);
    drawTree(place, "icicle", { ...tree, name: "the peak" }, { look: (node) => look(node, baseOf(node)),
      table: { summary: "All groups as a table", columns: [["change", "", true], ["base", "", true],
        ["head", "", true], ["group", "", false]],
      row: (node) => [signed(node.value - baseOf(node)), formatBytes(baseOf(node)), formatBytes(node.value),
        `${"\u2007\u2007".repeat(node.depth)}${node.data.name}`] } });
  };
  const grouping = choice("group by", [["op", "operation path"], ["source", "source line"]], by, show);
  show(by);
  return block("Memory at both peaks", el("div", { class: "tools" }, el("span", {}, "by"), grouping.element), readout,
    filterKey("changes", KINDS, (key) => { only = key; draw(); }), place);
}

function signed(delta) {
  return delta > 0 ? `+${formatBytes(delta)}` : delta ? formatBytes(delta) : "=";
}

function kindOf(delta) {
  return delta > 0 ? "grown" : delta < 0 ? "shrunk" : "even";
}

function look(node, base) {
  const delta = node.value - base;
  const strength = delta ? Math.min(0.95, 0.3 + 0.65 * Math.abs(base ? delta / base : 1)) : 0;
  const isNew = base === 0 ? " new" : "";
  return { kind: `delta ${kindOf(delta)}`, title: `${node.data.title || node.data.name}\nbase ${formatBytes(base)}, `
    + `head ${formatBytes(node.value)}, ${signed(delta)}${isNew}`,
  label: () => [`${node.data.name} ${formatBytes(node.value)} ${signed(delta)}${isNew}`],
  tint: el("i", { class: "tint", style: { opacity: String(strength) }, "aria-hidden": "true" }) };
}

// ---- computations of both programs side by side, the edited lines marked

function sideBySide(data) {
  const all = data.computations.map(computationBlock);
  const rest = all.slice(COMPUTATIONS);
  const left = data.computation_count - all.length;
  return block("Computations with changes, side by side", all.slice(0, COMPUTATIONS),
    rest.length ? el("details", {}, el("summary", {},
      plural(rest.length, "other computation with changes", "other computations with changes")), rest) : null,
    left > 0 ? el("p", { class: "note" }, `[${left} other computations with changes; their texts `
      + "are not in this file]") : null);
}

function computationBlock({ base, head, lines }) {
  const summary = ["changed", "added", "removed", "moved"].map((kind) =>
    [lines.filter(([one]) => one === kind).length, kind]).filter(([count]) => count)
    .map(([count, kind]) => `${count} ${kind}`).join(", ");
  const title = base === head || !base || !head ? base || head : `${base} \u2192 ${head}`;
  const made = el("details", { class: "side-by-side" }, el("summary", {}, el("code", {}, title),
    el("span", { class: "sum" }, `${summary}${base && head ? "" : base ? ", in the base alone" : ", in the head alone"}`)));
  made.addEventListener("toggle", () => {
    if (!made.open || made.children.length > 1) return;
    made.append(el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `${title}, side by side` },
      el("table", { class: "texts" }, el("thead", {}, el("tr", {}, el("th", { scope: "col" },
        el("span", { class: "unseen" }, "kind of change")), el("th", { scope: "col" }, "base"),
      el("th", { scope: "col" }, "head"))), el("tbody", {}, lines.map(textRow)))));
  });
  return made;
}

function textRow([kind, base, head]) {
  if (kind === "left out") {
    return el("tr", { class: "left-out" }, el("td", {}), el("td", { colspan: "2" }, `[${plural(base, "line")} without a change]`));
  }
  const isPair = kind === "changed" && base && head;
  return el("tr", { class: kind }, el("td", { title: kind, "aria-label": kind }, SIGNS[kind]),
    el("td", {}, isPair ? marked(base, head) : base), el("td", {}, isPair ? marked(head, base) : head));
}

// A text with the words marked that the other one does not have.
function marked(text, other) {
  const known = new Set(other.match(WORD));
  return text.match(WORD).map((word) => (known.has(word) ? word : el("mark", {}, word)));
}
