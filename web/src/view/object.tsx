import { useEffect, useRef, useState } from "preact/hooks";

import * as api from "../api";
import { pause, type Live } from "../live";
import { pointsOf, replicas, seconds, storedPoints, timeline, type Point, type ScaledObject } from "../model";
import type { Decision, Status } from "../types";
import { Chart, type Line, type Mark } from "./chart";
import { Controls } from "./controls";
import { DeadLetters } from "./dead";
import { Chain, DecisionList } from "./decisions";
import { useNow, useTask } from "./hooks";
import { Kind, StateBadge } from "./overview";
import { RowCards } from "./row";
import { Triggers } from "./triggers";
import { WhatIf } from "./whatif";

/** How often an open function is asked about by itself: calls that wait are not in the stream. */
const LOOK = 1_000;
/** How often its last decision is asked for: that the same is decided on other figures is not in the stream either. */
const FIGURES = 2_000;
/** How often the metric store is asked, which is filled every few seconds. */
const STORED = 15_000;
/** What the metric store keeps. */
const RETENTION = 1_800;

const SPANS = [
  ["5 minutes", 300],
  ["30 minutes", 1800],
  ["6 hours", 21_600],
  ["2 days", 172_800],
] as const;

interface Props {
  live: Live;
  objectKey: string;
  object: ScaledObject | undefined;
}

export function ObjectPage({ live, objectKey, object }: Props) {
  const now = useNow();
  const title = useRef<HTMLHeadingElement>(null);
  const [chosenSpan, setSpan] = useState<number>();
  const [chosenAt, choose] = useState<string>();
  const [stored, setStored] = useState<Point[]>([]);
  const isFunction = object?.status !== undefined;
  const { kind, namespace = "", name = "" } = object ?? {};

  useEffect(() => title.current?.focus(), [objectKey]);
  useTask(
    async (signal) => {
      while (isFunction && !signal.aborted) {
        if (!document.hidden) {
          const status = await api.status(name, signal).catch(() => undefined);
          if (status && !signal.aborted) live.heardStatus(status);
        }
        await pause(LOOK, signal);
      }
    },
    [name, isFunction],
  );
  useTask(
    async (signal) => {
      while (kind !== undefined && !signal.aborted) {
        if (!document.hidden) {
          const last = await api.lastDecision({ kind, namespace, name }, signal).catch(() => []);
          if (!signal.aborted) live.heardDecisions(last);
        }
        await pause(FIGURES, signal);
      }
    },
    [kind, namespace, name],
  );
  useTask(
    async (signal) => {
      while (isFunction && !signal.aborted) {
        await api.keepReplicas(signal);
        const at = Date.now() / 1000;
        const answer = await api.storedReplicas(name, at - RETENTION, at, signal);
        if (!signal.aborted) setStored(storedPoints(answer));
        await pause(STORED, signal);
      }
    },
    [name, isFunction],
  );

  if (!object) {
    const words = live.isFilled ? "Nothing is known of this object: it may have been deleted." : "Asking…";
    return <p class="card empty">{words}</p>;
  }
  const { decisions, status } = object;
  const chosen = decisions.find((decision) => decision.at === chosenAt) ?? decisions.at(-1);
  const span = chosenSpan ?? spanFor(decisions, now);
  const points = [...pointsOf(decisions), ...stored, ...(live.points.get(objectKey) ?? [])];
  const canReplay = status !== undefined || decisions.at(-1)?.policy === "hpa";
  const pick = (at: number) => choose(nearest(decisions, at)?.at);
  return (
    <>
      <nav aria-label="Breadcrumb" class="crumb">
        <a href="#/">Scaled objects</a> / <span>{object.kind}</span>
      </nav>
      <div class="head">
        <h1 ref={title} tabIndex={-1}>
          {object.name}
        </h1>
        <StateBadge object={object} />
        <Kind object={object} />
        {status && <WakeButton status={status} />}
      </div>
      {status && <Troubles status={status} />}
      {status && <Figures status={status} />}
      {object.row && <RowCards row={object.row} />}
      <section class="card" aria-labelledby="replicas">
        <div class="head">
          <h2 id="replicas">Replicas</h2>
          <SpanChoice span={span} onChange={setSpan} />
        </div>
        <ReplicaChart
          points={points}
          decisions={decisions}
          chosen={chosen}
          now={now}
          span={span}
          onPick={pick}
        />
      </section>
      <Triggers readings={live.readings.get(objectKey) ?? []} last={decisions.at(-1)} now={now} span={span} />
      <div class="split">
        <DecisionList decisions={decisions} chosen={chosen} now={now} onChoose={(decision) => choose(decision.at)} />
        <Chain decision={chosen} />
      </div>
      {status && <DeadLetters name={status.Name} count={status.Queue?.Dead} />}
      {canReplay && <WhatIf object={object} points={points} />}
      <Controls object={object} />
    </>
  );
}

