// Elements of SVG pictures; text is always a text node.

import { textNode } from "./dom.js";

const NAMESPACE = ["http", "//www.w3.org/2000/svg"].join(":");

export function svg(tag, attributes, ...children) {
  const made = document.createElementNS(NAMESPACE, tag);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value);
  }
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    made.append(child instanceof Node ? child : textNode(child));
  }
  return made;
}
