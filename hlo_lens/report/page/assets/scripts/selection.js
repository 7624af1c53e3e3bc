// What is selected, in all views alike, and in the address: #m=module&t=instant&v=value.

const KEYS = { module: "m", space: "s", instant: "t", value: "v", instruction: "i" };

export class Selection {
  constructor() {
    this.state = {};
    this.listeners = new Set();
    this.read();
    addEventListener("hashchange", () => { if (this.read()) this.tell(); });
  }

  get(key) {
    return this.state[key];
  }

  // Change what is selected; undefined removes a key.
  set(changes) {
    let isNew = false;
    for (const [key, value] of Object.entries(changes)) {
      if (this.state[key] === value) continue;
      isNew = true;
      if (value === undefined || value === null) delete this.state[key];
      else this.state[key] = value;
    }
    if (!isNew) return;
    history.replaceState(null, "", this.hash() || location.pathname + location.search);
    this.tell();
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
