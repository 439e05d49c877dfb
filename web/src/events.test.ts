import { expect, test } from "vitest";

import { eventsOf } from "./events";

async function read(...pieces: string[]): Promise<string[]> {
  const bytes = pieces.map((piece) => new TextEncoder().encode(piece));
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const piece of bytes) controller.enqueue(piece);
      controller.close();
    },
  });
  const seen = [];
  for await (const { event, data } of eventsOf(body)) seen.push(`${event}=${data}`);
  return seen;
}

test("events come whole, however they are cut", async () => {
  const text = 'event: state\ndata: [{"Name":"ä"}]\n\n: still here\n\ndata: a\ndata: b\n\nevent: last\ndata: cut off';
  const expected = ['state=[{"Name":"ä"}]', "message=a\nb"];
  expect(await read(text)).toEqual(expected);
  expect(await read(...text)).toEqual(expected);
  expect(await read(text.replaceAll("\n", "\r\n"))).toEqual(expected);
});
