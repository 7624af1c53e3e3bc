// The modules of a listing: equal ones once, sorted and searched; a name opens its views.

import { el } from "dom";
import { formatBytes, formatCount, formatFlops, plural } from "format";
import { Listing, number, withCells, word } from "listing";

const SAME = ["name", "total_bytes", "peak_bytes", "flops_at_least", "instructions", "stage", "partitions"];
const SHOWN = 200;

export function moduleList(page) {
  const equal = new Map();
  page.report.groups.forEach((row, k) => {
    const key = JSON.stringify(SAME.map((name) => row[name]));
    if (!equal.has(key)) equal.set(key, []);
    equal.get(key).push({ ...row, opens: page.made.opens[k] });
  });
  const records = [...equal.values()].map((rows) => ({ ...rows[0], rows,
    opens: rows.map((one) => one.opens).find(Boolean), processes: rows.map((one) => one.process),
    compiles: rows.reduce((sum, one) => sum + one.compiles, 0), files: rows.reduce((sum, one) => sum + one.files, 0) }));
  const known = (format) => (amount, one) => (amount === null ? "" : format(amount, one));
  const bytes = (size, one) => `${one.is_estimated ? "~" : ""}${formatBytes(size)}`;
  const columns = [word("mark", "step, most flops, or largest memory"),
    word("name", "name of the module; a click shows its views", (one) =>
      (one.opens ? el("a", { href: `#m=${encodeURIComponent(one.opens)}` }, one.name) : one.name)),
    { title: "process", meaning: "folder of the process that compiled it", by: (one) => one.processes.join(),
      cell: (one) => (one.rows.length > 1 ? el("span", { title: one.processes.join("\n") },
        `${one.processes[0]} and ${plural(one.rows.length - 1, "equal one")}`) : one.process) },
    number("total_bytes", "memory that must fit on one device", known(bytes)),
    number("peak_bytes", "most memory held at one instant, on one device", known(bytes)),
    number("flops", "arithmetic of one run", known((flops, one) => `${one.flops_is_at_most ? "<=" : ""}${formatFlops(flops)}`)),
    number("instructions", "as written, of the largest compile", known(formatCount)), number("compiles", "number of compiles"),
    number("signatures", "number of different parameter shapes", known(formatCount)), number("stages", "stages with texts"),
    number("files", "files of all its compiles"), word("problem", "reason why facts are missing")];
  return new Listing(records, withCells(columns, records), { selection: page.selection, name: "modules", label: "modules of the dump",
    shown: SHOWN, placeholder: "name, folder, mark" }).element;
}
