import { useEffect, useRef, useState } from "preact/hooks";

import * as api from "../api";
import type { DeadLetter } from "../types";
import { useTask } from "./hooks";

/** How often the list is asked for without a reason, in milliseconds. */
const LOOK_AGAIN = 3000;

/**
 * Asynchronous calls that were given up. `count` is what the queue says; a new one is a reason to ask again. A call that is
 * replayed and given up again between two looks leaves the count as it was, so the list is asked for now and then as well.
 */
export function DeadLetters({ name, count }: { name: string; count: number | undefined }) {
  const [letters, setLetters] = useState<DeadLetter[]>([]);
  const [next, setNext] = useState<string | null>(null);
  const [turn, setTurn] = useState(0);
  const [words, setWords] = useState("");
  const [doomed, setDoomed] = useState<DeadLetter>();

  useTask(
    async (signal) => {
      const page = await api.deadLetters(name, null, signal);
      if (signal.aborted) return;
      setLetters(page.letters);
      setNext(page.next);
    },
    [name, count, turn],
  );

  useEffect(() => {
    const timer = setInterval(() => setTurn((before) => before + 1), LOOK_AGAIN);
    return () => clearInterval(timer);
  }, []);

  const act = async (what: Promise<unknown>, done: string) => {
    try {
      await what;
      setWords(done);
    } catch (error) {
      setWords(error instanceof Error ? error.message : String(error));
    }
    setTurn((before) => before + 1);
  };
  const more = async () => {
    const page = await api.deadLetters(name, next, new AbortController().signal);
    setLetters([...letters, ...page.letters]);
    setNext(page.next);
  };
  return (
    <section class="card" aria-labelledby="dead">
      <h2 id="dead">Dead letters</h2>
      <p role="status" class="said">
        {words}
      </p>
      {letters.length === 0 ? (
        <p class="empty">No call was given up.</p>
      ) : (
        <div class="wide">
          <table class="dead">
            <thead>
              <tr>
                <th scope="col">Call</th>
                <th scope="col">Given up</th>
                <th scope="col">Reason</th>
                <th scope="col">Attempts</th>
                <th scope="col">
                  <span class="only-heard">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {letters.map((letter) => (
                <tr key={letter.Id}>
                  <th scope="row">
                    <code>
                      {letter.Method ?? "?"} {letter.Path ?? "?"}
                    </code>
                    <span class="id">{letter.Id}</span>
                  </th>
                  <td>{letter.DiedAt ? new Date(letter.DiedAt).toLocaleString(undefined, { hour12: false }) : "–"}</td>
                  <td>{letter.Reason}</td>
                  <td class="number">{letter.Attempts}</td>
                  <td class="actions">
                    <button
                      type="button"
                      aria-label={`Replay ${letter.Id}`}
                      onClick={() => void act(api.replay(name, letter.Id), `${letter.Id} is tried again`)}
                    >
                      Replay
                    </button>
                    <button
                      type="button"
                      class="danger"
                      aria-label={`Delete ${letter.Id}`}
                      onClick={() => setDoomed(letter)}
                    >
                      Delete
                    </button>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {next !== null && (
        <button type="button" onClick={() => void more()}>
          Show more
        </button>
      )}
      {doomed && (
        <Confirm
          letter={doomed}
          onAnswer={(isSure) => {
            setDoomed(undefined);
            if (isSure) void act(api.bury(name, doomed.Id), `${doomed.Id} is deleted`);
          }}
        />
      )}
    </section>
  );
}

/** A dialog of the browser's: it keeps the focus inside, gives it back, and closes with Escape. */
function Confirm({ letter, onAnswer }: { letter: DeadLetter; onAnswer: (isSure: boolean) => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} aria-labelledby="confirm" onClose={() => onAnswer(dialog.current?.returnValue === "delete")}>
      <h2 id="confirm">Delete this call?</h2>
      <p>
        <code>
          {letter.Method} {letter.Path}
        </code>{" "}
        will not be made any more. This cannot be undone.
      </p>
      <div class="actions">
        <button type="button" onClick={() => dialog.current?.close()}>
          Keep it
        </button>
        <button type="button" class="danger" onClick={() => dialog.current?.close("delete")}>
          Delete
        </button>
      </div>
    </dialog>
  );
}
