import { useState } from "preact/hooks";

import { ago, pointsOf, replicas, seconds, sparkline, stateOf, type ScaledObject } from "../model";
import { useNow } from "./hooks";

/** Rows at first, and with each "show more". */
const ROWS = 200;

export function Overview({ objects, isFilled }: { objects: ScaledObject[]; isFilled: boolean }) {
  const now = useNow(5000);
  const [search, setSearch] = useState("");
  const [kind, setKind] = useState("");
  const [rows, setRows] = useState(ROWS);
  const kinds = [...new Set(objects.map((object) => object.kind))];
  const found = objects.filter(
    (object) => (kind === "" || object.kind === kind) && `${object.namespace}/${object.name}`.includes(search.trim()),
  );
  return (
    <>
      <div class="head">
        <h1>Scaled objects</h1>
        <Summary objects={objects} />
      </div>
      <div class="filters" role="search">
        <label>
          <span class="label">Name or namespace</span>
          <input type="search" value={search} onInput={(event) => setSearch(event.currentTarget.value)} />
        </label>
        <label>
          <span class="label">Kind</span>
          <select value={kind} onChange={(event) => setKind(event.currentTarget.value)}>
            <option value="">All kinds</option>
            {kinds.map((one) => (
              <option key={one} value={one}>
                {one}
              </option>
            ))}
          </select>
        </label>
      </div>
      {found.length === 0 ? (
        <p class="card empty">{emptyWords(objects, isFilled)}</p>
      ) : (
        <table class="objects card" role="table">
          <caption class="only-heard">
            {found.length} of {objects.length} objects
          </caption>
          <thead role="rowgroup">
            <tr role="row">
              {["Object", "State", "Replicas", "Last decision"].map((title) => (
                <th key={title} role="columnheader" scope="col">
                  {title}
                </th>
              ))}
            </tr>
          </thead>
          <tbody role="rowgroup">
            {found.slice(0, rows).map((object) => (
              <Row key={object.key} object={object} now={now} />
            ))}
          </tbody>
        </table>
      )}
      {found.length > rows && (
        <button type="button" onClick={() => setRows(rows + ROWS)}>
          Show more ({found.length - rows} not shown)
        </button>
      )}
    </>
  );
}

function emptyWords(objects: ScaledObject[], isFilled: boolean): string {
  if (!isFilled) return "Asking…";
  if (objects.length > 0) return "No object has this name and kind.";
  return "Nothing is scaled yet. Annotate a Deployment with SlimFaas/Function: \"true\", or apply a Function or an HPA.";
}

function Summary({ objects }: { objects: ScaledObject[] }) {
  const count = (tone: string) => objects.filter((object) => stateOf(object).tone === tone).length;
  const parts = [
    [objects.length, "in all"],
    [count("asleep"), "asleep"],
    [count("busy"), "changing"],
    [count("bad"), "in trouble"],
  ] as const;
  return (
    <ul class="summary" aria-label="Summary">
      {parts.map(([n, words]) => (
        <li key={words}>
          <strong>{n}</strong> {words}
        </li>
      ))}
    </ul>
  );
}

function Row({ object, now }: { object: ScaledObject; now: number }) {
  const last = object.decisions.at(-1);
  return (
    <tr role="row">
      <th role="rowheader" scope="row">
        <a href={`#/object/${object.key}`}>{object.name}</a>
        <Kind object={object} />
      </th>
      <td role="cell" data-label="State">
        <StateBadge object={object} />
      </td>
      <td role="cell" data-label="Replicas" class="replicas">
        <Replicas object={object} />
        <Sparkline object={object} now={now} />
      </td>
      <td role="cell" data-label="Last decision" class="reason">
        {last ? (
          <>
            <span class="code">{last.reason}</span> {last.why}
            <span class="when">{ago(seconds(last.at), now)}</span>
          </>
        ) : (
          <span class="when">none yet</span>
        )}
      </td>
    </tr>
  );
}

/** What it is, where, and which policy decides. */
export function Kind({ object }: { object: ScaledObject }) {
  const policy = object.decisions.at(-1)?.policy;
  return (
    <span class="kind">
      {object.kind} in {object.namespace}
      {policy && `, by ${policy}`}
    </span>
  );
}

export function StateBadge({ object }: { object: ScaledObject }) {
  const state = stateOf(object);
  return <span class={`state ${state.tone}`}>{state.words}</span>;
}

function Replicas({ object }: { object: ScaledObject }) {
  const last = object.decisions.at(-1);
  const { row } = object;
  const own = object.status?.NumberRequested ?? (row && row.type !== "hvpa" ? row.desired : undefined);
  // A decision about a Set is about its instances, one pass at a time.
  const desired = (row?.type === "set" ? own : undefined) ?? (last && replicas(last.desired)) ?? own;
  return <span class="number">{desired ?? "–"}</span>;
}

function Sparkline({ object, now }: { object: ScaledObject; now: number }) {
  const [width, height] = [120, 24];
  const line = sparkline(pointsOf(object.decisions), now, width, height);
  if (line === "") return null;
  const most = Math.max(...object.decisions.map((decision) => replicas(decision.desired) ?? 0));
  const words = `Replicas over the last ${object.decisions.length} decisions, ${most} at most`;
  return (
    <svg class="spark" viewBox={`0 0 ${width} ${height}`} width={width} height={height} role="img" aria-label={words}>
      <polygon points={`0,${height} ${line} ${width},${height}`} />
      <polyline points={line} />
    </svg>
  );
}
