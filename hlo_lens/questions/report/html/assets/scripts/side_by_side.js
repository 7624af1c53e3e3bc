// Computations of both programs side by side, the edited lines marked.

import { el } from "dom";
import { plural } from "format";

const SIGNS = { same: " ", changed: "~", added: "+", removed: "-", moved: ">" };
const WORD = /[\w.-]+|[^\w.-]/g;
const MOST_PAIRS = 250_000;

export function computationBlock({ base, head, lines }) {
  const counts = {};
  for (const [kind] of lines) counts[kind] = (counts[kind] || 0) + 1;
  const summary = ["changed", "added", "removed", "moved"].filter((kind) => counts[kind])
    .map((kind) => `${counts[kind]} ${kind}`).join(", ");
  const title = base === head || !base || !head ? base || head : `${base} \u2192 ${head}`;
  const made = el("details", { class: "side-by-side" }, el("summary", {}, el("code", {}, title),
    el("span", { class: "sum" }, `${summary}${base && head ? "" : base ? ", in the base alone"
      : ", in the head alone"}`)));
  made.addEventListener("toggle", () => {
    if (made.open && made.children.length === 1) made.append(sheet(lines, title));
  });
  return made;
}

function sheet(lines, title) {
  return el("div", { class: "scroll", tabindex: "0", role: "region",
    "aria-label": `${title}, side by side` },
    el("table", { class: "texts" }, el("thead", {}, el("tr", {}, el("th", { scope: "col" },
      el("span", { class: "unseen" }, "kind of change")),
      el("th", { scope: "col" }, "base"), el("th", { scope: "col" }, "head"))),
    el("tbody", {}, lines.map(row))));
}

function row([kind, base, head]) {
  if (kind === "left out") {
    return el("tr", { class: "left-out" }, el("td", {}),
      el("td", { colspan: "2" }, `[${plural(base, "line")} without a change]`));
  }
  const [one, other] = kind === "changed" && base && head ? marked(base, head) : [base, head];
  return el("tr", { class: kind }, el("td", { title: kind, "aria-label": kind }, SIGNS[kind]),
    el("td", {}, one), el("td", {}, other));
}

// Both texts with the words that differ marked.
function marked(base, head) {
  const sides = [base.match(WORD) || [], head.match(WORD) || []];
  const kept = sides[0].length * sides[1].length <= MOST_PAIRS ? commonWords(...sides)
    : sides.map(() => new Set());
  return sides.map((words, side) => {
    const parts = [];
    let run = "";
    words.forEach((word, k) => {
      if (!kept[side].has(k)) { run += word; return; }
      if (run) parts.push(el("mark", {}, run));
      run = "";
      parts.push(word);
    });
    if (run) parts.push(el("mark", {}, run));
    return parts;
  });
}

// Places, in both texts, of the words of a longest common subsequence.
function commonWords(base, head) {
  const width = head.length + 1;
  const lengths = new Uint16Array((base.length + 1) * width);
  for (let i = base.length - 1; i >= 0; i -= 1) {
    for (let j = head.length - 1; j >= 0; j -= 1) {
      lengths[i * width + j] = base[i] === head[j] ? lengths[(i + 1) * width + j + 1] + 1
        : Math.max(lengths[(i + 1) * width + j], lengths[i * width + j + 1]);
    }
  }
  const kept = [new Set(), new Set()];
  let i = 0;
  let j = 0;
  while (i < base.length && j < head.length) {
    if (base[i] === head[j]) {
      kept[0].add(i);
      kept[1].add(j);
      i += 1;
      j += 1;
    } else if (lengths[(i + 1) * width + j] >= lengths[i * width + j + 1]) i += 1;
    else j += 1;
  }
  return kept;
}
