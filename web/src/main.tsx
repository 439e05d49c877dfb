import { render } from "preact";

import { Live } from "./live";
import { App } from "./view/app";

const live = new Live();
live.start();
const place = document.getElementById("app");
if (place) render(<App live={live} />, place);
