// Program: the instructions of the page, searched and opened.

import { el, instructionLink, sourceLink } from "dom";
import { formatCount } from "format";
import { Listing } from "listing";
import { placeOfInstruction } from "memory_model";

export const view = {
  name: "program",
  title: "Program",
  command: (module) => `hlo-lens show ${module.command} -n 0`,
  render(container, data, page) {
    const { strings, selection } = page;
    const text = (key, k) => (data[key][k] < 0 ? "" : strings[data[key][k]]);
    const column = (title, key) => ({ title, cell: (k) => text(key, k), by: (k) => text(key, k) });
    const listing = new Listing(data.name.map((_, k) => k), [
      { title: "instruction", cell: (k) => instructionLink(text("name", k), page),
        by: (k) => text("name", k) },
      column("opcode", "opcode"), column("shape", "shape"),
      { title: "source", cell: (k) => sourceLink(text("source", k), page), by: (k) => text("source", k) },
      column("computation", "computation"),
      { title: "users", isNumber: true, cell: (k) => formatCount(data.user_count[k]),
        by: (k) => data.user_count[k] },
    ], { selection, name: "program", label: "instructions", placeholder: "name, opcode, shape, line, text",
      chosen: () => placeOfInstruction(selection.instruction(), page) ?? null,
      words: (k) => `${data.text[k]} ${text("source", k)} ${text("op_name", k)}` });
    const all = data.count === data.name.length;
    container.append(el("p", {}, all ? `All ${formatCount(data.count)} instructions.`
      : `${formatCount(data.name.length)} of ${formatCount(data.count)} instructions are in this `
        + "file; the others are in the HLO text."), listing.element);
  },
};
