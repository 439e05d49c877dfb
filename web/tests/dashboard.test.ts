// The dashboard in a browser, against `ballast up`.

import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";

import { Ballast, browser, eventually } from "./ballast";
import { expectAccessible, expectNarrow, open as openAt, type Seen } from "./page";

let ballast: Ballast;
let chromium: Browser;
const EVIL = `<img src=x onerror="window.hit = 1">`;

beforeAll(async () => {
  [ballast, chromium] = await Promise.all([Ballast.up(), browser()]);
  await ballast.function("queued", { "SlimFaas/Configuration": `{"DefaultAsync":{"HttpTimeout":60,"TimeoutRetries":[]}}` });
  await ballast.function("evil", { "SlimFaas/Scale": EVIL });
});
afterAll(async () => {
  await chromium?.close();
  await ballast?.stop();
});

const open = (path = "/", options: BrowserContextOptions = {}, url = ballast.operator): Promise<Seen> =>
  openAt(chromium, `${url}${path}`, options);

const row = (page: Page, name: string) => page.getByRole("row").filter({ has: page.getByRole("link", { name, exact: true }) });

test("a function is seen asleep, and awake without a reload when it was called", async () => {
  const { page, complaints, origins } = await open();
  expect(new URL(page.url()).pathname).toBe("/ui/");
  await row(page, "fibonacci").getByText("asleep").waitFor();
  const call = fetch(`${ballast.gateway}/function/fibonacci/fib/10`);
  await row(page, "fibonacci").getByText("1 of 1 ready").waitFor();
  expect(await (await call).json()).toMatchObject({ fibonacci: 55 });
  await row(page, "fibonacci").getByText("Active", { exact: true }).waitFor();
  await row(page, "fibonacci").getByRole("img", { name: /Replicas over the last/ }).waitFor();
  // Also for those who do not see it.
  await eventually(async () => (await page.locator("[aria-live=polite]").textContent())?.includes("fibonacci"));
  await page.getByRole("status").getByText("live", { exact: true }).waitFor();
  expect([...origins]).toEqual([ballast.operator]);
  expect(complaints).toEqual([]);
  await page.context().close();
});

test("an object is opened, and a decision chosen, with the keyboard alone", async () => {
  const { page, complaints } = await open();
  await row(page, "fibonacci").waitFor();
  await row(page, "fibonacci").getByRole("link").focus();
  await page.keyboard.press("Enter");
  const title = page.getByRole("heading", { level: 1, name: "fibonacci" });
  await title.waitFor();
  await eventually(() => title.evaluate((element) => element === document.activeElement));

  // Replicas over time, and the whole chain of the last decision.
  await page.getByRole("img", { name: /^Replicas over time/ }).locator("canvas").waitFor();
  const decisions = page.getByRole("list").getByRole("button", { pressed: false });
  await decisions.last().waitFor();
  const woke = page.getByRole("button", { name: /0 → 1 WakeUp/ });
  await woke.focus();
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Why 0 → 1" }).waitFor();
  const chain = page.getByRole("table", { name: "Steps of the decision, in order" });
  expect(await chain.getByRole("rowheader").allTextContents()).toContain("wake");
  expect(await chain.getByRole("row").count()).toBeGreaterThan(2);

  // The stored history: the page asks for it, and the store keeps it from then on.
  await eventually(async () => {
    const query = encodeURIComponent('slimfaas_autoscaler_ready_replicas{function="fibonacci"}');
    const answer = (await (await fetch(`${ballast.operator}/api/v1/query?query=${query}`)).json()) as {
      data: { result: { value: [number, string] }[] };
    };
    return answer.data.result[0]?.value[1] === "1";
  });

  expect(complaints).toEqual([]);
  await page.context().close();
});

test("a trigger is shown against its threshold", async () => {
  const { page } = await open("/ui/#/object/Deployment/default/fibonacci");
  await fetch(`${ballast.gateway}/function/fibonacci/fib/10`);
  const trigger = page.getByRole("figure").first();
  await trigger.getByText(/of \d/).waitFor();
  await trigger.getByRole("img", { name: /its threshold is \d/ }).waitFor();
  await page.context().close();
});

