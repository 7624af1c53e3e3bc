// Layout of a stacked picture: instants that are drawn, places of labels, sizes on the axis.

// Places of a range: all, or of each of some parts the largest and the smallest.
export function thinned(held, [from, to], most) {
  const first = Math.max(0, Math.floor(from));
  const last = Math.min(held.length - 1, Math.ceil(to));
  const count = last - first + 1;
  const places = [];
  if (count <= most) {
    for (let k = first; k <= last; k += 1) places.push(k);
    return places;
  }
  const parts = Math.max(1, Math.floor(most / 2));
  for (let part = 0; part < parts; part += 1) {
    const begin = first + Math.floor((part * count) / parts);
    const end = first + Math.floor(((part + 1) * count) / parts);
    let high = begin;
    let low = begin;
    for (let k = begin; k < end; k += 1) {
      if (held[k] > held[high]) high = k;
      if (held[k] < held[low]) low = k;
    }
    places.push(Math.min(high, low));
    if (high !== low) places.push(Math.max(high, low));
  }
  if (places[places.length - 1] !== last) places.push(last);
  return places;
}

// Middle of the highest stretch of a layer that has room for a label; null for none.
export function widest(u, places, layer, below, width, height) {
  let best = null;
  const x = places.map((place) => u.valToPos(place, "x", true));
  const high = layer.map((bytes) => u.valToPos(bytes, "y", true));
  const low = layer.map((_, k) => u.valToPos(below ? below[k] : 0, "y", true));
  const { left, width: all } = u.bbox;
  let k = 0;
  while (k < places.length) {
    let top = -Infinity;
    let bottom = Infinity;
    let end = k;
    while (end < places.length && Math.max(top, high[end]) + height <= Math.min(bottom, low[end])) {
      top = Math.max(top, high[end]);
      bottom = Math.min(bottom, low[end]);
      end += 1;
    }
    if (end > k) {
      const from = Math.max(left, x[k]);
      const to = Math.min(left + all, end < places.length ? x[end] : left + all);
      const score = (to - from) * (bottom - top);
      if (to - from >= width && (!best || score > best.score)) {
        best = { x: (from + to) / 2, y: (top + bottom) / 2, score };
      }
    }
    k = Math.max(end, k + 1);
  }
  return best;
}

// Round sizes for the axis.
export function byteTicks(most) {
  let step = 1;
  while (most / step > 6) step *= 2;
  const found = [];
  for (let bytes = 0; bytes <= most; bytes += step) found.push(bytes);
  return found;
}
