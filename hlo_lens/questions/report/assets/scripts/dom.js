// Elements of the page. Text is always a text node: names of dumps never become markup.

const LONG_CELL = 40;
const SVG = ["http", "//www.w3.org/2000/svg"].join(":");
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

// Text of dumps made safe to show (hlo_lens/text/errors.py): control characters and marks of
// writing direction, which could show a text as another one, become their escapes.
export function printable(text) {
  return text.replace(HIDDEN, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

export function el(tag, properties, ...children) {
  return filled(document.createElement(tag), properties, children);
}

export function svg(tag, properties, ...children) {
  return filled(document.createElementNS(SVG, tag), properties, children);
}

// Attributes that are shown or read aloud are made printable; others, as addresses, stay.
function filled(made, properties, children) {
  for (const [key, value] of Object.entries(properties || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "style") Object.assign(made.style, value);
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key === "title" || key === "aria-label") made.setAttribute(key, printable(String(value)));
    else made.setAttribute(key, value === true ? "" : value);
  }
  return append(made, children);
}

export function append(parent, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    parent.append(child instanceof Node ? child : document.createTextNode(printable(String(child))));
  }
  return parent;
}

export function replace(parent, ...children) {
  parent.replaceChildren();
  return append(parent, children);
}

// Draw a place anew and give the focus back to the control that had it, known by its number.
export function redrawn(place, draw) {
  const controls = () => [...place.querySelectorAll("button, summary, select, [tabindex]")];
  const focused = place.contains(document.activeElement)
    ? controls().indexOf(document.activeElement) : -1;
  draw();
  const control = focused < 0 ? null : controls()[focused];
  if (control) control.focus({ preventScroll: true });
}

// A command of the shell with a button that copies it.
export function commandLine(text) {
  const code = el("code", {}, text);
  const copy = button("copy", async () => {
    await navigator.clipboard.writeText(code.textContent);
    copy.textContent = "copied";
    setTimeout(() => { copy.textContent = "copy"; }, 1500);
  }, { class: "copy", title: "Copy the command" });
  return el("div", { class: "command" }, el("span", { "aria-hidden": "true" }, "$ "), code, copy);
}

// A word of a command for the shell.
export function quoted(word) {
  return `'${word.replace(/'/g, "'\\''")}'`;
}

export function button(label, action, properties) {
  return el("button", { type: "button", onclick: action, ...properties }, label);
}

// A group of buttons of which one is pressed. Returns the element and a function that presses one.
export function choice(label, options, chosen, onchoose) {
  const buttons = options.map(([key, text]) => [key, button(text, () => { press(key); onchoose(key); })]);
  const press = (key) => {
    for (const [one, made] of buttons) made.setAttribute("aria-pressed", String(one === key));
  };
  press(chosen);
  return { press, element: el("div", { class: "choice", role: "group", "aria-label": label },
    buttons.map(([, made]) => made)) };
}

// A key of a picture: entries [key, text, kind of swatch]; a click on one shows it alone, or all again.
export function filterKey(label, entries, onchoose) {
  let only = null;
  const buttons = entries.map(([key, text, kind]) => button([el("span", { class: kind, "aria-hidden": "true" }), text],
    () => {
      only = only === key ? null : key;
      entries.forEach(([one], k) => buttons[k].setAttribute("aria-pressed", String(one === only)));
      onchoose(only);
    }, { "aria-pressed": "false" }));
  return el("div", { class: "key lane-key", role: "group", "aria-label": label }, buttons);
}

// Facts as pairs of label and text or nodes; pairs without a text are left out.
export function factList(facts) {
  return el("dl", { class: "facts" }, facts.filter(([, text]) => text).map(([label, text]) =>
    el("div", {}, el("dt", {}, label), el("dd", {}, text))));
}

export function noteList(notes) {
  return notes.length ? el("ul", { class: "notes" }, notes.map((note) => el("li", {}, note))) : null;
}

// A block below a head.
export function block(title, ...children) {
  return el("div", { class: "block" }, title ? el("h3", {}, title) : null, children);
}

export function tableCell(content, isNumber) {
  const isLong = typeof content === "string" && content.length > LONG_CELL;
  return el("td", { class: isNumber ? "number" : null, title: isLong ? content : null }, content);
}

// The table that says in numbers what a picture shows, made when it is opened.
export function pictureTable(summary, columns, makeRows) {
  const made = el("details", { class: "numbers" }, el("summary", {}, summary));
  made.addEventListener("toggle", () => {
    if (made.open && made.children.length === 1) {
      made.append(plainTable(columns, makeRows(), [], summary));
    }
  });
  return made;
}

// A table with heads. Columns are [name, meaning, isNumber]; cells are text or nodes.
export function plainTable(columns, rows, tail, label, heads = null) {
  const line = (cells) => append(el("tr", {}), cells.map((cell, k) => tableCell(cell, columns[k][2])));
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
    el("table", {}, el("thead", {}, el("tr", {}, heads || columns.map(([name, meaning, isNumber]) =>
      el("th", { scope: "col", title: meaning || null, class: isNumber ? "number" : null }, name)))),
    el("tbody", {}, rows.map((row) => (row instanceof Node ? row : line(row)))),
    tail.length ? el("tfoot", {}, tail.map(line)) : null));
}

// ---- names of values, instructions and source lines as links

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
