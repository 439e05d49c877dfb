// What the operators' port answers. src/fixtures holds what the Rust types serialize to, written by their tests;
// `tsc` checks these types against it (fixtures.test.ts).

/** A count, or what an Hvpa decides about: a count of pods and what each of their containers requests. */
export type Amount = number | { replicas?: number; containers?: ContainerSize[]; [other: string]: unknown };

export interface ContainerSize {
  name: string;
  requests: Record<string, string>;
}

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

/** One row of what `/api/v1/objects` tells. */
export type Row = PipelineRow | VertexRow | SetRow | DefinitionRow | HvpaRow;

export interface PipelineRow {
  type: "pipeline";
  key: string;
  namespace: string;
  name: string;
  phase: string;
  message?: string;
  vertices: { name: string; object: string; role: string }[];
  edges: { from: string; to: string }[];
}

/** What a Vertex, a MonoVertex and a Set have in common. */
interface Scaled {
  key: string;
  kind: string;
  namespace: string;
  name: string;
  ready: number;
  desired: number;
  updated?: number;
  progress?: string;
  reason?: string;
}

export interface VertexRow extends Scaled {
  type: "vertex";
  pipeline?: string;
  phase: string;
  message?: string;
  /** Messages that wait or are being worked on. */
  pending?: number;
  /** Messages a second. */
  rate?: number;
  /** Messages that all its buffers may hold. */
  room?: number;
  backPressure?: string;
}

export interface Condition {
  type: string;
  status: string;
  reason: string;
  message: string;
}

export interface SetRow extends Scaled {
  type: "set";
  replicas: number;
  inFlight: number;
  terminating: number;
  paused: boolean;
  condition?: Condition;
}

export interface DefinitionRow {
  type: "definition";
  key: string;
  name: string;
  kind: string;
  state: string;
  message?: string;
  instances: Record<string, number>;
}

export interface Amounts {
  cpu?: string;
  memory?: string;
}

export interface ContainerAmounts {
  containerName: string;
  target: Amounts;
  total: Amounts;
}

export interface HvpaRow {
  type: "hvpa";
  key: string;
  kind: string;
  namespace: string;
  name: string;
  target: string;
  horizontal?: { currentReplicas?: number; desiredReplicas?: number; metric?: string };
  vertical?: { containers: ContainerAmounts[] };
  need: { containerName: string; need: Amounts; held: Amounts; horizontal: Amounts; vertical: Amounts }[];
  applied?: { replicas: number; requests: ContainerAmounts[]; reason?: string; message?: string; at?: string };
  blocked: { axis: string; reason: string; message?: string; until?: string }[];
  path?: string;
  condition?: Condition;
}

/** The answer to a replay of another policy. */
export interface Replayed {
  from: string;
  to: string;
  points: { at: string; replicas: number; reason: string; why: string }[];
  notes: string[];
}

export interface Range {
  minReplicas: number;
  maxReplicas: number;
}

/** What stands in an object now. */
export interface Controls {
  paused: boolean;
  pausedUntil: string | null;
  dryRun: boolean;
  builtInScaling: Range | null;
}

export interface ControlChange {
  paused?: boolean;
  dryRun?: boolean;
  builtInScaling?: "remove" | { add: Range };
}
