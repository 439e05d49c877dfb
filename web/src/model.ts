// What is shown, worked out of what the port answers. No clock, no network, no page: all of it is tested as it stands.

import type { Amount, Decision, HvpaRow, Outcome, RangeAnswer, Row, SetRow, Status, Step, VertexRow } from "./types";

/** As many as the server keeps of an object. */
const KEPT = 20;

export interface ScaledObject {
  key: string;
  kind: string;
  namespace: string;
  name: string;
  /** Oldest first. */
  decisions: Decision[];
  /** Only functions on demand have one. */
  status?: Status;
  /** Of vertices, Sets and Hvpas. */
  row?: ScaledRow;
}

export type ScaledRow = VertexRow | SetRow | HvpaRow;

export type Tone = "asleep" | "busy" | "good" | "bad" | "held";

export interface State {
  tone: Tone;
  words: string;
}

/** What was known at a moment, in seconds since 1970; what is missing was not known. */
export interface Point {
  at: number;
  desired?: number;
  current?: number;
  ready?: number;
}

/** One trigger's figure against its threshold. */
export interface Reading {
  at: number;
  trigger: string;
  value: number;
  threshold: number;
  unit: string;
}

export function keyOf(object: { kind: string; namespace: string; name: string }): string {
  return [object.kind, object.namespace, object.name].map(encodeURIComponent).join("/");
}

export function seconds(timestamp: string): number {
  return Date.parse(timestamp) / 1000;
}

export function replicas(amount: Amount): number | undefined {
  if (typeof amount === "number") return amount;
  return typeof amount?.replicas === "number" ? amount.replicas : undefined;
}

export function shownAmount(amount: Amount | string): string {
  if (typeof amount !== "object") return String(amount);
  const { replicas, containers, ...others } = amount;
  if (typeof replicas !== "number" || Object.keys(others).length > 0) return JSON.stringify(amount);
  const sizes = containers?.map(({ name, requests }) => `${name} (${shownRequests(requests)})`) ?? [];
  return [replicas, ...(sizes.length > 0 ? [sizes.join(", ")] : [])].join(" × ");
}

function shownRequests(requests: Record<string, string>): string {
  const all = Object.entries(requests).map(([resource, quantity]) => `${resource} ${quantity}`);
  return all.length > 0 ? all.join(", ") : "no requests";
}

/** All objects that somebody decided about or tells of, whatever their kind, by kind, namespace and name. */
export function objectsOf(
  decisions: ReadonlyMap<string, Decision[]>,
  statuses: Iterable<Status>,
  rows: Iterable<Row> = [],
): ScaledObject[] {
  const objects = new Map<string, ScaledObject>();
  for (const [key, known] of decisions) {
    const last = known.at(-1);
    if (last) objects.set(key, { key, kind: last.kind, namespace: last.namespace, name: last.name, decisions: known });
  }
  for (const status of statuses) {
    const object = { kind: status.PodType, namespace: status.Namespace, name: status.Name };
    const key = keyOf(object);
    objects.set(key, { key, ...object, decisions: objects.get(key)?.decisions ?? [], status });
  }
  for (const row of rows) {
    if (row.type === "pipeline" || row.type === "definition") continue;
    const { kind, namespace, name } = row;
    const key = keyOf({ kind, namespace, name });
    objects.set(key, { ...(objects.get(key) ?? { key, kind, namespace, name, decisions: [] }), row });
  }
  const words = (object: ScaledObject) => [object.kind, object.namespace, object.name];
  return [...objects.values()].sort((one, other) => {
    const [a, b] = [words(one), words(other)];
    const at = a.findIndex((word, place) => word !== b[place]);
    return at < 0 ? 0 : (a[at] ?? "") < (b[at] ?? "") ? -1 : 1;
  });
}

/**
 * Takes in decisions that came later. One that says the same as the last one brings it up to date, as it does on the
 * server; its figures are still in the readings.
 */
export function addDecisions(known: Map<string, Decision[]>, news: Decision[]): void {
  for (const decision of news) {
    const key = keyOf(decision);
    const before = known.get(key) ?? [];
    const last = before.at(-1);
    if (last && (last.at === decision.at || Date.parse(last.at) > Date.parse(decision.at))) continue;
    const kept = last && isLike(last, decision) ? before.slice(0, -1) : before;
    known.set(key, [...kept, decision].slice(-KEPT));
  }
}

function isLike(one: Decision, other: Decision): boolean {
  const gist = (decision: Decision) => [
    shownAmount(decision.current),
    shownAmount(decision.desired),
    decision.reason,
    JSON.stringify(decision.outcome),
    decision.steps.length,
  ];
  return gist(one).every((part, place) => part === gist(other)[place]);
}

