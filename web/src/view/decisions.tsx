import { ago, heldBy, seconds, shownAmount } from "../model";
import type { Decision, Outcome } from "../types";

interface Props {
  decisions: Decision[];
  chosen: Decision | undefined;
  now: number;
  onChoose: (decision: Decision) => void;
}

export function DecisionList({ decisions, chosen, now, onChoose }: Props) {
  return (
    <section class="card" aria-labelledby="decisions">
      <h2 id="decisions">Decisions</h2>
      {decisions.length === 0 && <p class="empty">Nothing was decided yet.</p>}
      <ol class="decisions" reversed>
        {decisions.toReversed().map((decision) => (
          <li key={decision.at}>
            <button
              type="button"
              aria-pressed={decision === chosen}
              aria-controls="chain"
              onClick={() => onChoose(decision)}
            >
              <span class="moved">{moved(decision)}</span>
              <span>
                <span class="code">{decision.reason}</span> {decision.why}
              </span>
              <time dateTime={decision.at}>{ago(seconds(decision.at), now)}</time>
            </button>
          </li>
        ))}
      </ol>
    </section>
  );
}

function moved({ current, desired }: Decision): string {
  const [from, to] = [shownAmount(current), shownAmount(desired)];
  return from === to ? `${to} stays` : `${from} → ${to}`;
}

/** The whole chain of reasons of one decision. */
export function Chain({ decision }: { decision: Decision | undefined }) {
  if (!decision) return null;
  return (
    <section class="card" id="chain" aria-labelledby="chain-title" aria-live="off">
      <h2 id="chain-title">Why {moved(decision)}</h2>
      <p>
        {decision.why} <span class="code">{decision.reason}</span>
      </p>
      <div class="wide">
        <table class="steps">
          <caption class="only-heard">Steps of the decision, in order</caption>
          <thead>
            <tr>
              <th scope="col">Rule</th>
              <th scope="col">From → to</th>
              <th scope="col">Because</th>
            </tr>
          </thead>
          <tbody>
            {decision.steps.map((step, place) => (
              <tr key={place} class={step.words === decision.why ? "settles" : undefined}>
                <th scope="row">
                  <code>{step.rule}</code>
                </th>
                <td class="moved">
                  {shownAmount(step.before)} → {shownAmount(step.after)}
                </td>
                <td>{step.words}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <dl class="facts">
        <div>
          <dt>Decided</dt>
          <dd>{new Date(decision.at).toLocaleString(undefined, { hour12: false })}</dd>
        </div>
        <div>
          <dt>Policy</dt>
          <dd>{decision.policy}</dd>
        </div>
        <div>
          <dt>Outcome</dt>
          <dd>{outcomeWords(decision.outcome)}</dd>
        </div>
        {decision.nextCheck && (
          <div>
            <dt>Looks again</dt>
            <dd>{new Date(decision.nextCheck).toLocaleString(undefined, { hour12: false })}</dd>
          </div>
        )}
      </dl>
    </section>
  );
}

function outcomeWords(outcome: Outcome): string {
  const held = heldBy(outcome);
  if (held !== undefined) return `not written: ${held}`;
  return outcome === "written" ? "written" : "nothing to write";
}
