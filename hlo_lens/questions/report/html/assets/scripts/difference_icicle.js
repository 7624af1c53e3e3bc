// Memory at two peaks as one icicle: widths are bytes of the head, colours the change from the
// base, which each box also prints with its sign. Groups that are gone have no width; a table has them.

import { el, filterKey } from "dom";
import { formatBytes } from "format";
import { pathParts } from "groups";
import { drawTree, treeOf } from "rectangles";

const KINDS = [["grown", "+ grown or new", "swatch grown"], ["shrunk", "- shrunk", "swatch shrunk"],
  ["even", "= no change", "swatch even"]];

// Groups: [label, base, head]; isPath: whether labels are operation paths.
export function differenceIcicle(place, groups, isPath) {
  let only = null;
  const picture = el("div", {});
  const draw = () => {
    const shown = groups.filter(([, base, head]) => only === null || kindOf(head - base) === only);
    const tree = treeOf(shown.map(([label, base, head]) => {
      const parts = isPath && !label.startsWith("[") ? pathParts(label) : [label];
      return [parts.slice(0, -1), { name: parts.at(-1) || label, title: label, bytes: head, base }];
    }));
    const baseOf = (node) => (node.children ? node.children.reduce((sum, one) => sum + baseOf(one), 0) : node.data.base);
    drawTree(picture, "icicle", { ...tree, name: "the peak" }, { look: (node) => look(node, baseOf(node)),
      table: { summary: "All groups as a table", columns: [["change", "", true],
        ["base", "", true], ["head", "", true], ["group", "", false]],
      row: (node) => [signed(node.value - baseOf(node)), formatBytes(baseOf(node)), formatBytes(node.value),
        `${"\u2007\u2007".repeat(node.depth)}${node.data.name}`] } });
  };
  place.append(filterKey("changes", KINDS, (key) => { only = key; draw(); }), picture);
  draw();
}

export function signed(delta) {
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
