// The name of a value as a button that selects it in all views.

import { button } from "./dom.js";

export function valueLink(name, page, label) {
  return button(label || name, () => page.selection.set({ value: name, instruction: undefined }),
    { class: "name", title: "select the value" });
}