export function heldBy(outcome: Outcome): string | undefined {
  return typeof outcome === "object" ? outcome.held : undefined;
}

export function stateOf(object: ScaledObject): State {
  const { status } = object;
  const last = object.decisions.at(-1);
  const held = last && heldBy(last.outcome);
  const state = status ? functionState(status) : (rowState(object.row) ?? decidedState(last));
  if (held === undefined || state.tone === "bad") return state;
  return { tone: "held", words: `${state.words}, ${held.startsWith("dry run") ? "dry run" : "paused"}` };
}

function functionState(status: Status): State {
  const { NumberReady: ready, NumberRequested: requested } = status;
  if (status.StartFailure && ready === 0) return { tone: "bad", words: "does not start" };
  if (status.Unschedulable && ready < requested) return { tone: "bad", words: "no room" };
  if (requested === 0 && status.HeldCalls === 0) return ready === 0 ? asleep : { tone: "busy", words: "falling asleep" };
  if (ready === 0) return { tone: "busy", words: "waking" };
  return { tone: ready < requested ? "busy" : "good", words: `${ready} of ${requested} ready` };
}

/** None where the last decision says all there is to say. */
function rowState(row: ScaledRow | undefined): State | undefined {
  if (!row || row.type === "hvpa") return undefined;
  const { ready, desired } = row;
  if (row.type === "set" && row.paused) return { tone: "held", words: `${ready} of ${desired} ready, paused` };
  if (row.type === "set" && row.condition?.type === "ReplicaFailure") return { tone: "bad", words: "writes fail" };
  if (row.type === "vertex" && row.phase === "Failed") return { tone: "bad", words: "failed" };
  if (desired === 0) return ready === 0 ? asleep : { tone: "busy", words: "falling asleep" };
  const isSettled = ready === desired && (row.type === "vertex" || row.updated === desired);
  return { tone: isSettled ? "good" : "busy", words: `${ready} of ${desired} ready` };
}

/** How full its buffers are, from 0 to 1 and beyond. */
export function fullness({ pending, room }: VertexRow): number | undefined {
  return pending === undefined || room === undefined ? undefined : pending / Math.max(1, room);
}

const asleep: State = { tone: "asleep", words: "asleep" };

/** Of an object whose pods nobody tells about: what its last decision says. */
function decidedState(last: Decision | undefined): State {
  const [current, desired] = [last && replicas(last.current), last && replicas(last.desired)];
  if (current === undefined || desired === undefined) return { tone: "busy", words: "not decided yet" };
  if (current !== desired) return { tone: "busy", words: `${current} to ${desired} replicas` };
  return desired === 0 ? asleep : { tone: "good", words: `${desired} ${desired === 1 ? "replica" : "replicas"}` };
}

/** The points of decisions: what was there, what it was to become, and that it became so where it was written. */
export function pointsOf(decisions: Decision[]): Point[] {
  return decisions.flatMap((decision) => {
    const [at, current, desired] = [seconds(decision.at), replicas(decision.current), replicas(decision.desired)];
    const point = { at, current, desired };
    return decision.outcome === "written" ? [point, { at: at + 0.001, current: desired }] : [point];
  });
}

const METRIC = /^slimfaas_autoscaler_(desired|current|ready)_replicas$/;

/** The points of what the metric store kept of one function. */
export function storedPoints(answer: RangeAnswer): Point[] {
  return answer.data.result.flatMap(({ metric, values }) => {
    const what = METRIC.exec(metric.__name__ ?? "")?.[1];
    return what ? values.map(([at, value]) => ({ at, [what]: Number(value) }) as Point) : [];
  });
}

/**
 * Columns for a chart: times, desired, current, ready. A count holds until another is known, up to `now`; before the
 * first one is known there is nothing.
 */
export function timeline(points: Point[], now: number): [number[], ...(number | null)[][]] {
  const columns: [number[], (number | null)[], (number | null)[], (number | null)[]] = [[], [], [], []];
  const last: { desired: number | null; current: number | null; ready: number | null } = {
    desired: null,
    current: null,
    ready: null,
  };
  const sorted = points.filter((point) => Number.isFinite(point.at) && point.at <= now).sort((a, b) => a.at - b.at);
  for (const point of [...sorted, { at: now } as Point]) {
    last.desired = point.desired ?? last.desired;
    last.current = point.current ?? last.current;
    last.ready = point.ready ?? last.ready;
    if (columns[0].at(-1) !== point.at) columns.forEach((column) => column.push(null as never));
    const place = columns[0].length - 1;
    columns[0][place] = point.at;
    columns[1][place] = last.desired;
    columns[2][place] = last.current;
    columns[3][place] = last.ready;
  }
  return columns;
}

