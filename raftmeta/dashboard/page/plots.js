// Lines over time, as SVG: one plot for each number, a line for each member where the number has one.
import { clock, colour, dot, el, keyed, say, svg } from "./parts.js";

// How many seconds a plot shows, and how many lie between two marks: it grows with what was seen.
const WINDOWS = [[60, 15], [120, 30], [300, 60]];
const LEFT = 46, RIGHT = 4, TOP = 8, BOTTOM = 20;

// The least round number that is not below the highest value; of bytes one that is round in powers of two.
function ceiling(value, isBytes) {
  if (isBytes) return 2 ** Math.ceil(Math.log2(Math.max(value, 1024)));
  const size = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 2.5, 5, 10].map((step) => step * size).find((step) => step >= value * 0.9999);
}

const ago = (seconds) => (seconds === 0 ? "now" : seconds % 60 ? `−${seconds} s` : `−${seconds / 60} min`);

export class Plot {
  // take(sample): {name: value} of a sample; format(value): as text; least: of the highest value on the axis.
  // isFilled: a single line with an area below it. isBytes: the axis is cut in powers of two.
  constructor(title, hint, { take, format, least, isFilled = false, isBytes = false }) {
    Object.assign(this, { take, format, least, isFilled, isBytes, samples: [], hover: null });
    this.keys = el("div", { class: "keys" });
    this.svg = svg("svg", { role: "img", "aria-label": title });
    this.tip = el("div", { class: "tip", hidden: true });
    this.element = el("article", { class: "card plot" }, el("h2", {}, title, el("span", { class: "hint" }, hint)), this.keys, this.svg, this.tip);
    this.svg.addEventListener("pointermove", (event) => { this.hover = event.offsetX; this.draw(); });
    this.svg.addEventListener("pointerleave", () => { this.hover = null; this.draw(); });
    new ResizeObserver(() => this.draw()).observe(this.svg);
  }

  show(samples) { this.samples = samples; this.draw(); }

  draw() {
    const width = this.svg.clientWidth, height = this.svg.clientHeight;
    if (!width) return;
    const end = this.samples.length ? this.samples[this.samples.length - 1].time_s : Date.now() / 1000;
    const length = this.samples.length ? end - this.samples[0].time_s : 0;
    const [shown, step] = WINDOWS.find(([seconds]) => length <= seconds) || WINDOWS[WINDOWS.length - 1];
    const seen = this.samples.filter((sample) => sample.time_s > end - shown);
    const points = seen.map((sample) => [sample.time_s, this.take(sample)]);
    const names = [...new Set(points.flatMap(([, values]) => Object.keys(values)))].sort();
    const highest = ceiling(Math.max(this.least, ...points.flatMap(([, values]) => Object.values(values).filter((value) => value !== null))), this.isBytes);
    const x = (time) => LEFT + (width - LEFT - RIGHT) * (1 - (end - time) / shown);
    const y = (value) => TOP + (height - TOP - BOTTOM) * (1 - value / highest);
    const parts = [];
    for (const share of [0, 0.5, 1]) {
      parts.push(svg("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(highest * share), y2: y(highest * share) }));
      parts.push(svg("text", { class: "axis", x: LEFT - 7, y: y(highest * share) + 4, "text-anchor": "end" }, share ? this.format(highest * share) : "0"));
    }
    for (let back = 0; back < shown; back += step) {
      parts.push(svg("text", { class: "axis", x: x(end - back), y: height - 3, "text-anchor": back ? "middle" : "end" }, ago(back)));
    }
    for (const name of names) parts.push(...this.line(name, points, x, y));
    this.legend(names, points);
    this.point(points, names, x, parts, width, height);
    this.svg.replaceChildren(...parts);
  }

  line(name, points, x, y) {
    const pieces = [];
    let piece = [];
    for (const [time, values] of points) {
      const value = values[name];
      if (value === null || value === undefined) { if (piece.length) pieces.push(piece); piece = []; } else piece.push([x(time), y(value)]);
    }
    if (piece.length) pieces.push(piece);
    const text = (piece) => piece.map(([px, py], index) => `${index ? "L" : "M"}${px.toFixed(1)} ${py.toFixed(1)}`).join("");
    const parts = [];
    const shade = this.isFilled ? "var(--accent)" : colour(name);
    for (const piece of pieces) {
      if (this.isFilled) {
        const area = svg("path", { class: "area", d: `${text(piece)}L${piece[piece.length - 1][0].toFixed(1)} ${y(0)}L${piece[0][0].toFixed(1)} ${y(0)}Z` });
        area.style.fill = shade;
        parts.push(area);
      }
      const path = svg("path", { class: "series", d: text(piece) });
      path.style.stroke = shade;
      parts.push(path);
    }
    return parts;
  }

  legend(names, points) {
    const last = points.length ? points[points.length - 1][1] : {};
    const shown = this.isFilled ? [] : names;
    keyed(this.keys, shown, (name) => name, (name) => el("span", { title: name }, dot(name), name, el("b")), (child, name) => {
      child.firstChild.style.background = colour(name);
      say(child.lastChild, last[name] === null || last[name] === undefined ? "–" : this.format(last[name]));
    });
  }

  point(points, names, x, parts, width, height) {
    this.tip.hidden = this.hover === null || !points.length;
    if (this.tip.hidden) return;
    const [time, values] = points.reduce((best, one) => (Math.abs(x(one[0]) - this.hover) < Math.abs(x(best[0]) - this.hover) ? one : best));
    const at = x(time);
    parts.push(svg("line", { class: "cursor", x1: at, x2: at, y1: TOP, y2: height - BOTTOM }));
    const rows = names.map((name) => el("div", {}, this.isFilled ? null : dot(name), this.isFilled ? "" : name, el("b", {}, values[name] === null || values[name] === undefined ? "–" : this.format(values[name]))));
    this.tip.replaceChildren(el("div", { class: "muted" }, clock(time)), ...rows);
    const half = width / 2;
    this.tip.style.left = at < half ? `${at + 34}px` : "auto";
    this.tip.style.right = at < half ? "auto" : `${width - at + 34}px`;
    this.tip.style.top = "56px";
  }
}
