// The key of roles: swatch, name, and bytes at the instant pointed at.

import { roleSlug } from "./colors.js";
import { el } from "./dom.js";
import { formatBytes, formatShare } from "./format.js";

export function swatch(role) {
  return el("span", { class: `swatch ${roleSlug(role)}`, "aria-hidden": "true" });
}

export function roleKey(model) {
  const cells = model.roles.map((one) => ({ bytes: el("span", { class: "bytes" }),
    share: el("span", { class: "share" }) }));
  const element = el("ul", { class: "key" }, [...model.roles].reverse().map((one) => {
    const cell = cells[model.roles.indexOf(one)];
    return el("li", { title: one.meaning }, swatch(one.name),
      el("span", { class: "name" }, one.name), cell.bytes, cell.share);
  }));
  const show = (place) => model.roles.forEach((one, k) => {
    cells[k].bytes.textContent = formatBytes(one.bytes[place]);
    cells[k].share.textContent = formatShare(one.bytes[place], model.held[place]);
  });
  return { element, show };
}
