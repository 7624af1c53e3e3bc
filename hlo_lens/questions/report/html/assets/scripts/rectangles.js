// Treemap and icicle: rectangles as buttons, laid out by d3-hierarchy. What is too small to see
// is counted in a line below, with its bytes. A group that is opened fills the width.

import { roleSlug } from "colors";
import { button, el, pictureTable, replace } from "dom";
import { formatBytes, formatCount, formatShare, plural } from "format";

const HEIGHT = 420;
const ROW = 24;
const HEAD = 17;
const LEAST_WIDTH = 3;
const LEAST_AREA = 24;
const LEAST_TEXT = 34;
const LINE = 16;
const MOST = 900;
const TABLE_ROWS = 400;

// Options: model, chosen (place of a value), onchoose(place), zoom (path of the opened group),
// onzoom(path).
export function treemap(place, tree, options) {
  const { root, top } = layoutRoots(tree, options.zoom);
  const box = pictureBox("treemap", HEIGHT);
  replace(place, opened(top, root, options), box, treeTable(root));
  const width = box.clientWidth || 800;
  const part = top === root ? root : sorted(top.data);
  const headed = new Set();
  d3.treemap().size([width, HEIGHT]).paddingInner(1).paddingTop((node) => {
    const isFork = node.depth === 1 || node.children[0].value < 0.97 * node.value;
    const hasHead = node.depth > 0 && isFork && node.x1 - node.x0 > 60 && node.y1 - node.y0 > 44;
    if (hasHead) headed.add(node);
    return hasHead ? HEAD : 1;
  }).round(true)(part);
  const leaves = part.leaves().filter((node) => node.value > 0);
  const shown = leaves.filter((node) => (node.x1 - node.x0) * (node.y1 - node.y0) >= LEAST_AREA)
    .slice(0, MOST);
  const path = pathOf(top);
  for (const node of headed) box.append(groupHead(node, root, path, options));
  for (const node of shown) {
    const lines = Math.max(0, Math.floor((node.y1 - node.y0 - 2) / LINE));
    box.append(rectangle(node, root, corners(node), lines, options));
  }
  movable(box);
  foldedNote(place, leaves, shown);
}

export function icicle(place, tree, options) {
  const { root, top } = layoutRoots(tree, options.zoom);
  d3.partition().size([1, root.height + 1])(root);
  const box = pictureBox("icicle", ROW);
  replace(place, opened(top, root, options), box, treeTable(root));
  const width = box.clientWidth || 800;
  const scale = width / (top.x1 - top.x0);
  const all = [...top.ancestors().slice(1), ...top.descendants()].filter((node) => node.value > 0);
  const shown = all.filter((node) => (node.x1 - node.x0) * scale >= LEAST_WIDTH).slice(0, MOST);
  for (const node of shown) {
    const isAbove = node.depth < top.depth;
    const left = isAbove ? 0 : (node.x0 - top.x0) * scale;
    box.append(rectangle(node, root, { left: `${left}px`, top: `${node.depth * ROW}px`,
      width: `${isAbove ? width : (node.x1 - node.x0) * scale}px`, height: `${ROW}px` }, 2, options));
  }
  const deepest = shown.reduce((most, node) => Math.max(most, node.depth), 0);
  box.style.height = `${(deepest + 1) * ROW}px`;
  movable(box);
  const ends = (nodes) => nodes.filter((node) => !node.children);
  foldedNote(place, ends(all), ends(shown));
}

// The whole tree, and the opened group in it; the whole if there is none of its path.
function layoutRoots(tree, zoom) {
  const root = sorted(tree);
  let top = root;
  for (const name of zoom || []) {
    const next = (top.children || []).find((node) => node.children && node.data.name === name);
    if (!next) return { root, top: root };
    top = next;
  }
  return { root, top };
}

function sorted(tree) {
  return d3.hierarchy(tree).sum((node) => node.bytes || 0)
    .sort((one, other) => other.value - one.value || (one.data.name < other.data.name ? -1 : 1));
}

