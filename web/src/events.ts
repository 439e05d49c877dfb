// Server-sent events over fetch: unlike EventSource, it can present a token.

export interface ServerEvent {
  event: string;
  data: string;
}

/** An event longer than this is not one of ours. */
const LONGEST = 64 << 20;

export async function* eventsOf(body: ReadableStream<Uint8Array>): AsyncGenerator<ServerEvent> {
  const reader = body.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>).getReader();
  let waiting = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      waiting += value.replaceAll("\r\n", "\n");
      for (let end = waiting.indexOf("\n\n"); end >= 0; end = waiting.indexOf("\n\n")) {
        const event = parse(waiting.slice(0, end));
        waiting = waiting.slice(end + 2);
        if (event) yield event;
      }
      if (waiting.length > LONGEST) throw new Error("an event is longer than 64 MiB");
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

function parse(block: string): ServerEvent | undefined {
  let event = "message";
  const data: string[] = [];
  for (const line of block.split("\n")) {
    const [, name, value] = /^([^:]*)(?:: ?(.*))?$/s.exec(line) ?? [];
    if (name === "event") event = value ?? "";
    if (name === "data") data.push(value ?? "");
  }
  return data.length > 0 ? { event, data: data.join("\n") } : undefined;
}
