import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

export interface Line {
  label: string;
  /** The name of a colour of the style sheet. */
  colour: string;
  isDashed?: boolean;
  isStepped?: boolean;
  /** Filled down to the axis. */
  isArea?: boolean;
}

/** A moment on the time line that can be chosen. */
export interface Mark {
  at: number;
  isChosen: boolean;
  isChange: boolean;
}

interface Props {
  /** For those who do not see it. */
  words: string;
  lines: Line[];
  columns: uPlot.AlignedData;
  from: number;
  to: number;
  height: number;
  isWhole?: boolean;
  marks?: Mark[];
  onPick?: (at: number) => void;
}

/** A chart over time. It is an image to assistive technology: what it shows is also in tables beside it. */
export function Chart(props: Props) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  const latest = useRef(props);
  latest.current = props;

  useEffect(() => {
    const element = place.current;
    if (!element) return;
    const draw = () => {
      plot.current?.destroy();
      plot.current = new uPlot(options(element.clientWidth, latest), latest.current.columns, element);
    };
    draw();
    const resized = new ResizeObserver(() => {
      plot.current?.setSize({ width: element.clientWidth, height: latest.current.height });
    });
    resized.observe(element);
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    addEventListener("theme", draw);
    scheme.addEventListener("change", draw);
    return () => {
      resized.disconnect();
      removeEventListener("theme", draw);
      scheme.removeEventListener("change", draw);
      plot.current?.destroy();
      plot.current = undefined;
    };
  }, [props.lines.map((line) => line.label).join("\n")]);

  useEffect(() => {
    plot.current?.batch(() => {
      plot.current?.setData(props.columns, false);
      plot.current?.setScale("x", { min: props.from, max: props.to });
    });
    plot.current?.redraw();
  });

  return <div class="chart" ref={place} role="img" aria-label={props.words} />;
}

function options(width: number, latest: { current: Props }): uPlot.Options {
  const { lines, height, isWhole } = latest.current;
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string) => style.getPropertyValue(`--${name}`).trim();
  const axis: uPlot.Axis = {
    stroke: colour("quiet"),
    grid: { stroke: colour("line"), width: 1 },
    ticks: { stroke: colour("line"), width: 1 },
    font: "12px system-ui, sans-serif",
  };
  const increments = isWhole ? { incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000] } : {};
  return {
    width,
    height,
    padding: [8, 12, 0, 0],
    legend: { live: true },
    cursor: { y: false, drag: { x: false, y: false } },
    scales: {
      x: { time: true },
      y: { range: (_plot, _min, max) => [0, isWhole ? Math.max(1, Math.ceil((max ?? 1) * 1.1)) : (max || 1) * 1.15] },
    },
    axes: [{ ...axis, space: 90, values: (_plot, times) => times.map((at) => moment(at, times)) }, { ...axis, ...increments, size: 56 }],
    series: [
      { value: (_plot, at) => (at === null ? "–" : clock(at)) },
      ...lines.map((line): uPlot.Series => ({
        label: line.label,
        stroke: colour(line.colour),
        width: 2,
        dash: line.isDashed ? [6, 4] : undefined,
        fill: line.isArea ? `${colour(line.colour)}22` : undefined,
        paths: line.isStepped ? uPlot.paths.stepped?.({ align: 1 }) : undefined,
        points: { show: false },
        value: (_plot, value) => (value === null ? "–" : shortened(value)),
      })),
    ],
    hooks: {
      draw: [(plot) => drawMarks(plot, latest.current.marks ?? [], colour)],
      ready: [(plot) => plot.over.addEventListener("click", () => pick(plot, latest.current))],
    },
  };
}

function drawMarks(plot: uPlot, marks: Mark[], colour: (name: string) => string): void {
  const { ctx, bbox } = plot;
  const ratio = devicePixelRatio;
  for (const { at, isChosen, isChange } of marks) {
    const x = Math.round(plot.valToPos(at, "x", true));
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = colour(isChosen ? "accent" : isChange ? "text" : "quiet");
    ctx.lineWidth = (isChosen ? 2 : 1) * ratio;
    ctx.globalAlpha = isChosen ? 1 : 0.6;
    if (!isChosen) ctx.setLineDash([2 * ratio, 4 * ratio]);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    const size = (isChange ? 5 : 3) * ratio;
    ctx.globalAlpha = 1;
    ctx.setLineDash([]);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top - size);
    ctx.lineTo(x + size, bbox.top);
    ctx.lineTo(x, bbox.top + size);
    ctx.lineTo(x - size, bbox.top);
    ctx.fill();
    ctx.restore();
  }
}

function pick(plot: uPlot, { onPick }: Props): void {
  const left = plot.cursor.left;
  if (onPick && left !== undefined && left >= 0) onPick(plot.posToVal(left, "x"));
}

/** Hours and minutes; with seconds or the date where those tell the ticks apart. */
function moment(at: number, ticks: number[]): string {
  const step = (ticks[1] ?? at) - (ticks[0] ?? at);
  const date = new Date(at * 1000);
  if (step >= 43_200) return date.toLocaleDateString(undefined, { month: "short", day: "numeric" });
  return step < 60 ? clock(at) : clock(at).slice(0, 5);
}

export function clock(at: number): string {
  return new Date(at * 1000).toLocaleTimeString("en-GB");
}

export function shortened(value: number): string {
  return Number.isInteger(value) ? String(value) : value.toPrecision(4).replace(/\.?0+$/, "");
}
