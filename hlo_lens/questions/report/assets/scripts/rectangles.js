// Treemap and icicle: rectangles laid out by d3-hierarchy. What is too small to see is counted in a
// line below, with its bytes. A group that is opened fills the width.

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

// The parts of an operation path; slashes in brackets are in names.
export function pathParts(path) {
  return path.split(/\/(?![^[]*\])/).filter(Boolean);
}

// A tree of ends, each [path, { name, bytes, ... }]; a chain of scopes that does not fork is one node.
export function treeOf(ends) {
  const root = { name: "all", children: new Map() };
  for (const [path, end] of ends) {
    let node = root;
    for (const part of path) {
      if (!node.children.has(part)) node.children.set(part, { name: part, children: new Map() });
      node = node.children.get(part);
    }
    node.children.set(end, end);
  }
  const folded = (node) => {
    if (!node.children) return node;
    let [only, ...others] = node.children.values();
    let { name, children } = node;
    while (node !== root && only.children && !others.length) {
      name = `${name}/${only.name}`;
      ({ children } = only);
      [only, ...others] = children.values();
    }
    return { name, children: [...children.values()].map(folded) };
  };
  return folded(root);
}

// Draw a tree. Options: look(node) => { kind, label, title, tint, onclick, isChosen } or null; zoom: path
// of the opened group; onzoom(path); table: columns and row(node) of the table below.
export function drawTree(place, kind, tree, { look, zoom = [], onzoom, table }) {
  const root = hierarchy(tree);
  let top = root;
  for (const name of zoom) top = (top.children || []).find((one) => one.children && one.data.name === name) || top;
  const box = el("div", { class: `rectangles ${kind}`, role: "group",
    "aria-label": `${kind}: arrow keys go to the next rectangle, Enter opens it`, style: { height: `${HEIGHT}px` } });
  replace(place, top === root ? null : el("p", { class: "readout" }, el("b", {}, pathOf(top).join("/")),
    ` ${formatBytes(top.value)}, ${formatShare(top.value, root.value)} of all `,
    button("show all", () => onzoom([]))), box, pictureTable(table.summary, table.columns, () => {
    const all = root.descendants();
    const rows = all.slice(0, TABLE_ROWS).map((node) => table.row(node, root));
    return all.length > rows.length ? [...rows, table.columns.map(([, , isNumber]) =>
      (isNumber ? "" : `[${formatCount(all.length - rows.length)} others]`))] : rows;
  }));
  const width = box.clientWidth || 800;
  const layout = kind === "treemap" ? treemapOf : icicleOf;
  const { all, shown } = layout(box, root, top, width);
  for (const [node, corners, lines, path] of shown) {
    const size = `${formatBytes(node.value)}, ${formatShare(node.value, root.value)}`;
    const own = look(node) || {};
    const words = (own.label ? own.label(node) : [node.data.name, size]).slice(0, corners[2] > LEAST_TEXT ? lines : 0);
    const onclick = own.onclick || (node.children && onzoom ? () => onzoom(path) : null);
    const isHead = kind === "treemap" && node.children;
    box.append(el(onclick ? "button" : "div", { type: onclick ? "button" : null, onclick,
      class: isHead ? "group" : `box ${own.kind || "scope"}`, title: own.title || `${node.data.name} ${size}`,
      style: Object.fromEntries(["left", "top", "width", "height"].map((key, k) => [key, `${corners[k]}px`])) },
    own.tint, isHead ? `${node.data.name} ${formatBytes(node.value)} (${formatShare(node.value, root.value)})`
      : words.map((text) => el("span", {}, text))));
  }
  movable(box);
  const drawn = shown.map(([node]) => node).filter((node) => !node.children);
  const rest = all.length - drawn.length;
  const bytes = (nodes) => nodes.reduce((sum, node) => sum + node.value, 0);
  if (rest > 0) {
    place.append(el("p", { class: "note" }, `${plural(rest, "rectangle")} of ${formatBytes(bytes(all) - bytes(drawn))} `
      + `${rest === 1 ? "is" : "together are"} too small to draw; the table has ${rest === 1 ? "it" : "them"}.`));
  }
}

function hierarchy(tree) {
  return d3.hierarchy(tree).sum((node) => node.bytes || 0)
    .sort((one, other) => other.value - one.value || (one.data.name < other.data.name ? -1 : 1));
}

function pathOf(node) {
  return node.ancestors().reverse().slice(1).map((one) => one.data.name);
}

// Ends that are there, and what is shown: [node, [left, top, width, height], lines of text, path].
function treemapOf(box, root, top, width) {
  const part = top === root ? root : hierarchy(top.data);
  const headed = new Set();
  d3.treemap().size([width, HEIGHT]).paddingInner(1).paddingTop((node) => {
    const isFork = node.depth === 1 || node.children[0].value < 0.97 * node.value;
    const hasHead = node.depth > 0 && isFork && node.x1 - node.x0 > 60 && node.y1 - node.y0 > 44;
    if (hasHead) headed.add(node);
    return hasHead ? HEAD : 1;
  }).round(true)(part);
  const all = part.leaves().filter((node) => node.value > 0);
  const area = (node) => (node.x1 - node.x0) * (node.y1 - node.y0);
  const shown = [...headed, ...all.filter((node) => area(node) >= LEAST_AREA).slice(0, MOST)];
  return { all, shown: shown.map((node) => [node, [node.x0, node.y0, node.x1 - node.x0,
    node.children ? HEAD : node.y1 - node.y0], Math.max(0, Math.floor((node.y1 - node.y0 - 2) / LINE)),
  [...pathOf(top), ...pathOf(node)]]) };
}

function icicleOf(box, root, top, width) {
  d3.partition().size([1, root.height + 1])(root);
  const scale = width / (top.x1 - top.x0);
  const nodes = [...top.ancestors().slice(1), ...top.descendants()].filter((node) => node.value > 0);
  const shown = nodes.filter((node) => (node.x1 - node.x0) * scale >= LEAST_WIDTH).slice(0, MOST);
  box.style.height = `${(Math.max(...shown.map((node) => node.depth)) + 1) * ROW}px`;
  return { all: nodes.filter((node) => !node.children), shown: shown.map((node) => {
    const isAbove = node.depth < top.depth;
    return [node, [isAbove ? 0 : (node.x0 - top.x0) * scale, node.depth * ROW,
      isAbove ? width : (node.x1 - node.x0) * scale, ROW], 2, pathOf(node)];
  }) };
}

// One rectangle is a stop of the Tab key; the arrow keys go to the others.
export function movable(box) {
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
