// What the operators' port answers. src/fixtures holds what the Rust types serialize to, written by their tests;
// `tsc` checks these types against it (fixtures.test.ts).

/** A count, or for policies that decide more than one, an object with it. */
export type Amount = number | { replicas?: number; [other: string]: unknown };

export type Outcome = "nothing" | "written" | { held: string };

export interface Step {
  rule: string;
  /** The figures that the rule worked on; rules without any have none. */
  input?: unknown;
  /** In words where it is about the instances of a Set. */
  before: Amount | string;
  after: Amount | string;
  words: string;
}

export interface Decision {
  at: string;
  policy: string;
  kind: string;
  namespace: string;
  name: string;
  current: Amount;
  desired: Amount;
  reason: string;
  why: string;
  outcome: Outcome;
  steps: Step[];
  nextCheck?: string;
}

export interface Queue {
  Ready: number;
  InFlight: number;
  RetryPending: number;
  Dead: number;
}

/** Of a function on demand. */
export interface Status {
  Name: string;
  Namespace: string;
  PodType: string;
  Visibility: string;
  NumberReady: number;
  NumberRequested: number;
  ActiveCalls: number;
  HeldCalls: number;
  LastCall?: string;
  Unschedulable?: string;
  StartFailure?: string;
  Problems: { Annotation: string; Message: string }[];
  Queue?: Queue;
}

export interface Activity {
  Name: string;
  Active: number;
  LastCall?: string;
}

export interface DeadLetter {
  Id: string;
  Attempts: number;
  Reason: string;
  DiedAt: string | null;
  Method: string | null;
  Path: string | null;
}

/** Prometheus's answer to a range query. */
export interface RangeAnswer {
  status: string;
  data: { result: { metric: Record<string, string>; values: [number, string][] }[] };
}
