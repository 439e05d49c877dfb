import { render } from "preact";

import { Live } from "./live";
import { App } from "./view/app";

const live = new Live();
live.start();
// A browser has few connections to one port, which all its tabs share: a page that nobody sees gives its own back.
document.addEventListener("visibilitychange", () => (document.hidden ? live.rest() : live.start()));
const place = document.getElementById("app");
if (place) render(<App live={live} />, place);