/** The shortest span that shows the last few decisions. */
function spanFor(decisions: Decision[], now: number): number {
  const past = now - (decisions.length > 0 ? seconds(decisions.at(-4)?.at ?? decisions[0]?.at ?? "") : now);
  return SPANS.find(([, length]) => past < length * 0.9)?.[1] ?? 1800;
}

function nearest(decisions: Decision[], at: number): Decision | undefined {
  const distance = (decision: Decision) => Math.abs(seconds(decision.at) - at);
  return decisions.toSorted((one, other) => distance(one) - distance(other))[0];
}

const LINES: Line[] = [
  { label: "desired", colour: "desired", isStepped: true, isDashed: true },
  { label: "current", colour: "current", isStepped: true },
  { label: "ready", colour: "ready", isStepped: true, isArea: true },
];

interface ChartProps {
  points: Point[];
  decisions: Decision[];
  chosen: Decision | undefined;
  now: number;
  span: number;
  onPick: (at: number) => void;
}

function ReplicaChart({ points, decisions, chosen, now, span, onPick }: ChartProps) {
  const marks = decisions.map((decision): Mark => ({
    at: seconds(decision.at),
    isChosen: decision === chosen,
    isChange: replicas(decision.current) !== replicas(decision.desired),
  }));
  const last = decisions.at(-1);
  const words = last
    ? `Replicas over time. The last decision wants ${replicas(last.desired) ?? "another size"}; all are in the table of decisions.`
    : "Replicas over time. Nothing was decided yet.";
  return (
    <Chart
      words={words}
      lines={LINES}
      columns={timeline(points, now)}
      from={now - span}
      to={now}
      height={240}
      isWhole
      marks={marks}
      onPick={onPick}
    />
  );
}

function SpanChoice({ span, onChange }: { span: number; onChange: (span: number) => void }) {
  return (
    <label class="span">
      <span class="label">Shown</span>
      <select value={span} onChange={(event) => onChange(Number(event.currentTarget.value))}>
        {SPANS.map(([words, length]) => (
          <option key={length} value={length}>
            last {words}
          </option>
        ))}
      </select>
    </label>
  );
}

function WakeButton({ status }: { status: Status }) {
  const [words, setWords] = useState("");
  if (status.NumberRequested > 0) return null;
  const wake = () =>
    api.wake(status.Name).then(
      () => setWords(""),
      (error: Error) => setWords(error.message),
    );
  return (
    <>
      <button type="button" onClick={wake}>
        Wake
      </button>
      {words && <span role="alert">{words}</span>}
    </>
  );
}

function Troubles({ status }: { status: Status }) {
  const troubles = [
    ...(status.StartFailure ? [`Its pods do not start: ${status.StartFailure}`] : []),
    ...(status.Unschedulable ? [`No room for its pods: ${status.Unschedulable}`] : []),
    ...status.Problems.map((problem) => `${problem.Annotation}: ${problem.Message}`),
  ];
  if (troubles.length === 0) return null;
  return (
    <ul class="card troubles" role="alert">
      {troubles.map((words) => (
        <li key={words}>{words}</li>
      ))}
    </ul>
  );
}

function Figures({ status }: { status: Status }) {
  const { Queue: queue } = status;
  const figures: [string, number | string][] = [
    ["Ready", `${status.NumberReady} of ${status.NumberRequested}`],
    ["Calls under way", status.ActiveCalls - Math.min(status.HeldCalls, status.ActiveCalls)],
    ["Held calls", status.HeldCalls],
    ...(queue
      ? ([
          ["Queued", queue.Ready],
          ["Queued, under way", queue.InFlight],
          ["To be tried again", queue.RetryPending],
          ["Dead letters", queue.Dead],
        ] as [string, number][])
      : []),
  ];
  return (
    <dl class="figures">
      {figures.map(([words, value]) => (
        <div key={words} class="card">
          <dt>{words}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
