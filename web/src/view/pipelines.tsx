import { useEffect, useRef } from "preact/hooks";

import { layout, type Box } from "../layout";
import { fullness, keyOf } from "../model";
import type { PipelineRow, Row, VertexRow } from "../types";
import { shortened } from "./chart";
import { useMedia } from "./hooks";

const BOX = { width: 196, height: 104 };
/** From here on a buffer is shown as nearly full. */
const HIGH = 0.8;

export const pipelineHref = (namespace: string, name: string) =>
  `#/pipelines/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;

export const pipelinesOf = (rows: Iterable<Row>) => [...rows].filter((row) => row.type === "pipeline");
const verticesOf = (rows: Iterable<Row>) => [...rows].filter((row) => row.type === "vertex");

export function PipelineList({ rows, isFilled }: { rows: ReadonlyMap<string, Row>; isFilled: boolean }) {
  const pipelines = pipelinesOf(rows.values());
  const vertices = verticesOf(rows.values());
  return (
    <>
      <h1>Pipelines</h1>
      {pipelines.length === 0 ? (
        <p class="card empty">{isFilled ? "There is no pipeline. Apply one: examples/pipelines." : "Asking…"}</p>
      ) : (
        <table class="objects card" role="table">
          <thead role="rowgroup">
            <tr role="row">
              {["Pipeline", "Phase", "Vertices", "Pending"].map((title) => (
                <th key={title} role="columnheader" scope="col">
                  {title}
                </th>
              ))}
            </tr>
          </thead>
          <tbody role="rowgroup">
            {pipelines.map((pipeline) => {
              const own = ownVertices(pipeline, vertices);
              const held = own.filter((vertex) => vertex.backPressure).length;
              return (
                <tr key={pipeline.key} role="row">
                  <th role="rowheader" scope="row">
                    <a href={pipelineHref(pipeline.namespace, pipeline.name)}>{pipeline.name}</a>
                    <span class="kind">in {pipeline.namespace}</span>
                  </th>
                  <td role="cell">
                    <Phase phase={pipeline.phase} />
                  </td>
                  <td role="cell">
                    {pipeline.vertices.length}
                    {held > 0 && `, ${held} held by back pressure`}
                  </td>
                  <td role="cell">{own.reduce((sum, vertex) => sum + (vertex.pending ?? 0), 0)}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      )}
      <MonoVertices vertices={vertices.filter((vertex) => vertex.kind === "MonoVertex")} />
    </>
  );
}

function MonoVertices({ vertices }: { vertices: VertexRow[] }) {
  if (vertices.length === 0) return null;
  return (
    <section class="card" aria-labelledby="mono">
      <h2 id="mono">MonoVertices</h2>
      <VertexTable vertices={vertices} nameOf={(vertex) => vertex.name} />
    </section>
  );
}

function ownVertices(pipeline: PipelineRow, vertices: VertexRow[]): VertexRow[] {
  return vertices.filter((vertex) => vertex.namespace === pipeline.namespace && vertex.pipeline === pipeline.name);
}

function Phase({ phase }: { phase: string }) {
  const tones: Record<string, string> = { Running: "good", Failed: "bad", Paused: "held", Pausing: "held" };
  return <span class={`state ${tones[phase] ?? "busy"}`}>{phase || "not looked at yet"}</span>;
}

interface Props {
  rows: ReadonlyMap<string, Row>;
  isFilled: boolean;
  namespace: string;
  name: string;
}

export function PipelinePage({ rows, isFilled, namespace, name }: Props) {
  const title = useRef<HTMLHeadingElement>(null);
  useEffect(() => title.current?.focus(), [namespace, name]);
  const pipeline = pipelinesOf(rows.values()).find((row) => row.namespace === namespace && row.name === name);
  if (!pipeline) {
    const words = isFilled ? "Nothing is known of this pipeline: it may have been deleted." : "Asking…";
    return <p class="card empty">{words}</p>;
  }
  const own = ownVertices(pipeline, verticesOf(rows.values()));
  const short = (vertex: VertexRow) => pipeline.vertices.find((one) => one.object === vertex.name)?.name ?? vertex.name;
  return (
    <>
      <nav aria-label="Breadcrumb" class="crumb">
        <a href="#/pipelines">Pipelines</a> / <span>{namespace}</span>
      </nav>
      <div class="head">
        <h1 ref={title} tabIndex={-1}>
          {name}
        </h1>
        <Phase phase={pipeline.phase} />
        <span class="kind">Pipeline in {namespace}</span>
      </div>
      {pipeline.message && <p class="card">{pipeline.message}</p>}
      <section class="card" aria-labelledby="graph">
        <h2 id="graph">Graph</h2>
        <Graph pipeline={pipeline} vertices={own} />
      </section>
      <section class="card" aria-labelledby="vertices">
        <h2 id="vertices">Vertices</h2>
        <VertexTable vertices={own} nameOf={short} />
      </section>
    </>
  );
}

const objectHref = (vertex: VertexRow) => `#/object/${keyOf(vertex)}`;
const pendingWords = (vertex: VertexRow) =>
  vertex.pending === undefined ? "–" : `${shortened(vertex.pending)}${vertex.room === undefined ? "" : ` of ${vertex.room}`}`;
