// Sharding: parameters and outputs with their specs, the cost of copies, one value over the devices.

import { append, block, button, commandLine, el, factList, noteList, quoted, replace } from "dom";
import { formatBytes, plural } from "format";
import { sectionTables } from "listing";
import { findValue } from "memory_model";

export const view = {
  name: "sharding",
  title: "Sharding",
  command: (module) => `hlo-lens sharding ${module.command} -n 0`,
  render(container, data, page) {
    const values = page.object.sharding.rows.filter((row) => row.kind !== "form");
    const drawable = values.map((_, k) => k).filter((k) => data.drawing[k] >= 0);
    const place = el("div", { class: "drawing" });
    const draw = (k) => replace(place, k === undefined ? el("p", { class: "note" }, "No sharding can be drawn.")
      : drawing(values[k], data.drawings[data.drawing[k]], page));
    const named = (first) => ({ cells: { name: (name, k) => (data.drawing[first + k] < 0 ? name
      : button(name || `output ${k}`, () => { draw(first + k); place.scrollIntoView({ block: "nearest" }); },
        { class: "name", title: "draw it over the devices" })) } });
    const parameters = values.filter((one) => one.kind === "parameter");
    append(container, [factList(data.section.facts), block("One value over the devices", place),
      sectionTables(data.section, page, { parameters: named(0), outputs: named(parameters.length) }),
      noteList(data.section.notes)]);
    draw(drawable.sort((one, other) => (values[other].global_bytes || 0) - (values[one].global_bytes || 0))[0]);
    page.selection.subscribe(() => { // a value that is selected elsewhere is drawn here, if it is an argument
      const selected = findValue(page, page.selection.name());
      const argument = selected && selected.model.text("argument", selected.k);
      const k = argument ? parameters.findIndex((one) => one.name === argument) : -1;
      if (data.drawing[k] >= 0) draw(k);
    });
  },
};

function drawing(one, lines, page) {
  const held = findValue(page, one.name || undefined);
  return [el("p", {}, el("b", {}, one.name || one.kind), ` ${one.global_shape} as ${one.spec || one.sharding}: `
    + `${one.device_shape} of ${formatBytes(one.device_bytes)} on each device, `
    + `${plural(one.replication_factor, "copy", "copies")} `,
  held ? button("show in the memory", () => page.selection.set(
    { value: held.model.name(held.k), instruction: undefined })) : null),
  el("pre", { class: "boxes", tabindex: "0", "aria-label": `parts of ${one.name || one.kind} on the devices` }, lines.join("\n")),
  one.sharding ? commandLine(`hlo-lens sharding ${quoted(one.sharding)} --shape ${quoted((one.global_shape || "").split("{")[0])}`)
    : null];
}
