// Elements of the page. Text is always a text node: names of dumps never become markup.

import { printable } from "./printable.js";

const LONG_CELL = 40;

export function el(tag, properties, ...children) {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(properties || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "class") made.className = value;
    else if (key === "style") Object.assign(made.style, value);
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value === true ? "" : shownAs(key, value));
  }
  append(made, children);
  return made;
}

export function append(parent, children) {
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    parent.append(child instanceof Node ? child : textNode(child));
  }
  return parent;
}

export function textNode(content) {
  return document.createTextNode(printable(String(content)));
}

// Attributes that are shown or read aloud are made printable; others, as addresses, stay.
function shownAs(key, value) {
  return key === "title" || key === "aria-label" ? printable(String(value)) : value;
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
  const button = el("button", { type: "button", class: "copy", title: "Copy the command" }, "copy");
  button.addEventListener("click", async () => {
    button.textContent = (await copied(code.textContent, code)) ? "copied" : "select and copy";
    setTimeout(() => { button.textContent = "copy"; }, 1500);
  });
  return el("div", { class: "command" }, el("span", { "aria-hidden": "true" }, "$ "), code, button);
}

async function copied(text, element) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const range = document.createRange();
    range.selectNodeContents(element);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    return document.execCommand("copy");
  }
}

export function button(label, action, properties) {
  return el("button", { type: "button", onclick: action, ...properties }, label);
}

// A group of buttons of which one is pressed. Returns the element and a function that presses one.
export function choice(label, options, chosen, onchoose) {
  const group = el("div", { class: "choice", role: "group", "aria-label": label });
  const buttons = new Map();
  const press = (key) => {
    for (const [one, made] of buttons) made.setAttribute("aria-pressed", String(one === key));
  };
  for (const [key, text] of options) {
    const made = button(text, () => { press(key); onchoose(key); });
    buttons.set(key, made);
    group.append(made);
  }
  press(chosen);
  return { element: group, press };
}

// A table with heads. Columns are [name, meaning, isNumber]; cells are text or nodes.
export function table(columns, rows, properties = {}) {
  const head = el("tr", {}, columns.map(([name, meaning, isNumber]) =>
    el("th", { scope: "col", title: meaning || null, class: isNumber ? "number" : null }, name)));
  const line = (cells) => el("tr", {}, cells.map((cell, place) =>
    el("td", { class: columns[place][2] ? "number" : null, title: fullText(cell) }, cell)));
  const made = el("table", { class: properties.class || null },
    properties.caption ? el("caption", {}, properties.caption) : null,
    el("thead", {}, head),
    el("tbody", {}, rows.map(line)),
    properties.tail && properties.tail.length ? el("tfoot", {}, properties.tail.map(line)) : null);
  return el("div", { class: "scroll", tabindex: "0", role: "region",
    "aria-label": properties.caption || properties.label || "table" }, made);
}

// The text of a cell that may be cut; null for short ones and for nodes.
export function fullText(cell) {
  return typeof cell === "string" && cell.length > LONG_CELL ? cell : null;
}

// The table that says in numbers what a picture shows.
export function pictureTable(summary, columns, makeRows) {
  const made = el("details", { class: "numbers" }, el("summary", {}, summary));
  made.addEventListener("toggle", () => {
    if (made.open && made.children.length === 1) {
      made.append(table(columns, makeRows(), { label: summary }));
    }
  });
  return made;
}
