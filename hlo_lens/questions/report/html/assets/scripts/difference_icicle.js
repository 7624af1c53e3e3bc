// Memory at two peaks as one icicle: widths are bytes of the head, colours the change from the
// base, which each box also prints with its sign. Groups that are gone have no width; a table has
// them.

import { el, pictureTable, replace } from "dom";
import { formatBytes, plural } from "format";

const ROW = 26;
const LEAST_WIDTH = 3;
const MOST = 700;
const SLASH = /\/(?![^[]*\])/;

// Groups: [label, base, head]; isPath: whether labels are operation paths.
export function differenceIcicle(place, groups, isPath) {
  const root = d3.hierarchy(tree(groups, isPath)).sum((node) => node.head || 0)
    .sort((one, other) => other.value - one.value || (one.data.name < other.data.name ? -1 : 1));
  root.eachAfter((node) => {
    node.base = node.children ? node.children.reduce((sum, one) => sum + one.base, 0)
      : node.data.base;
  });
  const depth = root.height + 1;
  const box = el("div", { class: "rectangles icicle" });
  replace(place, key(), box);
  const width = box.clientWidth || 800;
  d3.partition().size([width, depth * ROW])(root);
  const all = root.descendants().filter((node) => node.value > 0);
  const shown = all.filter((node) => node.x1 - node.x0 >= LEAST_WIDTH).slice(0, MOST);
  for (const node of shown) box.append(rectangle(node, width));
  box.style.height = `${Math.max(0, ...shown.map((node) => node.y1))}px`;
  if (shown.length < all.length) {
    place.append(el("p", { class: "note" },
      `${plural(all.length - shown.length, "box", "boxes")} too small to draw; the `
      + "table has all groups."));
  }
  place.append(pictureTable("All groups as a table, the largest change first",
    [["change", "", true], ["base", "", true], ["head", "", true], ["group", "", false]], () =>
      [...groups].sort((one, other) => Math.abs(other[2] - other[1]) - Math.abs(one[2] - one[1]))
        .map(([label, base, head]) => [signed(head - base), formatBytes(base), formatBytes(head), label])));
}

export function signed(delta) {
  return delta > 0 ? `+${formatBytes(delta)}` : delta ? formatBytes(delta) : "=";
}

function tree(groups, isPath) {
  const root = { name: "the peak", children: new Map() };
  for (const [label, base, head] of groups) {
    const parts = isPath && !label.startsWith("[") ? label.split(SLASH).filter(Boolean) : [label];
    let node = root;
    for (const part of parts) {
      if (!node.children.has(part)) node.children.set(part, { name: part, children: new Map() });
      node = node.children.get(part);
    }
    node.own = { name: "[here]", base, head, title: label };
  }
  return asObject(root);
}

// Nodes with lists of children; a chain of scopes that does not fork is one node.
function asObject(node) {
  let { name } = node;
  let last = node;
  while (last.children.size === 1 && !last.own && node.name !== "the peak") {
    [last] = last.children.values();
    name = `${name}/${last.name}`;
  }
  const children = [...last.children.values()].map(asObject);
  if (!children.length) return { ...(last.own || { base: 0, head: 0 }), name };
  if (last.own) children.push(last.own);
  return { name, children };
}

function rectangle(node, width) {
  const delta = node.value - node.base;
  const share = node.base ? delta / node.base : 1;
  const strength = delta ? Math.min(0.95, 0.3 + 0.65 * Math.abs(share)) : 0;
  const kind = delta > 0 ? "grown" : delta < 0 ? "shrunk" : "even";
  const text = `${node.data.name} ${formatBytes(node.value)} ${signed(delta)}`;
  const isNew = node.base === 0 ? " new" : "";
  return el("div", { class: `box delta ${kind}`, title: `${node.data.title || node.data.name}\n`
    + `base ${formatBytes(node.base)}, head ${formatBytes(node.value)}, ${signed(delta)}${isNew}`,
  style: { left: `${(node.x0 / width) * 100}%`, top: `${node.y0}px`,
    width: `${((node.x1 - node.x0) / width) * 100}%`,
    height: `${node.y1 - node.y0}px` } },
  el("i", { class: "tint", style: { opacity: String(strength) }, "aria-hidden": "true" }),
  node.x1 - node.x0 > 34 ? el("span", {}, text + isNew) : null);
}

function key() {
  return el("ul", { class: "lane-key" }, [["grown", "+ grown or new"], ["shrunk", "- shrunk"],
    ["even", "= no change"]].map(([name, text]) =>
    el("li", {}, el("span", { class: `swatch ${name}`, "aria-hidden": "true" }), text)));
}
