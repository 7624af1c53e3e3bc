// Sharding: parameters and outputs with their specs, the cost of copies, one value over the devices.

import { tilePicture } from "devices";
import { append, block, button, choice, commandLine, el, factList, quoted, replace, table } from "dom";
import { formatBytes, formatCount, plural } from "format";
import { Listing, number, word } from "listing";
import { findValue } from "memory_model";

export const view = {
  name: "sharding",
  title: "Sharding",
  command: (module) => `hlo-lens sharding ${module.command} -n 0`,
  render(container, data, page) {
    new Sharding(container, data, page).start();
  },
};

class Sharding {
  constructor(container, data, page) {
    Object.assign(this, { container, data, page });
    this.records = page.object.sharding.rows.filter((row) => row.kind !== "form")
      .map((row, k) => ({ ...row, k }));
    this.chosen = this.records.filter((one) => this.data.drawing[one.k] >= 0)
      .sort((one, other) => (other.global_bytes || 0) - (one.global_bytes || 0))[0] || null;
  }

  start() {
    append(this.container, [factList(this.data.facts), this.replication()]);
    this.drawing = el("div", {});
    this.list = this.listing();
    const kinds = choice("values", [["", "all"], ["parameter", "parameters"], ["output", "outputs"]],
      "", (key) => {
        this.list.filter = key ? (one) => one.kind === key : null;
        this.list.draw();
      });
    this.list.tools.prepend(kinds.element);
    this.container.append(block("Parameters and outputs", this.list.element),
      block("One value over the devices", this.drawing));
    this.draw();
    this.page.selection.subscribe(() => {
      if (!this.drawing.isConnected) return false;
      this.follow();
      return true;
    });
    this.follow();
  }

  // A value that is selected in another view is drawn here, if it is an argument.
  follow() {
    const selected = findValue(this.page, this.page.selection.name());
    const argument = selected && selected.model.text("argument", selected.k);
    const found = argument && this.records.find((one) => one.kind === "parameter" && one.name === argument);
    if (!found || found === this.chosen) return;
    this.chosen = found;
    this.draw();
    this.list.draw();
  }

  replication() {
    const rows = this.data.replicated_by_axis;
    if (!rows.length) return null;
    const keys = Object.keys(rows[0]);
    return block("Copies that a free axis would save",
      table(keys.map((key) => [key, "", typeof rows[0][key] === "number"]),
        rows.map((row) => keys.map((key) => (key.endsWith("bytes") ? formatBytes(row[key])
          : typeof row[key] === "number" ? formatCount(row[key]) : row[key]))),
        { label: "copies by axis" }));
  }

  listing() {
    return new Listing(this.records, [
      number("device_bytes", "bytes of one device's part", formatBytes),
      number("global_bytes", "bytes of the whole, once", (size, one) => (one.is_upper_bound ? "<=" : "") + formatBytes(size)),
      number("replication_factor", "devices that hold each element"), word("name", "", (one) => this.link(one)),
      word("spec", "", (one) => one.spec || one.sharding || "not known"), word("global_shape"), word("device_shape"),
      word("kind"), word("aliased_with"),
    ], { selection: this.page.selection, name: "sharding", label: "parameters and outputs", sortedBy: 0, placeholder: "name, spec, shape",
      chosen: () => this.chosen });
  }

  link(one) {
    const name = one.name || `${one.kind} ${one.index}`;
    if (this.data.drawing[one.k] < 0) return name;
    return button(name, () => {
      this.chosen = one;
      this.draw();
      this.list.draw();
      this.drawing.scrollIntoView({ block: "nearest" });
    }, { class: "name", title: "draw it over the devices" });
  }

  draw() {
    const one = this.chosen;
    if (!one) {
      replace(this.drawing, el("p", { class: "note" }, "No sharding can be drawn."));
      return;
    }
    const held = findValue(this.page, one.name || undefined);
    const shape = (one.global_shape || "").split("{")[0];
    replace(this.drawing, el("p", {}, el("b", {}, one.name || one.kind), ` ${one.global_shape} as `
      + `${one.spec || one.sharding}: ${one.device_shape} of ${formatBytes(one.device_bytes)} on each `
      + `device, ${plural(one.replication_factor, "copy", "copies")} `,
    held ? button("show in the memory", () => this.page.selection.set(
      { value: held.model.name(held.k), instruction: undefined })) : null),
    tilePicture(this.data.drawings[this.data.drawing[one.k]], one.name || one.kind),
    one.sharding ? commandLine(`hlo-lens shard ${quoted(one.sharding)} --shape ${quoted(shape)}`)
      : null);
  }
}
