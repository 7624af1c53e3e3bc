// The first screen: whether it fits, bytes by role, bytes over the schedule, and the findings.

import { roleSlug, swatch } from "colors";
import { button, choice, el, instructionLink, pictureTable, replace } from "dom";
import { findingsList } from "findings";
import { formatBytes, formatCount, formatShare } from "format";
import { chosenSpace, loopBands, memoryModel } from "memory_model";
import { StackChart } from "stack_chart";

const TABLE_ROWS = 40;

export const view = {
  name: "memory",
  title: "Memory",
  command: (module, selection) => {
    const { color } = chosenSpace(module.views.memory, selection);
    return `hlo-lens memory ${module.command}${color ? ` --space ${color}` : ""} --timeline -f json`;
  },
  render(container, data, page) {
    const place = el("div", { class: "picture" });
    const findings = findingsList(page);
    container.append(el("div", { class: "first-screen" }, place, findings));
    let shown = null;
    const draw = () => {
      const space = chosenSpace(data, page.selection);
      if (space !== shown) drawSpace(place, data, space, page);
      shown = space;
    };
    page.selection.subscribe(draw);
    draw();
  },
};

function drawSpace(place, data, space, page) {
  const { selection } = page;
  const model = memoryModel(data, space, page.strings);
  const about = data.source === "estimate" ? "~" : "";
  const readout = el("p", { class: "readout", "aria-live": "polite" });
  const key = roleKey(model, selection);
  const describe = (at) => {
    key.show(at);
    replace(readout, sentence(model, at, page, about));
  };
  const chart = new StackChart(model, loopBands(page), selection, {
    label: `Bytes of ${space.name} held over the schedule, peak ${formatBytes(space.peak.bytes)}`
      + ` at instant ${space.peak.position}`,
    limit: space.color === 0 && data.limit ? data.limit[0] : null,
    onpoint: describe,
    onchoose: (at) => selection.set({ space: space.color || undefined, instant: model.instantOf(at) }),
  });
  chart.about = about;
  const spaces = choice("memory space", data.spaces.map((one) =>
    [one.color, `${one.name} ${about}${formatBytes(one.peak.bytes)}`]), space.color,
  (color) => selection.set({ space: color, instant: undefined }));
  const update = () => {
    if (!chart.element.isConnected) return false;
    const k = selection.name() === undefined ? undefined : model.find(selection.name());
    chart.marked = k === undefined ? null : [model.values.start[k], model.values.end[k], model.name(k)];
    describe(chart.chosen);
    return true;
  };
  replace(place, key.element, el("div", { class: "tools" }, data.spaces.length > 1 ? spaces.element : null,
    button("peak", () => selection.set({ instant: undefined }), { title: "Key P" }),
    button("zoom in", () => chart.zoom(0.5), { title: "Key +" }),
    button("zoom out", () => chart.zoom(2), { title: "Key -" }),
    button("all", () => chart.all(), { title: "Key 0" }), readout), chart.element, pictureTable(
    `The picture as a table: the largest instant of each of ${TABLE_ROWS} parts`,
    [["instant", "", true], ["instruction", "", false], ["held", "", true],
      ...model.roles.map((one) => [one.name, one.meaning, true])], () => tableRows(model)));
  selection.subscribe(update);
  update();
  chart.start();
}

// A bar and a list of the roles with their bytes; a role that is chosen is shown alone.
function roleKey(model, selection) {
  const bar = el("div", { class: "bar", "aria-hidden": "true" });
  const roles = [...model.roles].reverse();
  const cells = roles.map((one) => ({ bytes: el("span", { class: "bytes" }), share: el("span", { class: "share" }),
    part: el("span", { class: `box ${roleSlug(one.name)}`, title: one.name }) }));
  bar.append(...cells.map((one) => one.part));
  const buttons = roles.map((one, k) => button([swatch(one.name), el("span", { class: "name" }, one.name),
    cells[k].bytes, cells[k].share], () => selection.set(
    { role: selection.get("role") === one.name ? undefined : one.name }),
  { title: `${one.meaning}; click to show it alone` }));
  const show = (place) => roles.forEach((one, k) => {
    const isFaint = selection.get("role") !== undefined && selection.get("role") !== one.name;
    cells[k].bytes.textContent = formatBytes(one.bytes[place]);
    cells[k].share.textContent = formatShare(one.bytes[place], model.held[place]);
    cells[k].part.style.flexGrow = one.bytes[place] / model.held[place];
    cells[k].part.textContent = one.bytes[place] > 0.12 * model.held[place] ? one.name : "";
    cells[k].part.classList.toggle("faded", isFaint);
    buttons[k].setAttribute("aria-pressed", String(selection.get("role") === one.name));
  });
  return { show, element: el("div", {}, bar, el("div", { class: "key", role: "group", "aria-label": "roles" }, buttons)) };
}

function sentence(model, at, page, about) {
  const instruction = model.instruction(at);
  const share = at === model.peakPlace ? ", the peak"
    : `, ${formatShare(model.held[at], model.space.peak.bytes)} of the peak`;
  return [el("b", {}, about + formatBytes(model.held[at])), " held at instant ", formatCount(model.instantOf(at)),
    instruction ? [" (", instructionLink(instruction, page), ")"] : "", share];
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
