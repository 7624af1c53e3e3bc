// Your code: the lines of the program that cost something, with what they cost.

import { button, el, joined } from "dom";
import { tableListing } from "listing";

export const view = {
  name: "source",
  title: "Your code",
  command: (module) => `hlo-lens source ${module.command}`,
  render(container, data, page) {
    const show = (place) => {
      page.selection.near = undefined; // go to the list
      page.selection.set({ view: "alive", "q.alive": place, picture: undefined });
    };
    const goTo = (code) => {
      const found = [...document.querySelectorAll(".finding")].find((one) => one.textContent.startsWith(code));
      if (!found) return;
      found.open = true;
      found.scrollIntoView({ block: "center" });
    };
    const at = data.table.columns.findIndex(([name]) => name === "source");
    container.append(tableListing(data.table, page, { selection: page.selection, label: "lines",
      placeholder: "file:line, code, text", cells: {
        peak_bytes: (bytes, k) => (bytes ? button(bytes, () => show(data.table.rows[k][at]), { class: "name" }) : ""),
        findings: (codes) => joined(codes.split(", ").filter(Boolean).map((code) =>
          button(code, () => goTo(code), { class: "name" }))),
        text: (text) => (text ? el("code", {}, text.trim()) : ""),
      } }).element);
  },
};
