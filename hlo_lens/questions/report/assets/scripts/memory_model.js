// The memory of a module over its schedule, made from the columns of the view's data.
// A place is the number of a stored instant: all of them, or the largest of some neighbours.

import { makerOf } from "selection";

const models = new WeakMap();
const listed = new WeakMap();

// Numbers from their differences.
export function cumulated(differences) {
  let last = 0;
  return Float64Array.from(differences, (step) => { last += step; return last; });
}

// The model of a memory space; made once.
export function memoryModel(data, space, strings) {
  if (!models.has(space)) models.set(space, new MemoryModel(data, space, strings));
  return models.get(space);
}

// A value by its name, instruction or argument: { model, space, k }, of the space that is shown
// if it is there; null if it is not listed.
export function findValue(page, name) {
  const data = page.module.views.memory;
  if (!data || name === undefined) return null;
  const first = chosenSpace(data, page.selection);
  for (const space of [first, ...data.spaces.filter((one) => one !== first)]) {
    const model = memoryModel(data, space, page.strings);
    const k = model.find(name);
    if (k !== undefined) return { model, space, k };
  }
  return null;
}

export function chosenSpace(data, selection) {
  const color = selection.get("space");
  return data.spaces.find((one) => one.color === color) || data.spaces[0];
}

// The loops of the module over the schedule.
export function loopBands(page) {
  const { memory } = page.module.views;
  return (memory ? memory.loops : []).map(([name, start, end, trips, depth]) =>
    ({ name: page.strings[name], start, end, trips, depth }));
}

class MemoryModel {
  constructor(data, space, strings) {
    this.space = space;
    this.strings = strings;
    this.length = space.length;
    this.instants = space.instants ? cumulated(space.instants) : null;
    this.places = space.instants ? space.instants.length : space.length;
    this.roleNames = data.roles.map(([name]) => name);
    this.roles = space.changes.map(([role, places, changes]) =>
      ({ role, name: data.roles[role][0], meaning: data.roles[role][1],
        bytes: this.series(places, changes) })).sort((one, other) => one.role - other.role);
    this.held = new Float64Array(this.places);
    for (const { bytes } of this.roles) {
      for (let k = 0; k < this.places; k += 1) this.held[k] += bytes[k];
    }
    this.foldedCounts = space.folded
      ? this.series(space.folded.places, space.folded.changes) : null;
    this.values = space.values;
    this.count = space.values.name.length;
    this.byName = new Map();
    for (let k = this.count - 1; k >= 0; k -= 1) this.byName.set(this.name(k), k);
    this.byOther = this.otherNames();
    this.peakPlace = space.peak.position === null ? 0 : this.placeOf(space.peak.position);
  }

  series(places, changes) {
    const found = new Float64Array(this.places);
    const at = cumulated(places);
    let sum = 0;
    for (let k = 0; k < at.length; k += 1) {
      sum += changes[k];
      const next = k + 1 < at.length ? at[k + 1] : this.places;
      found.fill(sum, at[k], next);
    }
    return found;
  }

  // The instant of a place; after the last one the end of the schedule.
  instantOf(place) {
    if (!this.instants) return place;
    return place < this.places ? this.instants[place] : this.length;
  }

  // Whether a value has some words in its name, path, line, argument or shape.
  hasWords(k, words) {
    return ["name", "op_name", "source", "argument", "shape"].some((key) =>
      (this.text(key, k) || "").toLowerCase().includes(words));
  }

  // Bytes of some values over the places; at most, where they share memory.
  seriesOf(values) {
    const steps = new Float64Array(this.places + 1);
    for (const k of values) {
      steps[this.placeOf(this.values.start[k])] += this.values.size[k];
      steps[this.placeOf(this.values.end[k]) + 1] -= this.values.size[k];
    }
    for (let place = 1; place < steps.length; place += 1) steps[place] += steps[place - 1];
    return steps;
  }

  placesWhere(isWanted) {
    const found = [];
    for (let k = 0; k < this.count; k += 1) if (isWanted(k)) found.push(k);
    return found;
  }

