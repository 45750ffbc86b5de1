// The behaviour of every page: each module finds its own elements, at once and in each fragment that arrives.
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
import { startJobForm } from "./job-form.js";
import { startCompare } from "./compare.js";

startTimes();
startForms();
startScroll();
startPicker();
startJobForm();
startKeys();
startCharts();
startCompare();
startLogs();
startHeat();
startMap();
startLive();
