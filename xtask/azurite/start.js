// Ends when standard input does, which it does when the process that started us is gone, however that ended.
process.stdin.on("close", () => process.exit(0)).resume();
require("azurite/dist/src/blob/main.js");
