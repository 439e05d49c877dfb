// The fixtures are written or checked by tests of the Rust types; here the types of this page are held to them.

import { expect, test } from "vitest";

import decisionsJson from "./fixtures/decisions.json";
import objectsJson from "./fixtures/objects.json";
import queueJson from "./fixtures/queue.json";
import statusesJson from "./fixtures/statuses.json";
import type { Decision, DefinitionRow, HvpaRow, PipelineRow, Queue, Row, SetRow, Status, VertexRow } from "./types";

type Keys<T> = Record<keyof Required<T>, true>;

// JSON modules widen "written" to string; all else is checked by tsc.
const decisions: Omit<Decision, "outcome">[] = decisionsJson;
const statuses: Status[] = statusesJson;
const queue: Queue = queueJson;

/** Every field that the page knows is sent by somebody: a renamed one would be missed here. */
function expectKeys<T extends object>(known: Keys<T>, sent: object[], elsewhere: (keyof T)[] = []): void {
  const seen = new Set(sent.flatMap((one) => Object.keys(one)));
  const missing = Object.keys(known).filter((key) => !seen.has(key) && !elsewhere.includes(key as keyof T));
  expect(missing).toEqual([]);
}

test("decisions are sent with the fields that the page knows", () => {
  expectKeys<Decision>(
    {
      at: true,
      policy: true,
      kind: true,
      namespace: true,
      name: true,
      current: true,
      desired: true,
      reason: true,
      why: true,
      outcome: true,
      steps: true,
      nextCheck: true,
    },
    decisions,
  );
  expect(decisionsJson.map(({ outcome }) => outcome)).toEqual([
    "written",
    { held: "paused by ballast.dev/paused" },
    "nothing",
  ]);
  expect(Object.keys(decisions[0]?.steps[0] ?? {}).sort()).toEqual(["after", "before", "input", "rule", "words"]);
});

test("statuses are sent with the fields that the page knows", () => {
  expectKeys<Status>(
    {
      Name: true,
      Namespace: true,
      PodType: true,
      Visibility: true,
      NumberReady: true,
      NumberRequested: true,
      ActiveCalls: true,
      HeldCalls: true,
      LastCall: true,
      Unschedulable: true,
      StartFailure: true,
      Problems: true,
      Queue: true,
    },
    statuses,
    ["Queue"],
  );
  expectKeys<Queue>({ Ready: true, InFlight: true, RetryPending: true, Dead: true }, [queue]);
});

test("objects are sent with the fields that the page knows", () => {
  const rows = (type: Row["type"]) => objectsJson.filter((row) => row.type === type);
  const scaled = { type: true, key: true, kind: true, namespace: true, name: true, ready: true, desired: true } as const;
  const progress = { updated: true, progress: true, reason: true } as const;
  expectKeys<PipelineRow>(
    { type: true, key: true, namespace: true, name: true, phase: true, message: true, vertices: true, edges: true },
    rows("pipeline"),
  );
  expectKeys<VertexRow>(
    { ...scaled, ...progress, pipeline: true, phase: true, message: true, pending: true, rate: true, room: true, backPressure: true },
    rows("vertex"),
    ["progress"],
  );
  expectKeys<SetRow>(
    { ...scaled, ...progress, replicas: true, inFlight: true, terminating: true, paused: true, condition: true },
    rows("set"),
    ["reason"],
  );
  expectKeys<DefinitionRow>(
    { type: true, key: true, name: true, kind: true, state: true, message: true, instances: true },
    rows("definition"),
  );
  expectKeys<HvpaRow>(
    {
      type: true,
      key: true,
      kind: true,
      namespace: true,
      name: true,
      target: true,
      horizontal: true,
      vertical: true,
      need: true,
      applied: true,
      blocked: true,
      path: true,
      condition: true,
    },
    rows("hvpa"),
  );
});
