// Text of dumps made safe to show (hlo_lens/text/errors.py): control characters and marks of
// writing direction, which could show a text as another one, become their escapes.

const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

export function printable(text) {
  return text.replace(HIDDEN, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
