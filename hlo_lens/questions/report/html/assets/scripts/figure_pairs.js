// Figures of both sides of a diff as pairs of bars: memory, and collectives.

import { el, table } from "dom";
import { signed } from "difference_icicle";
import { formatBytes, formatCount } from "format";

const MEMORY = {
  total_bytes: "must fit", "peak.bytes": "peak", argument_bytes: "arguments",
  output_bytes: "outputs", alias_bytes: "reused for outputs", temp_bytes: "temporaries",
  constant_bytes: "constants", generated_code_bytes: "generated code",
};
const SPACE = /^spaces\[(.+)\]\.peak_bytes$/;

// The figures of a pair of modules; null if none are known. Changes: the object of `hlo-lens diff`.
export function figurePairs(changes) {
  const bytes = memoryRows(changes.memory || {});
  const wire = changes.wire_bytes_per_device;
  if (wire && (wire.base || wire.head)) bytes.push(["on the wire in one run", wire]);
  const counts = Object.entries(changes.collectives || {}).filter(([, one]) => one.base || one.head);
  const parts = [pairTable("Figures of one device", bytes, formatBytes, signed),
    pairTable("Collectives in the text", counts, formatCount, signedCount)].filter(Boolean);
  return parts.length ? el("div", { class: "block" }, parts) : null;
}

function memoryRows(memory) {
  const own = Object.entries(MEMORY).filter(([key]) => memory[key])
    .map(([key, label]) => [label, memory[key]]);
  const spaces = Object.keys(memory).filter((key) => SPACE.test(key))
    .map((key) => [`peak of ${SPACE.exec(key)[1]}`, memory[key]]);
  const others = spaces.length > 1 ? spaces.slice(1) : [];
  return [...own, ...others].filter(([, one]) => one.base || one.head);
}

function pairTable(title, rows, format, signedText) {
  if (!rows.length) return null;
  const most = Math.max(1, ...rows.flatMap(([, one]) => [one.base ?? 0, one.head ?? 0]));
  const text = (number) => (number === null || number === undefined ? "not known" : format(number));
  const change = ({ base, head }) => {
    if (base === null || head === null) return "";
    return base === head ? "=" : signedText(head - base);
  };
  return el("div", { class: "block" }, el("h3", {}, title),
    table([["figure", "", false], ["base", "", true], ["head", "", true], ["change", "", true],
      ["base above, head below", "", false]], rows.map(([label, one]) => [label, text(one.base),
      text(one.head), change(one), bars(one, most)]), { label: title, kind: "pairs" }));
}

function bars({ base, head }, most) {
  const kind = base === null || head === null || head === base ? "even"
    : head > base ? "grown" : "shrunk";
  const bar = (number, name) => el("span", { class: number ? name : "",
    style: { width: `${number ? Math.max(2, (number / most) * 220) : 0}px` } });
  return el("span", { class: `pair ${kind}`, "aria-hidden": "true" }, bar(base, "of-base"),
    bar(head, "of-head"));
}

function signedCount(difference) {
  return `${difference > 0 ? "+" : "-"}${formatCount(Math.abs(difference))}`;
}
