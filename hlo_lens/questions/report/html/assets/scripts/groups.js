// Values in groups, as a tree for pictures of rectangles.

export const GROUPINGS = [
  ["op", "operation path"], ["source", "source line"], ["stack", "call stack"],
  ["argument", "argument"], ["role", "role"], ["category", "use"],
];

const SLASH = /\/(?![^[]*\])/;
const NONE = "[unattributed]";

// The tree of values: { name, children } with { name, bytes, k } at its ends.
export function grouped(model, found, owned, by, otherBytes, others) {
  const root = { name: "all", children: new Map() };
  for (const k of found) {
    const bytes = owned.get(k);
    if (!bytes) continue;
    let node = root;
    for (const part of path(model, k, by)) {
      if (!node.children.has(part)) node.children.set(part, { name: part, children: new Map() });
      node = node.children.get(part);
    }
    node.children.set(`${k}`, { name: model.name(k), bytes, k });
  }
  if (otherBytes) {
    root.children.set("others", { name: `[${others} others]`, bytes: otherBytes, k: null });
  }
  return asObject(root);
}

function path(model, k, by) {
  if (by === "role") return [model.role(k)];
  if (by === "category") return [model.text("category", k)];
  if (by === "argument") return [model.text("argument", k) || "[not an argument]"];
  const isArgument = model.text("category", k) === "argument";
  if (by === "stack") {
    const stack = model.text("stack", k);
    return stack ? stack.split(" < ").reverse() : [model.text("source", k) || unnamed(isArgument)];
  }
  if (isArgument) return ["[parameters]"];
  if (by === "source") return [model.text("source", k) || model.text("argument", k) || NONE];
  const name = model.text("op_name", k);
  return name ? name.split(SLASH).filter(Boolean) : [NONE];
}

function unnamed(isArgument) {
  return isArgument ? "[parameters]" : NONE;
}

// Nodes with lists of children; a chain of scopes that does not fork is one node.
function asObject(node) {
  if (!node.children) return node;
  let { name } = node;
  let last = node;
  while (last.children.size === 1) {
    const [only] = last.children.values();
    if (!only.children || last.name === "all") break;
    name = `${name}/${only.name}`;
    last = only;
  }
  return { name, children: [...last.children.values()].map(asObject) };
}
