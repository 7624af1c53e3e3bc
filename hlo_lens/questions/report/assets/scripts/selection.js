// What is selected, in all views alike, and in the address: #m=module&w=view&t=instant&v=value ...
// Searches of tables are keys of their own (q.NAME).

const KEYS = { module: "m", view: "w", space: "s", picture: "p", by: "g", allocation: "a", role: "r",
  zoom: "z", instant: "t", value: "v", instruction: "i" };
const SAME_MOVE = 1000;

export class Selection {
  constructor() {
    this.state = Object.create(null);
    this.listeners = new Set();
    this.last = { keys: "", time: 0 };
    this.near = undefined; // the view in which the reader acts
    this.read();
    addEventListener("hashchange", () => { if (this.read()) this.tell(); });
  }

  get(key) {
    return this.state[key];
  }

  // Change what is selected; undefined removes a key.
  set(changes) {
    const changed = Object.keys(changes).filter((key) => this.state[key] !== changes[key]);
    if (!changed.length) return;
    if (this.near !== undefined) this.state.view = this.near;
    for (const key of changed) {
      if (changes[key] === undefined || changes[key] === null || changes[key] === "") delete this.state[key];
      else this.state[key] = changes[key];
    }
    this.write(changed.filter((key) => key !== "space").join());
    this.tell();
  }

  // Each choice is an entry of the browser's history; a run of the same ones, as by arrow keys, is
  // one, because browsers limit how often a page may add entries.
  write(keys) {
    const time = performance.now();
    const isSame = keys === this.last.keys && time - this.last.time < SAME_MOVE;
    this.last = { keys, time };
    const address = this.hash() || location.pathname + location.search;
    history[isSame ? "replaceState" : "pushState"](null, "", address);
  }

  // The name of the selected value, or of the selected instruction; undefined for none.
  name() {
    return this.state.value === undefined ? this.state.instruction : this.state.value;
  }

  // The instruction that is selected or makes the selected value; undefined for none.
  instruction() {
    return this.name() === undefined ? undefined : makerOf(this.name());
  }

  // Call a function after each change, until it returns false.
  subscribe(listener) {
    this.listeners.add(listener);
  }

  tell() {
    for (const listener of [...this.listeners]) { // one may remove others
      if (this.listeners.has(listener) && listener(this.state) === false) this.listeners.delete(listener);
    }
  }

  hash() {
    const keys = [...Object.keys(KEYS), ...Object.keys(this.state).filter((key) => key.startsWith("q."))];
    const parts = keys.filter((key) => this.state[key] !== undefined)
      .map((key) => `${KEYS[key] || encodeURIComponent(key)}=${encodeURIComponent(this.state[key])}`);
    return parts.length ? `#${parts.join("&")}` : "";
  }

  read() {
    const before = JSON.stringify(this.state);
    this.state = Object.create(null);
    const names = new Map(Object.entries(KEYS).map(([key, short]) => [short, key]));
    for (const [short, text] of new URLSearchParams(location.hash.slice(1))) {
      const key = short.startsWith("q.") ? short : names.get(short);
      const isNumber = key === "instant" || key === "space";
      if (key && !isNumber) this.state[key] = text;
      else if (key && /^\d+$/.test(text)) this.state[key] = Number(text);
    }
    return JSON.stringify(this.state) !== before;
  }
}

// The instruction that makes a value: its name without the index.
export function makerOf(value) {
  return value.replace(/\{[\d,]*\}$/, "");
}
