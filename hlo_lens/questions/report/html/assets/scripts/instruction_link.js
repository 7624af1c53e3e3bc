// The name of an instruction as a button that opens it at the bottom of the page.

import { button } from "./dom.js";

export function instructionLink(name, page) {
  return button(name, () => page.selection.set({ instruction: name, value: undefined }),
    { class: "name", title: "open the instruction" });
}
