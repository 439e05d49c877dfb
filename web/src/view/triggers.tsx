import { unusable, type Reading } from "../model";
import type { Decision } from "../types";
import { Chart, shortened, type Line } from "./chart";

const LINES: Line[] = [
  { label: "value", colour: "current", isArea: true },
  { label: "threshold", colour: "threshold", isDashed: true },
];

interface Props {
  readings: Reading[];
  last: Decision | undefined;
  now: number;
  span: number;
}

/** Each trigger against its threshold, as the steps of decisions recorded them. */
export function Triggers({ readings, last, now, span }: Props) {
  const broken = last ? unusable(last) : [];
  const names = [...new Set(readings.map((reading) => reading.trigger))];
  if (names.length === 0 && broken.length === 0) return null;
  return (
    <section class="card" aria-labelledby="triggers">
      <h2 id="triggers">Triggers</h2>
      {broken.length > 0 && (
        <ul class="troubles">
          {broken.map((words) => (
            <li key={words}>{words}</li>
          ))}
        </ul>
      )}
      <div class="triggers">
        {names.map((name) => (
          <Trigger key={name} readings={readings.filter((reading) => reading.trigger === name)} now={now} span={span} />
        ))}
      </div>
    </section>
  );
}

function Trigger({ readings, now, span }: { readings: Reading[]; now: number; span: number }) {
  const last = readings.at(-1);
  if (!last) return null;
  const figure = (value: number) => `${shortened(value)}${last.unit}`;
  const isOver = last.value > last.threshold;
  const words = `${last.trigger} is at ${figure(last.value)}, its threshold is ${figure(last.threshold)}`;
  return (
    <figure class="trigger">
      <figcaption>
        <code>{last.trigger}</code>
        <span class={isOver ? "over" : undefined}>
          {figure(last.value)} <small>of {figure(last.threshold)}</small>
        </span>
      </figcaption>
      <Chart
        words={words}
        lines={LINES}
        columns={[
          readings.map((reading) => reading.at),
          readings.map((reading) => reading.value),
          readings.map((reading) => reading.threshold),
        ]}
        from={now - span}
        to={now}
        height={150}
      />
    </figure>
  );
}
