// The page's behaviour, all of it: each module looks for its own elements, now and in every fragment that arrives.
import "./morph.js";
import "./theme.js";
import { startLive } from "./live.js";
import { startCharts } from "./charts.js";
import { startLogs } from "./logs.js";
import { startHeat } from "./heat.js";
import { startMap } from "./map.js";
import { startKeys } from "./keys.js";
import { startTimes } from "./time.js";
import { startForms } from "./forms.js";
import { startScroll } from "./scroll.js";
import { startPicker } from "./picker.js";

startTimes();
startForms();
startScroll();
startPicker();
startKeys();
startCharts();
startLogs();
startHeat();
startMap();
startLive();
