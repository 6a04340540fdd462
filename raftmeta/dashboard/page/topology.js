// The members as a picture: each has a fixed place on a ring, the leader is filled, and lines show who reaches whom.
// Observers stand below as a tree: each in the row of its distance from a member, with a line to the node that feeds it.
import { $, el, number, svg } from "./parts.js";

const RADIUS = 24;
const HEIGHT = 300;
const LAG_SHOWN = 100; // less is on its way at any moment

export function stateWords(member) {
  if (member.state === "away") return "away";
  if (member.state === "connected") return "connected, not asked";
  if (member.is_ready === false) return `${member.process}, not ready`;
  return "answers";
}

export function roleWords(member) {
  if (member.is_leader) return "leader";
  if (member.role === "") return "no member";
  if (member.role !== "voter") return member.role;
  return member.protocol_role || "voter";
}

// Whether both ends see their connection; an end that was not asked says nothing.
function isCut(left, right) {
  const told = [left.links?.[right.name], right.links?.[left.name]].filter((up) => up !== undefined);
  return left.state === "away" || right.state === "away" || told.some((up) => !up);
}

function shorten(text, most) {
  const letters = [...text];
  return letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : text;
}

// Places on an ellipse, stretched to the whole of the box.
function onRing(count, width, many) {
  if (count === 1) return [[width / 2, HEIGHT / 2 - 12]];
  const ring = [...Array(count).keys()].map((index) => -Math.PI / 2 + (2 * Math.PI * index) / count).map((angle) => [Math.cos(angle), Math.sin(angle)]);
  const across = Math.min(width / 2 - 80, many ? 420 : 260);
  const [top, bottom] = [44, HEIGHT - 78];
  const heights = ring.map(([, y]) => y);
  const [least, most] = [Math.min(...heights), Math.max(...heights)];
  return ring.map(([x, y]) => [width / 2 + across * x, most > least ? top + ((bottom - top) * (y - least)) / (most - least) : HEIGHT / 2]);
}

const ROW = 46;
const DOT = 6;

// Observers in rows: fed by a member, fed by one of those, and so on. Those whose feeder nobody names stand in the first.
// names: of the members, from left to right. Each row has the order of its feeders, so that few lines cross.
function inRows(observers, names) {
  const rows = [];
  let above = new Set(names);
  let left = [...observers];
  while (left.length) {
    const waiting = new Set(left.map((one) => one.name));
    let row = left.filter((one) => above.has(one.feeder) || !waiting.has(one.feeder));
    if (!row.length) row = left; // a circle: two reports of different moments
    const order = [...above];
    row.sort((one, other) => order.indexOf(one.feeder) - order.indexOf(other.feeder) || one.name.localeCompare(other.name));
    rows.push(row);
    left = left.filter((one) => !row.includes(one));
    above = new Set(row.map((one) => one.name));
  }
  return rows;
}

function drawObservers(observers, members, places, width) {
  const at = new Map(members.map((member, index) => [member.name, places[index]]));
  const parts = { lines: [], dots: [], height: HEIGHT };
  const names = members.map((member) => member.name).sort((one, other) => at.get(one)[0] - at.get(other)[0]);
  for (const row of inRows(observers, names)) {
    const radius = Math.min(DOT, width / row.length / 2.4);
    row.forEach((one, index) => at.set(one.name, [((index + 0.5) * width) / row.length, parts.height + ROW / 2]));
    for (const one of row) {
      const [x, y] = at.get(one.name);
      const from = at.get(one.feeder);
      if (from) parts.lines.push(svg("line", { class: "link feed", x1: from[0], y1: from[1], x2: x, y2: y }));
      const words = `${one.name}: observer, ${one.feeder ? `fed by ${one.feeder}` : "feeder not known"}, lag ${number(one.lag)}`;
      parts.dots.push(svg("g", { class: one.lag >= LAG_SHOWN ? "observer late" : "observer" },
        svg("title", {}, words),
        svg("circle", { class: "disc", cx: x, cy: y, r: radius }),
        row.length <= 12 ? svg("text", { class: "note", x, y: y + 19 }, shorten(one.name, 14)) : null));
    }
    parts.height += ROW;
  }
  return parts;
}

export function drawTopology(members, observers = []) {
  const box = $("topology");
  const width = Math.max(320, box.clientWidth);
  const many = members.length > 9;
  const places = onRing(members.length, width, many);
  const lines = [];
  for (let one = 0; one < members.length; one += 1) {
    for (let other = one + 1; other < members.length; other += 1) {
      const leads = members[one].is_leader || members[other].is_leader;
      if (many && !leads) continue;
      const [from, to] = members[other].is_leader ? [other, one] : [one, other];
      const kind = isCut(members[one], members[other]) ? "link cut" : leads ? "link lead" : "link";
      lines.push(svg("line", { class: kind, x1: places[from][0], y1: places[from][1], x2: places[to][0], y2: places[to][1] }));
    }
  }
  const letters = lettersOf(members.map((member) => member.name));
  const discs = members.map((member, index) => disc(member, letters[index], places[index], many ? 15 : RADIUS, many));
  const fed = drawObservers(observers, members, places, width);
  box.replaceChildren(svg("svg", { viewBox: `0 0 ${width} ${fed.height}`, height: fed.height, role: "img", "aria-label": "Topology" }, ...fed.lines, ...lines, ...discs, ...fed.dots));
  const words = [members.some((member) => member.state === "away") ? "dashed red: no connection" : "", observers.length ? `${number(observers.length)} observers` : ""];
  $("topology-legend").replaceChildren(el("span", {}, words.filter(Boolean).join(" · ")));
}

// Two letters that tell the members apart: behind the beginning that all names share.
function lettersOf(names) {
  const split = names.map((name) => [...name]);
  let shared = 0;
  while (names.length > 1 && split.every((letters) => letters.length > shared + 1 && letters[shared] === split[0][shared])) shared += 1;
  return split.map((letters) => letters.slice(shared, shared + 2).join(""));
}

function disc(member, letters, [x, y], radius, many) {
  const kinds = [member.is_leader ? "leads" : "", member.state === "away" ? "away" : ""].filter(Boolean).join(" ");
  const lag = member.lag >= LAG_SHOWN ? `, lag ${number(member.lag)}` : "";
  return svg("g", { class: kinds },
    svg("title", {}, `${member.name}: ${roleWords(member)}, ${stateWords(member)}`),
    member.is_leader ? svg("circle", { class: "halo", cx: x, cy: y, r: radius + 8 }) : null,
    svg("circle", { class: `disc${member.role === "voter" ? "" : " learner"}`, cx: x, cy: y, r: radius }),
    svg("text", { class: "letter", x, y }, letters),
    svg("text", { class: "label", x, y: y + radius + (member.is_leader ? 24 : 17) }, shorten(member.name, many ? 12 : 20)),
    many ? null : svg("text", { class: "note", x, y: y + radius + (member.is_leader ? 39 : 32) }, member.state === "away" ? "away" : `${roleWords(member)}${lag}`));
}