test("dead letters are listed, replayed, and deleted only when one is sure", async () => {
  const call = await fetch(`${ballast.gateway}/async-function/queued/status/500`, { method: "POST" });
  expect(call.status).toBe(202);
  const id = call.headers.get("slimfaas-element-id") ?? "";
  const dead = async () =>
    (await (await fetch(`${ballast.operator}/async-function-dead/queued`)).json()) as { Id: string; DiedAt: string }[];
  const first = await eventually(async () => (await dead())[0]);

  const { page, complaints } = await open("/ui/#/object/Deployment/default/queued");
  await page.getByRole("rowheader", { name: "/status/500" }).waitFor();
  await page.getByRole("button", { name: `Replay ${id}` }).click();
  await page.getByText(`${id} is tried again`).waitFor();
  await eventually(async () => (await dead()).some((letter) => letter.DiedAt !== first.DiedAt));

  await page.getByRole("button", { name: `Delete ${id}` }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Keep it" }).click();
  await page.getByRole("dialog").waitFor({ state: "hidden" });
  expect(await dead()).toHaveLength(1);
  await page.getByRole("button", { name: `Delete ${id}` }).click();
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "hidden" });
  expect(await dead()).toHaveLength(1);
  await page.getByRole("button", { name: `Delete ${id}` }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await page.getByText("No call was given up.").waitFor();
  expect(await dead()).toEqual([]);
  expect(complaints).toEqual([]);
  await page.context().close();
});

test("text from outside stays text", async () => {
  // What Ballast itself says of an annotation that it cannot read.
  const { page, complaints } = await open("/ui/#/object/Deployment/default/evil");
  const problems = await eventually(async () => {
    const status = (await (await fetch(`${ballast.operator}/status-function/evil`)).json()) as {
      Problems: { Message: string }[];
    };
    return status.Problems[0]?.Message;
  });
  await page.getByRole("alert").getByText(problems).waitFor();

  // And whatever a server might send: every text of a decision and of a status.
  const at = new Date().toISOString();
  const step = { rule: EVIL, input: { trigger: EVIL, value: 2, threshold: 1 }, before: 0, after: 1, words: EVIL };
  const trigger = { ...step, rule: "trigger" };
  const texts = { policy: EVIL, reason: EVIL, why: EVIL, kind: EVIL, namespace: EVIL, name: EVIL };
  const decision = { at, ...texts, current: 0, desired: 1, outcome: { held: EVIL }, steps: [step, trigger] };
  await page.route("**/api/v1/decisions**", (route) => route.fulfill({ json: [decision] }));
  await page.goto(`${ballast.operator}/ui/#/`);
  await page.reload();
  await page.getByRole("link", { name: EVIL }).click();
  await page.getByRole("heading", { level: 1, name: EVIL }).waitFor();
  await page.getByRole("figure").getByText(EVIL).waitFor();
  expect(await page.locator("img[src=x]").count()).toBe(0);
  expect(await page.evaluate(() => "hit" in window)).toBe(false);

  // If a way were overlooked, the browser would refuse it.
  const refused = page.evaluate((html) => {
    document.body.innerHTML = html;
  }, EVIL);
  await expect(refused).rejects.toThrow(/TrustedHTML/);
  expect(complaints.filter((words) => !words.includes("TrustedHTML"))).toEqual([]);
  await page.context().close();
});

test("nothing is wider than a phone, and colours follow the system and the switch", async () => {
  for (const path of ["/ui/", "/ui/#/object/Deployment/default/fibonacci"]) {
    const { page } = await open(path, { viewport: { width: 390, height: 844 }, colorScheme: "dark" });
    await page.getByText("fibonacci").first().waitFor();
    await expectNarrow(page);
    const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    expect(await background()).toBe("rgb(15, 20, 26)");
    await page.getByRole("combobox", { name: "Theme" }).selectOption("light");
    expect(await background()).toBe("rgb(245, 246, 248)");
    await page.reload();
    await eventually(async () => (await background()) === "rgb(245, 246, 248)");
    await page.context().close();
  }
});

test("axe finds nothing to complain of", async () => {
  for (const colorScheme of ["light", "dark"] as const) {
    for (const path of ["/ui/", "/ui/#/object/Deployment/default/fibonacci"]) {
      const { page } = await open(path, { colorScheme, bypassCSP: true });
      await page.getByText("fibonacci").first().waitFor();
      await expectAccessible(page);
      await page.context().close();
    }
  }
});

test("where a token is asked for, the page asks for it too", async () => {
  const node = await ballast.serveWithToken("secret");
  const { page } = await open("/", {}, node.url);
  const ask = () => page.getByLabel("Token");
  await ask().fill("guess");
  await page.keyboard.press("Enter");
  await page.getByRole("alert").getByText("This token was refused.").waitFor();
  await page.getByRole("status").getByText("token needed").waitFor();
  await ask().fill("secret");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Scaled objects" }).waitFor();
  await page.getByRole("status").getByText("live").waitFor();
  await page.reload();
  await page.getByRole("status").getByText("live").waitFor();
  expect((await fetch(`${node.url}/api/v1/decisions`)).status).toBe(401);
  await page.context().close();
  await node.stop();
});
