// Names of values, instructions and source lines as links.

import { button, el } from "dom";

export function valueLink(name, page, label) {
  return button(label || name, () => page.selection.set({ value: name, instruction: undefined }),
    { class: "name", title: "select the value" });
}

export function instructionLink(name, page) {
  return button(name, () => page.selection.set({ instruction: name, value: undefined }),
    { class: "name", title: "open the instruction" });
}

// Nodes with commas between them.
export function joined(nodes) {
  return nodes.flatMap((node, k) => (k ? [", ", node] : [node]));
}

// A source line, such as "/home/me/model.py:12 ~": its file without folders, with a link where the
// page was made with --source-url.
export function sourceLink(text, page) {
  const found = /^(.*?):(\d+)(?!\d)(.*)$/.exec(text || "");
  if (!found) return text || "";
  const [, path, line, rest] = found;
  const shown = `${path.split("/").at(-1)}:${line}`;
  const { source_url: template, source_paths: paths } = page.made;
  if (!template) return el("span", { class: "source", title: text }, shown + rest);
  const known = Object.hasOwn(paths, path) ? paths[path] : path;
  const written = known.split("/").map(encodeURIComponent).join("/");
  const href = template.replace("/{path}", `/${written.replace(/^\//, "")}`).replace("{path}", written)
    .replace("{line}", line);
  return [el("a", { href, class: "source", title: text, target: "_blank", rel: "noreferrer" }, shown), rest];
}