function pathOf(node) {
  return node.ancestors().reverse().slice(1).map((one) => one.data.name);
}

function pictureBox(kind, height) {
  return el("div", { class: `rectangles ${kind}`, role: "group", style: { height: `${height}px` },
    "aria-label": `${kind}: arrow keys go to the next rectangle, Enter opens it` });
}

// Which group is opened, and a button that closes it.
function opened(top, root, { onzoom }) {
  if (top === root) return null;
  return el("p", { class: "readout" }, el("b", {}, pathOf(top).join("/")),
    ` ${formatBytes(top.value)}, ${formatShare(top.value, root.value)} of all `,
    button("show all", () => onzoom([])));
}

function groupHead(node, root, path, { onzoom }) {
  return button(`${node.data.name} ${formatBytes(node.value)} (${formatShare(node.value, root.value)})`,
    () => onzoom([...path, ...pathOf(node)]),
    { class: "group", style: corners(node, HEAD), title: `${node.data.name}: open it` });
}

function corners(node, height) {
  return { left: `${node.x0}px`, top: `${node.y0}px`, width: `${node.x1 - node.x0}px`,
    height: `${height || node.y1 - node.y0}px` };
}

// Lines: 1 for a name, 2 for its size too.
function rectangle(node, root, style, lines, options) {
  const { name, k } = node.data;
  const isValue = k !== undefined && k !== null;
  const size = `${formatBytes(node.value)}, ${formatShare(node.value, root.value)}`;
  const label = isValue ? valueLabel(options.model, k, name) : name;
  const room = parseFloat(style.width) > LEAST_TEXT ? lines : 0;
  const content = [label, size].slice(0, room).map((text) => el("span", {}, text));
  const title = `${name} ${size}`;
  if (isValue) {
    return button(content, () => options.onchoose(k), { style, title: title + details(options.model, k),
      class: `box ${roleSlug(options.model.role(k))}${k === options.chosen ? " chosen" : ""}` });
  }
  if (!node.children) return el("div", { class: "box scope", style, title }, content);
  return button(content, () => options.onzoom(pathOf(node)), { class: "box scope", style, title });
}

function valueLabel(model, k, name) {
  return model.isHeld(k) ? model.text("argument", k) || name : name;
}

function details(model, k) {
  return `\n${model.role(k)}: ${model.text("basis", k)}\n${model.text("shape", k) || ""}\n`
    + `${model.text("op_name", k) || ""}\n${model.text("source", k) || ""}`;
}

// One rectangle is a stop of the Tab key; the arrow keys go to the others.
function movable(box) {
  const all = [...box.querySelectorAll("button")];
  const first = all.find((one) => one.classList.contains("chosen")) || all[0];
  for (const one of all) one.tabIndex = one === first ? 0 : -1;
  box.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const at = all.indexOf(document.activeElement);
    if (!step || at < 0) return;
    event.preventDefault();
    const next = all[(at + step + all.length) % all.length];
    all[at].tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
}

function foldedNote(place, all, shown) {
  const rest = all.length - shown.length;
  if (rest <= 0) return;
  const bytes = all.reduce((sum, node) => sum + node.value, 0)
    - shown.reduce((sum, node) => sum + node.value, 0);
  const isOne = rest === 1;
  place.append(el("p", { class: "note" }, `${plural(rest, "rectangle")} of ${formatBytes(bytes)} `
    + `${isOne ? "is" : "together are"} too small to draw; the table has ${isOne ? "it" : "them"}.`));
}

function treeTable(root) {
  return pictureTable("The rectangles as a table",
    [["bytes", "", true], ["share", "", true], ["name", "", false]], () => {
      const all = root.descendants();
      const rows = all.slice(0, TABLE_ROWS).map((node) => [formatBytes(node.value),
        formatShare(node.value, root.value), `${"\u2007\u2007".repeat(node.depth)}${node.data.name}`]);
      const rest = all.length - rows.length;
      return rest > 0 ? [...rows, ["", "", `[${formatCount(rest)} others]`]] : rows;
    });
}
