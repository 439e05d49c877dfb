import { describe, expect, test } from "vitest";

import {
  addDecisions,
  ago,
  command,
  comparison,
  fullness,
  keyOf,
  objectsOf,
  pointsOf,
  quoted,
  readingsOf,
  shownAmount,
  sparkline,
  stateOf,
  storedPoints,
  timeline,
  type ScaledObject,
} from "./model";
import type { Decision, Outcome, Row, SetRow, Status, Step, VertexRow } from "./types";

const at = (second: number) => new Date(second * 1000).toISOString();

function decision(second: number, current: number, desired: number, more: Partial<Decision> = {}): Decision {
  const object = { kind: "Deployment", namespace: "default", name: "fib" };
  const reasons = { policy: "demand", reason: "WakeUp", why: "wakes up", outcome: "written" as Outcome, steps: [] };
  return { at: at(second), ...object, current, desired, ...reasons, ...more };
}

function status(ready: number, requested: number, more: Partial<Status> = {}): Status {
  const calls = { ActiveCalls: 0, HeldCalls: 0, Visibility: "Public", Problems: [] };
  const object = { Name: "fib", Namespace: "default", PodType: "Deployment" };
  return { ...object, ...calls, NumberReady: ready, NumberRequested: requested, ...more };
}

function object(decisions: Decision[], of?: Status): ScaledObject {
  const known = new Map(decisions.length > 0 ? [[keyOf(decisions[0] as Decision), decisions]] : []);
  return objectsOf(known, of ? [of] : [])[0] as ScaledObject;
}

test("states, in words", () => {
  const held = (words: string) => decision(1, 1, 1, { outcome: { held: words } });
  const rows: [string, ScaledObject][] = [
    ["asleep asleep", object([], status(0, 0))],
    ["busy waking", object([], status(0, 0, { HeldCalls: 1 }))],
    ["busy waking", object([], status(0, 2))],
    ["busy 1 of 2 ready", object([], status(1, 2))],
    ["good 2 of 2 ready", object([], status(2, 2))],
    ["busy falling asleep", object([], status(1, 0))],
    ["bad does not start", object([], status(0, 1, { StartFailure: "exit code 3" }))],
    ["good 1 of 1 ready", object([], status(1, 1, { StartFailure: "exit code 3" }))],
    ["bad no room", object([], status(1, 2, { Unschedulable: "0/1 nodes" }))],
    ["held 1 of 1 ready, paused", object([held("paused by ballast.dev/paused")], status(1, 1))],
    ["held 1 of 1 ready, dry run", object([held("dry run by ballast.dev/dry-run")], status(1, 1))],
    // Kinds whose pods nobody tells about.
    ["busy 1 to 3 replicas", object([decision(1, 1, 3)])],
    ["good 3 replicas", object([decision(1, 3, 3)])],
    ["good 1 replica", object([decision(1, 1, 1)])],
    ["asleep asleep", object([decision(1, 0, 0)])],
    ["busy 1 to 2 replicas", object([decision(1, 0, 0, { current: { replicas: 1 }, desired: { replicas: 2 } })])],
    ["busy not decided yet", object([decision(1, 0, 0, { current: {}, desired: {} })])],
  ];
  for (const [expected, one] of rows) expect(`${stateOf(one).tone} ${stateOf(one).words}`).toBe(expected);
});

test("objects of any kind come from decisions, from statuses, or from both", () => {
  const known = new Map<string, Decision[]>();
  addDecisions(known, [
    decision(1, 0, 1),
    decision(1, 1, 4, { kind: "Vertex", name: "out", namespace: "pipes" }),
    decision(1, 1, 4, { kind: "Vertex", name: "in", namespace: "pipes" }),
  ]);
  const objects = objectsOf(known, [status(1, 1), status(0, 0, { Name: "new" })]);
  expect(objects.map(({ kind, name, decisions, status: of }) => `${kind} ${name} ${decisions.length} ${!!of}`)).toEqual([
    "Deployment fib 1 true",
    "Deployment new 0 true",
    "Vertex in 1 false",
    "Vertex out 1 false",
  ]);
});

