// A server of raftmeta's REST protocol (docs/rest.md, GET /v1/openapi.json) that has nothing of raftmeta in it.
// node rest_server.mjs HOST:PORT FILE
// One process and one file. Each revision is a line of the file, synced before it is answered; a start reads all lines.
// The whole history is kept, so no change is ever too old to be told. It knows no users: every request is served.
import crypto from "node:crypto";
import fs from "node:fs";
import http from "node:http";

const [address, path] = process.argv.slice(2);

class Refusal extends Error { // thrown by what refuses a request; the answer is made of it
  constructor(status, error, more = {}, fate = "refused") {
    super(error);
    Object.assign(this, { status, told: { error, fate, message: `refused: ${error} ${more.field ?? ""}`, ...more } });
  }
}
const wrong = (field, status = 400) => new Refusal(status, "invalid_argument", { field }, "not_executed");

// --- the state -------------------------------------------------------------------------------------------------------
const keys = new Map(); // of {key, value (base64), revision, create_revision, version, session ("" for none)}
const sessions = new Map(); // of {ttl_s, until}, by id
const history = []; // of {revision, changes}; a change is a record, or {key, gone}
const followers = new Set(); // called after each revision
let revision = 0;

const file = fs.openSync(path, "a+");
const lines = fs.readFileSync(path, "utf8").split("\n"), torn = lines.pop(); // of a write that was never answered
fs.ftruncateSync(file, fs.fstatSync(file).size - Buffer.byteLength(torn));
lines.forEach((line) => apply(JSON.parse(line)));
sessions.forEach(keep);

function keep(one) {
  one.until = performance.now() + one.ttl_s * 1000;
  return one;
}
function apply(entry) {
  if (entry.begins) sessions.set(entry.begins, keep({ ttl_s: entry.ttl_s }));
  if (entry.ends) sessions.delete(entry.ends);
  if (!entry.changes?.length) return;
  for (const one of entry.changes) one.gone ? keys.delete(one.key) : keys.set(one.key, one);
  revision = entry.revision;
  history.push(entry);
  for (const follow of followers) follow();
}
function commit(entry) {
  fs.writeSync(file, JSON.stringify(entry) + "\n"); // a disk that fails ends the process: only a new start knows
  fs.fdatasyncSync(file);
  apply(entry);
}
function endSession(id) {
  const mine = [...keys.values()].filter((one) => one.session === id).map(({ key }) => ({ key, gone: true }));
  if (sessions.has(id)) commit({ revision: revision + 1, changes: mine, ends: id });
}
setInterval(() => sessions.forEach((one, id) => one.until < performance.now() && endSession(id)), 50);

// --- one request -----------------------------------------------------------------------------------------------------
class Call {
  constructor(request, url, body) {
    Object.assign(this, { url, body, method: request.method, head: request.headers, status: 200, headers: {} });
    this.query = url.searchParams;
    this.space = decodeURIComponent(this.head["raftmeta-namespace"] ?? "");
  }

