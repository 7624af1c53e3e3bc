// What is selected, in all views alike, and in the address: #m=module&t=instant&v=value&w=view.

const KEYS = { module: "m", space: "s", instant: "t", value: "v", instruction: "i", view: "w" };
const SAME_MOVE = 1000;

export class Selection {
  constructor() {
    this.state = {};
    this.listeners = new Set();
    this.last = { keys: "", time: 0 };
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
    for (const key of changed) {
      if (changes[key] === undefined || changes[key] === null) delete this.state[key];
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
    return () => this.listeners.delete(listener);
  }

  tell() {
    for (const listener of [...this.listeners]) {
      if (listener(this.state) === false) this.listeners.delete(listener);
    }
  }

  hash() {
    const parts = Object.entries(KEYS)
      .filter(([key]) => this.state[key] !== undefined)
      .map(([key, short]) => `${short}=${encodeURIComponent(this.state[key])}`);
    return parts.length ? `#${parts.join("&")}` : "";
  }

  read() {
    const before = JSON.stringify(this.state);
    const found = new URLSearchParams(location.hash.slice(1));
    this.state = {};
    for (const [key, short] of Object.entries(KEYS)) {
      if (!found.has(short)) continue;
      const text = found.get(short);
      const isNumber = key === "instant" || key === "space";
      if (!isNumber) this.state[key] = text;
      else if (/^\d+$/.test(text)) this.state[key] = Number(text);
    }
    return JSON.stringify(this.state) !== before;
  }
}

// The instruction that makes a value: its name without the index.
export function makerOf(value) {
  return value.replace(/\{[\d,]*\}$/, "");
}
