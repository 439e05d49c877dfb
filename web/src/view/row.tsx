import type { ScaledRow } from "../model";
import type { Amounts, HvpaRow, SetRow, VertexRow } from "../types";
import { shortened } from "./chart";
import { inFlightWords, progressWords, Rollout } from "./graphs";
import { pipelineHref } from "./pipelines";

/** What the object itself says, beside the decisions about it. */
export function RowCards({ row }: { row: ScaledRow }) {
  if (row.type === "vertex") return <VertexCards row={row} />;
  if (row.type === "set") return <SetCard row={row} />;
  return <HvpaCard row={row} />;
}

function VertexCards({ row }: { row: VertexRow }) {
  const figures: [string, string][] = [
    ["Ready", `${row.ready} of ${row.desired}`],
    ["Pending", row.pending === undefined ? "–" : shortened(row.pending)],
    ...(row.room === undefined ? [] : ([["Room in buffers", String(row.room)]] as [string, string][])),
    ["Messages a second", row.rate === undefined ? "–" : shortened(row.rate)],
  ];
  return (
    <>
      {row.pipeline && (
        <p class="beside">
          A vertex of the pipeline <a href={pipelineHref(row.namespace, row.pipeline)}>{row.pipeline}</a>
        </p>
      )}
      {(row.backPressure ?? row.message) && <p class="card note">{row.backPressure ?? row.message}</p>}
      <dl class="figures">
        {figures.map(([words, value]) => (
          <div key={words} class="card">
            <dt>{words}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
    </>
  );
}

function SetCard({ row }: { row: SetRow }) {
  return (
    <section class="card" aria-labelledby="rollout">
      <h2 id="rollout">Rollout</h2>
      <div class="rollout">
        <Rollout set={row} />
      </div>
      <dl class="facts">
        <div>
          <dt>Instances</dt>
          <dd>{row.replicas}</dd>
        </div>
        <div>
          <dt>In flight</dt>
          <dd>{inFlightWords(row)}</dd>
        </div>
        <div>
          <dt>{row.condition ? `${row.condition.type}: ${row.condition.reason}` : "Condition"}</dt>
          <dd>{progressWords(row)}</dd>
        </div>
      </dl>
    </section>
  );
}

const amounts = ({ cpu, memory }: Amounts) => [cpu && `${cpu} CPU`, memory].filter(Boolean).join(", ") || "–";

function HvpaCard({ row }: { row: HvpaRow }) {
  const { horizontal, vertical, applied } = row;
  return (
    <section class="card" aria-labelledby="hvpa">
      <h2 id="hvpa">Replicas and sizes of {row.target}</h2>
      {row.condition && row.condition.status !== "True" && (
        <p class="note">
          {row.condition.reason}: {row.condition.message}
        </p>
      )}
      <dl class="facts">
        <div>
          <dt>The horizontal side recommends</dt>
          <dd>
            {horizontal?.desiredReplicas === undefined ? "nothing" : `${horizontal.desiredReplicas} replicas`}
            {horizontal?.metric && ` for ${horizontal.metric}`}
          </dd>
        </div>
        <div>
          <dt>The vertical side recommends</dt>
          <dd>
            {vertical?.containers.map((one) => `${one.containerName}: ${amounts(one.target)}`).join("; ") || "nothing"}
          </dd>
        </div>
        <div>
          <dt>Path</dt>
          <dd>{row.path ?? "not decided yet"}</dd>
        </div>
        <div>
          <dt>Applied</dt>
          <dd>
            {applied
              ? `${applied.replicas} replicas of ${applied.requests.map((one) => `${one.containerName}: ${amounts(one.target)}`).join("; ")}`
              : "nothing yet"}
            {applied?.message && <span class="kind below">{applied.message}</span>}
          </dd>
        </div>
      </dl>
      {row.need.length > 0 && (
        <div class="wide">
          <table>
            <caption>What all pods need together</caption>
            <thead>
              <tr>
                {["Container", "Need", "Held", "Horizontal says", "Vertical says"].map((title) => (
                  <th key={title} scope="col">
                    {title}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {row.need.map((need, place) => (
                <tr key={place}>
                  <th scope="row">{need.containerName}</th>
                  {[need.need, need.held, need.horizontal, need.vertical].map((one, column) => (
                    <td key={column}>{amounts(one)}</td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      <h3>Blocked</h3>
      {row.blocked.length === 0 ? (
        <p class="empty">Nothing waits.</p>
      ) : (
        <ul>
          {row.blocked.map((one, place) => (
            <li key={place}>
              <span class="code">{one.reason}</span> {one.message ?? `the ${one.axis} side waits`}
              {one.until && `, until ${new Date(one.until).toLocaleString(undefined, { hour12: false })}`}
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}
