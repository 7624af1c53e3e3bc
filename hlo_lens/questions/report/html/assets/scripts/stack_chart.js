// A stacked picture of bytes over the schedule, drawn by uPlot, with loops, peak, zoom and brush.
// At most a few instants for each column of pixels are drawn: the largest and the smallest.

import { css, onColors, roleColor, roleFill } from "./colors.js";
import { el } from "./dom.js";
import { formatBytes } from "./format.js";
import { byteTicks, thinned, widest } from "./stack_layout.js";

const HEIGHT = 340;
const BRUSH = 56;
const BRACKET = 16;
const DEEPEST = 3;
const CLICK = 4;
const LEFT = 74;
const RIGHT = 12;

export class StackChart {
  constructor(model, loops, strings, { label, limit, onpoint, onchoose }) {
    this.model = model;
    // A limit far above the peak is named in words only.
    this.limit = limit && limit < model.space.peak.bytes * 1.6 ? limit : null;
    this.most = Math.max(model.space.peak.bytes || 1, this.limit || 0) * 1.06;
    this.onpoint = onpoint;
    this.onchoose = onchoose;
    this.loops = loops.map(([name, start, end, trips, depth]) =>
      ({ name: strings[name], first: model.placeOf(start), last: model.placeOf(end), trips, depth }))
      .filter((one) => one.last > one.first && one.depth < DEEPEST);
    this.depth = this.loops.reduce((most, one) => Math.max(most, one.depth + 1), 0);
    this.range = [0, model.places - 1];
    this.chosen = model.peakPlace;
    this.marked = null;
    this.plot = el("div", { class: "plot", tabindex: "0", role: "img", "aria-label": label });
    this.brush = el("canvas", { class: "brush", "aria-hidden": "true",
      title: "Drag to choose the part that is shown",
      style: { marginLeft: `${LEFT}px`, width: `calc(100% - ${LEFT + RIGHT}px)` } });
    this.element = el("div", { class: "chart" }, this.plot, this.brush);
    this.element.chart = this;
  }

  start() {
    this.make();
    this.listen();
    const watcher = new ResizeObserver(() => {
      if (!this.element.isConnected) { watcher.disconnect(); return; }
      if (this.plot.clientWidth && this.plot.clientWidth !== this.uplot.width) {
        this.uplot.setSize({ width: this.plot.clientWidth, height: this.height() });
        this.refresh();
      }
    });
    watcher.observe(this.plot);
    onColors(() => { if (this.element.isConnected) this.rebuild(); });
  }

  height() {
    return HEIGHT + this.depth * BRACKET;
  }

  rebuild() {
    this.uplot.destroy();
    this.make();
  }

  make() {
    const { model } = this;
    const axis = { stroke: css("--faint"), grid: { stroke: css("--grid"), width: 1 },
      ticks: { stroke: css("--grid"), width: 1 }, font: `11px ${css("--sans")}` };
    const series = [...model.roles].reverse().map((one) => ({
      label: one.name, width: 0, points: { show: false },
      paths: uPlot.paths.stepped({ align: 1 }),
      fill: (u) => roleFill(u.ctx, one.name, devicePixelRatio),
    }));
    this.uplot = new uPlot({
      width: this.plot.clientWidth || 800,
      height: this.height(),
      padding: [8 + this.depth * BRACKET, RIGHT, 0, 0],
      legend: { show: false },
      cursor: { y: false, points: { show: false }, drag: { x: true, y: false, setScale: false } },
      scales: { x: { time: false, range: () => this.range },
        y: { range: () => [0, this.most] } },
      axes: [{ ...axis, size: 28, values: (u, ticks) => ticks.map((t) => this.instantText(t)) },
        { ...axis, size: LEFT, splits: () => byteTicks(this.most),
          values: (u, ticks) => ticks.map(formatBytes) }],
      series: [{}, ...series],
      hooks: {
        setCursor: [(u) => this.pointed(u)],
        setSelect: [(u) => this.dragged(u)],
        draw: [(u) => this.drawMarks(u)],
      },
    }, this.columns(), this.plot);
    this.uplot.over.addEventListener("click", (event) => this.clicked(event));
    this.drawBrush();
  }

  instantText(place) {
    const whole = Math.round(place);
    if (whole < 0 || whole >= this.model.places || Math.abs(place - whole) > 0.01) return "";
    return String(this.model.instantOf(whole));
  }

