import { expect, test } from "vitest";

import { layersOf, layout } from "./layout";

const edge = (words: string) => {
  const [from = "", to = ""] = words.split(">");
  return { from, to };
};

test("layers follow the longest way", () => {
  const edges = ["in>a", "a>b", "in>b", "b>out", "in>side", "side>out"].map(edge);
  expect(layersOf(["in", "a", "b", "side", "out"], edges)).toEqual([["in"], ["a", "side"], ["b"], ["out"]]);
});

test("each is beside what feeds it", () => {
  const edges = ["x>b", "y>a"].map(edge);
  expect(layersOf(["x", "y", "a", "b"], edges)).toEqual([
    ["x", "y"],
    ["b", "a"],
  ]);
});

test("circles, loops and edges to nowhere end nothing", () => {
  const edges = ["in>a", "a>b", "b>a", "b>b", "b>out", "out>in", "a>nowhere"].map(edge);
  expect(layersOf(["in", "a", "b", "out"], edges)).toEqual([["in"], ["a"], ["b"], ["out"]]);
  expect(layersOf([], edges)).toEqual([]);
});

test("boxes do not overlap, and edges begin and end at them", () => {
  const edges = ["in>a", "in>b", "a>out", "b>out"].map(edge);
  for (const isVertical of [false, true]) {
    const { boxes, lines, width, height } = layout(["in", "a", "b", "out"], edges, { width: 100, height: 40 }, isVertical);
    for (const one of boxes) {
      expect(one.x + one.width).toBeLessThan(width);
      expect(one.y + one.height).toBeLessThan(height);
      for (const other of boxes) {
        const isApart = one.x + one.width <= other.x || other.x + other.width <= one.x;
        const isAbove = one.y + one.height <= other.y || other.y + other.height <= one.y;
        expect(one === other || isApart || isAbove, `${one.name} ${other.name}`).toBe(true);
      }
    }
    expect(lines).toHaveLength(4);
  }
  const { lines } = layout(["in", "out"], [edge("in>out")], { width: 100, height: 40 }, false);
  expect(lines[0]?.path).toBe("M 104 24 C 136 24, 136 24, 168 24");
});
