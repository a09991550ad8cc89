/** As `run.mjs`, for programs that may call tools. */
import { start } from "./run.mjs";
import * as tools from "./tools.mjs";

start(tools);
