import { keyOf } from "../model";
import type { DefinitionRow, Row, SetRow } from "../types";

export function GraphList({ rows, isFilled }: { rows: ReadonlyMap<string, Row>; isFilled: boolean }) {
  const all = [...rows.values()];
  const definitions = all.filter((row) => row.type === "definition");
  const sets = all.filter((row) => row.type === "set");
  return (
    <>
      <h1>Graphs and Sets</h1>
      {definitions.length === 0 ? (
        <p class="card empty">
          {isFilled ? "There is no ResourceGraphDefinition. Apply one: examples/graphs." : "Asking…"}
        </p>
      ) : (
        <section class="card" aria-labelledby="definitions">
          <h2 id="definitions">Definitions</h2>
          <div class="wide">
            <table>
              <thead>
                <tr>
                  {["Definition", "Kind", "State", "Instances"].map((title) => (
                    <th key={title} scope="col">
                      {title}
                    </th>
                  ))}
                </tr>
              </thead>
              <tbody>
                {definitions.map((definition) => (
                  <Definition key={definition.key} definition={definition} />
                ))}
              </tbody>
            </table>
          </div>
        </section>
      )}
      {sets.length > 0 && (
        <section class="card" aria-labelledby="sets">
          <h2 id="sets">Sets</h2>
          <div class="wide">
            <table>
              <thead>
                <tr>
                  {["Set", "Rollout", "In flight", "What is being done"].map((title) => (
                    <th key={title} scope="col">
                      {title}
                    </th>
                  ))}
                </tr>
              </thead>
              <tbody>
                {sets.map((set) => (
                  <tr key={set.key}>
                    <th scope="row">
                      <a href={`#/object/${keyOf(set)}`}>{set.name}</a>
                      <span class="kind below">
                        {set.kind} in {set.namespace}
                      </span>
                    </th>
                    <td class="rollout">
                      <Rollout set={set} />
                    </td>
                    <td>{inFlightWords(set)}</td>
                    <td>{progressWords(set)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </section>
      )}
    </>
  );
}

const TONES: Record<string, string> = { ACTIVE: "good", ERROR: "bad", IN_PROGRESS: "busy", DELETING: "held" };

function Definition({ definition }: { definition: DefinitionRow }) {
  const states = Object.entries(definition.instances);
  return (
    <tr>
      <th scope="row">{definition.name}</th>
      <td>
        <code>{definition.kind}</code>
      </td>
      <td>
        <span class={`state ${definition.state === "Active" ? "good" : "bad"}`}>{definition.state}</span>
        {definition.message && <span class="kind below">{definition.message}</span>}
      </td>
      <td>
        {states.length === 0
          ? "none"
          : states.map(([state, n]) => (
              <span key={state} class={`state ${TONES[state] ?? "asleep"}`}>
                {n} {state.toLowerCase().replaceAll("_", " ")}
              </span>
            ))}
      </td>
    </tr>
  );
}

export function inFlightWords(set: SetRow): string {
  const parts = [
    ...(set.inFlight > 0 ? [`${set.inFlight} not ready yet`] : []),
    ...(set.terminating > 0 ? [`${set.terminating} going`] : []),
  ];
  return parts.join(", ") || "none";
}

export function progressWords(set: SetRow): string {
  if (set.paused) return `paused: ${set.condition?.message ?? ""}`;
  return set.condition?.message ?? "nothing is known yet";
}

/** Updated and ready, of those that there are to be. */
export function Rollout({ set }: { set: SetRow }) {
  const most = Math.max(1, set.desired);
  const updated = set.updated ?? 0;
  return (
    <>
      <span>
        {updated} updated, {set.ready} ready, of {set.desired}
      </span>
      <svg class="progress" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
        <rect class="room" width="100" height="8" />
        <rect class="updated" width={Math.min(100, (updated / most) * 100)} height="8" />
        <rect class="ready" y="5" width={Math.min(100, (set.ready / most) * 100)} height="3" />
      </svg>
    </>
  );
}
