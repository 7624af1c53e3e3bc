// What must fit against the memory of the device, where the dump names the device.

import { el } from "./dom.js";
import { formatBytes, formatShare } from "./format.js";

// The sentence on a page; null if the limit is not known.
export function limitLine(data) {
  const limit = limitText(data);
  return limit && el("p", { class: `verdict${limit.fits ? "" : " failed"}` }, el("b", {}, limit.text),
    el("span", { class: "faint" }, ` Source of the limit: ${limit.source}.`));
}

// { fits, text, source } of the default memory space; null if its limit is not known.
function limitText(data) {
  const space = data && data.spaces.find((one) => one.color === 0);
  if (!space || !data.limit) return null;
  const [limit, source] = data.limit;
  const must = space.total_bytes;
  if (must === null) return null;
  const about = data.source === "estimate" ? "an estimated " : "";
  const device = `${formatBytes(limit)} of a device`;
  if (must > limit) {
    return { fits: false, source, text: `Does not fit: ${about}${formatBytes(must)} must fit, `
      + `${formatBytes(must - limit)} more than the ${device}.` };
  }
  return { fits: true, source, text: `Fits if nothing else is on the device: ${about}${formatBytes(must)} must fit, `
    + `${formatShare(must, limit)} of the ${device}.` };
}