const rateWords = (vertex: VertexRow) => (vertex.rate === undefined ? "–" : `${shortened(vertex.rate)}/s`);

function VertexTable({ vertices, nameOf }: { vertices: VertexRow[]; nameOf: (vertex: VertexRow) => string }) {
  return (
    <div class="wide">
      <table>
        <thead>
          <tr>
            {["Vertex", "Replicas", "Pending", "Rate", "Back pressure", "Last decision"].map((title) => (
              <th key={title} scope="col">
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {vertices.map((vertex) => (
            <tr key={vertex.key}>
              <th scope="row">
                <a href={objectHref(vertex)}>{nameOf(vertex)}</a>
              </th>
              <td class="short">
                {vertex.ready} of {vertex.desired} ready
              </td>
              <td class="short">{pendingWords(vertex)}</td>
              <td class="short">{rateWords(vertex)}</td>
              <td>{vertex.backPressure ?? "none"}</td>
              <td>{vertex.reason ?? "none yet"}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Boxes and edges; the table below says the same. */
function Graph({ pipeline, vertices }: { pipeline: PipelineRow; vertices: VertexRow[] }) {
  const isNarrow = useMedia("(max-width: 760px)");
  const names = pipeline.vertices.map((vertex) => vertex.name);
  const { boxes, lines, width, height } = layout(names, pipeline.edges, BOX, isNarrow);
  const rowOf = (name: string) => {
    const object = pipeline.vertices.find((vertex) => vertex.name === name)?.object;
    return vertices.find((vertex) => vertex.name === object);
  };
  const isFull = (name: string) => {
    const row = rowOf(name);
    return row !== undefined && (fullness(row) ?? 0) >= 1;
  };
  return (
    <div class="wide" tabIndex={-1}>
      <svg class="pipeline" viewBox={`0 0 ${width} ${height}`} width={width} height={height} aria-label={`Graph of ${pipeline.name}`} role="group">
        <defs>
          {["arrow", "arrow-full"].map((id) => (
            <marker key={id} id={id} viewBox="0 0 8 8" refX="8" refY="4" markerWidth="10" markerHeight="10" markerUnits="userSpaceOnUse" orient="auto">
              <path d="M 0 0 L 8 4 L 0 8 z" />
            </marker>
          ))}
        </defs>
        {lines.map((line) => (
          <path
            key={`${line.from} ${line.to}`}
            class={isFull(line.to) ? "edge full" : "edge"}
            d={line.path}
            marker-end={`url(#${isFull(line.to) ? "arrow-full" : "arrow"})`}
          />
        ))}
        {boxes.map((box) => (
          <VertexBox
            key={box.name}
            box={box}
            role={pipeline.vertices.find((vertex) => vertex.name === box.name)?.role ?? ""}
            row={rowOf(box.name)}
          />
        ))}
      </svg>
    </div>
  );
}

function VertexBox({ box, role, row }: { box: Box; role: string; row: VertexRow | undefined }) {
  const { x, y, width, height, name } = box;
  const share = row && fullness(row);
  const tone = row?.backPressure ? "held" : row && row.ready < row.desired ? "busy" : "calm";
  const words = row
    ? [
        name,
        `${row.ready} of ${row.desired} ready`,
        `pending ${pendingWords(row)}`,
        rateWords(row),
        row.backPressure && `held: ${row.backPressure}`,
      ]
    : [name, "not made yet"];
  const shown = name.length > 22 ? `${name.slice(0, 21)}…` : name;
  const inside = (
    <>
      <title>{words.filter(Boolean).join(", ")}</title>
      <rect class="box" x={x} y={y} width={width} height={height} rx={8} />
      <text x={x + 12} y={y + 22} class="name">
        {shown}
      </text>
      <text x={x + width - 12} y={y + 22} class="role">
        {role.replace("UDF", "")}
      </text>
      {row && (
        <>
          <text x={x + 12} y={y + 44}>
            {row.ready} of {row.desired} ready
          </text>
          <text x={x + width - 12} y={y + 44} class="figure">
            {rateWords(row)}
          </text>
          <text x={x + 12} y={y + 64}>
            {row.pending === undefined ? "pending not known" : `${pendingWords(row)} pending`}
          </text>
          {share !== undefined && (
            <>
              <rect class="room" x={x + 12} y={y + 72} width={width - 24} height={5} rx={2.5} />
              <rect
                class={share >= HIGH ? "pending high" : "pending"}
                x={x + 12}
                y={y + 72}
                width={(width - 24) * Math.min(1, share)}
                height={5}
                rx={2.5}
              />
            </>
          )}
          {row.backPressure && (
            <text x={x + 12} y={y + 95} class="pressure">
              back pressure
            </text>
          )}
        </>
      )}
    </>
  );
  if (!row) return <g class="vertex busy">{inside}</g>;
  return (
    <a class={`vertex ${tone}`} href={objectHref(row)} aria-label={words.filter(Boolean).join(", ")}>
      {inside}
    </a>
  );
}