  get session() { return sessionOf(this.head["raftmeta-session"], "Raftmeta-Session"); }
  get json() {
    if (!/^application\/json\b/i.test(this.head["content-type"] ?? "")) throw wrong("Content-Type", 415);
    return JSON.parse(this.body.toString() || "{}");
  }
  get(key) { return keys.get(this.space + key); }
  below(prefix) {
    const found = [...keys.values()].filter((one) => one.key.startsWith(this.space + prefix));
    return found.sort((one, other) => Buffer.compare(Buffer.from(one.key), Buffer.from(other.key)));
  }
  shape({ key, session, gone, ...rest }) {
    return { key: key.slice(this.space.length), ...rest, ...(session && { session }) };
  }
  // Do all operations in one revision if the fence and every check hold; once, if it has an idempotency key.
  write(checks, operations) {
    const { "idempotency-key": once, "raftmeta-fence": fence, "if-match": match, "if-none-match": none } = this.head;
    if (once !== undefined) {
      const [slot, number] = fitting(/^\d{1,6}\/\d{1,19}$/, once, "Idempotency-Key").split("/");
      const said = JSON.stringify([this.method, this.url.href, fence, match, none, this.body.toString("base64")]);
      const mark = `${number.padStart(20, "0")} ${crypto.createHash("sha256").update(said).digest("hex")}`;
      const key = `_raftmeta/rest/${this.session}/${Number(slot)}`;
      const former = Buffer.from(this.get(key)?.value ?? "", "base64").toString();
      if (former === mark) this.headers["Idempotency-Replayed"] = "true";
      if (former === mark) return this.get(key).revision;
      if (former.slice(0, 21) === mark.slice(0, 21)) throw new Refusal(422, "command_refused");
      if (former > mark) throw new Refusal(409, "superseded", {}, "outcome_unknown");
      const value = Buffer.from(mark).toString("base64");
      operations = [...operations, { op: "put", key, value, session: this.session }];
    }
    if (fence !== undefined) {
      const [key, epoch] = fitting(/^[^@]+@\d+$/, fence, "Raftmeta-Fence").split("@");
      if (this.get(decodeURIComponent(key))?.create_revision !== Number(epoch)) throw new Refusal(409, "fenced");
    }
    const holds = ({ key, exists, ...wanted }) => {
      const found = this.get(key) ?? { revision: 0, create_revision: 0 };
      const isSame = Object.keys(wanted).every((name) => found[name] === wanted[name]);
      return isSame && (exists === undefined || exists === found.revision > 0);
    };
    const found = checks.map((one) => this.get(one.key)).filter(Boolean).map((one) => this.shape(one));
    if (!checks.every(holds)) throw new Refusal(412, "check_failed", { found, revision });
    const changed = new Map();
    operations.forEach((one, at) => this.plan(one, `operations[${at}]`, changed));
    if (changed.size) commit({ revision: revision + 1, changes: [...changed.values()] });
    return revision;
  }
  plan({ op, key, value = "", session = "", expected_revision = 0, must_exist = false }, field, changed) {
    if (!["create", "delete", "put", "update"].includes(op) || typeof key !== "string" || !key) throw wrong(field);
    const whole = this.space + key, former = changed.get(whole) ?? keys.get(whole), next = revision + 1;
    const exists = former !== undefined && !former.gone;
    if (op === "create" && exists) throw new Refusal(412, "key_exists", { revision });
    if (!exists && (op === "update" || must_exist || expected_revision)) throw new Refusal(404, "key_missing");
    if (expected_revision && former.revision !== expected_revision) throw new Refusal(412, "compare_failed");
    if (op === "delete") return void (exists && changed.set(whole, { key: whole, gone: true }));
    if (session && !sessions.has(sessionOf(session, field))) throw new Refusal(409, "lease_expired");
    const [create_revision, version] = exists ? [former.create_revision, former.version + 1] : [next, 1];
    changed.set(whole, { key: whole, value, session, revision: next, create_revision, version });
  }
  wrote(checks, operations, status = 200) {
    const revision = this.write(checks, operations);
    Object.assign(this, { status, headers: { ...this.headers, ETag: `"${revision}"` } });
    return { revision };
  }
}
function fitting(pattern, text, field) {
  if (!pattern.test(text ?? "")) throw wrong(field);
  return text;
}
const sessionOf = (text, field) => fitting(/^[0-9a-f]{16}$/, text, field);
const number = (text, field) => Number(fitting(/^\d{1,15}$/, text, field));

