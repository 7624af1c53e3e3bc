// Groups of values, for pictures of rectangles.

export const GROUPINGS = [
  ["op", "operation path"], ["source", "source line"], ["stack", "call stack"],
  ["argument", "argument"], ["role", "role"], ["category", "use"],
];

const NONE = "[unattributed]";

// The parts of an operation path; slashes in brackets are in names.
export function pathParts(path) {
  return path.split(/\/(?![^[]*\])/).filter(Boolean);
}

// The path of the groups that a value is in.
export function groupsOf(model, k, by) {
  const text = (key) => model.text(key, k);
  const unnamed = text("category") === "argument" ? "[parameters]" : NONE;
  if (by === "role") return [model.role(k)];
  if (by === "category") return [text("category")];
  if (by === "argument") return [text("argument") || "[not an argument]"];
  if (by === "stack") return text("stack") ? text("stack").split(" < ").reverse() : [text("source") || unnamed];
  if (unnamed !== NONE) return [unnamed];
  if (by === "source") return [text("source") || text("argument") || NONE];
  return text("op_name") ? pathParts(text("op_name")) : [NONE];
}
