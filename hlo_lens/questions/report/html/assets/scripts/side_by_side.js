// Computations of both programs side by side, the edited lines marked.

import { el } from "dom";
import { plural } from "format";

const SIGNS = { same: " ", changed: "~", added: "+", removed: "-", moved: ">" };
const WORD = /[\w.-]+|[^\w.-]/g;

export function computationBlock({ base, head, lines }) {
  const summary = ["changed", "added", "removed", "moved"].map((kind) =>
    [lines.filter(([one]) => one === kind).length, kind]).filter(([count]) => count)
    .map(([count, kind]) => `${count} ${kind}`).join(", ");
  const title = base === head || !base || !head ? base || head : `${base} \u2192 ${head}`;
  const made = el("details", { class: "side-by-side" }, el("summary", {}, el("code", {}, title),
    el("span", { class: "sum" }, `${summary}${base && head ? "" : base ? ", in the base alone" : ", in the head alone"}`)));
  made.addEventListener("toggle", () => {
    if (!made.open || made.children.length > 1) return;
    made.append(el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `${title}, side by side` },
      el("table", { class: "texts" }, el("thead", {}, el("tr", {}, el("th", { scope: "col" },
        el("span", { class: "unseen" }, "kind of change")), el("th", { scope: "col" }, "base"),
      el("th", { scope: "col" }, "head"))), el("tbody", {}, lines.map(row)))));
  });
  return made;
}

function row([kind, base, head]) {
  if (kind === "left out") {
    return el("tr", { class: "left-out" }, el("td", {}), el("td", { colspan: "2" }, `[${plural(base, "line")} without a change]`));
  }
  const isPair = kind === "changed" && base && head;
  return el("tr", { class: kind }, el("td", { title: kind, "aria-label": kind }, SIGNS[kind]),
    el("td", {}, isPair ? marked(base, head) : base), el("td", {}, isPair ? marked(head, base) : head));
}

// A text with the words marked that the other one does not have.
function marked(text, other) {
  const known = new Set(other.match(WORD));
  return text.match(WORD).map((word) => (known.has(word) ? word : el("mark", {}, word)));
}