describe("decisions that come later", () => {
  const times = (known: Map<string, Decision[]>) =>
    [...known.values()].flat().map((one) => `${Date.parse(one.at) / 1000}:${one.current}>${one.desired}`);

  test("one that says the same brings the last up to date", () => {
    const known = new Map<string, Decision[]>();
    addDecisions(known, [decision(1, 0, 1), decision(2, 1, 1)]);
    addDecisions(known, [decision(3, 1, 1)]);
    addDecisions(known, [decision(4, 1, 0)]);
    expect(times(known)).toEqual(["1:0>1", "3:1>1", "4:1>0"]);
  });

  test("what is known already, or older, changes nothing, however many digits its time has", () => {
    const known = new Map<string, Decision[]>();
    const exact = decision(5, 0, 1, { at: "2026-01-05T12:00:05Z" });
    addDecisions(known, [exact]);
    addDecisions(known, [exact, decision(5, 1, 0, { at: "2026-01-05T12:00:04.9Z" })]);
    expect([...known.values()].flat()).toEqual([exact]);
    addDecisions(known, [decision(5, 1, 2, { at: "2026-01-05T12:00:05.25Z" })]);
    expect([...known.values()].flat()).toHaveLength(2);
  });

  test("no more are kept than on the server", () => {
    const known = new Map<string, Decision[]>();
    addDecisions(known, Array.from({ length: 50 }, (_, n) => decision(n, n, n + 1)));
    expect(times(known)).toHaveLength(20);
    expect(times(known).at(-1)).toBe("49:49>50");
  });
});

test("a count that was written is the current one from then on", () => {
  const decisions = [decision(10, 0, 1), decision(20, 1, 3, { outcome: { held: "paused" } }), decision(30, 1, 1)];
  const [times, desired, current] = timeline(pointsOf(decisions), 40);
  expect(times).toEqual([10, 10.001, 20, 30, 30.001, 40]);
  expect(desired).toEqual([1, 1, 3, 1, 1, 1]);
  expect(current).toEqual([0, 1, 1, 1, 1, 1]);
});

test("a count holds until the next one is known", () => {
  const points = [
    { at: 30, ready: 1 },
    { at: 10, current: 0, desired: 1 },
    { at: 20, current: 1 },
    { at: 20, ready: 0 },
    { at: 99, ready: 9 },
  ];
  expect(timeline(points, 40)).toEqual([
    [10, 20, 30, 40],
    [1, 1, 1, 1],
    [0, 1, 1, 1],
    [null, 0, 1, 1],
  ]);
  expect(timeline([], 40)).toEqual([[40], [null], [null], [null]]);
});

test("what the metric store kept becomes points by name", () => {
  const result = [
    { metric: { __name__: "slimfaas_autoscaler_ready_replicas" }, values: [[1, "2"]] as [number, string][] },
    { metric: { __name__: "up" }, values: [[1, "1"]] as [number, string][] },
  ];
  expect(storedPoints({ status: "success", data: { result } })).toEqual([{ at: 1, ready: 2 }]);
});

test("triggers against their thresholds, of functions and of HPAs", () => {
  const step = (rule: string, input: unknown): Step => ({ rule, input, before: 1, after: 1, words: "" });
  const steps = [
    step("trigger", { trigger: "rps", metricType: "averageValue", per: "pod", value: 60, threshold: 30 }),
    step("metric", { metric: "cpu", model: { utilization: { average: 250 } }, usage: 80, target: 50 }),
    step("metric", { metric: "queue", model: "averageValue", usage: 1500, target: 30_000 }),
    step("invalidTrigger", { trigger: "broken", cause: "noReading" }),
    step("trigger", { trigger: "absurd", value: "many", threshold: 1 }),
    step("keepAwake", undefined),
  ];
  const shown = readingsOf(decision(1, 1, 2, { steps })).map(
    ({ trigger, value, threshold, unit }) => `${trigger} ${value}${unit} of ${threshold}${unit}`,
  );
  expect(shown).toEqual(["rps 60 of 30", "cpu 80% of 50%", "queue 1.5 of 30"]);
});