  // The stored instant nearest to one.
  placeOf(instant) {
    if (!this.instants) return Math.max(0, Math.min(this.places - 1, instant));
    let low = 0;
    let high = this.places - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.instants[middle] < instant) low = middle + 1; else high = middle;
    }
    const isBefore = low > 0 && instant - this.instants[low - 1] < this.instants[low] - instant;
    return isBefore ? low - 1 : low;
  }

  instruction(place) {
    const number = this.space.schedule[place];
    return number === undefined || number < 0 ? null : this.strings[number];
  }

  text(key, k) {
    const number = this.values[key][k];
    return number < 0 ? null : this.strings[number];
  }

  name(k) {
    return this.strings[this.values.name[k]];
  }

  role(k) {
    return this.roleNames[this.values.role[k]];
  }

  // The largest value of each instruction, and the value of each argument.
  otherNames() {
    const found = new Map();
    const { size } = this.values;
    for (let k = 0; k < this.count; k += 1) {
      const maker = makerOf(this.name(k));
      if (!found.has(maker) || size[k] > size[found.get(maker)]) found.set(maker, k);
    }
    for (let k = 0; k < this.count; k += 1) {
      const argument = this.text("category", k) === "argument" ? this.text("argument", k) : null;
      if (argument !== null && !found.has(argument)) found.set(argument, k);
    }
    return found;
  }

  // The place of a value by its name, instruction or argument; undefined if it is not listed.
  find(name) {
    const k = this.byName.get(name);
    return k === undefined ? this.byOther.get(name) : k;
  }

  isHeld(k) {
    return this.text("category", k) !== "temp";
  }

  // What is alive at a place: listed values with the bytes that are theirs alone, and the rest.
  alive(place) {
    const instant = this.instantOf(place);
    const { start, end, size } = this.values;
    const found = this.placesWhere((k) => start[k] <= instant && instant <= end[k]);
    const owned = this.ownedBytes(found);
    const total = this.held[place];
    let sum = 0;
    let sizes = 0;
    for (const k of found) {
      sum += owned.get(k);
      sizes += size[k];
    }
    const others = this.foldedCounts ? this.foldedCounts[place] : 0;
    return { place, instant, total, values: found, owned, others,
      otherBytes: others ? Math.max(0, total - sum) : 0,
      shared: sizes + (others ? Math.max(0, total - sum) : 0) - total };
  }

  // Bytes of values that no younger one holds, as the peak of the text report counts them.
  ownedBytes(found) {
    const { start, offset, size, allocation } = this.values;
    const owned = new Map();
    const groups = new Map();
    for (const k of found) {
      if (this.isHeld(k)) { owned.set(k, size[k]); continue; }
      if (!groups.has(allocation[k])) groups.set(allocation[k], []);
      groups.get(allocation[k]).push(k);
    }
    for (const group of groups.values()) {
      group.sort((one, other) => start[other] - start[one] || one - other);
      const taken = [];
      for (const k of group) owned.set(k, take(taken, offset[k], offset[k] + size[k]));
    }
    return owned;
  }
}

// Add a range to disjoint ranges; return how much of it was free.
function take(ranges, low, high) {
  const over = ranges.filter(([from, to]) => from <= high && low <= to);
  const taken = over.map(([from, to]) => Math.max(0, Math.min(high, to) - Math.max(low, from)));
  const [from, to] = [Math.min(low, ...over.map(([one]) => one)), Math.max(high, ...over.map(([, one]) => one))];
  for (const one of over) ranges.splice(ranges.indexOf(one), 1);
  ranges.push([from, to]);
  return high - low - taken.reduce((sum, bytes) => sum + bytes, 0);
}

// The place of an instruction among those of the view Program; undefined if it is not listed.
export function placeOfInstruction(name, page) {
  const data = page.module.views.program;
  if (!data) return undefined;
  if (!listed.has(data)) listed.set(data, new Map(data.name.map((number, k) => [page.strings[number], k])));
  return listed.get(data).get(name);
}
