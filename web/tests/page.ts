// Pages in a browser, and what is to be true of each.

import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { expect } from "vitest";

export interface Seen {
  page: Page;
  /** What went wrong in the page: errors, and what its policy forbade. */
  complaints: string[];
  origins: Set<string>;
}

export async function open(chromium: Browser, url: string, options: BrowserContextOptions = {}): Promise<Seen> {
  const context = await chromium.newContext(options);
  context.setDefaultTimeout(0);
  const page = await context.newPage();
  const seen: Seen = { page, complaints: [], origins: new Set() };
  page.on("console", (message) => message.type() === "error" && seen.complaints.push(message.text()));
  page.on("pageerror", (error) => seen.complaints.push(error.message));
  page.on("request", (request) => seen.origins.add(new URL(request.url()).origin));
  await page.goto(url);
  return seen;
}

/** Nothing is wider than a phone. */
export async function expectNarrow(page: Page): Promise<void> {
  expect(await page.evaluate(() => document.documentElement.scrollWidth), page.url()).toBeLessThanOrEqual(390);
}

/** axe finds nothing to complain of. The page is to be opened with `bypassCSP`: axe makes HTML of text. */
export async function expectAccessible(page: Page): Promise<void> {
  await page.evaluate(readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8"));
  const { violations } = await page.evaluate(
    () =>
      (window as unknown as { axe: { run: () => Promise<{ violations: { id: string; nodes: { html: string }[] }[] }> } }).axe.run(),
  );
  const found = violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(" ")}`);
  expect(found, page.url()).toEqual([]);
}