// --- members and candidates: keys of sessions, whose values name their owner (docs/formats.md) -----------------------
const escaped = (text) => encodeURIComponent(text).replace(/[!'()*]/g, (one) => `%${one.charCodeAt(0).toString(16)}`);

function part(name) {
  const text = escaped(name).replace(/%../g, (one) => one.toUpperCase());
  return text.length <= 200 ? text : "=" + crypto.createHash("sha256").update(name).digest("hex");
}
function packed(fields) { // msgpack: an array of text (str 32), bytes (bin 32) and numbers (uint 64)
  const number = (size, value) => Buffer.from(BigInt(value).toString(16).padStart(size * 2, "0"), "hex");
  return Buffer.concat([Buffer.of(0x90 + fields.length), ...fields.flatMap((one) => {
    if (typeof one === "bigint") return [Buffer.of(0xcf), number(8, one)];
    const raw = Buffer.from(one);
    return [Buffer.of(typeof one === "string" ? 0xdb : 0xc6), number(4, raw.length), raw];
  })]);
}
function unpacked(raw) {
  let at = 1;
  const take = (count) => raw.subarray(at, (at += count));
  const size = (power) => Number(`0x${take(1 << power).toString("hex")}`);
  return Array.from({ length: raw[0] & 15 }, () => {
    const [head] = take(1);
    if (head < 0x80) return head;
    if (head < 0xc0) return take(head - 0xa0).toString();
    if (head < 0xcc) return take(size(head - 0xc4));
    return head < 0xd0 ? size(head - 0xcc) : take(size(head - 0xd9)).toString();
  });
}
function places(call, prefix) {
  const found = call.below(prefix).sort((one, other) => one.create_revision - other.create_revision);
  return found.map((record) => {
    const [, owner, , , data, name] = unpacked(Buffer.from(record.value, "base64"));
    const key = call.shape(record).key, epoch = record.create_revision;
    const fence = `${key.split("/").map(part).join("/")}@${epoch}`;
    const id = name ?? decodeURIComponent(key.slice(prefix.length));
    return { record, owner, shape: { id, data: data.toString("base64"), epoch, fence } };
  });
}
function place(call, prefix, id) {
  const key = prefix + part(id), { session } = call, name = call.query.get("owner");
  const former = places(call, prefix).find((one) => one.shape.id === id);
  const isOwn = former?.record.session === session, owner = name ? `client ${name}` : `session ${session}`;
  if (former && !isOwn && (call.method === "DELETE" || former.owner !== owner)) throw new Refusal(409, "id_conflict");
  const leave = former ? [{ op: "delete", key }] : [];
  if (call.method === "DELETE") return void call.write([], leave);
  const fields = [owner, BigInt(`0x${session}`), 0n, call.body];
  const value = packed(key.startsWith("=", prefix.length) ? [2n, ...fields, id] : [1n, ...fields]).toString("base64");
  if (isOwn && former.record.value === value) return former.shape;
  call.write([], [...leave, { op: "create", key, value, session }]);
  call.status = 201;
  return places(call, prefix).find((one) => one.shape.id === id).shape;
}
const party = (kind) => (call, name, id) => {
  if ((call.method === "GET") !== (id === undefined)) throw new Refusal(405, "no_route", {}, "not_executed");
  const prefix = `_raftmeta/${kind}/${part(name)}/`, one = id === undefined ? {} : place(call, prefix, id);
  const all = places(call, prefix).map(({ shape }) => shape), leader = all[0] ?? null;
  if (id !== undefined) return one && { ...one, is_leader: leader.epoch === one.epoch };
  const told = kind === "groups" ? { group: name, members: all } : { service: name, leader, candidates: all };
  return { ...told, revision };
};

// --- changes ---------------------------------------------------------------------------------------------------------
function changes(call, response) {
  const [name, twice] = ["key", "prefix", "group", "election"].filter((one) => call.query.has(one));
  if (name === undefined || twice !== undefined) throw wrong("key");
  const text = call.query.get(name), isPlace = name === "group" || name === "election";
  const start = call.space + (isPlace ? `_raftmeta/${name}s/${part(text)}/` : text);
  const isMine = (one) => (name === "key" ? one.key === start : one.key.startsWith(start));
  const shown = (one, revision) => ({ type: one.gone ? "delete" : "put", ...call.shape(one), revision });
  let after = number(call.head["last-event-id"] ?? call.query.get("after"), "after");
  const isStream = (call.head.accept ?? "").includes("text/event-stream");
  const follow = (isOver = false) => {
    const news = history.slice(history.findLastIndex((one) => one.revision <= after) + 1).map((entry) => ({
      revision: entry.revision, changes: entry.changes.filter(isMine).map((one) => shown(one, entry.revision)),
    })).filter((entry) => entry.changes.length);
    after = Math.max(after, isStream || news.length || isOver ? revision : 0);
    const alive = isOver ? [["alive", { revision: after }]] : [];
    for (const [kind, one] of isStream ? [...news.map((one) => ["changes", one]), ...alive] : [])
      response.write(`id: ${one.revision}\nevent: ${kind}\ndata: ${JSON.stringify(one)}\n\n`);
    if (isStream || !(news.length || isOver)) return;
    stop();
    send(response, 200, { revision: after, changes: news.flatMap((one) => one.changes) });
  };
  const timer = setInterval(follow, isStream ? 1000 : Number(call.query.get("wait_s") ?? 30) * 1000, true);
  const stop = () => followers.delete(follow) && clearInterval(timer);
  followers.add(follow);
  response.on("close", stop);
  if (isStream) response.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-store" });
  follow(isStream);
}

// --- routes ----------------------------------------------------------------------------------------------------------
function key(call, key) {
  const { "if-match": match, "if-none-match": none, accept = "" } = call.head, found = call.get(key);
  const expected_revision = (match ?? "*") === "*" ? 0 : number(match.replaceAll('"', ""), "If-Match");
  if (call.method === "DELETE") return call.wrote([], [{ op: "delete", key, expected_revision, must_exist: true }]);
  if (call.method === "PUT") {
    const op = none === "*" ? "create" : match === undefined ? "put" : "update";
    const session = call.query.get("ephemeral") === "true" ? call.session : "", value = call.body.toString("base64");
    return call.wrote([], [{ op, key, value, session, expected_revision }], op === "create" ? 201 : 200);
  }
  if (!found) throw new Refusal(404, "missing");
  call.headers.ETag = `"${found.revision}"`;
  if (none === "*" || none === call.headers.ETag) call.status = 304;
  return accept.includes("application/json") ? call.shape(found) : Buffer.from(found.value, "base64");
}
function list(call) {
  const { prefix = "", start = "", limit = "0", keys_only } = Object.fromEntries(call.query);
  const shown = call.below(prefix).map((one) => call.shape(one)).filter((one) => one.key >= start);
  const page = shown.slice(0, number(limit, "limit") || undefined), next = shown[page.length]?.key;
  if (keys_only === "true") page.forEach((one) => delete one.value);
  return { revision, keys: page, next_start: next };
}
function beginSession(call) {
  const { ttl_s } = call.json, session = crypto.randomBytes(8).toString("hex");
  if (!(ttl_s >= 0.1 && ttl_s <= 86400)) throw wrong("ttl_s");
  commit({ begins: session, ttl_s });
  call.status = 201;
  return { session, ttl_s };
}
function oneSession(call, session) {
  if (call.method === "DELETE") return endSession(sessionOf(session, "session"));
  if (!sessions.has(sessionOf(session, "session"))) throw new Refusal(404, "missing");
  return { session, ttl_s: keep(sessions.get(session)).ttl_s };
}
function transact(call) {
  const { checks = [], operations = [], ...rest } = call.json;
  if (Object.keys(rest).length || !Array.isArray(checks) || !Array.isArray(operations)) throw wrong("body");
  return call.wrote(checks, operations);
}

const ROUTES = [
  ["GET", /^\/v1\/status$/, () => ({ name: "reference", is_ready: true, leader: "reference", revision })],
  ["POST", /^\/v1\/sessions$/, beginSession],
  ["PUT|DELETE", /^\/v1\/sessions\/([^/]+)$/, oneSession],
  ["GET", /^\/v1\/keys$/, list],
  ["GET|PUT|DELETE", /^\/v1\/keys\/(.+)$/, key],
  ["POST", /^\/v1\/transactions$/, transact],
  ["GET|PUT|DELETE", /^\/v1\/groups\/([^/]+)(?:\/members\/(.+))?$/, party("groups")],
  ["GET|PUT|DELETE", /^\/v1\/elections\/([^/]+)(?:\/candidates\/(.+))?$/, party("elections")],
];

function send(response, status, told, headers = {}) {
  const isRaw = told === undefined || Buffer.isBuffer(told), kind = isRaw ? "octet-stream" : "json";
  response.writeHead(status, { "Content-Type": `application/${kind}`, ...headers });
  response.end(isRaw ? (told ?? "") : JSON.stringify(told));
}

http.createServer(async (request, response) => {
  try {
    const parts = [], url = new URL(request.url, "http://server");
    for await (const one of request) parts.push(one);
    const call = new Call(request, url, Buffer.concat(parts));
    if (call.body.length > 16 << 20) throw wrong("body", 413);
    if (call.head.origin) throw wrong("Origin", 403);
    if (call.method === "GET" && url.pathname === "/v1/changes") return changes(call, response);
    const fits = ([methods, pattern]) => pattern.test(url.pathname) && methods.split("|").includes(call.method);
    const [, pattern, handler] = ROUTES.find(fits) ?? [];
    if (!handler) throw new Refusal(404, "no_route", {}, "not_executed");
    const told = handler(call, ...pattern.exec(url.pathname).slice(1).map((one) => one && decodeURIComponent(one)));
    return send(response, told === undefined ? 204 : call.status, told, call.headers);
  } catch (error) {
    const known = [SyntaxError, TypeError, URIError].some((kind) => error instanceof kind) ? wrong("body") : error;
    if (!known.told) throw error; // of the disk: it ends this program
    return send(response, known.status, known.told);
  }
}).listen(...address.split(":").reverse());
