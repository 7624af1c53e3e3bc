// Your code: the lines of the program that cost something, with what they cost.

import { button, el } from "dom";
import { formatBytes, formatCount, formatFlops, formatShare } from "format";
import { joined, sourceLink } from "links";
import { Listing, withCells } from "listing";

const AMOUNTS = { peak_bytes: formatBytes, wire_bytes: formatBytes, flops: formatFlops };

export const view = {
  name: "source",
  title: "Your code",
  command: (module) => `hlo-lens source ${module.command}`,
  render(container, data, page) {
    const place = (one) => `${one.source_file}:${one.source_line}`;
    const number = (title, meaning) => ({ title, meaning, isNumber: true, by: (one) => one[title],
      cell: (one) => (one[title] ? AMOUNTS[title](one[title]) : one[title] === null ? "not known" : "") });
    const count = (title, meaning) => ({ title, meaning, isNumber: true, by: (one) => one[title] || 0,
      cell: (one) => (one[title] > 1 ? formatCount(one[title]) : "") });
    const columns = [
      { ...number("peak_bytes", "bytes at the peak; a click shows their values"),
        cell: (one) => (one.peak_bytes ? button(formatBytes(one.peak_bytes), () => show(one), { class: "name" }) : "") },
      number("wire_bytes", "bytes that leave each device in one run"),
      number("flops", "FLOP of a device in one run"),
      { title: "flops_share", meaning: "share of all FLOP", isNumber: true, by: (one) => one.flops_share || 0,
        cell: (one) => (one.flops_share ? formatShare(one.flops_share, 1) : "") },
      count("times", "runs in one run of the program"), count("copies", "devices that compute one result of it"),
      { title: "findings", meaning: "codes of the findings at it", by: (one) => one.findings.join(),
        cell: (one) => joined(one.findings.map((code) => button(code, () => goTo(code), { class: "name" }))) },
      { title: "source", by: place, cell: (one) => sourceLink(place(one), page) },
      { title: "text", meaning: "the line in the checkout", by: (one) => one.text || "",
        cell: (one) => (one.is_changed ? "[changed since the compile]" : one.text && el("code", {}, one.text.trim())) },
    ];
    const show = (one) => {
      page.selection.near = undefined; // go to the list
      page.selection.set({ view: "alive", "q.alive": place(one), picture: undefined });
    };
    const goTo = (code) => {
      const found = [...document.querySelectorAll(".finding")].find((one) => one.textContent.startsWith(code));
      if (!found) return;
      found.open = true;
      found.scrollIntoView({ block: "center" });
    };
    const shown = withCells(columns, data.rows);
    const tail = () => Object.entries({ ...data.residuals, total: data.whole }).map(([label, sums]) =>
      shown.map(({ title }) => (title === "source" ? label : sums[title] ? AMOUNTS[title](sums[title]) : "")));
    container.append(new Listing(data.rows, shown, { selection: page.selection, name: "source", label: "lines",
      sortedBy: data.whole.peak_bytes ? 0 : 2, placeholder: "file:line, code, text", tail }).element);
  },
};
