// Treemap and icicle: rectangles as buttons, laid out by d3-hierarchy. What is too small to see
// is folded into one rectangle that keeps its bytes.

import { roleSlug } from "./colors.js";
import { el, pictureTable, replace } from "./dom.js";
import { formatBytes, formatCount, formatShare } from "./format.js";

const HEIGHT = 420;
const ROW = 24;
const HEAD = 17;
const LEAST_WIDTH = 3;
const LEAST_AREA = 24;
const MOST = 900;

function layoutRoot(tree) {
  return d3.hierarchy(tree).sum((node) => node.bytes || 0)
    .sort((one, other) => other.value - one.value || (one.data.name < other.data.name ? -1 : 1));
}

export function treemap(place, tree, options) {
  const box = el("div", { class: "rectangles treemap", style: { height: `${HEIGHT}px` } });
  replace(place, box, treeTable(tree));
  const width = box.clientWidth || 800;
  const root = layoutRoot(tree);
  const headed = new Set();
  d3.treemap().size([width, HEIGHT]).paddingInner(1).paddingTop((node) => {
    const isFork = node.depth === 1 || node.children[0].value < 0.97 * node.value;
    const hasHead = node.depth > 0 && isFork && node.x1 - node.x0 > 60 && node.y1 - node.y0 > 44;
    if (hasHead) headed.add(node);
    return hasHead ? HEAD : 1;
  }).round(true)(root);
  const leaves = root.leaves().filter((node) => node.value > 0);
  const shown = leaves.filter((node) => (node.x1 - node.x0) * (node.y1 - node.y0) >= LEAST_AREA);
  for (const node of headed) box.append(groupLabel(node, root));
  for (const node of shown.slice(0, MOST)) box.append(rectangle(node, root, options));
  foldedNote(place, leaves, shown.slice(0, MOST));
}

export function icicle(place, tree, options) {
  const root = layoutRoot(tree);
  const depth = root.height + 1;
  const box = el("div", { class: "rectangles icicle", style: { height: `${depth * ROW}px` } });
  replace(place, box, treeTable(tree));
  const width = box.clientWidth || 800;
  d3.partition().size([width, depth * ROW])(root);
  const all = root.descendants().filter((node) => node.value > 0);
  const shown = all.filter((node) => node.x1 - node.x0 >= LEAST_WIDTH).slice(0, MOST);
  for (const node of shown) box.append(rectangle(node, root, options));
  foldedNote(place, all.filter((node) => !node.children), shown.filter((node) => !node.children));
}

function groupLabel(node, root) {
  return el("div", { class: "group", style: corners(node, HEAD), title: node.data.name },
    `${node.data.name} ${formatBytes(node.value)} (${formatShare(node.value, root.value)})`);
}

function corners(node, height) {
  return { left: `${node.x0}px`, top: `${node.y0}px`, width: `${node.x1 - node.x0}px`,
    height: `${height || node.y1 - node.y0}px` };
}

function rectangle(node, root, { chosen, model, onchoose }) {
  const { name, k } = node.data;
  const isValue = k !== undefined && k !== null;
  const size = `${formatBytes(node.value)}, ${formatShare(node.value, root.value)}`;
  const label = isValue && model.isHeld(k) ? model.text("argument", k) || name : name;
  const text = `${name} ${size}`;
  const details = isValue ? `\n${model.role(k)}: ${model.text("basis", k)}\n`
    + `${model.text("shape", k) || ""}\n${model.text("op_name", k) || ""}\n`
    + `${model.text("source", k) || ""}` : "";
  const classes = ["box", isValue ? roleSlug(model.role(k)) : "scope"];
  if (isValue && name === chosen) classes.push("chosen");
  return el(isValue ? "button" : "div", { class: classes.join(" "), type: isValue ? "button" : null,
    title: text + details, style: corners(node), onclick: isValue ? () => onchoose(k) : null },
  node.x1 - node.x0 > 34 ? [el("span", {}, label), el("span", {}, size)] : null);
}

function foldedNote(place, all, shown) {
  const rest = all.length - shown.length;
  if (rest <= 0) return;
  const bytes = all.reduce((sum, node) => sum + node.value, 0)
    - shown.reduce((sum, node) => sum + node.value, 0);
  place.append(el("p", { class: "note" },
    `${formatCount(rest)} rectangles of ${formatBytes(bytes)} together are too small to draw; `
    + "the table has them."));
}

function treeTable(tree) {
  return pictureTable("The picture as a table",
    [["bytes", "", true], ["share", "", true], ["name", "", false]], () => {
      const root = layoutRoot(tree);
      return root.descendants().slice(0, 400).map((node) => [formatBytes(node.value),
        formatShare(node.value, root.value), `${"\u2007\u2007".repeat(node.depth)}${node.data.name}`]);
    });
}
