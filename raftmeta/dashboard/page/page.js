// The page put together: the session, the views, what the stream of the cluster tells, and changes of members.
import { $, ask, bytes, clock, colour, dot, el, keyed, listen, millis, nameColours, number, say, session, short, span, toast } from "./parts.js";
import { Plot } from "./plots.js";
import { drawTopology, roleWords, stateWords } from "./topology.js";
import { closeKeys, openKeys, setUpKeys } from "./keys.js";
import { closeHolders, openHolders } from "./holders.js";

const SAMPLES_MAX = 600;
const STRIP_S = 600;
const VIEWS = ["overview", "members", "keys", "holders"];
const cluster = { picture: null, samples: [], allowsChanges: false, close: null };

// --- the plots -----------------------------------------------------------------------------------------------------------
const ofNodes = (name) => (sample) => Object.fromEntries(Object.entries(sample.nodes).map(([node, values]) => [node, values[name]]));
const plots = [
  new Plot("Changes", "revisions a second", { take: (sample) => ({ changes: sample.changes_s }), format: short, least: 10, isFilled: true }),
  new Plot("Linearizable read", "time of one, asked of each node", { take: ofNodes("read_ms"), format: millis, least: 1 }),
  new Plot("Lag", "log entries behind the commit", { take: ofNodes("lag"), format: short, least: 10 }),
  new Plot("Traffic", "bytes a second, with the other members", { take: ofNodes("bytes_s"), format: bytes, least: 1024, isBytes: true }),
];

// --- the session -----------------------------------------------------------------------------------------------------------
async function begin() {
  let told;
  try {
    told = await ask("api/session");
  } catch (error) {
    showLogin({ cluster: "" }, error.message);
    return;
  }
  if (told.user === null) showLogin(told);
  else enter(told);
}

function showLogin(told, message) {
  leave();
  $("app").hidden = true;
  $("login").hidden = false;
  if (told.cluster) say($("login-cluster"), told.cluster);
  say($("login-error"), message || "");
  $("login-error").hidden = !message;
  ($("token-fields").hidden ? $("login-user") : $("login-token")).focus();
}

function enter(told) {
  session.csrf = told.csrf;
  cluster.allowsChanges = told.allows_changes;
  $("login").hidden = true;
  $("app").hidden = false;
  for (const field of ["login-password", "login-token"]) $(field).value = "";
  say($("cluster-name"), told.cluster);
  document.title = `${told.cluster} · raftmeta`;
  say($("login-cluster"), told.cluster);
  say($("who"), told.user || "");
  $("logout").hidden = !told.user;
  say($("footer"), `raftmeta ${told.version} · ${told.allows_changes ? "changes of members are allowed" : "read-only"}`);
  say($("members-hint"), told.allows_changes ? "" : "start the dashboard with --allow-changes to change members");
  leave();
  cluster.close = listen("api/live/cluster", {
    samples: (news) => { cluster.samples = news.samples; },
    cluster: (news) => {
      cluster.picture = news.picture;
      if (news.sample) cluster.samples = [...cluster.samples, news.sample].slice(-SAMPLES_MAX);
      show();
    },
    lost: () => banner("The dashboard does not answer. The page shows how things stood."),
  });
  route();
}

function leave() {
  if (cluster.close) cluster.close();
  cluster.close = null;
  closeKeys();
  closeHolders();
}

session.onOver = () => {
  if ($("login").hidden) showLogin({}, "The session has ended, or the cluster asks who is there.");
};

function choose(byToken) {
  $("by-password").setAttribute("aria-selected", String(!byToken));
  $("by-token").setAttribute("aria-selected", String(byToken));
  $("password-fields").hidden = byToken;
  $("token-fields").hidden = !byToken;
}

async function login(event) {
  event.preventDefault();
  const byToken = !$("token-fields").hidden;
  const proof = byToken ? { token: $("login-token").value.trim() } : { user: $("login-user").value, password: $("login-password").value };
  $("login-button").disabled = true;
  $("login-error").hidden = true;
  try {
    enter(await ask("api/login", proof));
  } catch (error) {
    say($("login-error"), error.message);
    $("login-error").hidden = false;
  } finally {
    $("login-button").disabled = false;
  }
}

// --- the cluster -----------------------------------------------------------------------------------------------------------
function show() {
  const { picture } = cluster;
  nameColours(picture.members.map((member) => member.name));
  showHealth(picture);
  if (!$("view-overview").hidden) {
    showTiles(picture);
    drawTopology(picture.members, picture.observers);
    showReigns(picture);
    for (const plot of plots) plot.show(cluster.samples);
  }
  if (!$("view-members").hidden) showMembers(picture);
}

function banner(text, kind) {
  $("banner").hidden = !text;
  $("banner").className = `banner ${kind || ""}`;
  say($("banner"), text || "");
}

