// Numbers as text, in the units of the text report (hlo_lens/text/units.py).

const PREFIXES = "KMGTPEZY";

// Bytes as XLA prints them: whole bytes, KiB with one decimal, larger ones with two; a size that
// rounds to 1024 of a unit is one of the next.
export function formatBytes(bytes) {
  if (bytes === null || bytes === undefined) return "not known";
  const sign = bytes < 0 ? "-" : "";
  let size = Math.abs(bytes);
  if (size < 1024) return `${sign}${size}B`;
  let prefix = 0;
  while (size >= 1024 * 1024 && prefix < PREFIXES.length - 1) {
    size = Math.floor(size / 1024);
    prefix += 1;
  }
  let number = fixed(size / 1024, prefix === 0 ? 1 : 2);
  if (Number(number) === 1024 && prefix < PREFIXES.length - 1) {
    number = "1.00";
    prefix += 1;
  }
  return `${sign}${number}${PREFIXES[prefix]}iB`;
}

// A number with some decimals; ties go to the even digit, as in Python.
function fixed(number, decimals) {
  const scaled = number * 10 ** decimals;
  const whole = Math.floor(scaled);
  const isUp = scaled - whole === 0.5 ? whole % 2 === 1 : scaled - whole > 0.5;
  return ((whole + Number(isUp)) / 10 ** decimals).toFixed(decimals);
}

export function formatCount(count) {
  if (count === null || count === undefined) return "not known";
  return String(count).replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}

// A share as percent with at most two decimals, never rounded up to 100%.
export function formatShare(part, whole) {
  if (!whole) return "";
  const ratio = part / whole;
  let hundredths = Math.round(ratio * 10000);
  if (ratio < 1) hundredths = Math.min(hundredths, 9999);
  return `${(hundredths / 100).toFixed(2).replace(/\.?0+$/, "")}%`;
}

export function plural(count, noun, nouns = `${noun}s`) {
  return `${formatCount(count)} ${count === 1 ? noun : nouns}`;
}
