// Boxes over the schedule: collectives in lanes, and values at their places in the heap. They show the
// part of the schedule that the picture of memory shows.

import { roleSlug } from "colors";
import { el, pictureTable } from "dom";
import { formatBytes, formatCount, plural } from "format";
import { movable } from "rectangles";
import { shownRange } from "stack_chart";

const MOST = 4000; // boxes that are drawn
const TABLE_ROWS = 400;

// Put elements at their instants, now and when another part of the schedule is shown.
// Items: { element, start, end }.
function keepPlaced(items, length, selection) {
  let last = null;
  const place = () => {
    const range = shownRange(selection, length);
    if (String(range) === last) return;
    last = String(range);
    const [first, span] = [range[0], range[1] - range[0]];
    for (const { element, start, end } of items) {
      const [from, to] = [Math.max(start, first), Math.min(end + 1, range[1])];
      element.hidden = to <= from;
      Object.assign(element.style, { left: `${(100 * (from - first)) / span}%`, width: `${(100 * (to - from)) / span}%` });
    }
  };
  selection.subscribe(place);
  place();
}

function range(start, end) {
  return `from instant ${formatCount(start)} to ${formatCount(end)}`;
}

// Collectives: a lane for each kind and axis, a box from start to end for each. Items: { lane, start, end,
// coverage, record, title }; options: loops, length, label, onchoose(record), onpoint(record or undefined).
export function lanes(items, names, selection, { loops, length, label, onchoose, onpoint }) {
  const drawn = items.slice(0, MOST).map((one) => ({ ...one, element: el("button", { type: "button",
    class: `span ${one.coverage}`, "aria-label": `${one.record.name}, ${range(one.start, one.end)}`,
    title: one.title, onclick: () => onchoose(one.record), onpointerenter: () => onpoint(one.record),
    onpointerleave: () => onpoint(undefined) }) }));
  const bands = loops.filter((one) => one.depth === 0).map((one) => ({ ...one, element: el("div", { class: "loop" },
    `${one.name} x${one.trips === null ? "?" : formatCount(one.trips)}`) }));
  const lane = (name, elements) => el("div", { class: "lane" }, el("span", { class: "label" }, name),
    el("div", { class: "track" }, elements));
  const box = el("div", { class: "lanes", role: "group", "aria-label": label }, bands.length
    ? lane("", bands.map((one) => one.element)) : null, names.map((name, k) =>
    lane(name, drawn.filter((one) => one.lane === k).map((one) => one.element))),
  items.length > MOST ? el("p", { class: "note" }, `[${formatCount(items.length - MOST)} others are in the table]`) : null);
  movable(box);
  keepPlaced([...bands, ...drawn], length, selection);
  return { element: box, mark: (chosen, isFaint) => drawn.forEach(({ element, record }) => {
    element.classList.toggle("chosen", record === chosen);
    element.classList.toggle("faded", isFaint(record));
  }) };
}

// Values in an allocation over the schedule. Found: those that a search leaves, null for all.
export function heap(model, selection, { found, chosen, onchoose }) {
  const { values, space } = model;
  const allocations = [...space.allocations].sort((one, other) => other[1] - one[1]);
  const wanted = chosen === undefined ? selection.get("allocation") : String(values.allocation[chosen]);
  const allocation = allocations.find(([index]) => String(index) === wanted) || allocations[0];
  if (!allocation) return el("p", { class: "note" }, "There are no temporaries here.");
  const [number, size] = allocation;
  const all = model.placesWhere((k) => values.allocation[k] === number && !model.isHeld(k))
    .sort((one, other) => values.size[other] - values.size[one] || one - other);
  const share = (bytes) => `${(100 * bytes) / size}%`;
  const boxes = all.slice(0, MOST).map((k) => ({ start: values.start[k], end: values.end[k], element: el("button", {
    type: "button", onclick: () => onchoose(k), class: `box ${roleSlug(model.role(k))}${k === chosen ? " chosen" : ""}${
      found && !found.has(k) ? " faded" : ""}`, title: `${model.name(k)} ${formatBytes(values.size[k])}, ${model.role(k)}, `
      + `${range(values.start[k], values.end[k])}, at offset ${formatCount(values.offset[k])}`,
    style: { top: share(size - values.offset[k] - values.size[k]), height: share(values.size[k]) } },
  values.size[k] > size / 30 ? el("span", {}, `${model.name(k)} ${formatBytes(values.size[k])}`) : null) }));
  const select = el("select", { id: "allocation", onchange: () => selection.set(
    { allocation: select.value, value: undefined, instruction: undefined }) },
  allocations.map(([index, bytes]) => el("option", { value: index, selected: index === number },
    `allocation ${index}, ${formatBytes(bytes)}`)));
  const box = el("div", { class: "rectangles heap", role: "group", "aria-label": `${plural(all.length, "value")} in allocation `
    + `${number} of ${formatBytes(size)} over the schedule` }, boxes.map((one) => one.element));
  movable(box);
  keepPlaced(boxes, model.length, selection);
  const rows = () => [...all.slice(0, TABLE_ROWS).map((k) => [formatCount(values.offset[k]), formatBytes(values.size[k]),
    model.name(k), model.role(k), formatCount(values.start[k]), formatCount(values.end[k])]),
  ...(all.length > TABLE_ROWS ? [["", "", `[${formatCount(all.length - TABLE_ROWS)} others]`, "", "", ""]] : [])];
  return el("div", {}, el("div", { class: "tools" }, el("label", { for: "allocation" }, "temporaries in "), select), box,
    el("p", { class: "note" }, `Instants from left to right, bytes of the allocation upwards: ${formatBytes(size)}.`),
    pictureTable("The picture as a table: the largest values of the allocation",
      [["offset", "first byte in the allocation", true], ["size_bytes", "", true], ["value", "", false],
        ["role", "", false], ["start", "first instant", true], ["end", "last instant", true]], rows));
}