  // The stack for uPlot, highest total first, thinned out to what the pixels can show.
  columns() {
    const places = thinned(this.model.held, this.range, (this.plot.clientWidth || 800) * 2);
    const sums = new Float64Array(places.length);
    const layers = this.model.roles.map(({ bytes }) => {
      for (let k = 0; k < places.length; k += 1) sums[k] += bytes[places[k]];
      return Array.from(sums);
    });
    return [places, ...layers.reverse()];
  }

  refresh() {
    this.uplot.setData(this.columns());
    this.drawBrush();
  }

  show(first, last) {
    const most = this.model.places - 1;
    const least = Math.min(8, most);
    const width = Math.max(least, Math.min(most, last - first));
    const start = Math.max(0, Math.min(most - width, first));
    this.range = [start, start + width];
    this.refresh();
  }

  all() {
    this.show(0, this.model.places - 1);
  }

  zoom(factor) {
    const [first, last] = this.range;
    const center = this.chosen >= first && this.chosen <= last ? this.chosen : (first + last) / 2;
    const share = (center - first) / (last - first || 1);
    const width = (last - first) * factor;
    this.show(center - width * share, center + width * (1 - share));
  }

  choose(place) {
    this.chosen = place;
    const [first, last] = this.range;
    if (place < first || place > last) {
      this.show(place - (last - first) / 2, place + (last - first) / 2);
    } else {
      this.uplot.redraw(false);
      this.drawBrush();
    }
  }

  // Mark the life of a value: [first instant, last instant, name]; null for none.
  mark(life) {
    this.marked = life && [this.model.placeOf(life[0]), this.model.placeOf(life[1]), life[2]];
    this.uplot.redraw(false);
  }

  pointed(u) {
    const { left, idx } = u.cursor;
    if (left === undefined || left < 0 || idx === null || idx === undefined) {
      this.onpoint(this.chosen);
      return;
    }
    this.onpoint(this.placeAt(left));
  }

  placeAt(left) {
    const place = Math.floor(this.uplot.posToVal(left, "x"));
    return Math.max(0, Math.min(this.model.places - 1, this.sharpened(place, left)));
  }

  // Of the instants under one pixel the largest, so that a click on the peak is the peak.
  sharpened(place, left) {
    const last = Math.floor(this.uplot.posToVal(left + 1, "x"));
    const first = Math.max(0, Math.min(place, Math.floor(this.uplot.posToVal(left - 1, "x"))));
    if (last - first < 3) return place;
    let best = first;
    for (let k = first; k <= Math.min(last, this.model.places - 1); k += 1) {
      if (this.model.held[k] > this.model.held[best]) best = k;
    }
    return best;
  }

  dragged(u) {
    const { left, width } = u.select;
    if (width < CLICK) return;
    this.isDragged = true; // the click that follows is its end
    this.show(u.posToVal(left, "x"), u.posToVal(left + width, "x"));
    u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  }

  clicked(event) {
    if (this.isDragged) { this.isDragged = false; return; }
    this.onchoose(this.placeAt(event.clientX - this.uplot.over.getBoundingClientRect().left));
  }

  listen() {
    this.plot.addEventListener("dblclick", () => this.all());
    this.plot.addEventListener("keydown", (event) => this.pressed(event));
    this.plot.addEventListener("mouseleave", () => this.onpoint(this.chosen));
    let from = null;
    const place = (event) => {
      const box = this.brush.getBoundingClientRect();
      return ((event.clientX - box.left) / box.width) * (this.model.places - 1);
    };
    this.brush.addEventListener("pointerdown", (event) => {
      from = place(event);
      this.brush.setPointerCapture(event.pointerId);
    });
    this.brush.addEventListener("pointermove", (event) => {
      if (from === null) return;
      const to = place(event);
      if (Math.abs(to - from) > 1) this.show(Math.min(from, to), Math.max(from, to));
    });
    this.brush.addEventListener("pointerup", (event) => {
      const half = (this.range[1] - this.range[0]) / 2;
      const to = place(event);
      if (from !== null && Math.abs(to - from) <= 1) this.show(to - half, to + half);
      from = null;
    });
    this.brush.addEventListener("dblclick", () => this.all());
  }

