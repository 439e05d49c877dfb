import { useEffect, useRef, useState } from "preact/hooks";

import type { Live } from "../live";
import { objectsOf, stateOf, type ScaledObject } from "../model";
import { GraphList } from "./graphs";
import { useHash, useNews, useTheme, type Theme } from "./hooks";
import { ObjectPage } from "./object";
import { Overview } from "./overview";
import { PipelineList, PipelinePage } from "./pipelines";

export function App({ live }: { live: Live }) {
  useNews(live);
  const hash = useHash();
  const objects = objectsOf(live.decisions, live.statuses.values(), live.rows.values());
  return (
    <>
      <a class="skip" href="#main" onClick={focusMain}>
        Skip to the content
      </a>
      <header class="top">
        <a class="brand" href="#/">
          <img src="./icon.svg" alt="" width="28" height="28" />
          Ballast
        </a>
        <Pages hash={hash} />
        <ConnectionBadge live={live} />
        <ThemeSwitch />
      </header>
      <main id="main" tabIndex={-1}>
        {live.needsToken ? <TokenForm live={live} /> : <Page live={live} hash={hash} objects={objects} />}
      </main>
      <Announcer objects={objects} />
    </>
  );
}

function Page({ live, hash, objects }: { live: Live; hash: string; objects: ScaledObject[] }) {
  const [, page = "", ...rest] = hash.slice(1).split("/");
  const rows = { rows: live.rows, isFilled: live.areRowsFilled };
  if (page === "object" && rest.length > 0) {
    const key = rest.join("/");
    return <ObjectPage key={key} live={live} objectKey={key} object={objects.find((object) => object.key === key)} />;
  }
  const [namespace, name] = rest.map(decoded);
  if (page === "pipelines" && namespace && name) return <PipelinePage {...rows} namespace={namespace} name={name} />;
  if (page === "pipelines") return <PipelineList {...rows} />;
  if (page === "graphs") return <GraphList {...rows} />;
  return <Overview objects={objects} isFilled={live.isFilled} />;
}

/** An address that somebody typed may not be one. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function Pages({ hash }: { hash: string }) {
  const pages = [
    ["#/", "Objects"],
    ["#/pipelines", "Pipelines"],
    ["#/graphs", "Graphs and Sets"],
  ] as const;
  const isHere = (href: string) =>
    href === "#/" ? !pages.some(([other]) => other !== "#/" && hash.startsWith(other)) : hash.startsWith(href);
  return (
    <nav class="pages" aria-label="Pages">
      {pages.map(([href, words]) => (
        <a key={href} href={href} aria-current={isHere(href) ? "page" : undefined}>
          {words}
        </a>
      ))}
    </nav>
  );
}

function focusMain(event: Event): void {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

function ConnectionBadge({ live }: { live: Live }) {
  const words = { connecting: "connecting", live: "live", lost: "connection lost", token: "token needed" };
  const { connection } = live;
  return (
    <span class={`connection ${connection}`} role="status" title={connection === "lost" ? live.problem : undefined}>
      <span class="dot" aria-hidden="true" />
      {words[connection]}
    </span>
  );
}

function ThemeSwitch() {
  const [theme, setTheme] = useTheme();
  return (
    <label class="theme">
      <span class="label">Theme</span>
      <select value={theme} onChange={(event) => setTheme(event.currentTarget.value as Theme)}>
        <option value="system">System</option>
        <option value="light">Light</option>
        <option value="dark">Dark</option>
      </select>
    </label>
  );
}

function TokenForm({ live }: { live: Live }) {
  const [token, setToken] = useState("");
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.focus(), []);
  const submit = (event: Event) => {
    event.preventDefault();
    if (token.trim() !== "") live.useToken(token.trim());
  };
  return (
    <form class="card token" onSubmit={submit}>
      <h1>A token is needed</h1>
      <p>
        This port asks for the token that Ballast was started with (<code>--operator-token-file</code>). It is kept until
        this tab is closed.
      </p>
      <label>
        Token
        <input
          ref={field}
          type="password"
          autocomplete="off"
          value={token}
          onInput={(event) => setToken(event.currentTarget.value)}
        />
      </label>
      {live.nRefused > 0 && (
        <p role="alert" key={live.nRefused} class="troubles">
          This token was refused.
        </p>
      )}
      <button type="submit">Continue</button>
    </form>
  );
}

/** Says for those who do not see it what changed state; of many at once, how many. */
function Announcer({ objects }: { objects: ScaledObject[] }) {
  const before = useRef<Map<string, string>>(new Map());
  const [words, setWords] = useState("");
  const states = new Map(objects.map((object) => [object.key, `${object.name}: ${stateOf(object).words}`]));
  const gist = [...states.values()].join("\n");
  useEffect(() => {
    const changed = [...states].filter(([key, state]) => before.current.has(key) && before.current.get(key) !== state);
    before.current = states;
    if (changed.length > 3) setWords(`${changed.length} objects changed`);
    else if (changed.length > 0) setWords(changed.map(([, state]) => state).join(". "));
  }, [gist]);
  return (
    <div class="only-heard" aria-live="polite">
      {words}
    </div>
  );
}
