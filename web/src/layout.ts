// Where the boxes and edges of a graph go: in layers, by the longest way from where it begins.

export interface Size {
  width: number;
  height: number;
}

export interface Box extends Size {
  name: string;
  x: number;
  y: number;
}

export interface Line {
  from: string;
  to: string;
  /** The `d` of an SVG path. */
  path: string;
}

export interface Layout extends Size {
  boxes: Box[];
  lines: Line[];
}

export interface Edge {
  from: string;
  to: string;
}

/** Between layers, and between the boxes of one. */
const GAPS = { layers: 64, boxes: 20 };
/** Around it all, so that outlines of focus are seen. */
const MARGIN = 4;

/** The layer of each vertex. An edge that closes a circle does not count: there is no longest way round. */
export function layersOf(names: string[], edges: Edge[]): string[][] {
  const layer = new Map(names.map((name) => [name, 0]));
  const inside = edges.filter(({ from, to }) => layer.has(from) && layer.has(to) && from !== to);
  const forward = withoutCircles(names, inside);
  // The longest way has fewer edges than there are vertices.
  for (let turn = 0; turn < names.length; turn += 1) {
    let isSettled = true;
    for (const { from, to } of forward) {
      const least = (layer.get(from) ?? 0) + 1;
      if ((layer.get(to) ?? 0) < least) {
        layer.set(to, least);
        isSettled = false;
      }
    }
    if (isSettled) break;
  }
  const layers: string[][] = [];
  for (const name of names) (layers[layer.get(name) ?? 0] ??= []).push(name);
  // Each beside what feeds it, so that fewer edges cross.
  for (let at = 1; at < layers.length; at += 1) {
    const before = layers[at - 1] ?? [];
    const place = (name: string) => {
      const places = forward.filter(({ to }) => to === name).map(({ from }) => before.indexOf(from)).filter((at) => at >= 0);
      return places.length === 0 ? 0 : places.reduce((sum, one) => sum + one, 0) / places.length;
    };
    layers[at] = (layers[at] ?? []).toSorted((one, other) => place(one) - place(other));
  }
  return layers;
}

/** Edges without those that lead back to where the way to them came from. */
function withoutCircles(names: string[], edges: Edge[]): Edge[] {
  const next = new Map<string, Edge[]>();
  for (const edge of edges) next.set(edge.from, [...(next.get(edge.from) ?? []), edge]);
  const state = new Map<string, "open" | "done">();
  const kept: Edge[] = [];
  for (const begin of names) {
    if (state.has(begin)) continue;
    state.set(begin, "open");
    const way = [{ name: begin, at: 0 }];
    for (let last = way.at(-1); last; last = way.at(-1)) {
      const edge = next.get(last.name)?.[last.at];
      last.at += 1;
      if (!edge) {
        state.set(last.name, "done");
        way.pop();
      } else if (state.get(edge.to) !== "open") {
        kept.push(edge);
        if (!state.has(edge.to)) {
          state.set(edge.to, "open");
          way.push({ name: edge.to, at: 0 });
        }
      }
    }
  }
  return kept;
}

/** Layers from left to right, or from top to bottom. */
export function layout(names: string[], edges: Edge[], box: Size, isVertical: boolean): Layout {
  const layers = layersOf(names, edges);
  const along = (isVertical ? box.height : box.width) + GAPS.layers;
  const across = (isVertical ? box.width : box.height) + GAPS.boxes;
  const widest = Math.max(1, ...layers.map((layer) => layer.length));
  const boxes = layers.flatMap((layer, at) =>
    layer.map((name, place): Box => {
      const [main, cross] = [MARGIN + at * along, MARGIN + (place + (widest - layer.length) / 2) * across];
      return { name, ...box, x: isVertical ? cross : main, y: isVertical ? main : cross };
    }),
  );
  const found = new Map(boxes.map((one) => [one.name, one]));
  const lines = edges.flatMap(({ from, to }): Line[] => {
    const [begin, end] = [found.get(from), found.get(to)];
    return begin && end ? [{ from, to, path: pathOf(begin, end, isVertical) }] : [];
  });
  const right = Math.max(0, ...boxes.map((one) => one.x + one.width));
  const bottom = Math.max(0, ...boxes.map((one) => one.y + one.height));
  return { boxes, lines, width: right + MARGIN, height: bottom + MARGIN };
}

function pathOf(from: Box, to: Box, isVertical: boolean): string {
  const middle = (one: Box) => (isVertical ? one.x + one.width / 2 : one.y + one.height / 2);
  const begin = isVertical ? from.y + from.height : from.x + from.width;
  const end = isVertical ? to.y : to.x;
  const half = (begin + end) / 2;
  const point = (main: number, cross: number) => (isVertical ? `${cross} ${main}` : `${main} ${cross}`);
  return `M ${point(begin, middle(from))} C ${point(half, middle(from))}, ${point(half, middle(to))}, ${point(end, middle(to))}`;
}