function showHealth(picture) {
  const away = picture.members.filter((member) => member.state === "away").map((member) => member.name);
  const lost = picture.members.flatMap((member) => (member.is_leader && member.lost_disks) || []);
  const { voters, needed, here } = picture.quorum;
  let [kind, word, text] = ["good", "Healthy", ""];
  if (!picture.members.length || !picture.term) [kind, word, text] = ["bad", "No answer", "No node of the URL answers."];
  else if (here < needed) [kind, word, text] = ["bad", "No quorum", `${here} of ${voters} voters are here, and ${needed} are needed: nothing can be written.`];
  else if (!picture.leader) [kind, word, text] = ["warn", "No leader", "Nobody leads at the moment."];
  else if (away.length) [kind, word, text] = ["warn", "Degraded", `Away: ${away.join(", ")}`];
  else if (lost.length) [kind, word, text] = ["warn", "Disk lost", `Voters without their disk: ${lost.join(", ")}`];
  $("health").className = `pill ${kind}`;
  say($("health"), word);
  banner(text, kind === "bad" ? "" : "warn");
}

function showTiles(picture) {
  const sample = cluster.samples[cluster.samples.length - 1] || { nodes: {} };
  const reads = Object.values(sample.nodes).map((node) => node.read_ms).filter((value) => value !== null && value !== undefined);
  const reign = picture.reigns[0];
  const tiles = [
    ["Leader", picture.leader || "none", reign && reign.leader ? `for ${span(picture.time_s - reign.begun_s)} or longer` : ""],
    ["Term", number(picture.term), `${picture.quorum.here} of ${picture.quorum.voters} voters here`],
    ["Revision", number(picture.revision), `history from ${number(picture.compacted)}`],
    ["Keys", number(picture.keys), `feature level ${picture.level}`],
    ["Changes", sample.changes_s === null || sample.changes_s === undefined ? "–" : `${short(sample.changes_s)} /s`, `${sample.entries_s === null || sample.entries_s === undefined ? "–" : short(sample.entries_s)} log entries /s`],
    ["Read", reads.length ? millis(Math.min(...reads)) : "–", reads.length ? `slowest node ${millis(Math.max(...reads))}` : "no right to read"],
  ];
  keyed($("tiles"), tiles, ([label]) => label, ([label]) => el("div", { class: "tile" }, el("div", { class: "label" }, label), el("div", { class: "value" }), el("div", { class: "note" })), (child, [, value, note]) => {
    say(child.children[1], value);
    child.children[1].title = value;
    say(child.children[2], note);
  });
}

function showReigns(picture) {
  const now = picture.time_s;
  const recent = picture.reigns.filter((reign) => (reign.ended_s || now) > now - STRIP_S).reverse();
  const key = (reign) => `${reign.term} ${reign.leader} ${reign.begun_s}`;
  keyed($("reign-strip"), recent, key, () => el("div"), (child, reign) => {
    const length = (reign.ended_s || now) - Math.max(reign.begun_s, now - STRIP_S);
    child.style.flexGrow = String(Math.max(0.001, length));
    child.style.background = reign.leader ? colour(reign.leader) : "var(--bad-soft)";
    child.title = `${reign.leader || "nobody"}, term ${reign.term}, from ${clock(reign.begun_s)}`;
  });
  keyed($("reigns"), picture.reigns, key, (reign) => el("li", {}, dot(reign.leader), el("span", { class: "leader", title: reign.leader }, reign.leader || "nobody"), el("span", { class: "tag" }, `term ${number(reign.term)}`), el("span", { class: "when" }), el("div", { class: "cause" })), (child, reign) => {
    child.firstChild.style.background = colour(reign.leader);
    const until = reign.ended_s || now;
    say(child.lastChild, reign.cause ? `${reign.confidence}: ${reign.cause}` : "");
    child.lastChild.title = reign.cause;
    say(child.children[3], `${clock(reign.begun_s)}  ·  ${reign.ended_s ? "" : "for "}${span(until - reign.begun_s)}`);
  });
}

// --- members ---------------------------------------------------------------------------------------------------------------
const PILLS = { answers: "good", connected: "", away: "bad" };

function showMembers(picture) {
  keyed($("members-table").tBodies[0], picture.members, (member) => member.name, makeMember, (row, member) => {
    const cells = row.cells;
    cells[0].firstChild.style.background = colour(member.name);
    const pill = cells[1].firstChild;
    say(pill, stateWords(member));
    pill.className = `pill ${member.is_ready === false && member.state === "answers" ? "warn" : PILLS[member.state]}`;
    say(cells[2], member.role || "no member");
    say(cells[3].firstChild, roleWords(member));
    cells[3].firstChild.className = member.is_leader ? "pill accent" : "plain";
    [member.term, member.applied, member.lag].forEach((value, index) => say(cells[4 + index], number(value)));
    say(cells[7], millis(member.read_ms));
    say(cells[8], member.address || "");
    say(cells[9], member.version || "");
    for (const button of cells[10].querySelectorAll("button")) button.hidden = !OFFERS[button.dataset.action](member);
  });
  showConnections(picture.members);
  showLogs(picture.members);
  say($("members-errors"), picture.errors.map((one) => `${one.address}: ${one.error}`).join("  ·  "));
}