test("a sparkline is drawn in steps", () => {
  const points = [
    { at: 0, desired: 0 },
    { at: 50, desired: 2 },
  ];
  expect(sparkline(points, 100, 100, 12)).toBe("0.0,11.0 50.0,11.0 50.0,1.0 100.0,1.0 100.0,1.0");
  expect(sparkline([], 100, 100, 12)).toBe("");
});

test("so long ago", () => {
  expect([5, 65, 7200, 200_000].map((past) => ago(0, past))).toEqual(["5 s ago", "1 min ago", "2 h ago", "2 d ago"]);
  expect(ago(10, 5), "the clock of the browser may be behind").toBe("0 s ago");
});

test("a command is for one object, whatever its name", () => {
  const patch = { metadata: { annotations: { "ballast.dev/paused": "true" } } };
  expect(command(object([], status(0, 0)), patch)).toBe(
    `kubectl patch -n default deployment/fib --type merge -p '{"metadata":{"annotations":{"ballast.dev/paused":"true"}}}'`,
  );
  expect(quoted("fib; rm -rf ~'")).toBe(`'fib; rm -rf ~'\\'''`);
});

test("what was is beside what would have been", () => {
  const was = [
    { at: 50, current: 1 },
    { at: 120, current: 3 },
    { at: 130, ready: 2 },
  ];
  const would = [
    { at: at(100), replicas: 2 },
    { at: at(140), replicas: 1 },
  ];
  expect(comparison(was, would, 100, 200)).toEqual([
    [100, 120, 130, 140, 200],
    [1, 3, 3, 3, 3],
    [2, 2, 2, 1, 1],
  ]);
});

test("vertices and Sets are objects too, with or without a decision", () => {
  const row: VertexRow = {
    type: "vertex",
    key: "scaled/Vertex/shop/orders-in",
    kind: "Vertex",
    namespace: "shop",
    name: "orders-in",
    ready: 1,
    desired: 2,
    phase: "Running",
  };
  const only = (one: Row) => objectsOf(new Map(), [], [one])[0] as ScaledObject;
  const words = (one: Row) => {
    const { tone, words } = stateOf(only(one));
    return `${tone} ${words}`;
  };
  const set: SetRow = { ...row, type: "set", replicas: 2, inFlight: 0, terminating: 0, paused: false, updated: 1 };
  expect(only(row).key).toBe("Vertex/shop/orders-in");
  expect(words(row)).toBe("busy 1 of 2 ready");
  expect(words({ ...row, ready: 2 })).toBe("good 2 of 2 ready");
  expect(words({ ...row, ready: 0, desired: 0 })).toBe("asleep asleep");
  expect(words({ ...row, phase: "Failed" })).toBe("bad failed");
  expect(words({ ...set, ready: 2 })).toBe("busy 2 of 2 ready");
  expect(words({ ...set, ready: 2, updated: 2 })).toBe("good 2 of 2 ready");
  expect(words({ ...set, paused: true })).toBe("held 1 of 2 ready, paused");
  expect([fullness(row), fullness({ ...row, pending: 80, room: 160 })]).toEqual([undefined, 0.5]);
});

test("an amount is shown as people say it", () => {
  const sized = (requests: Record<string, string>) => ({ replicas: 4, containers: [{ name: "main", limits: {}, requests }] });
  expect(shownAmount(3)).toBe("3");
  expect(shownAmount({ replicas: 4 })).toBe("4");
  expect(shownAmount(sized({ cpu: "100m", memory: "1Gi" }))).toBe("4 × main (cpu 100m, memory 1Gi)");
  expect(shownAmount(sized({}))).toBe("4 × main (no requests)");
  expect(shownAmount({ updated: 1 })).toBe('{"updated":1}');
});