  pressed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const step = event.shiftKey ? 10 : 1;
    const moves = { ArrowLeft: -step, ArrowRight: step };
    const { peakPlace } = this.model;
    const goes = { Home: 0, End: this.model.places - 1, p: peakPlace, P: peakPlace };
    let handled = true;
    if (event.key in moves) this.onchoose(this.bounded(this.chosen + moves[event.key]));
    else if (event.key in goes) this.onchoose(goes[event.key]);
    else if (event.key === "+" || event.key === "=") this.zoom(0.5);
    else if (event.key === "-") this.zoom(2);
    else if (event.key === "0") this.all();
    else handled = false;
    if (handled) event.preventDefault();
  }

  bounded(place) {
    return Math.max(0, Math.min(this.model.places - 1, place));
  }

  // ---- marks on the picture --------------------------------------------------------------------

  drawMarks(u) {
    const { ctx } = u;
    ctx.save();
    this.drawEdges(u);
    this.drawLoops(u);
    this.drawAxisName(u);
    const top = u.bbox.top;
    const bottom = top + u.bbox.height;
    if (this.marked) this.drawLife(u, bottom);
    if (this.limit) this.drawLimit(u);
    this.line(u, this.model.peakPlace, css("--text"), [4, 3]);
    this.text(u, this.model.peakPlace, `peak ${formatBytes(this.model.space.peak.bytes)}`, top + 2);
    this.line(u, this.chosen, css("--accent"), []);
    this.drawLabels(u);
    ctx.restore();
  }

  // A thin line between layers, so that neighbours differ without colours.
  drawEdges(u) {
    const { ctx } = u;
    ctx.strokeStyle = css("--background");
    ctx.lineWidth = devicePixelRatio;
    const [places, ...layers] = u.data;
    for (const layer of layers) {
      ctx.beginPath();
      let isFirst = true;
      for (let k = 0; k < places.length; k += 1) {
        const x = u.valToPos(places[k], "x", true);
        const y = u.valToPos(layer[k], "y", true);
        if (isFirst) ctx.moveTo(x, y); else { ctx.lineTo(x, ctx.lastY); ctx.lineTo(x, y); }
        ctx.lastY = y;
        isFirst = false;
      }
      ctx.stroke();
    }
  }

  // Names on layers that are high enough, where they are highest.
  drawLabels(u) {
    const { ctx } = u;
    const ratio = devicePixelRatio;
    ctx.font = `${11 * ratio}px ${css("--sans")}`;
    ctx.textBaseline = "middle";
    ctx.textAlign = "center";
    const [places, ...layers] = u.data;
    const names = [...this.model.roles].reverse().map((one) => one.name);
    layers.forEach((layer, number) => {
      const below = layers[number + 1];
      const width = ctx.measureText(names[number]).width + 12 * ratio;
      const spot = widest(u, places, layer, below, width, 16 * ratio);
      if (!spot) return;
      ctx.fillStyle = roleColor(names[number]);
      ctx.globalAlpha = 0.85;
      ctx.fillRect(spot.x - width / 2, spot.y - 8 * ratio, width, 16 * ratio);
      ctx.globalAlpha = 1;
      ctx.fillStyle = css(`--on-role`);
      ctx.fillText(names[number], spot.x, spot.y);
    });
  }

  drawLoops(u) {
    const { ctx } = u;
    const ratio = devicePixelRatio;
    const { left, width, top, height } = u.bbox;
    ctx.font = `${11 * ratio}px ${css("--sans")}`;
    ctx.textBaseline = "alphabetic";
    ctx.textAlign = "left";
    for (const loop of this.loops) {
      const from = Math.max(left, u.valToPos(loop.first, "x", true));
      const to = Math.min(left + width, u.valToPos(loop.last, "x", true));
      if (to - from < 2 * ratio || to < left || from > left + width) continue;
      const y = top - (this.depth - loop.depth - 1) * BRACKET * ratio - 5 * ratio;
      ctx.fillStyle = css("--band");
      if (loop.depth === 0) ctx.fillRect(from, top, to - from, height);
      ctx.strokeStyle = css("--faint");
      ctx.lineWidth = ratio;
      ctx.beginPath();
      ctx.moveTo(from, y + 4 * ratio);
      ctx.lineTo(from, y);
      ctx.lineTo(to, y);
      ctx.lineTo(to, y + 4 * ratio);
      ctx.stroke();
      const label = `${loop.name} ×${loop.trips === null ? "?" : loop.trips}`;
      const short = `×${loop.trips === null ? "?" : loop.trips}`;
      ctx.fillStyle = css("--faint");
      const room = to - from - 6 * ratio;
      const fitting = [label, short].find((text) => ctx.measureText(text).width < room);
      if (fitting) ctx.fillText(fitting, from + 3 * ratio, y - 2 * ratio);
    }
  }

  drawAxisName(u) {
    const { ctx } = u;
    const { left, top, height } = u.bbox;
    ctx.font = `${11 * devicePixelRatio}px ${css("--sans")}`;
    ctx.fillStyle = css("--faint");
    ctx.textBaseline = "middle";
    ctx.textAlign = "right";
    ctx.fillText("instant", left - 12 * devicePixelRatio, top + height + 19 * devicePixelRatio);
  }

  drawLimit(u) {
    const { ctx } = u;
    const { left, width } = u.bbox;
    const y = u.valToPos(this.limit, "y", true);
    ctx.strokeStyle = css("--error");
    ctx.lineWidth = 1.5 * devicePixelRatio;
    ctx.beginPath();
    ctx.moveTo(left, y);
    ctx.lineTo(left + width, y);
    ctx.stroke();
    ctx.font = `600 ${11 * devicePixelRatio}px ${css("--sans")}`;
    ctx.fillStyle = css("--error");
    ctx.textBaseline = "bottom";
    ctx.textAlign = "left";
    ctx.fillText(`limit ${formatBytes(this.limit)}`, left + 4 * devicePixelRatio, y - 2);
  }

  drawLife(u, bottom) {
    const { ctx } = u;
    const ratio = devicePixelRatio;
    const { left, width } = u.bbox;
    const from = Math.max(left, u.valToPos(this.marked[0], "x", true));
    const to = Math.min(left + width, u.valToPos(this.marked[1] + 1, "x", true));
    if (to < left || from > left + width) return;
    ctx.fillStyle = css("--accent");
    ctx.fillRect(from, bottom - 6 * ratio, Math.max(3 * ratio, to - from), 6 * ratio);
  }

  line(u, place, color, dash) {
    const { ctx } = u;
    const { left, width, top, height } = u.bbox;
    const x = u.valToPos(place, "x", true);
    if (x < left || x > left + width) return;
    ctx.strokeStyle = color;
    ctx.lineWidth = 1.5 * devicePixelRatio;
    ctx.setLineDash(dash.map((one) => one * devicePixelRatio));
    ctx.beginPath();
    ctx.moveTo(x, top);
    ctx.lineTo(x, top + height);
    ctx.stroke();
    ctx.setLineDash([]);
  }

  text(u, place, text, y) {
    const { ctx } = u;
    const ratio = devicePixelRatio;
    const { left, width } = u.bbox;
    const x = u.valToPos(place, "x", true);
    if (x < left || x > left + width) return;
    ctx.font = `600 ${11 * ratio}px ${css("--sans")}`;
    ctx.textBaseline = "top";
    const size = ctx.measureText(text).width;
    const isRight = x + size + 8 * ratio > left + width;
    ctx.textAlign = isRight ? "right" : "left";
    ctx.fillStyle = css("--text");
    ctx.fillText(text, x + (isRight ? -5 : 5) * ratio, y);
  }

  // The whole schedule, small, with the part that is shown.
  drawBrush() {
    const { brush, model } = this;
    const ratio = devicePixelRatio;
    const columns = brush.clientWidth || 800;
    const width = Math.max(1, Math.round(columns * ratio));
    const height = Math.round(BRUSH * ratio);
    brush.width = width;
    brush.height = height;
    const ctx = brush.getContext("2d");
    const most = model.places - 1 || 1;
    const top = model.space.peak.bytes || 1;
    ctx.fillStyle = css("--overview");
    ctx.beginPath();
    ctx.moveTo(0, height);
    let last = height;
    for (const place of thinned(model.held, [0, most], columns)) {
      const x = (place / most) * width;
      const y = height - (model.held[place] / top) * (height - 2 * ratio);
      ctx.lineTo(x, last);
      ctx.lineTo(x, y);
      last = y;
    }
    ctx.lineTo(width, last);
    ctx.lineTo(width, height);
    ctx.fill();
    const [from, to] = this.range.map((place) => (place / most) * width);
    ctx.fillStyle = css("--veil");
    ctx.fillRect(0, 0, from, height);
    ctx.fillRect(to, 0, width - to, height);
    ctx.strokeStyle = css("--accent");
    ctx.lineWidth = ratio;
    ctx.strokeRect(from + 0.5, 0.5, Math.max(ratio, to - from - 1), height - 1);
    ctx.fillStyle = css("--accent");
    ctx.fillRect((this.chosen / most) * width - ratio, 0, 2 * ratio, height);
  }
}