// Each row is what one node says of its connections.
function showConnections(members) {
  const table = $("connections-table");
  const names = members.map((member) => member.name);
  table.tHead.rows[0].replaceChildren(el("th", {}, "seen by"), ...names.map((name) => el("th", { title: name }, name)));
  const cell = (member, name) => {
    if (member.name === name) return el("td", { class: "muted" }, "·");
    const up = member.links ? member.links[name] : undefined;
    if (up === undefined) return el("td", { class: "muted", title: "not asked" }, "?");
    return el("td", {}, el("span", { class: `pill ${up ? "good" : "bad"}` }, up ? "up" : "down"));
  };
  table.tBodies[0].replaceChildren(...members.map((member) => el("tr", {}, el("td", { class: "name", title: member.name }, dot(member.name), member.name), ...names.map((name) => cell(member, name)))));
}

function showLogs(members) {
  const cells = (member) => [member.last, member.persisted, member.committed, member.applied].map((value) => el("td", { class: "number" }, number(value)));
  $("logs-table").tBodies[0].replaceChildren(...members.map((member) => el("tr", {}, el("td", { class: "name", title: member.name }, dot(member.name), member.name), ...cells(member))));
}

function makeMember(member) {
  const buttons = cluster.allowsChanges ? Object.keys(OFFERS).map((action) => el("button", { class: "quiet", type: "button", "data-action": action, onclick: () => change(action, member.name) }, WORDS[action].button)) : [];
  return el("tr", { "data-member": member.name }, el("td", { class: "name", title: member.name }, dot(member.name), member.name), el("td", {}, el("span", { class: "pill" })), el("td"), el("td", {}, el("span")),
    ...[4, 5, 6, 7].map(() => el("td", { class: "number" })), el("td", { class: "mono" }), el("td"), el("td", { class: "actions" }, el("span", { class: "set" }, ...buttons)));
}

const OFFERS = {
  transfer: (member) => member.role === "voter" && !member.is_leader && member.state !== "away",
  promote: (member) => member.role === "learner" || member.role === "standby",
  demote: (member) => member.role === "voter",
  remove: (member) => member.role !== "",
};
const WORDS = {
  transfer: { button: "Make leader", title: "Make this member the leader", text: "The leader hands over to it. Writes wait for a moment.", done: "leads now" },
  promote: { button: "Promote", title: "Give this member a vote", text: "It counts for the quorum once it has caught up.", done: "has a vote now" },
  demote: { button: "Demote", title: "Take the vote of this member", text: "It stays as a standby, and counts for no quorum.", done: "is a standby now" },
  remove: { button: "Remove", title: "Remove this member", text: "It leaves the cluster. A node that was removed does not come back by itself.", done: "was removed" },
};

function change(action, name) {
  const dialog = $("confirm");
  say($("confirm-title"), `${WORDS[action].title}: ${name}`);
  say($("confirm-text"), WORDS[action].text);
  say($("confirm-name"), name);
  say($("confirm-do"), WORDS[action].button);
  $("confirm-input").value = "";
  $("confirm-do").disabled = true;
  $("confirm-input").oninput = () => { $("confirm-do").disabled = $("confirm-input").value !== name; };
  dialog.onclose = async () => {
    const confirmed = $("confirm-input").value;
    if (dialog.returnValue !== "do" || confirmed !== name) return;
    try {
      await ask("api/members", { action, name, confirmed });
      toast(`${name} ${WORDS[action].done}.`);
    } catch (error) {
      toast(`${WORDS[action].button} ${name}: ${error.message}`, true);
    }
  };
  dialog.returnValue = "";
  dialog.showModal();
  $("confirm-input").focus();
}

// --- views -------------------------------------------------------------------------------------------------------------------
function route() {
  if ($("app").hidden) return;
  const wanted = location.hash.slice(1);
  const view = VIEWS.includes(wanted) ? wanted : VIEWS[0];
  for (const name of VIEWS) $(`view-${name}`).hidden = name !== view;
  for (const link of $("tabs").children) {
    if (link.getAttribute("href") === `#${view}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (view === "keys") openKeys(); else closeKeys();
  if (view === "holders") openHolders(); else closeHolders();
  if (cluster.picture) show();
}

function setTheme(theme) { document.documentElement.dataset.theme = theme; }

$("plots").append(...plots.map((plot) => plot.element));
setUpKeys();
const darkness = matchMedia("(prefers-color-scheme: dark)");
setTheme(darkness.matches ? "dark" : "light");
darkness.addEventListener("change", () => setTheme(darkness.matches ? "dark" : "light"));
$("theme").addEventListener("click", () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
$("by-password").addEventListener("click", () => choose(false));
$("by-token").addEventListener("click", () => choose(true));
$("login-form").addEventListener("submit", login);
// Enter would press the first button of the form, which cancels.
$("confirm-input").addEventListener("keydown", (event) => {
  if (event.key !== "Enter") return;
  event.preventDefault();
  if (!$("confirm-do").disabled) $("confirm-do").click();
});
$("logout").addEventListener("click", async () => { await ask("api/logout", {}).catch(() => {}); leave(); begin(); });
addEventListener("hashchange", route);
addEventListener("resize", () => { if (cluster.picture) show(); });
begin();
