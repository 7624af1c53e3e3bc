// The data in the page: the report's JSON object, and the data of the views.

export async function readData(id) {
  const element = document.getElementById(id);
  let text = element.textContent;
  if (element.dataset.encoding === "gzip+base64") text = await unpacked(text);
  return JSON.parse(text);
}

async function unpacked(text) {
  const packed = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

// Numbers from their differences.
export function cumulated(differences) {
  const found = new Float64Array(differences.length);
  let last = 0;
  for (let k = 0; k < differences.length; k += 1) {
    last += differences[k];
    found[k] = last;
  }
  return found;
}
