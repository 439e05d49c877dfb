import { useEffect, useRef, useState } from "preact/hooks";

import * as api from "../api";
import { command, type ScaledObject } from "../model";
import type { ControlChange, Controls as Current } from "../types";
import { useTask } from "./hooks";

/** The policies that heed the annotations. */
const HEEDING = ["demand", "vertex", "monovertex", "hvpa"];

/** Pause, dry run and built-in scaling. What is written is shown first. */
export function Controls({ object }: { object: ScaledObject }) {
  const canPause = object.status !== undefined || HEEDING.includes(object.decisions.at(-1)?.policy ?? "");
  const isShown = canPause || object.kind === "Function";
  const [current, setCurrent] = useState<Current>();
  const [turn, setTurn] = useState(0);
  const [words, setWords] = useState("");
  const [asked, setAsked] = useState<{ what: string; change: ControlChange; patch: unknown }>();
  useTask(
    async (signal) => {
      const known = isShown ? await api.controlsOf(object, signal) : undefined;
      if (!signal.aborted) setCurrent(known);
    },
    [object.key, isShown, turn],
  );

  const attempt = async (what: () => Promise<void>) => {
    try {
      await what();
    } catch (error) {
      setWords(error instanceof Error ? error.message : String(error));
    }
  };
  const ask = (what: string, change: ControlChange) =>
    void attempt(async () => {
      setWords("");
      const { patch } = await api.control(object, change, false);
      setAsked({ what, change, patch });
    });
  const answered = (isSure: boolean) => {
    const { what = "", change = {} } = asked ?? {};
    setAsked(undefined);
    if (!isSure) return;
    void attempt(async () => {
      await api.control(object, change, true);
      setWords(`${what}: written`);
      setTurn((before) => before + 1);
    });
  };
  if (!isShown) return null;
  const isPausedUntil = Date.parse(current?.pausedUntil ?? "") > Date.now();
  const isPaused = current?.paused === true || isPausedUntil;
  return (
    <section class="card" aria-labelledby="controls">
      <h2 id="controls">{canPause ? "Pause and dry run" : "Scaling"}</h2>
      {canPause && (
        <>
          <p>
            {isPaused
              ? "It is paused: it is decided about, and nothing is written."
              : current?.dryRun
                ? "It is a dry run: what would be done is shown, and nothing is written."
                : "Decisions about it are written."}
          </p>
          <div class="actions">
            {isPaused ? (
              <button type="button" onClick={() => ask("Resume", { paused: false })}>
                Resume…
              </button>
            ) : (
              <button type="button" onClick={() => ask("Pause", { paused: true })}>
                Pause…
              </button>
            )}
            <button
              type="button"
              role="switch"
              aria-checked={current?.dryRun ?? false}
              onClick={() => ask(current?.dryRun ? "End the dry run" : "Dry run", { dryRun: !current?.dryRun })}
            >
              Dry run…
            </button>
          </div>
        </>
      )}
      {object.kind === "Function" && <BuiltIn current={current} onAsk={ask} />}
      <p role="status" class="said">
        {words}
      </p>
      {asked && <Confirm object={object} asked={asked} onAnswer={answered} />}
    </section>
  );
}

interface BuiltInProps {
  current: Current | undefined;
  onAsk: (what: string, change: ControlChange) => void;
}

/** Of a Kyma Function: the autoscaler that its `scaleConfig` makes. */
function BuiltIn({ current, onAsk }: BuiltInProps) {
  const [range, setRange] = useState<{ minReplicas: number; maxReplicas: number }>();
  const known = current?.builtInScaling ?? undefined;
  const shown = range ?? known ?? { minReplicas: 1, maxReplicas: 5 };
  const field = (words: string, name: "minReplicas" | "maxReplicas") => (
    <label>
      <span class="label">{words}</span>
      <input
        type="number"
        min={1}
        value={shown[name]}
        onInput={(event) => setRange({ ...shown, [name]: event.currentTarget.valueAsNumber })}
      />
    </label>
  );
  const change = () =>
    known
      ? onAsk("Remove built-in scaling", { builtInScaling: "remove" })
      : onAsk("Add built-in scaling", { builtInScaling: { add: shown } });
  return (
    <div class="builtin" role="group" aria-labelledby="builtin">
      <h3 id="builtin">Built-in scaling</h3>
      <div class="actions">
        <button type="button" role="switch" aria-checked={known !== undefined} onClick={change}>
          {known ? "Remove…" : "Add…"}
        </button>
        {field("At least", "minReplicas")}
        {field("At most", "maxReplicas")}
      </div>
    </div>
  );
}

interface ConfirmProps {
  object: ScaledObject;
  asked: { what: string; patch: unknown };
  onAnswer: (isSure: boolean) => void;
}

function Confirm({ object, asked, onAnswer }: ConfirmProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} aria-labelledby="confirm" onClose={() => onAnswer(dialog.current?.returnValue === "write")}>
      <h2 id="confirm">
        {asked.what}: {object.kind} {object.name}
      </h2>
      <p>This is written to the object:</p>
      <pre class="patch">{JSON.stringify(asked.patch, null, 2)}</pre>
      <p>The same with kubectl, and your own rights:</p>
      <pre class="patch">{command(object, asked.patch)}</pre>
      <div class="actions">
        <button type="button" onClick={() => dialog.current?.close()}>
          Cancel
        </button>
        <button type="button" class="primary" onClick={() => dialog.current?.close("write")}>
          Write it
        </button>
      </div>
    </dialog>
  );
}
