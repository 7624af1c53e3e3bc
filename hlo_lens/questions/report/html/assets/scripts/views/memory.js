// Memory over the schedule: bytes held at each instant, stacked by role.

import { choice, el, pictureTable, button, replace } from "../dom.js";
import { formatBytes, formatCount, formatShare } from "../format.js";
import { instructionLink } from "../instruction_link.js";
import { limitLine } from "../memory_limit.js";
import { chosenSpace, memoryModel } from "../memory_model.js";
import { StackChart } from "../stack_chart.js";
import { roleKey } from "../role_key.js";

const TABLE_ROWS = 40;

export const view = {
  name: "memory",
  title: "Memory over the schedule",
  command: (module, selection) => {
    const { color } = chosenSpace(module.views.memory, selection);
    return `hlo-lens memory ${module.command}${color ? ` --space ${color}` : ""} --timeline -f json`;
  },
  howToRead: [
    "From left to right the instructions of the program in the order in which they run; a loop's "
    + "body appears once, under a bracket with the number of its runs. Width is program order, "
    + "not time.",
    "Height is the memory held: whole arguments, outputs and constants all the time, and the "
    + "temporaries alive at that instant. Each byte counts once. The highest instant is the peak: "
    + "what must fit at least.",
    "Layers are roles, found from evidence in the program: aliases and donation, the flow of data "
    + "from arguments to matrix products and results, and operation paths of the backward pass. "
    + "What has no evidence is 'temporaries' or 'other'.",
    "Click or use the arrow keys to choose an instant, drag to zoom in, and double-click or press "
    + "0 to see all. With Shift the arrow keys move ten times as far; P goes to the peak.",
  ],
  render(container, data, page) {
    const { selection } = page;
    const spaces = data.spaces.map((one) => [one.color, `${one.name} ${formatBytes(one.peak.bytes)}`]);
    const place = el("div", {});
    let shown = null;
    const draw = () => {
      const space = chosenSpace(data, selection);
      if (space === shown) return;
      shown = space;
      drawSpace(place, data, space, page);
    };
    const tools = el("div", { class: "tools" });
    if (spaces.length > 1) {
      const group = choice("memory space", spaces, chosenSpace(data, selection).color,
        (color) => selection.set({ space: color, instant: undefined }));
      tools.append(group.element);
      selection.subscribe(() => { group.press(chosenSpace(data, selection).color); });
    }
    if (data.source === "estimate") tools.append(el("span", { class: "note" }, "an estimate, see Summary"));
    container.append(tools, place);
    selection.subscribe(draw);
    draw();
  },
};

function drawSpace(place, data, space, page) {
  const { selection } = page;
  const model = memoryModel(data, space, page.strings);
  const readout = el("p", { class: "readout", "aria-live": "polite" });
  const key = roleKey(model);
  const chart = new StackChart(model, data.loops, page.strings, {
    label: `Bytes of ${space.name} held over the schedule, peak ${formatBytes(space.peak.bytes)}`
      + ` at instant ${space.peak.position}`,
    limit: space.color === 0 && data.limit ? data.limit[0] : null,
    onpoint: (at) => describe(at),
    onchoose: (at) => selection.set({ space: space.color, instant: model.instantOf(at) }),
  });
  const chosen = () => {
    const instant = selection.get("instant");
    return instant === undefined ? model.peakPlace : model.placeOf(instant);
  };
  const describe = (at) => {
    key.show(at);
    replace(readout, ...sentence(model, at, page));
  };
  const update = () => {
    if (!chart.element.isConnected) return false;
    chart.choose(chosen());
    const k = selection.name() === undefined ? undefined : model.find(selection.name());
    chart.mark(k === undefined ? null : [model.values.start[k], model.values.end[k], model.name(k)]);
    describe(chosen());
    return true;
  };
  replace(place,
    el("div", { class: "tools" },
      button("peak", () => selection.set({ instant: undefined }), { title: "Key P" }),
      button("zoom in", () => chart.zoom(0.5)), button("zoom out", () => chart.zoom(2)),
      button("all", () => chart.all(), { title: "Key 0" })),
    chart.element, readout, key.element, space.color === 0 ? limitLine(data) : null, pictureTable(
      `The picture as a table: the largest instant of each of ${TABLE_ROWS} parts`,
      [["instant", "", true], ["instruction", "", false], ["held", "", true],
        ...model.roles.map((one) => [one.name, one.meaning, true])],
      () => tableRows(model)));
  chart.start();
  selection.subscribe(update);
  update();
}

function sentence(model, at, page) {
  const instruction = model.instruction(at);
  const parts = [el("b", {}, formatBytes(model.held[at])), " held at instant ",
    formatCount(model.instantOf(at)), instruction ? [" (", instructionLink(instruction, page), ")"] : ""];
  if (at === model.peakPlace) parts.push(", the peak");
  else parts.push(`, ${formatShare(model.held[at], model.space.peak.bytes)} of the peak`);
  return parts.flat();
}

function tableRows(model) {
  const step = Math.max(1, Math.ceil(model.places / TABLE_ROWS));
  const rows = [];
  for (let first = 0; first < model.places; first += step) {
    let best = first;
    for (let k = first; k < Math.min(first + step, model.places); k += 1) {
      if (model.held[k] > model.held[best]) best = k;
    }
    rows.push([formatCount(model.instantOf(best)), model.instruction(best) || "[end]",
      formatBytes(model.held[best]), ...model.roles.map((one) => formatBytes(one.bytes[best]))]);
  }
  return rows;
}