/** What the steps of a decision read, trigger by trigger. */
export function readingsOf(decision: Decision): Reading[] {
  const at = seconds(decision.at);
  return decision.steps.flatMap((step) => {
    const reading = readingOf(step);
    return reading ? [{ at, ...reading }] : [];
  });
}

function readingOf(step: Step): Omit<Reading, "at"> | undefined {
  const input = (typeof step.input === "object" && step.input !== null ? step.input : {}) as Record<string, unknown>;
  const number = (name: string) => (typeof input[name] === "number" ? (input[name] as number) : Number.NaN);
  const name = input.trigger ?? input.metric;
  if (typeof name !== "string") return undefined;
  if (step.rule === "trigger") {
    return finite({ trigger: name, value: number("value"), threshold: number("threshold"), unit: "" });
  }
  if (step.rule === "metric") {
    // An HPA counts in thousandths, but for utilization, which is percent.
    const isUtilization = typeof input.model === "object" && input.model !== null && "utilization" in input.model;
    const scale = isUtilization ? 1 : 1000;
    const [value, threshold] = [number("usage") / scale, number("target") / scale];
    return finite({ trigger: name, value, threshold, unit: isUtilization ? "%" : "" });
  }
  return undefined;
}

function finite(reading: Omit<Reading, "at">): Omit<Reading, "at"> | undefined {
  return Number.isFinite(reading.value) && Number.isFinite(reading.threshold) ? reading : undefined;
}

/** The triggers that could not be used, with the sentence that says why. */
export function unusable(decision: Decision): string[] {
  return decision.steps.filter((step) => step.rule.startsWith("invalid")).map((step) => step.words);
}

/** The line of a sparkline as the points of an SVG polyline, in steps; empty if there is nothing to draw. */
export function sparkline(points: Point[], now: number, width: number, height: number): string {
  const [times, desired] = timeline(points, now);
  const known = times.flatMap((at, place) => {
    const value = desired?.[place];
    return typeof value === "number" ? [{ at, value }] : [];
  });
  const first = known[0];
  if (!first) return "";
  const most = Math.max(1, ...known.map((point) => point.value));
  const span = Math.max(1, now - first.at);
  const x = (at: number) => (((at - first.at) / span) * width).toFixed(1);
  const y = (value: number) => (height - 1 - (value / most) * (height - 2)).toFixed(1);
  const corners: string[] = [];
  known.forEach((point, place) => {
    const before = known[place - 1];
    if (before) corners.push(`${x(point.at)},${y(before.value)}`);
    corners.push(`${x(point.at)},${y(point.value)}`);
  });
  return corners.join(" ");
}

export function ago(from: number, now: number): string {
  const past = Math.max(0, Math.round(now - from));
  if (past < 60) return `${past} s ago`;
  if (past < 3600) return `${Math.floor(past / 60)} min ago`;
  if (past < 86_400) return `${Math.floor(past / 3600)} h ago`;
  return `${Math.floor(past / 86_400)} d ago`;
}

/** The command that writes a patch with the rights of whoever runs it. */
export function command(object: { kind: string; namespace: string; name: string }, patch: unknown): string {
  const target = quoted(`${object.kind.toLowerCase()}/${object.name}`);
  return `kubectl patch -n ${quoted(object.namespace)} ${target} --type merge -p ${quoted(JSON.stringify(patch))}`;
}

/** Columns for a chart of what was and what would have been, in the time of the replay. */
export function comparison(
  was: Point[],
  would: { at: string; replicas: number }[],
  from: number,
  to: number,
): [number[], ...(number | null)[][]] {
  // As one kind of point: timeline() holds each count until another is known.
  const points = [
    ...was.map(({ at, current }): Point => ({ at, current })),
    ...would.map(({ at, replicas }): Point => ({ at: seconds(at), desired: replicas })),
  ];
  const before = points.filter(({ at, current }) => at < from && current !== undefined).sort((a, b) => a.at - b.at);
  const begin: Point = { at: from, current: before.at(-1)?.current };
  const [times, desired, current] = timeline([begin, ...points.filter(({ at }) => at >= from)], to);
  return [times, current ?? [], desired ?? []];
}

/** One word for a shell, whatever is in it. */
export function quoted(word: string): string {
  return /^[\w./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}
