import { useEffect, useRef, useState } from "preact/hooks";

import * as api from "../api";
import { comparison, seconds, type Point, type ScaledObject } from "../model";
import type { Replayed } from "../types";
import { Chart, type Line } from "./chart";

const LINES: Line[] = [
  { label: "was", colour: "current", isStepped: true },
  { label: "would have been", colour: "desired", isStepped: true, isDashed: true },
];

/** Another policy on what was recorded, beside what happened. */
export function WhatIf({ object, points }: { object: ScaledObject; points: Point[] }) {
  const [text, setText] = useState<string>();
  const [replayed, setReplayed] = useState<Replayed>();
  const [problem, setProblem] = useState("");
  const [isBusy, setBusy] = useState(false);
  const field = useRef<HTMLTextAreaElement>(null);
  const isOpen = text !== undefined;
  useEffect(() => {
    if (isOpen) field.current?.focus();
  }, [isOpen]);

  const attempt = async (what: () => Promise<void>) => {
    setBusy(true);
    setProblem("");
    try {
      await what();
    } catch (error) {
      setReplayed(undefined);
      setProblem(error instanceof Error ? error.message : String(error));
      field.current?.focus();
    }
    setBusy(false);
  };
  const open = () => attempt(async () => setText((await api.policyOf(object)).text));
  const replay = (event: Event) => {
    event.preventDefault();
    void attempt(async () => setReplayed(await api.whatIf(object, text ?? "")));
  };
  return (
    <section class="card whatif" aria-labelledby="whatif">
      <h2 id="whatif">What if</h2>
      <p>Edit the policy, and see how many replicas there would have been in the last half hour. Nothing is written.</p>
      {text === undefined ? (
        <button type="button" disabled={isBusy} onClick={() => void open()}>
          Edit the policy
        </button>
      ) : (
        <form onSubmit={replay}>
          <label for="policy" class="label">
            Policy, in YAML or JSON
          </label>
          <textarea
            id="policy"
            ref={field}
            rows={Math.min(24, text.split("\n").length + 1)}
            spellcheck={false}
            value={text}
            aria-invalid={problem !== ""}
            aria-describedby="policy-problem"
            onInput={(event) => setText(event.currentTarget.value)}
          />
          <button type="submit" disabled={isBusy}>
            Replay
          </button>
        </form>
      )}
      <pre id="policy-problem" role="alert" class={problem ? "troubles" : "only-heard"}>
        {problem}
      </pre>
      {replayed && <Result replayed={replayed} points={points} />}
    </section>
  );
}

function Result({ replayed, points }: { replayed: Replayed; points: Point[] }) {
  const [from, to] = [seconds(replayed.from), seconds(replayed.to)];
  const last = replayed.points.at(-1);
  const most = Math.max(0, ...replayed.points.map((point) => point.replicas));
  return (
    <>
      <Chart
        words={`Replicas as they were and as they would have been: ${most} at most, ${last?.replicas ?? 0} at the end. The table has all changes.`}
        lines={LINES}
        columns={comparison(points, replayed.points, from, to)}
        from={from}
        to={to}
        height={220}
        isWhole
      />
      {replayed.notes.length > 0 && (
        <ul class="notes">
          {replayed.notes.map((note) => (
            <li key={note}>{note}</li>
          ))}
        </ul>
      )}
      <div class="wide scrolled" tabIndex={0} role="region" aria-label="What would have been decided">
        <table>
          <thead>
            <tr>
              {["When", "Replicas", "Because"].map((title) => (
                <th key={title} scope="col">
                  {title}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {replayed.points.map((point) => (
              <tr key={point.at}>
                <th scope="row">{new Date(point.at).toLocaleTimeString("en-GB")}</th>
                <td>{point.replicas}</td>
                <td>
                  <span class="code">{point.reason}</span> {point.why}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}
